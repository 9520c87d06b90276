#!/usr/bin/python
# Documentation of the action node_check; the work is done by plugins/action/node_check.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_check
short_description: Run the checks of one suite on a node in one call
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Starts C(node-check), which the role C(aicluster.baremetal.node_base) installs, once on the node, hands it the wanted state or the plan on
    standard input and returns its items.
  - Nothing is copied to the node and nothing on it is changed by the C(verify) and C(facts) suites. The C(burn_in) suite puts load on the node for
    the time that the plan says.
  - In check mode C(verify) and C(facts) run as always and C(burn_in) is skipped.
options:
  suite:
    description: Which suite to run.
    type: str
    choices: [verify, burn_in, facts]
    required: true
  expect:
    description:
      - For C(verify), the wanted state with C(schema=1) and the sections C(packages), C(absent_packages), C(files), C(blocks), C(services),
        C(sysctls), C(limits); C(image=true) for an image tree.
    type: dict
  plan:
    description: For C(burn_in), the plan; see C(docs/burn_in.md) in the collection.
    type: dict
  executable:
    description: Path of the program on the node.
    type: path
    default: /usr/local/bin/node-check
  timeout:
    description: Seconds after which the call is stopped.
    type: int
    default: 600
  accept_differences:
    description:
      - Return what differs or failed without failing the task. A program that is not installed counts as a difference; one that could not run
        fails the task all the same.
    type: bool
    default: false
  network_server:
    description:
      - For C(burn_in), start an C(iperf3) server on the controller for the time of the call, on the address that faces the node, and name it in
        the plan as the network peer.
    type: bool
    default: false
attributes:
  check_mode:
    description: C(verify) and C(facts) run, C(burn_in) is skipped.
    support: full
  diff_mode:
    description: Returns no diff.
    support: none
"""

EXAMPLES = r"""
- name: Compare the node with its wanted state
  aicluster.baremetal.node_check:
    suite: verify
    expect:
      schema: 1
      packages: [chrony]
      services:
        chrony.service: {enabled: true, active: true}
    accept_differences: true
  register: seen

- name: Say what differs
  ansible.builtin.debug:
    var: seen.different
"""

RETURN = r"""
installed:
  description: Whether C(node-check) was found on the node.
  returned: always
  type: bool
outcome:
  description: The worst outcome of all items that gate, C(pass), C(fail), C(not_applicable) or C(could_not_test).
  returned: when the suite ran
  type: str
items:
  description:
    - One dictionary per check with C(check), C(outcome), C(value), C(unit), C(limit), C(rule), C(source), C(simulated), C(detail).
    - One that failed or could not be tested, but does not count for the outcome, has C(gates=false) as well.
  returned: always
  type: list
  elements: dict
different:
  description: One sentence per difference (suite C(verify)).
  returned: suite verify
  type: list
  elements: str
reason:
  description: Why the node did not pass, or which checks that do not gate were no pass, in one sentence (suite C(burn_in)).
  returned: suite burn_in
  type: str
"""
