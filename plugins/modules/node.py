#!/usr/bin/python
# Documentation of the action plugin plugins/action/node.py, which does the work in the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: node
short_description: One node in the registry
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
    description: The chassis serial, the key of the node. It survives renaming and repair.
    type: str
    required: true
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

- name: Retire it
  aicluster.baremetal.node:
    serial: ABC1234
    state: absent
    reason: sold
"""

RETURN = r"""
node:
  description: The row of the node after the task, or none for a new node in check mode.
  returned: success
  type: dict
  sample: {serial: ABC1234, name: gpu01, state: registered}
"""
