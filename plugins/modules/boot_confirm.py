#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# The disk boot of a deployed node.
from __future__ import annotations

DOCUMENTATION = r"""
module: boot_confirm
short_description: Confirm that a deployed node runs from its disk and is the one that was written
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Waits until the node answers by SSH with the host key that the deploy ramdisk reported. Any other key is refused.
  - Reads its serial number, its root file system and its kernel command line, compares them with the registry and the image, and records the comparison as
    evidence.
  - Writes the pinned host keys of the registry to the known-hosts file of the inventory.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.attributes
options:
  limits:
    description:
      - Seconds allowed for steps of the boot, by step, counted from the step before.
      - Steps are C(power_on), C(dhcp), C(loader), C(kernel), C(ramdisk), C(disk_chosen), C(writing), C(written), C(seeded), C(boot_order), C(done),
        C(disk_boot) and C(ssh); C(reserved) is the limit for the DHCP reservation.
    type: dict
    default: {}
  private_key:
    description: Private key for SSH. Default is the host variable C(ansible_ssh_private_key_file), else the caller's own keys.
    type: path
  port:
    description: Port of SSH. Default is the host variable C(ansible_port), else 22.
    type: int
  poll:
    description: Seconds between two tries.
    type: float
    default: 1.0
  attempt:
    description: Attempt. Default is the host variable C(aicluster_attempt).
    type: int
  fencing:
    description: Fencing number. Default is the host variable C(aicluster_fencing).
    type: int
"""

EXAMPLES = r"""
- name: Confirm the disk boot
  aicluster.baremetal.boot_confirm:
    private_key: ~/.ssh/id_ed25519
"""

RETURN = r"""
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
error:
  description: Machine-readable form of a failure.
  returned: failure
  type: dict
"""
