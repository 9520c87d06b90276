#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# BIOS settings of a server, through its BMC.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_bios
short_description: Set BIOS attributes of a server, through its BMC
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Compares the wanted attributes with those that run and with those that are pending, sends what differs in one request, and reads it back.
  - BIOS settings are taken by the next start of the server. Without O(reboot) they are pending afterwards and the result says RV(reboot_required); a second run
    changes nothing. With O(reboot) the server is restarted and the task ends when the values run and the BMC's job, where it made one, is over.
  - An unknown name lists those that were probably meant. Values, limits and the order of dependent attributes come from the BMC's attribute registry,
    where it gives one.
  - Inside an attempt (the host variable C(aicluster_fencing) is set) the fencing number is checked immediately before each request.
extends_documentation_fragment:
  - aicluster.baremetal.bmc
options:
  attributes:
    description:
      - Names and values, as the BMC calls them. They win over those of O(profile).
      - Put words such as C(on) or C(yes) in quotes, YAML makes truth values of them.
    type: dict
  profile:
    description:
      - YAML or JSON file on the controller with names and values, either alone or under the key C(attributes).
    type: path
  reboot:
    description:
      - V(none) leaves the settings pending.
      - V(graceful) shuts the operating system down and switches the server on again, V(force) restarts it at once.
      - A server that is off is switched on, because only a start takes the settings. Nothing is restarted where everything runs already.
    type: str
    choices: [none, graceful, force]
    default: none
  clear_pending:
    description:
      - Throw away what somebody else left pending before setting the wanted ones, and the job that waits with it.
    type: bool
    default: false
  timeout:
    description:
      - Seconds that the whole may take. Default is 120, and 1800 with O(reboot).
    type: float
"""

EXAMPLES = r"""
- name: Settings that GPU servers want, taken by the next start
  aicluster.baremetal.bmc_bios:
    attributes:
      SriovGlobalEnable: Enabled
      ProcVirtualization: Enabled

- name: A profile, and wait until it runs
  aicluster.baremetal.bmc_bios:
    profile: files/bios/r750.yml
    reboot: graceful
"""

RETURN = r"""
before:
  description: The wanted attributes as they run (C(attributes)) and everything that is pending (C(pending)).
  returned: success
  type: dict
after:
  description: The same afterwards (in check mode, as it would be).
  returned: success
  type: dict
reboot_required:
  description: Whether wanted attributes wait for a restart of the server.
  returned: success
  type: bool
restart:
  description:
    - How the server was restarted for the settings, V(graceful) or V(force) (in check mode, would be). Null where it was not.
    - It is in C(msg) and in the diff too.
  returned: success
  type: str
job:
  description: Path of the job that the BMC made of the settings, if it made one.
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
    door("bmc_bios")


if __name__ == "__main__":
    main()
