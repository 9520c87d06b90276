#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# The boot timeline of a node.
from __future__ import annotations

DOCUMENTATION = r"""
module: boot_timeline
short_description: Read the boot timeline of a node
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Gives the events of the node's attempt, and where a run that took over the attempt goes on.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.reads
  - aicluster.baremetal.boot.limits
options:
  attempt:
    description: Attempt. Default is the host variable C(aicluster_attempt).
    type: int
"""

EXAMPLES = r"""
- name: Read the timeline
  aicluster.baremetal.boot_timeline:
  register: timeline
"""

RETURN = r"""
events:
  description: Events of the boot, each with C(step), C(time), C(source) and C(detail).
  returned: success
  type: list
  elements: dict
last_step:
  description: The last step that was reached, or nothing.
  returned: success
  type: str
resume:
  description:
    - Where to go on. V(boot) needs a new grant and a restart, V(wait) must not cut off a boot that is under way, V(ssh) only has to confirm the disk boot.
  returned: success
  type: str
  sample: boot
reason:
  description: Why, in words.
  returned: success
  type: str
"""
