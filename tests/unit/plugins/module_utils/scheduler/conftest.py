# The real Slurm as a fixture, one per test session part that uses it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
import sys
import tempfile

import pytest

SUPPORT = str(pathlib.Path(__file__).resolve().parents[4] / "support")
if SUPPORT not in sys.path:
    sys.path.insert(0, SUPPORT)


@pytest.fixture(scope="module")
def slurm():
    import real_slurm

    why_not = real_slurm.missing()
    if why_not:
        pytest.skip(f"real Slurm: {why_not}")
    # munged refuses a key below a directory that others may not search: pytest's tmp_path is 0700.
    with tempfile.TemporaryDirectory(prefix="aicl-slurm-") as directory, real_slurm.RealSlurm(directory) as started:
        yield started
