#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# What firmware a server runs, what waits for a reset, and how its BMC takes images.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_firmware_info
short_description: Read a server's firmware versions and update methods from its BMC
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Reads the firmware inventory, the ways in which the BMC takes images, and the update tasks that it knows.
  - Needs Redfish. To compare the versions with a baseline, run M(aicluster.baremetal.bmc_firmware) in check mode.
extends_documentation_fragment:
  - aicluster.baremetal.bmc
"""

EXAMPLES = r"""
- name: Read the firmware
  aicluster.baremetal.bmc_firmware_info:
  register: firmware

- name: Say what waits for a reset
  ansible.builtin.debug:
    msg: "{{ firmware.inventory | selectattr('staged') | list }}"
"""

RETURN = r"""
inventory:
  description: One entry for each component, with id, name, version, updateable and staged (a version that waits for a reset, where the BMC shows it).
  returned: success
  type: list
  elements: dict
methods:
  description: Ways in which the BMC takes images, of C(multipart), C(push) and C(simple).
  returned: success
  type: list
  elements: str
  sample: [multipart, simple]
tasks:
  description: Update tasks that the BMC knows, with uri, name, state (running, staged, done, failed), percent, text and started.
  returned: success
  type: list
  elements: dict
identity:
  description: Which server it is, with serial, manufacturer, model, sku, bmc_vendor and bmc_model.
  returned: success
  type: dict
bmc_warnings:
  description: What could not be read.
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
    door("bmc_firmware_info")


if __name__ == "__main__":
    main()
