#!/usr/bin/python
# Documentation of the action plugin plugins/action/hold.py, which does the work in the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: hold
short_description: Keep a node out of use for a reason
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Places or releases a hold. No stage begins on a held node.
  - A hold has an owner and an exit condition. One owner cannot release the hold of another.
  - A hold that came with a drain in the scheduler is ended by M(aicluster.baremetal.resume), which ends both; C(state=absent) refuses it.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.attributes
options:
  name:
    description: Name or serial of the node. By default the host of the task.
    type: str
  owner:
    description: Who holds the node. By default the user that runs Ansible, as C(user@host).
    type: str
  reason:
    description: Why the node must not be used.
    type: str
  exit_condition:
    description: What must be true before the hold is released.
    type: str
  automation:
    description: Whether a rule placed it, not a person.
    type: bool
    default: false
  state:
    description: Whether this owner holds the node.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Keep a node back for a look at its fans
  aicluster.baremetal.hold:
    owner: alice
    reason: fan noise
    exit_condition: fan 3 is replaced

- name: Release it
  aicluster.baremetal.hold:
    owner: alice
    state: absent
"""

RETURN = r"""
holds:
  description: All holds of the node after the task.
  returned: success
  type: list
  elements: dict
  sample: [{owner: alice, reason: fan noise}]
"""
