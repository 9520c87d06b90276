# Makes the checkout importable as ansible_collections.aicluster.baremetal, wherever it was cloned to.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _package(name: str, path: pathlib.Path | None) -> None:
    """Register `name` as a package whose submodules are looked up below `path`; a package that is already there stays."""
    if name in sys.modules:
        return
    module = types.ModuleType(name)
    module.__path__ = [str(path)] if path else []
    module.__spec__ = importlib.util.spec_from_loader(name, loader=None, is_package=True)
    module.__spec__.submodule_search_locations = module.__path__
    sys.modules[name] = module
    parent, _dot, leaf = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], leaf, module)


_package("ansible_collections", None)
_package("ansible_collections.aicluster", None)
_package("ansible_collections.aicluster.baremetal", ROOT)

SIMULATOR = ROOT / "roles" / "virtual_lab" / "files"
if str(SIMULATOR) not in sys.path:
    sys.path.insert(0, str(SIMULATOR))

# What a test has a BMC refuse is not remembered on this machine; tests of that guard give it a directory of their own.
os.environ.setdefault("AICLUSTER_BMC_GUARD", "off")
