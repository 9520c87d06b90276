#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# What a BMC knows of its server.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_info
short_description: Read a server's inventory from its BMC
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Reads system, BMC, processors, memory, network interfaces, drives, GPUs, firmware versions, boot override and what can be asked of it through
    Redfish, or the little that IPMI can tell.
  - A section that cannot be read is empty and named in RV(bmc_warnings); it is no failure.
  - A service without a computer system (a chassis controller, a power shelf) tells what it can of itself.
extends_documentation_fragment:
  - aicluster.baremetal.bmc
options:
  sections:
    description:
      - Parts of the inventory to read. Default is V(system) to V(boot). The others change often, are long, or are about the BMC itself.
      - The firmware list of some GPU servers takes minutes; leave it out where it is not needed.
    type: list
    elements: str
    choices: [system, bmc, processors, memory, nics, drives, gpus, firmware, boot, offers, storage, power, thermal, bios, logs,
      accounts, settings, media]
  section_timeout:
    description:
      - Seconds that each section may take. One that takes longer is empty, with a warning, and costs the others nothing.
    type: float
seealso:
  - module: aicluster.baremetal.bmc_discover
"""

EXAMPLES = r"""
- name: Read the whole inventory of each node
  aicluster.baremetal.bmc_info:
  register: found

- name: Read one BMC that is not in the inventory, its certificate pinned
  aicluster.baremetal.bmc_info:
    bmc_address: 192.0.2.10
    bmc_fingerprint: 3f1c0d6f0a2b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5
    bmc_credential: bmc/spare
    sections: [system, gpus]
  delegate_to: localhost
"""

RETURN = r"""
info:
  description:
    - The sections that were read.
    - C(power) has consumed_watts, capacity_watts and supplies; C(thermal) has temperatures and fans; C(bios) has attributes and pending;
      C(logs) has the newest entries that are worse than OK; C(storage) has controllers, volumes and the number of drives.
    - C(accounts) has username, role, enabled and locked of each; C(settings) has what M(aicluster.baremetal.bmc_settings) sets, null for what the BMC does not
      show; C(media) has the virtual devices with their image.
    - C(system) has id, manufacturer, model, serial, uuid, sku, power, bios_version, memory_gib and health; C(location) has rack and slot where the BMC knows
      them; C(nics) has slot, mac and name, with no mac where the BMC knows none.
    - C(offers) has reset_types and update_methods (V(multipart), V(push), V(simple)), as the BMC lists them.
  returned: success
  type: dict
  sample:
    system: {id: "1", manufacturer: Example, model: GPU-8, serial: ABC123, power: "on"}
    gpus: [{slot: GPU_1, model: H100 80GB HBM3, serial: "1652"}]
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
    door("bmc_info")


if __name__ == "__main__":
    main()
