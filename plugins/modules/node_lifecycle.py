#!/usr/bin/python
# Documentation of the action plugin plugins/action/node_lifecycle.py, which does the work in the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_lifecycle
short_description: Move nodes through their lifecycle
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Takes nodes for a stage, records steps, ends attempts, and moves nodes along the table of transitions.
  - Every change is a compare-and-swap in the registry with a row in the audit chain. Of two controllers that begin at once, one is selected.
  - With O(state=begin) the selected host joins the group C(stage_<stage>) for the rest of the run, and its variables C(aicluster_attempt) and
    C(aicluster_fencing) are set. In check mode it joins the group and nothing is written.
  - A node that is leased to a scheduler is not taken for a stage that changes it, and not moved to V(manageable), V(servicing), V(burn_in),
    V(cleaning) or V(retired). See C(docs/lifecycle.md) for what each transition needs and how a lease is released.
  - A node whose controller died is adopted. The attempt goes on under a higher fencing number, which shuts out what the dead controller left running.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.attributes
options:
  state:
    description:
      - V(begin) takes the node for O(stage), or says why not. Not to be selected is no failure.
      - V(step) records a step and a heartbeat, and fails when a newer attempt owns the node.
      - V(finish) ends the attempt with O(outcome) and sets the state that follows. In check mode nothing was done that could have passed, so the
        difference promises no pass.
      - V(transition) moves the node to O(to_state), for transitions that belong to no stage.
    type: str
    choices: [begin, step, finish, transition]
    required: true
  stage:
    description: The stage to begin.
    type: str
    choices: [firmware, deploy, software, burn_in, enroll]
  name:
    description: Name or serial of the node. By default the host of the task.
    type: str
  names:
    description:
      - The bulk form, several nodes in one process. Use it with C(run_once).
      - Groups and variables of other hosts cannot be set from one task, so follow it with M(ansible.builtin.add_host) as in the examples.
    type: list
    elements: str
  attempt:
    description: The attempt. By default the variable C(aicluster_attempt).
    type: int
  fencing:
    description: The fencing number. By default the variable C(aicluster_fencing).
    type: int
  deadline:
    description: Seconds that the attempt may take. By default the deadline of the stage.
    type: float
  retry_failed:
    description: Also take a node whose last attempt at this stage failed.
    type: bool
    default: false
  stale_after:
    description:
      - Seconds without a heartbeat after which a controller on another machine counts as dead.
      - By default what the stage says, see C(docs/lifecycle.md).
    type: float
  step:
    description: The step to record.
    type: str
  detail:
    description: What to record with the step.
    type: raw
  outcome:
    description: How the attempt ended. V(could_not_test) is never a pass.
    type: str
    choices: [pass, fail, could_not_test]
  reason:
    description: Why, in words for people. It is what C(playbooks/why.yml) prints.
    type: str
  from_state:
    description: With O(state=transition), the state that the node must be in. By default the state that is read.
    type: str
  to_state:
    description: The state to move to with O(state=transition), or where a failed attempt is to leave the node with O(state=finish).
    type: str
  consent:
    description:
      - The chassis serial of the node. Needed for moves that cannot be taken back, to V(cleaning) and V(retired) in O(to_state).
    type: str
  consents:
    description:
      - The bulk form of O(consent), a dictionary with the chassis serial of each node under the name that O(names) has.
      - Where one is missing or wrong, no node is moved.
    type: dict
"""

EXAMPLES = r"""
- name: Take the nodes that are to be deployed
  aicluster.baremetal.node_lifecycle:
    state: begin
    stage: deploy

- name: End the attempt
  aicluster.baremetal.node_lifecycle:
    state: finish
    outcome: pass

- name: Take many nodes in one process
  aicluster.baremetal.node_lifecycle:
    state: begin
    stage: deploy
    names: "{{ ansible_play_batch }}"
  run_once: true
  register: begun

- name: Tell Ansible which nodes were taken
  ansible.builtin.add_host:
    name: "{{ item.name }}"
    groups: [stage_deploy]
    aicluster_attempt: "{{ item.attempt }}"
    aicluster_fencing: "{{ item.fencing }}"
  loop: "{{ begun.nodes | selectattr('selected', 'defined') | selectattr('selected') }}"
  loop_control:
    label: "{{ item.name }}"
  changed_when: false
  run_once: true

- name: Retire nodes that are sold
  aicluster.baremetal.node_lifecycle:
    state: transition
    to_state: retired
    reason: sold
    names: [gpu01, gpu02]
    consents:
      gpu01: ABC1234
      gpu02: ABC1235
  run_once: true
"""

RETURN = r"""
selected:
  description: Whether the node was taken.
  returned: with O(state=begin)
  type: bool
attempt:
  description: The attempt.
  returned: with O(state=begin), when selected and not in check mode
  type: int
fencing:
  description: The fencing number of the attempt.
  returned: with O(state=begin), when selected and not in check mode
  type: int
adopted:
  description: Whether the attempt was left behind by a dead controller.
  returned: with O(state=begin)
  type: bool
last_step:
  description: The last step of an adopted attempt.
  returned: with O(state=begin)
  type: str
reason:
  description: Why the node was not selected, or why it was adopted.
  returned: with O(state=begin)
  type: str
state:
  description: The state of the node after V(begin).
  returned: with O(state=begin)
  type: str
node_state:
  description: The state of the node after V(finish) or V(transition).
  returned: with O(state=finish) or O(state=transition)
  type: str
nodes:
  description: One entry for each node, with the values above, or C(failed) and C(msg).
  returned: with O(names)
  type: list
  elements: dict
selected_names:
  description: The names that were selected.
  returned: with O(names)
  type: list
  elements: str
failed_names:
  description: The names that failed.
  returned: with O(names)
  type: list
  elements: str
"""
