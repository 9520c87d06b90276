# Inventory of all nodes of the registry, with literal values.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
name: registry
short_description: Nodes of the registry as an inventory
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Gives every node of the registry that is not retired, with variables for the BMC and for SSH, and groups by state, rack, role, platform, GPU and site.
  - All values are literal, so that reading them costs nothing however many nodes there are.
  - The configuration file must end in C(aicluster.yml) or C(aicluster.yaml).
  - Writes the pinned SSH host keys to a known-hosts file and points SSH at it. A node without a pinned key cannot be reached by SSH.
requirements:
  - SQLAlchemy 2.0 or newer
  - psycopg 3.1 or newer, for PostgreSQL
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [aicluster.baremetal.registry]
  registry:
    description:
      - URL of the registry, C(sqlite:////absolute/path.db) or C(postgresql+psycopg://user@host/database).
      - An inventory plugin cannot read inventory variables. Set it here, in the environment or in C(ansible.cfg).
    type: str
    env:
      - name: AICLUSTER_REGISTRY
    ini:
      - section: aicluster
        key: registry
  known_hosts:
    description: The known-hosts file to write. By default one file for each registry below C(~/.cache/aicluster).
    type: path
    env:
      - name: AICLUSTER_KNOWN_HOSTS
    ini:
      - section: aicluster
        key: known_hosts
  states:
    description: Only nodes in these states. By default all but retired ones.
    type: list
    elements: str
  missing_ok:
    description:
      - Give an empty inventory, and a warning, when the registry has not been made yet.
      - There is no warning for the playbooks that are run before it exists (C(registry), C(image), C(lab), C(lab_down)).
        A registry of an older schema gives a warning, too, when the first playbook is C(registry), which moves it on.
    type: bool
    default: false
"""

EXAMPLES = r"""
# lab.aicluster.yml
plugin: aicluster.baremetal.registry
registry: sqlite:////var/lib/aicluster/registry.db
"""

import atexit
import functools
import os
import re

from ansible import context
from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible.utils.display import Display

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry, schema
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import (
    known_hosts,
    settings,
    workers,
)

try:
    from ansible.utils.unsafe_proxy import wrap_var
except ImportError:  # ansible-core after 2.22: strings of an inventory plugin are never templates there

    def wrap_var(value):
        return value


workers.arm()
display = Display()

# Playbooks that are run before there is a registry, or that end with it.
_WITHOUT_REGISTRY = {"registry", "image", "lab", "lab_down"}

# Variable of a host: column of the node.
_VARIABLES = {
    "aicluster_serial": "serial",
    "aicluster_state": "state",
    "aicluster_site": "site",
    "aicluster_rack": "rack",
    "aicluster_slot": "slot",
    "aicluster_role": "role",
    "aicluster_tenant": "tenant",
    "aicluster_platform": "platform",
    "aicluster_attempt": "attempt",
    "aicluster_fencing": "fencing",
    "aicluster_lease": "lease",
    "aicluster_facts": "facts",
    "bmc_address": "bmc_address",
    "bmc_port": "bmc_port",
    "bmc_protocol": "bmc_protocol",
    "bmc_credential": "bmc_credential",
    "bmc_fingerprint": "bmc_fingerprint",
    "provision_mac": "provision_mac",
    "provision_ip": "provision_ip",
    "provision_prefix": "provision_prefix",
}


def group_name(kind, value):
    """`rack_r1`, `gpu_h100_80gb_hbm3`: lower case, anything else than letters and digits becomes one underscore."""
    return f"{kind}_{re.sub(r'[^a-z0-9]+', '_', str(value).lower()).strip('_')}"


def groups_of(node):
    """All groups of a node dict (with its parts) but `nodes`."""
    groups = [group_name("state", node["state"])]
    groups += [group_name(kind, node[kind]) for kind in ("rack", "role", "platform", "site") if node[kind]]
    models = sorted({part["model"] for part in node["parts"] if part["kind"] == "gpu" and part["model"]})
    groups += [group_name("gpu", model) for model in models]
    if not any(part["kind"] == "gpu" for part in node["parts"]):
        groups.append("gpu_none")
    if node["held"]:
        groups.append("held")
    return groups


def playbooks():
    """The names of the playbooks of this run, without path and collection: playbooks/lab.yml and aicluster.baremetal.lab are `lab`."""
    given = context.CLIARGS.get("args") or ()
    # for other programs than ansible-playbook this is a pattern of hosts
    names = [] if isinstance(given, str) else [os.path.basename(str(path)) for path in given]
    return [re.sub(r"\.ya?ml$", "", name).rpartition(".")[2] for name in names]


@functools.cache
def say_last(line):
    """Once, when the program ends: after a failed source Ansible tries its other plugins, whose complaints would bury what there is to do."""
    atexit.register(display.display, line, stderr=True)


class InventoryModule(BaseInventoryPlugin):
    NAME = "aicluster.baremetal.registry"

    def verify_file(self, path):
        return super().verify_file(path) and path.endswith(("aicluster.yml", "aicluster.yaml"))

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        problem = None
        try:
            url = settings.require("registry", self.get_option("registry"))
            file = known_hosts.path_for(url, self.get_option("known_hosts"))
            nodes = self._nodes(url, file)
        except errors.BaremetalError as error:
            problem = str(error)
            if problem.endswith(schema.MIGRATE_COMMAND):
                say_last(schema.MIGRATE_COMMAND)
        if problem:
            # Raised outside the handler: Ansible prints every exception of the chain, and the causes say the same thing once more.
            raise AnsibleParserError(problem)
        arguments = known_hosts.ssh_arguments(file)
        self.inventory.add_group("nodes")
        made = set()
        for node in nodes:
            name = node["name"]
            self.inventory.add_host(name, group="nodes")
            for group in groups_of(node):
                if group not in made:
                    self.inventory.add_group(group)
                    made.add(group)
                self.inventory.add_child(group, name)
            # A node without a BMC or provisioning address does not have those variables; the others are always there, null where unknown.
            variables = {
                variable: node[column]
                for variable, column in _VARIABLES.items()
                if node[column] is not None or variable.startswith("aicluster_")
            }
            variables["ansible_host"] = node["ansible_host"] or node["provision_ip"] or name
            variables["ansible_user"] = "root"
            variables["ansible_ssh_common_args"] = arguments
            for variable, value in variables.items():
                # What came from a server must never be read as a template.
                self.inventory.set_variable(name, variable, wrap_var(value))

    def _nodes(self, url, file):
        """The nodes of the inventory; brings the known-hosts file up to date, with the keys of all nodes, whatever this inventory is limited to."""
        try:
            registry = open_registry(url)
        except errors.Unsupported as error:
            if not self.get_option("missing_ok") or not self._may_wait(error):
                raise
            return []
        with registry:
            states = self.get_option("states")
            nodes = registry.nodes(state=states, parts=True)
            known_hosts.refresh(file, registry.nodes, None if states else nodes)
            return nodes

    @staticmethod
    def _may_wait(error):
        """Can this run do without the nodes, because the registry is still to be made or moved? Says so where it is not expected."""
        if error.code != "schema_mismatch" or not str(error.next_step).endswith(schema.MIGRATE_COMMAND):
            return False
        names = playbooks()
        if "is empty" not in error.message:
            if names[:1] != ["registry"]:
                return False
        elif names and set(names[:1]) <= _WITHOUT_REGISTRY:
            return True
        display.warning(f"This run has no nodes: {error}")
        return True
