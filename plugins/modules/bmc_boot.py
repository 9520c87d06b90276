#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# What a server boots next, through its BMC.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_boot
short_description: Set what a server boots next, through its BMC
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Sets the boot override, or the server's own boot order, and reads it back. It does not restart the server; see M(aicluster.baremetal.bmc_power).
  - The boot mode is sent exactly where the BMC has such a property, because some demand it and others refuse it.
  - Inside an attempt (the host variable C(aicluster_fencing) is set) the fencing number is checked immediately before each request.
extends_documentation_fragment:
  - aicluster.baremetal.bmc
options:
  target:
    description:
      - What to boot. V(none) removes the override, so that the server's own boot order counts.
      - V(uefi_http) does not exist in IPMI.
      - On some BMCs (Dell iDRAC) V(cd) means a real drive and not virtual media; there put the virtual one first in O(order), by its name.
    type: str
    choices: [pxe, uefi_http, disk, cd, bios, none]
  once:
    description:
      - Only for the next boot; otherwise until it is changed.
    type: bool
    default: true
  http_uri:
    description:
      - URL that O(target=uefi_http) boots, for BMCs that can be told. Without it the server asks DHCP.
    type: str
  order:
    description:
      - What stands first in the server's own boot order, instead of a target. The rest stays as it is.
      - Each entry is a reference such as C(Boot0003), part of a boot option's name, a MAC address, or one of C(pxe), C(uefi_http), C(disk), C(cd),
        C(usb) for all options of that kind.
    type: list
    elements: str
  mode:
    description:
      - Boot mode to set with it. Default leaves the mode as it is (over IPMI, which cannot leave it, V(uefi)).
    type: str
    choices: [uefi, legacy]
"""

EXAMPLES = r"""
- name: Boot from the network, once
  aicluster.baremetal.bmc_boot:
    target: pxe
    mode: uefi

- name: The disk first in the server's own order, then the network card that provisions
  aicluster.baremetal.bmc_boot:
    order: [disk, "{{ provision_mac }}"]

- name: Remove the boot override
  aicluster.baremetal.bmc_boot:
    target: none
"""

RETURN = r"""
before:
  description: Boot override that was found, with target, enabled (once, persistent or disabled), mode, targets on offer; or the order and what is pending.
  returned: success
  type: dict
reboot_required:
  description: Whether the boot order is taken by the next start of the server.
  returned: with O(order)
  type: bool
after:
  description: Boot override (or order) that was read back (in check mode, that would be set).
  returned: success
  type: dict
source:
  description: Protocol that was used, C(redfish) or C(ipmi).
  returned: success
  type: str
  sample: redfish
bmc:
  description: What the BMC says of itself, as far as it was read (vendor, model, firmware).
  returned: success
  type: dict
bmc_warnings:
  description: What could not be read or was done in another way.
  returned: success
  type: list
  elements: str
error:
  description: Machine-readable form of a failure, with the keys code, message, host, thing, wanted, seen and next_step.
  returned: failure
  type: dict
"""

from ansible_collections.aicluster.baremetal.plugins.module_utils.doors.bmc import main as door


def main():
    door("bmc_boot")


if __name__ == "__main__":
    main()
