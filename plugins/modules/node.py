#!/usr/bin/python
# Documentation of the action plugin plugins/action/node.py, which does the work in the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: node
short_description: Nodes in the registry
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Creates or updates the row of a node, which is known by its chassis serial. Only the options that are given are touched.
  - The state of an existing node is moved by M(aicluster.baremetal.node_lifecycle). This module only retires.
  - A retired node is not changed any more, and does not come back under its record.
  - A name, O(provision_mac), O(provision_ip), O(bmc_address) with its port, or place (O(site), O(rack), O(slot)) that another node has is refused, in check
    mode too. To swap two nodes, empty the value of one of them first (V('')).
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.attributes
options:
  serial:
    description: The chassis serial, the key of the node. It survives renaming and repair. Either this or O(nodes) is required.
    type: str
  nodes:
    description:
      - The bulk form, several nodes in one process. Each is a dictionary with C(serial) and any other option of this module, except O(registry).
      - O(state), O(initial_state) and O(reason) of the task hold for all that do not say otherwise. No other option may stand beside O(nodes).
      - A row that cannot be read, and a serial, name, address or place that two rows would share, refuse the task before anything is written.
      - An error of one node is in its entry, with a warning, and the others go on. The task fails when all nodes failed.
      - Each node is judged by what the registry holds before the task, so to swap two nodes takes two tasks here too.
    type: list
    elements: dict
  state:
    description: Whether the node is part of the fleet. V(absent) retires it; the record and its history stay, and its name becomes free.
    type: str
    choices: [present, absent]
    default: present
  initial_state:
    description: The lifecycle state of a node that is new. Ignored for a node that exists.
    type: str
    choices: [registered, manageable]
    default: registered
  name:
    description: The inventory hostname. Required for a new node, and unique among nodes that are not retired.
    type: str
  uuid:
    description: The system UUID.
    type: str
  site:
    description: The site where the node stands.
    type: str
  rack:
    description: The rack in which the node stands.
    type: str
  slot:
    description: The place in the rack.
    type: str
  tenant:
    description: The tenant that the node is assigned to.
    type: str
  platform:
    description: The hardware platform, which names its baseline.
    type: str
  role:
    description: What the node is for, for example C(compute).
    type: str
  bmc_address:
    description: Address of the BMC, IPv4, IPv6 or a host name, without scheme, port and brackets.
    type: str
  bmc_port:
    description: Port of the BMC, from 1 to 65535.
    type: int
  bmc_protocol:
    description: The protocol that the BMC is driven with.
    type: str
    choices: [redfish, ipmi]
  bmc_credential:
    description: Reference into the secret store. Never a secret itself.
    type: str
  bmc_fingerprint:
    description: SHA-256 fingerprint of the certificate of the BMC, in hexadecimal.
    type: str
  provision_mac:
    description: MAC address of the provisioning interface.
    type: str
  provision_ip:
    description: IPv4 or IPv6 address of the node on the provisioning network. It must be a host's address in the network that O(provision_prefix) makes.
    type: str
  provision_prefix:
    description: Prefix length of O(provision_ip).
    type: int
  ansible_host:
    description: Address or host name for SSH, where it is not O(provision_ip).
    type: str
  maintenance:
    description: Maintenance is a flag beside the state. No stage begins on a node in maintenance.
    type: bool
  maintenance_reason:
    description: Why the node is in maintenance.
    type: str
  parts:
    description:
      - The parts that were found now, each with C(kind), C(slot), and any of C(model), C(serial), C(firmware) and other details.
      - The list is taken as complete for the kinds that occur in it. A part that is gone or replaced keeps its row, with the time of its end.
    type: list
    elements: dict
  facts:
    description: The last inventory, replaced as a whole.
    type: dict
  host_key:
    description: SSH host public key to pin. The known-hosts file of the inventory is written again.
    type: str
  reason:
    description: Why the node is retired, for the audit.
    type: str
"""

EXAMPLES = r"""
- name: Register a server before it is racked
  aicluster.baremetal.node:
    serial: ABC1234
    name: gpu01
    rack: r1
    slot: u10
    role: compute

- name: Register a rack in one task
  aicluster.baremetal.node:
    nodes:
      - {serial: ABC1234, name: gpu01, rack: r1, slot: u10, role: compute}
      - {serial: ABC1235, name: gpu02, rack: r1, slot: u12, role: compute}
  register: registered
  failed_when: registered is failed or registered.failed_serials | length > 0

- name: Retire it
  aicluster.baremetal.node:
    serial: ABC1234
    state: absent
    reason: sold
"""

RETURN = r"""
nodes:
  description: One entry for each node, with C(serial), C(name), C(changed) and C(node), and C(failed), C(msg) and C(error) where it failed.
  returned: with O(nodes)
  type: list
  elements: dict
failed_serials:
  description: The serials of the nodes that failed.
  returned: with O(nodes)
  type: list
  elements: str
node:
  description: The row of the node after the task, or none for a new node in check mode.
  returned: with O(serial)
  type: dict
  sample: {serial: ABC1234, name: gpu01, state: registered}
"""
