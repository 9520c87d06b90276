# The options of an action plugin and those of its documentation, fragments included, are the same, with the same types, choices and defaults.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import importlib

import pytest
import yaml

from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import COMMON_ARGUMENTS

PREFIX = "ansible_collections.aicluster.baremetal.plugins"
NAMES = (
    "fleet",
    "firmware_rollout",
    "node",
    "node_info",
    "node_lifecycle",
    "evidence",
    "hold",
    "registry",
    "drain",
    "resume",
    "slurm_hardware",
    "slurm_info",
    "slurm_job",
    "slurm_nodes_info",
)


def options_of(name):
    """As ansible-doc puts them together: of each option, what stands in the module itself goes before what a fragment says."""
    found = yaml.safe_load(importlib.import_module(f"{PREFIX}.modules.{name}").DOCUMENTATION)
    options = {}
    for fragment in found.get("extends_documentation_fragment", ()):
        file, part = [*fragment.split(".")[2:], "documentation"][:2]
        text = getattr(importlib.import_module(f"{PREFIX}.doc_fragments.{file}").ModuleDocFragment, part.upper())
        options.update(yaml.safe_load(text).get("options", {}))
    own = found.get("options") or {}
    return {option: {**options.get(option, {}), **own.get(option, {})} for option in {**options, **own}}


@pytest.mark.parametrize("name", NAMES)
def test_the_documentation_has_the_options_of_the_plugin(name):
    spec = importlib.import_module(f"{PREFIX}.action.{name}").ActionModule.ARGUMENT_SPEC
    options = options_of(name)
    assert set(options) - set(COMMON_ARGUMENTS) == set(spec) - set(COMMON_ARGUMENTS)
    for option, wanted in spec.items():
        seen = options[option]
        for key in ("type", "elements", "choices", "default", "required"):
            assert seen.get(key) == wanted.get(key), (option, key)
