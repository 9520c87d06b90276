#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Virtual media of a server, through its BMC.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_virtual_media
short_description: Show an image to a server as a CD or a USB stick, through its BMC
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Inserts an image into a virtual device of the BMC, or ejects it, and reads it back.
  - It does not make the server boot from it; see M(aicluster.baremetal.bmc_boot).
  - Devices below the system and below the manager are found. A device that holds another image is only emptied when O(device) names it.
  - Parameters that the BMC asks for or refuses by name are added or left out; BMCs without the actions are driven by PATCH.
  - Inside an attempt (the host variable C(aicluster_fencing) is set) the fencing number is checked immediately before each request.
extends_documentation_fragment:
  - aicluster.baremetal.bmc
options:
  image:
    description:
      - URL of the image; the BMC fetches it, so its own network must reach it. Needed with O(state=inserted).
      - With O(state=ejected), only a device that holds this image is emptied.
    type: str
  state:
    description:
      - V(inserted) shows O(image) to the server, V(ejected) takes it away (without O(image) and O(device), from every device).
    type: str
    choices: [inserted, ejected]
    default: inserted
  media_type:
    description:
      - Kind of the device, where O(device) does not name one.
    type: str
    choices: [cd, usb, floppy]
    default: cd
  device:
    description:
      - Id of the virtual device, as the BMC calls it. An image that it holds is replaced.
    type: str
  image_username:
    description:
      - User name for the server that has the image.
    type: str
  image_password:
    description:
      - Password for it.
    type: str
  write_protected:
    description:
      - Whether the server can only read it.
    type: bool
    default: true
  timeout:
    description:
      - Seconds that the whole may take. Default is 180.
    type: float
"""

EXAMPLES = r"""
- name: Show the rescue image
  aicluster.baremetal.bmc_virtual_media:
    image: http://10.77.0.1/images/rescue.iso

- name: Boot from it, once
  aicluster.baremetal.bmc_boot:
    target: cd

- name: Take every image away
  aicluster.baremetal.bmc_virtual_media:
    state: ejected
"""

RETURN = r"""
before:
  description: The devices concerned, by id, with C(image) and C(inserted).
  returned: success
  type: dict
  sample: {Cd: {image: null, inserted: false}}
after:
  description: The same afterwards (in check mode, as it would be).
  returned: success
  type: dict
device:
  description: Id of the device that was used.
  returned: success
  type: str
source:
  description: Protocol that was used.
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
    door("bmc_virtual_media")


if __name__ == "__main__":
    main()
