# What the controller loads for which plugin: heavy libraries once, before it forks, and not at all where nobody needs them.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2]
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import conftest, importlib
importlib.import_module(f"ansible_collections.aicluster.baremetal.plugins.action.{sys.argv[2]}")
print(*[name for name in ("sqlalchemy", "sushy", "requests") if name in sys.modules])
"""


@pytest.mark.parametrize(
    "plugin, loaded",
    [("fleet", []), ("node", ["sqlalchemy"]), ("bmc_power", ["sqlalchemy"]), ("drain", ["sqlalchemy"])],
)
def test_what_is_loaded_before_the_fork(plugin, loaded):
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(TESTS), plugin], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == loaded
