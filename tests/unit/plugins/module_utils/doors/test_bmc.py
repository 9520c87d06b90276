# The options of each bmc_* module, of its action plugin and of its documentation are the same.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import importlib

import pytest
import yaml

from ansible_collections.aicluster.baremetal.plugins.doc_fragments.bmc import ModuleDocFragment
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import bmc, discover

PREFIX = "ansible_collections.aicluster.baremetal.plugins"
SPECS = {
    **{name: bmc.rules(name)["argument_spec"] for name in bmc.MODULES},
    "bmc_discover": {**discover.STAGE, **discover.ERRAND},
}


@pytest.mark.parametrize("name", SPECS)
def test_documentation_and_specification_agree(name):
    documentation = yaml.safe_load(importlib.import_module(f"{PREFIX}.modules.{name}").DOCUMENTATION)
    options = documentation.get("options") or {}
    if documentation.get("extends_documentation_fragment"):
        options = {**yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"], **options}
    assert set(options) == set(SPECS[name])
    for option, wanted in SPECS[name].items():
        for key in ("type", "elements", "choices", "default", "required"):
            assert options[option].get(key) == wanted.get(key), (option, key)


@pytest.mark.parametrize("name", SPECS)
def test_the_action_plugin_takes_the_same(name):
    plugin = importlib.import_module(f"{PREFIX}.action.{name}").ActionModule
    hidden = set(discover.ERRAND) if name == "bmc_discover" else set()
    assert set(plugin.ARGUMENT_SPEC) == set(SPECS[name]) - hidden


def test_secrets_are_marked():
    for name, spec in SPECS.items():
        for option in spec:
            if option in ("password", "bmc_password", "targets"):
                assert spec[option].get("no_log") is True, (name, option)


def test_no_credential_is_an_error_with_a_next_step():
    with pytest.raises(errors.InvalidInput) as caught:
        bmc.endpoint_of({"bmc_address": "192.0.2.1"}, "gpu01")
    assert caught.value.host == "gpu01" and caught.value.next_step
