#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# The long part of a deployment, for one node.
from __future__ import annotations

DOCUMENTATION = r"""
module: boot_follow
short_description: Follow the boot of a node to its end and end the attempt
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Waits for the deploy ramdisk to end, as M(aicluster.baremetal.boot_wait) does with C(until=done), confirms the disk boot as
    M(aicluster.baremetal.boot_confirm) does, and ends the attempt as passed, or as failed with the reason, in the same moment.
  - So all that takes a node long is one task. In a play whose hosts go in step no node waits for another in the middle of it, and what came of a node is on
    record at once and not when the slowest node is there.
  - A run that was fenced out leaves the attempt as it is, because another run owns it.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.attributes
  - aicluster.baremetal.boot
  - aicluster.baremetal.boot.limits
  - aicluster.baremetal.boot.ssh
options:
  poll:
    description: Seconds between two looks.
    type: float
    default: 1.0
seealso:
  - module: aicluster.baremetal.boot_wait
  - module: aicluster.baremetal.boot_confirm
"""

EXAMPLES = r"""
- name: Each node at its own pace, in a play that goes in step
  aicluster.baremetal.boot_follow:
    private_key: ~/.ssh/id_ed25519
"""

RETURN = r"""
last_step:
  description: The last step that the boot had reached when the ramdisk's end was seen.
  returned: success
  type: str
items:
  description: What was compared, as evidence items.
  returned: success
  type: list
  elements: dict
node:
  description: What the node says of itself.
  returned: success
  type: dict
  sample: {product_serial: S-1, hostname: gpu01}
node_state:
  description: The new state of the node.
  returned: success, not in check mode
  type: str
error:
  description: Machine-readable form of a failure.
  returned: failure
  type: dict
"""
