#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Firmware of many nodes: one first, then few at a time in each group, and an end where a node got worse.
from __future__ import annotations

DOCUMENTATION = r"""
module: firmware_rollout
short_description: Bring the firmware of many nodes to a baseline, few at a time
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Does for all hosts of the batch, in one process, what M(aicluster.baremetal.bmc_firmware) does for one node.
  - The first O(canary) nodes go alone. The others follow with at most O(limit) of each group (C(rack) unless O(group_by) says otherwise) at a time.
  - When more than O(max_fail_percentage) of the nodes have failed, which a health that got worse counts as, no further node is begun. Those under way go on.
    A node that waits for a reset by hand does not count as failed here.
  - Consent comes before everything. Where the baseline has components that can brick, the plans of all nodes without O(consent) are made first, and when one
    of them needs it, the task fails with one message that names all these serial numbers. Then nothing was sent to any node.
  - Nodes of one chassis (the host variable C(aicluster_siblings)) are done one after the other.
  - Runs once for all hosts and reads each host's variables inside. Does not fail for what happens with single nodes, only when the call itself is wrong,
    which a missing consent is.
extends_documentation_fragment:
  - aicluster.baremetal.firmware
  - aicluster.baremetal.fleet
  - aicluster.baremetal.registry
options:
  concurrency:
    default: 16
  canary:
    default: 1
  max_fail_percentage:
    default: 0.0
  progress:
    default: 30.0
  names:
    description:
      - Names of the hosts. Default is all hosts of the batch.
    type: list
    elements: str
  stage:
    description:
      - Do it as the stage C(firmware) of the lifecycle. A node is taken (state C(updating)) only when there is something to send, and then becomes
        C(available) or C(updating_failed). What a dead controller left behind is taken up.
      - A node whose BMC is driven by IPMI (C(bmc_protocol=ipmi)) is left alone with this reason, because IPMI has no update service.
    type: bool
    default: true
  states:
    description:
      - States of the nodes that the stage takes, of C(available) and C(manageable). A manageable node becomes available at the end.
    type: list
    elements: str
    default: [available]
  group_by:
    description:
      - Name of the host variable by which nodes form groups. Hosts without it form one group.
    type: str
    default: aicluster_rack
  limit:
    description:
      - How many nodes of one group may be under way at once, as a number or as a percentage of the group's nodes in this run. At least one.
    type: str
    default: 25%
  node_timeout:
    description:
      - Seconds that one node may take. What is under way then is found by the next run.
    type: float
    default: 14400.0
"""

EXAMPLES = r"""
- name: Bring the nodes to the baseline, two of a rack at a time
  aicluster.baremetal.firmware_rollout:
    baseline: /etc/aicluster/firmware
    limit: "2"
  register: rollout
"""

RETURN = r"""
results:
  description: For each host, what M(aicluster.baremetal.bmc_firmware) returns.
  returned: always
  type: dict
failed_hosts:
  description: Hosts that failed, but for those that did not answer.
  returned: always
  type: list
  elements: str
unreachable_hosts:
  description: Hosts whose BMC did not answer.
  returned: always
  type: list
  elements: str
not_tried_hosts:
  description: Hosts whose turn did not come, because the rollout was stopped.
  returned: always
  type: list
  elements: str
changed_hosts:
  description: Hosts that were changed.
  returned: always
  type: list
  elements: str
skipped_hosts:
  description: Hosts that were left alone, because of their state or a hold. The reason is in RV(results).
  returned: always
  type: list
  elements: str
consent_missing:
  description: Serial numbers of the servers whose plan needs O(consent) that was not given. Outside check mode such a run fails before anything is sent.
  returned: in check mode
  type: list
  elements: str
would_refuse:
  description: Why a real run would not begin at all.
  returned: in check mode, when consent is missing
  type: str
failing:
  description: All hosts that did not end well and one that did, for the play that fails the former.
  returned: always
  type: list
  elements: str
reasons:
  description: The message of each host that did not end well.
  returned: always
  type: dict
counts:
  description: Numbers of C(hosts), C(selected), C(ok), C(changed), C(failed), C(unreachable), C(not_tried), C(skipped).
  returned: always
  type: dict
seconds:
  description: How long it took.
  returned: always
  type: float
"""
