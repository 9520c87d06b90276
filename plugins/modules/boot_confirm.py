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
  - A comparison that could not be made fails the task. The exception is the number of bytes that the image server sent (C(deploy.image_bytes)) where the
    ramdisk reported that the checksum of what it wrote is the manifest's. It stays V(could_not_test) in the evidence and does not gate.
  - Writes the pinned host keys of the registry to the known-hosts file of the inventory.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.attributes
  - aicluster.baremetal.boot
  - aicluster.baremetal.boot.limits
  - aicluster.baremetal.boot.ssh
options:
  poll:
    description: Seconds between two tries.
    type: float
    default: 1.0
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
