# The action groups of meta/runtime.yml: what module_defaults sets for a group reaches every module that takes it, and no other.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import importlib
import pathlib

import pytest
import yaml

from ansible_collections.aicluster.baremetal.plugins.doc_fragments.bmc import ModuleDocFragment
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIX = "ansible_collections.aicluster.baremetal.plugins"
GROUPS = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["action_groups"]
MODULES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py") if path.stem != "__init__")
BMC_OPTIONS = set(yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"])


def documented(name):
    """The options of a module, those of its fragments included."""
    text = yaml.safe_load(importlib.import_module(f"{PREFIX}.modules.{name}").DOCUMENTATION)
    options = set(text.get("options") or {})
    for fragment in text.get("extends_documentation_fragment", ()):
        file, part = [*fragment.split(".")[2:], "documentation"][:2]
        found = getattr(importlib.import_module(f"{PREFIX}.doc_fragments.{file}").ModuleDocFragment, part.upper())
        options |= set(yaml.safe_load(found).get("options") or {})
    return options


def asks_the_registry(name):
    """Whether the module's action plugin takes `registry`, documented as its own option or not."""
    if not (ROOT / f"plugins/action/{name}.py").exists():
        return False
    return issubclass(importlib.import_module(f"{PREFIX}.action.{name}").ActionModule, RegistryAction)


WANTED = {
    "bmc": [name for name in MODULES if documented(name) >= BMC_OPTIONS],
    "registry": [name for name in MODULES if asks_the_registry(name)],
}


def test_a_module_that_documents_the_option_takes_it():
    assert [name for name in MODULES if "registry" in documented(name) and not asks_the_registry(name)] == []
    assert len(WANTED["bmc"]) > 10 and len(WANTED["registry"]) > 30


@pytest.mark.parametrize("group", WANTED)
def test_a_group_has_exactly_the_modules_that_take_its_options(group):
    assert sorted(GROUPS) == sorted(WANTED)
    assert GROUPS[group] == WANTED[group]
