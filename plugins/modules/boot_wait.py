#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Waiting for a boot.
from __future__ import annotations

DOCUMENTATION = r"""
module: boot_wait
short_description: Wait for a step of the boot of a node
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Waits until the boot reached a step, and ends at the first step that does not come in time with the last step seen and what to look at.
  - Keeps the attempt alive meanwhile, and ends at once when a newer attempt owns the node or the deploy ramdisk reports a failure.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.reads
  - aicluster.baremetal.boot
  - aicluster.baremetal.boot.limits
options:
  until:
    description: The step to wait for. V(reserved) waits for the boot service to keep the node's DHCP reservation.
    type: str
    choices: [reserved, power_on, dhcp, loader, kernel, ramdisk, disk_chosen, writing, written, seeded, boot_order, done, disk_boot, ssh]
    default: done
  poll:
    description: Seconds between two looks at the registry.
    type: float
    default: 1.0
"""

EXAMPLES = r"""
- name: Wait until the image is written
  aicluster.baremetal.boot_wait:
    until: written
    limits:
      dhcp: 300
      written: 1800
"""

RETURN = r"""
last_step:
  description: The last step that was reached.
  returned: success
  type: str
  sample: done
events:
  description: Events of the boot, each with C(step), C(time), C(source) and C(detail).
  returned: success
  type: list
  elements: dict
"""
