# The options of an action plugin and those of its documentation are the same, with the same types, choices and defaults.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import importlib

import pytest
import yaml

PREFIX = "ansible_collections.aicluster.baremetal.plugins"
NAMES = ("fleet", "node", "node_info", "node_lifecycle", "evidence", "hold", "registry")


@pytest.mark.parametrize("name", NAMES)
def test_the_documentation_has_the_options_of_the_plugin(name):
    spec = importlib.import_module(f"{PREFIX}.action.{name}").ActionModule.ARGUMENT_SPEC
    options = yaml.safe_load(importlib.import_module(f"{PREFIX}.modules.{name}").DOCUMENTATION)["options"]
    assert set(options) == set(spec)
    for option, wanted in spec.items():
        seen = options[option]
        for key in ("type", "elements", "choices", "default", "required"):
            assert seen.get(key) == wanted.get(key), (option, key)
