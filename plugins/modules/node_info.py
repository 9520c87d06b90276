#!/usr/bin/python
# Documentation of the action plugin plugins/action/node_info.py, which does the work in the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_info
short_description: Read nodes from the registry
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Returns nodes of the registry with what else is known about them.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.reads
options:
  names:
    description: Names or serials. By default all nodes that are not retired.
    type: list
    elements: str
  states:
    description: Only nodes in these states. A state that the lifecycle does not have is refused.
    type: list
    elements: str
  include:
    description: What to add to each node.
    type: list
    elements: str
    choices: [parts, holds, attempts, evidence, boot_events, audit, why]
    default: []
  expected:
    description: Also compare with the list of expected servers.
    type: bool
    default: false
  verify_audit:
    description: Also verify the audit chain. This reads the whole chain.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Ask why a node is not in service
  aicluster.baremetal.node_info:
    names: [gpu02]
    include: [why]
  register: answer

- name: Compare with the list of expected servers and verify the audit chain
  aicluster.baremetal.node_info:
    expected: true
    verify_audit: true
"""

RETURN = r"""
nodes:
  description: The nodes, sorted by name.
  returned: success
  type: list
  elements: dict
  sample: [{serial: ABC1234, name: gpu02, state: quarantined}]
expected:
  description: Lists C(missing), C(unexpected), C(misplaced) and C(matched).
  returned: when O(expected=true)
  type: dict
audit:
  description: The number of rows, whether the chain is whole, the first bad row, and the hash of the last row.
  returned: when O(verify_audit=true)
  type: dict
  sample: {rows: 120, ok: true, first_bad: null, head: 9f86d081}
"""
