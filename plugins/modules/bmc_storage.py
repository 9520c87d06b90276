#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Storage volumes and drives of a server, through its BMC.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_storage
short_description: Make or remove a RAID volume of a server, or erase its drives, through its BMC
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Makes one volume present, found by its name or else by its level and drives, or absent, and reads it back.
  - With O(state=erased) it erases drives (the action Drive.SecureErase), one after the other, and follows each erasure to its end. A drive that belongs to a
    volume, is a spare or is busy is refused. BMCs do not show whether a drive was erased before, so this is always a change.
  - A BMC that accepts an erasure and shows neither a task nor an operation of the drive fails the task with the code C(erase_not_seen). The error says for each
    drive whether it is erased, unknown or not begun.
  - All of these destroy what is on the drives, so they want O(consent). A volume of this name that has another level or other drives is an error; it is
    never rebuilt.
  - Jobs of the controller are followed to their end. What the controller does at the next start of the server shows as RV(reboot_required).
  - Inside an attempt (the host variable C(aicluster_fencing) is set) the fencing number is checked immediately before each request.
extends_documentation_fragment:
  - aicluster.baremetal.bmc
options:
  name:
    description:
      - Name of the volume. Needed but for O(state=erased).
    type: str
  state:
    description:
      - Whether the volume shall exist, or V(erased) for drives that shall be empty.
    type: str
    choices: [present, absent, erased]
    default: present
  raid_type:
    description:
      - RAID level; V(None) passes a drive through as it is.
    type: str
    choices: [None, RAID0, RAID1, RAID5, RAID6, RAID10, RAID50, RAID60]
  drives:
    description:
      - The drives of the volume, or those to erase, each by its id, the label of its slot or its serial number.
    type: list
    elements: str
  capacity:
    description:
      - Size, such as C(480 GB) or C(1 TiB). Default is what the drives give.
    type: str
  controller:
    description:
      - Id of the storage controller, where more than one has volumes. For O(state=erased) drives of all controllers can be named without it.
    type: str
  consent:
    description:
      - A sign that what is on these drives may be destroyed. In check mode the plan is shown without it, with the serial numbers that are wanted.
      - For a volume it is the serial number of the server. For O(state=erased) it is the serial number of each of the drives, of all of them and no other.
    type: list
    elements: str
  sanitization:
    description:
      - How drives are erased. Default is what the BMC chooses for them. A way that the BMC says a drive does not have is refused.
    type: str
    choices: [CryptographicErase, BlockErase, Overwrite]
  overwrite_passes:
    description:
      - How often O(sanitization=Overwrite) writes over a drive.
    type: int
  apply_time:
    description:
      - When the controller shall do it, for controllers that have to be told.
    type: str
    choices: [Immediate, OnReset]
  timeout:
    description:
      - Seconds that the whole may take. Default is 900, and 7200 for O(state=erased).
    type: float
"""

EXAMPLES = r"""
# The names of controllers and drives are the BMC's own. Those below are the ones of a simulated server (docs/twin.md) without a profile.
- name: Look up the controllers and the drives, with their serial numbers
  aicluster.baremetal.bmc_info:
    sections: [storage]

- name: Mirror the two boot drives
  aicluster.baremetal.bmc_storage:
    name: boot
    controller: scsi
    raid_type: RAID1
    drives: [disk1, disk2]
    consent: "{{ aicluster_serial }}"

- name: Erase a drive before it goes back
  aicluster.baremetal.bmc_storage:
    state: erased
    drives: ["{{ aicluster_serial }}-disk0"]
    sanitization: CryptographicErase
    consent: ["{{ aicluster_serial }}-disk0"]
"""

RETURN = r"""
before:
  description: The volume that was found (C(volume) with name, level and drives) or null; for O(state=erased) the C(drives) with id and serial.
  returned: success
  type: dict
after:
  description:
    - The same afterwards (in check mode, as it would be). A volume that the controller makes or removes at the next start of the server is as before.
    - For O(state=erased) each of the C(drives) has C(erased), which is true where the BMC showed the erasure and its end, and false where it waits for the next
      start of the server.
  returned: success
  type: dict
consent_required:
  description: Whether the change wants O(consent), which was not given (in check mode).
  returned: success
  type: bool
needs_consent:
  description: The serial numbers that a real run wants as O(consent) and that were not given (in check mode). They are in C(msg) and in the diff too.
  returned: success
  type: list
  elements: str
reboot_required:
  description: Whether the controller waits for a restart of the server.
  returned: success
  type: bool
controller:
  description: Id of the storage controller.
  returned: success, but for O(state=erased)
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
    door("bmc_storage")


if __name__ == "__main__":
    main()
