#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# The power of a server, through its BMC.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_power
short_description: Switch a server on or off, or restart it, through its BMC
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Reads the power state, sends what is needed, and reads it back until it is so. A BMC that accepts a request and does nothing is a failure.
  - A request whose answer was lost is never sent twice; the power state decides. An interrupt or a restart that shows no sign is an error then.
  - Where a BMC accepts something and has no means to show that it was done, the result says so with RV(verified) and a warning.
  - Inside an attempt (the host variable C(aicluster_fencing) is set) the fencing number is checked immediately before each request.
extends_documentation_fragment:
  - aicluster.baremetal.bmc
options:
  state:
    description:
      - V(on) and V(off) (at once, without asking the operating system) change nothing where it is so already.
      - V(graceful) asks the operating system to shut down.
      - V(restart) shuts the operating system down and switches the server on again; O(fallback) and O(graceful_timeout) count for it too.
      - V(reset) restarts at once, V(cycle) takes the power away and gives it back; both always change something.
        A server that is off is switched on by all three.
      - V(nmi) sends a non-maskable interrupt, with which an operating system writes a dump; only that the server is on afterwards can be verified, so
        RV(verified) is false.
      - V(ac_cycle) takes the mains power away and gives it back, V(aux_cycle) the standby power, where the BMC has an action for it (Redfish only). The
        BMC restarts with it. It is waited for, a server that stays off is switched on, and both always change something.
        Where the BMC wants the server off before, it is switched off at once, without asking the operating system.
    type: str
    required: true
    choices: ["on", "off", graceful, restart, reset, cycle, nmi, ac_cycle, aux_cycle]
  fallback:
    description:
      - What to do when a graceful shutdown is not offered by the BMC or not done within O(graceful_timeout).
      - V(force) cuts the power, V(none) fails.
    type: str
    choices: [none, force]
    default: none
  graceful_timeout:
    description:
      - Seconds that the operating system has to shut down. Then O(fallback) acts, or the task fails with the code C(shutdown_ignored).
    type: float
    default: 120.0
  consent:
    description:
      - Serial number of the server, as a sign that other servers of its chassis may lose their power too. Wanted for V(ac_cycle) and V(aux_cycle) where there
        are such servers. In check mode the plan is shown without it.
    type: str
  siblings:
    description:
      - Names of the nodes that share the power of this chassis, for BMCs that do not say it themselves. Default is the host variable C(aicluster_siblings).
    type: list
    elements: str
  timeout:
    description:
      - Seconds until the power state must be reached. Default is 300, and 1200 for V(ac_cycle) and V(aux_cycle).
    type: float
"""

EXAMPLES = r"""
- name: Switch the nodes on
  aicluster.baremetal.bmc_power:
    state: "on"

- name: Shut down, and cut the power if the operating system does not follow within a minute
  aicluster.baremetal.bmc_power:
    state: graceful
    fallback: force
    graceful_timeout: 60

- name: Take the mains power away once, which activates a CPLD
  aicluster.baremetal.bmc_power:
    state: ac_cycle
"""

RETURN = r"""
before:
  description: Power state that was found.
  returned: success
  type: dict
  sample: {power: "off"}
after:
  description: Power state that was read back (in check mode, that would be reached).
  returned: success
  type: dict
  sample: {power: "on"}
verified:
  description: Whether the BMC showed that it was done. False after V(nmi), and where a BMC accepted a restart and has nothing that shows one.
  returned: success, but for check mode
  type: bool
action:
  description: The action of the BMC that takes the power away, and its reset type.
  returned: success, with O(state=ac_cycle) and O(state=aux_cycle)
  type: str
  sample: DellOemChassis.ExtendedReset PowerCycle
siblings:
  description: Other servers that lose their power too.
  returned: success, with O(state=ac_cycle) and O(state=aux_cycle)
  type: list
  elements: str
consent_required:
  description: Whether O(consent) is wanted and was not given (in check mode).
  returned: success, with O(state=ac_cycle) and O(state=aux_cycle)
  type: bool
needs_consent:
  description: The serial numbers that a real run wants as O(consent) and that were not given (in check mode). They are in C(msg) and in the diff too.
  returned: success, with O(state=ac_cycle) and O(state=aux_cycle)
  type: list
  elements: str
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
    door("bmc_power")


if __name__ == "__main__":
    main()
