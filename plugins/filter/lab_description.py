# Door: the full description of a lab from the options of role virtual_lab.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
name: lab_description
short_description: Full description of an embedded lab from a few options
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Fills in names, serial numbers, addresses, MAC addresses, NICs and disks of every node of a lab, and checks the options.
  - The result holds no secret and is the same for the same options.
options:
  _input:
    description: >-
      The options C(name), C(directory), C(run_directory), and optionally C(nodes), C(node_defaults), C(node_settings), C(accel), C(cpu), C(network).
      With C(simulator_path), the directory of the package C(bmc_simulator), its schema checks the result, which includes the switches of the BMCs.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the BMC addresses of a lab of two nodes
  ansible.builtin.debug:
    msg: "{{ lab.nodes | map(attribute='bmc.address') }}"
  vars:
    lab: "{{ options | aicluster.baremetal.lab_description }}"
    options:
      name: aicl
      directory: /var/lib/aicluster/aicl
      run_directory: /run/aicluster/aicl
      nodes: 2
"""

RETURN = r"""
_value:
  description: The description, with the keys C(name), C(dir), C(run_dir), C(accel), C(cpu), C(net_namespace), C(namespaces), C(networks), C(nodes).
  type: dict
"""

from ansible.errors import AnsibleFilterError

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab.description import (
    describe,
    simulator_view,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab.simulator import schema_check
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import plain

# The accounts are made when the lab is: for the check of everything else, any will do.
_ACCOUNT = {"username": "admin", "password": "", "role": "Administrator"}


def lab_description(options):
    options = plain(options)
    check = schema_check(options.pop("simulator_path", None))
    try:
        description = describe(**options)
        if check:
            check(simulator_view(description, [_ACCOUNT]))
        return description
    except BaremetalError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter of this file."""

    def filters(self):
        return {"lab_description": lab_description}
