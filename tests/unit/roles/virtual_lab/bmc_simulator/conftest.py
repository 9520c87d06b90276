# One simulator for most tests of a file (it starts in 0.3 s); every test leaves the behaviour as it was.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
import sys

import pytest

from bmc_simulator.testing import running

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(scope="module")
def shared_lab():
    with running(1) as lab:
        yield lab


@pytest.fixture
def lab(shared_lab):
    yield shared_lab
    shared_lab.reset_behaviour()


@pytest.fixture
def bmc(lab):
    return lab["gpu01"]
