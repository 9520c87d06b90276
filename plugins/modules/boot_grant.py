#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# A one-time permission to boot the deploy ramdisk.
from __future__ import annotations

DOCUMENTATION = r"""
module: boot_grant
short_description: Permit one deploy boot of a node
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Checks what the node is to be given (image, disk rule, keys, network) and issues a one-time grant for it. The boot service gives the deploy ramdisk to
    the first boot question of the node's MAC from the node's address, and the local disk to every other one.
  - The grant is bound to node, attempt, MAC and expiry, and is used up by one boot. A newer grant of the attempt replaces it.
  - Everything is checked before anything is powered, so a missing image or an unknown NIC costs no boot.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.attributes
  - aicluster.baremetal.boot
options:
  image:
    description: Name of the image.
    type: str
    required: true
  image_store:
    description: The image store, a directory or the HTTP URL of the image server's C(/images).
    type: str
    required: true
  disk:
    description: The rule by which the ramdisk picks the one disk that it may overwrite.
    type: dict
    default: {}
    suboptions:
      type:
        description: Kind of disk.
        type: str
        choices: [any, nvme, ssd, hdd]
        default: any
      min_size:
        description: Smallest size, for example V(400 GiB).
        type: str
      max_size:
        description: Largest size.
        type: str
      serial:
        description: Serial number of the disk.
        type: str
  ssh_public_keys:
    description: Public keys that may log in as root.
    type: list
    elements: str
    required: true
  interface:
    description: Name of the provisioning interface on the node.
    type: str
    default: prov0
  gateway:
    description: Default gateway on the provisioning network.
    type: str
  nameservers:
    description: Addresses of name servers.
    type: list
    elements: str
    default: []
  rails:
    description: Further interfaces with static addresses, in order.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the interface on the node. Default is C(rail0), C(rail1) and so on.
        type: str
      nic:
        description: Slot, name or MAC of the NIC. Default is the next NIC of the inventory.
        type: str
      network:
        description: Network of the rail. The node gets the same host number as on the provisioning network.
        type: str
      address:
        description: Address with prefix length, instead of that rule.
        type: str
      mtu:
        description: MTU.
        type: int
  hostname:
    description: Host name. Default is the name of the node.
    type: str
  user_data:
    description: Further cloud-config keys. They are kept in the registry, so no secrets.
    type: dict
    default: {}
  ttl:
    description: Seconds until the grant expires.
    type: float
    default: 1800.0
"""

EXAMPLES = r"""
- name: Permit one deploy boot
  aicluster.baremetal.boot_grant:
    image: debian-gpu
    image_store: /var/cache/aicluster/images
    disk:
      type: nvme
      min_size: 400 GiB
    ssh_public_keys: ["{{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}"]
    rails:
      - {network: 10.77.2.0/24, mtu: 9000}
      - {network: 10.77.3.0/24, mtu: 9000}
"""

RETURN = r"""
image:
  description: Name, checksum, size and root file system UUID of the image.
  returned: success
  type: dict
disk:
  description: The disk rule with sizes in bytes.
  returned: success
  type: dict
interfaces:
  description: Addresses by interface.
  returned: success
  type: dict
mac:
  description: The MAC that the grant is bound to.
  returned: success
  type: str
"""
