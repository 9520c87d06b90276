#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Restart of a BMC.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_reset
short_description: Restart a BMC and wait until it is ready
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Restarts the BMC itself; its server goes on. A BMC that hangs, hides a device or blocks BIOS settings with an old job is often mended by it.
  - Ready means two good authenticated reads after it was away, not an open port. A BMC that accepts the restart and does not do it is a failure where it shows
    when it was last restarted. Otherwise it is a warning and RV(verified) is false; where the answer was lost too, it is a failure.
  - It always is a change; use C(when) to do it only where it is needed.
  - Inside an attempt (the host variable C(aicluster_fencing) is set) the fencing number is checked immediately before each request.
extends_documentation_fragment:
  - aicluster.baremetal.bmc
options:
  kind:
    description:
      - V(graceful) lets it end its work, V(force) does not. Where the BMC offers only the other one, that is done, with a warning.
    type: str
    choices: [graceful, force]
    default: graceful
  wait:
    description:
      - Wait until it is ready again.
    type: bool
    default: true
  timeout:
    description:
      - Seconds until it must be ready. Default is 600.
    type: float
"""

EXAMPLES = r"""
- name: Restart the BMC
  aicluster.baremetal.bmc_reset:
    kind: force
"""

RETURN = r"""
before:
  description: When the BMC was last restarted, as it says itself (C(last_reset)).
  returned: success
  type: dict
after:
  description: The same afterwards.
  returned: success
  type: dict
waited:
  description: Whether it was waited for.
  returned: success
  type: bool
verified:
  description: Whether the BMC was seen to restart, by going away or by its time of the last restart. False without O(wait).
  returned: success, but for check mode
  type: bool
seconds:
  description: Seconds until it was ready.
  returned: success
  type: float
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
    door("bmc_reset")


if __name__ == "__main__":
    main()
