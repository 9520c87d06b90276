#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Logs of a BMC.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_log
short_description: Read or clear the logs of a BMC
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Reads the logs of the server and of its BMC, page by page, the newest entries up to a limit, or clears one of them.
  - The logs of Redfish and the SEL of IPMI are two stores on many BMCs. With O(bmc_protocol=ipmi) the SEL is read or cleared, otherwise the logs of Redfish.
  - A log that cannot be read is empty in the result, with a warning. A log that holds only the note that it was cleared counts as cleared.
extends_documentation_fragment:
  - aicluster.baremetal.bmc
options:
  state:
    description:
      - V(read) returns entries, V(cleared) empties the one log that O(logs) names.
    type: str
    choices: [read, cleared]
    default: read
  logs:
    description:
      - Ids of the logs, as the BMC calls them (C(SEL), C(IML), C(EventLog)), or with their owner (C(Managers/BMC/SEL)).
      - Default for reading is all of the server and its BMC but dumps, kernel journals and power-on codes.
    type: list
    elements: str
  since:
    description:
      - Only entries from this time on, in ISO 8601, such as C(2026-01-31T12:00:00Z). Entries without a readable time are kept.
    type: str
  severity:
    description:
      - Only entries that are at least as bad. Entries without a severity are kept.
    type: str
    choices: [OK, Warning, Critical]
  limit:
    description:
      - At most so many entries of each log, the newest.
    type: int
    default: 200
  timeout:
    description:
      - Seconds that the whole may take. Default is 120.
    type: float
"""

EXAMPLES = r"""
- name: What went wrong today
  aicluster.baremetal.bmc_log:
    since: "{{ now(utc=true, fmt='%Y-%m-%dT00:00:00Z') }}"
    severity: Warning
  register: bmc

- name: Clear the system event log after a repair
  aicluster.baremetal.bmc_log:
    state: cleared
    logs: [SEL]
"""

RETURN = r"""
logs:
  description: One item for each log with its name (C(log)), whether it can be cleared (C(clear)), and C(entries), oldest first.
  returned: with O(state=read)
  type: list
  elements: dict
  sample:
    - log: Systems/1/SEL
      clear: true
      entries:
        - {id: "12", created: "2026-01-31T12:00:00Z", severity: Critical, message: Fan 3 failed, message_id: null, type: SEL, sensor: Fan 3}
before:
  description: The log (C(log)) and whether it was empty (C(empty)).
  returned: with O(state=cleared)
  type: dict
after:
  description: The same afterwards.
  returned: with O(state=cleared)
  type: dict
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
    door("bmc_log")


if __name__ == "__main__":
    main()
