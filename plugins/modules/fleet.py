#!/usr/bin/python
# Documentation of the action plugin plugins/action/fleet.py, which does the work in the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: fleet
short_description: One operation on the BMCs of many nodes, in one task and one process
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Does what M(aicluster.baremetal.bmc_power), M(aicluster.baremetal.bmc_info) and the other modules of single BMCs do
    for one node, for all hosts of the batch at once. The same operations with the same options and the same result for each host, at a hundredth of the cost.
  - Runs once for all hosts. Ansible fills in the arguments of such a task with the values of the first host, so it takes B(names) of host variables
    and reads each host's own values inside. Nothing that differs between hosts may be given as a template.
  - O(ignore:when) on the task or around it is refused for the same reason. Choose the hosts with C(hosts) of the play, O(states) or O(hosts).
  - Never fails for what happens with single BMCs, because a failed task of this kind ends the playbook for all hosts. Who failed is in the result.
    Make it the last task of its play and import the playbook C(aicluster.baremetal.fleet_failures) after it. That fails exactly those hosts.
  - Fails only when the call itself is wrong (an unknown option, C(when)); then nothing was sent to any BMC.
  - Two hosts with the same BMC both fail and nothing is sent to it, unless C(bmc_system_id) names another system for each.
  - At one BMC there is never more than one request at a time. Sessions are deleted on every way out, also when the run is interrupted.
extends_documentation_fragment:
  - aicluster.baremetal.fleet
  - aicluster.baremetal.registry
options:
  concurrency:
    default: 200
  canary:
    default: 0
  progress:
    default: 10.0
  operation:
    description:
      - What to do. The name of a C(bmc_*) module without C(bmc_), or one of the following that only this module has.
      - V(health) is a gate over what the BMC says of its server's health. A host passes only when everything that was asked for was said and is accepted.
        Nothing said is the outcome C(could_not_test), and fails.
      - V(sensors) reads the sections C(power) and C(thermal) of M(aicluster.baremetal.bmc_info).
      - V(start) sets the boot override and, when the BMC shows it, switches the server on or restarts it, so that no host waits for another in between.
    type: str
    required: true
    choices: [account, bios, boot, firmware_info, health, info, log, power, reset, sensors, settings, start, virtual_media]
  options:
    description:
      - The options of the operation, as in the module of that name, the same for all hosts.
      - Of V(health) they are C(accepted), a list of health words, by default V(OK), and C(power), V(on) or V(off).
      - Of V(sensors) they are C(sections), of C(power) and C(thermal), and C(section_timeout).
      - Of V(start) they are C(target) (required), C(once), C(mode) and C(http_uri) as in M(aicluster.baremetal.bmc_boot), and C(state), one of V(on),
        V(reset) and V(cycle), by default V(reset), which starts a server that is off.
    type: dict
    default: {}
  options_from:
    description:
      - Options whose value each host has in a variable of its own, as C({option}) to B(name) of the variable. Such as C({credential}) to C(next_credential).
    type: dict
    default: {}
  hosts:
    description:
      - Names of hosts of the inventory. By default all hosts of the batch (C(ansible_play_batch)) that have not failed yet.
    type: list
    elements: str
  states:
    description:
      - Only nodes that are in one of these states in the registry now. The other hosts are skipped.
    type: list
    elements: str
  skip_held:
    description:
      - Leave out nodes that somebody holds and nodes in maintenance.
    type: bool
    default: false
  variables:
    description:
      - Names of the host variables to read, where they are not the usual ones. Keys are C(address), C(port), C(protocol), C(credential), C(fingerprint),
        C(ca_path), C(tls), C(system_id), C(ipmi_port), C(ipmi_privilege), C(ipmi_cipher_suite), C(attempt), C(fencing).
      - The usual ones are C(bmc_address) and so on, C(aicluster_attempt), C(aicluster_fencing).
    type: dict
    default: {}
  timeout:
    description:
      - Seconds for one BMC. By default 1800 for V(bios), 600 for V(reset), 300 for V(power), V(start) and V(firmware_info), else 60 to 180.
    type: float
  deadline:
    description:
      - Seconds for the whole task. When they are over nothing new is started, and the hosts that are left count as not tried.
    type: float
  max_refused_logins:
    description:
      - Stop using a credential after so many BMCs in a row refused it, because BMCs lock accounts. V(0) never stops.
    type: int
    default: 3
  stagger:
    description:
      - Limits for groups of hosts, such as racks or PDUs, so that not everything draws its inrush current at once. All rules apply.
    type: list
    elements: dict
    default: []
    suboptions:
      by:
        description:
          - Name of the host variable that says which group the host is in. A list means several groups, such as two PDUs. Hosts without it
            count as one group together, with a warning. A variable that no host has is refused.
        type: str
        required: true
      batch:
        description:
          - In each group at most so many hosts are written to within O(stagger[].pause) seconds. Hosts that are as wanted already do not count.
        type: int
        required: true
      pause:
        description:
          - Seconds, see O(stagger[].batch). With V(0), at most that many are worked on at the same time.
        type: float
        default: 0.0
  output:
    description:
      - A file on the controller for the results, one line of JSON for each host. The returned results then have only the essentials, so that thousands of
        inventories are not held in memory. Made anew, readable by its owner only, and not in check mode.
    type: path
  note_power_on:
    description:
      - Inside an attempt, write the event C(power_on) into the node's boot timeline immediately before O(operation=start) switches the server.
        So a run that dies there leaves a boot that did not get anywhere, and not one that nobody knows of.
    type: bool
    default: false
  record:
    description:
      - Put what was read straight into the registry, inventories (V(info)) as discovery records them, judgements (V(health)) as evidence.
        A BMC that shows another serial than the node's record is an error and is not recorded.
    type: bool
    default: false
  secrets:
    description:
      - Path of the secret store. Default is the setting C(aicluster_secrets).
    type: str
notes:
  - Inside an attempt (host variable C(aicluster_fencing)) the registry is asked before each write whether the attempt is still current.
  - Of the BMCs that O(concurrency) allows at most 32 are worked on over IPMI, because each IPMI session is a process. With slow BMCs more at a time is faster;
    each costs about 0.1 MB of memory.
seealso:
  - module: aicluster.baremetal.bmc_power
  - module: aicluster.baremetal.bmc_info
"""

EXAMPLES = r"""
# The last task of its play; the next line of the playbook is `- ansible.builtin.import_playbook: aicluster.baremetal.fleet_failures`,
# which fails exactly the hosts that failed here.
- name: Switch on all nodes that are ready for it, rack by rack and PDU by PDU
  aicluster.baremetal.fleet:
    operation: power
    options:
      state: "on"
    states: [available]
    stagger:
      - {by: aicluster_rack, batch: 8, pause: 5}
      - {by: pdus, batch: 2, pause: 2}
    max_fail_percentage: 5
  run_once: true
  register: fleet_result

- name: Read ten thousand inventories into a file and the registry
  aicluster.baremetal.fleet:
    operation: info
    output: /var/tmp/inventory.jsonl
    record: true
  run_once: true

- name: Change the password of an account, another one for each BMC
  aicluster.baremetal.fleet:
    operation: account
    options:
      username: operator
    options_from:
      credential: next_credential
    canary: 5
    max_fail_percentage: 0
  run_once: true

- name: Healthy by the BMC's own account, and powered on
  aicluster.baremetal.fleet:
    operation: health
    options:
      power: "on"
    record: true
  run_once: true
"""

RETURN = r"""
results:
  description:
    - For each host that was selected, what the module of that operation returns (C(changed), C(failed), C(msg), C(error), C(before), C(after), C(bmc), ...).
      With O(output) or O(record) only C(changed), C(failed), C(msg), C(error), C(source), C(outcome).
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
  description: Hosts whose turn did not come, because the run was stopped.
  returned: always
  type: list
  elements: str
changed_hosts:
  description: Hosts that were changed.
  returned: always
  type: list
  elements: str
skipped_hosts:
  description: Hosts that were not selected.
  returned: always
  type: list
  elements: str
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
output:
  description: The file of the results.
  returned: with O(output), not in check mode
  type: str
"""
