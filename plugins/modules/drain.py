#!/usr/bin/python
# Documentation of the action drain, which runs in the controller (plugins/action/drain.py).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: drain
short_description: Take a node out of work, in the registry and in its scheduler
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Places a hold of O(owner) in the registry and drains the node in the scheduler with the reason C(aicluster:<owner>:) and O(reason). Running jobs go on.
  - A drain that somebody else set is never overwritten, so it is not taken over and later undone by mistake. The hold is recorded all the same.
  - The hold is compared as a whole. Another O(exit_condition) or O(automation) with the same O(reason) is a change too.
  - The registry is told first. Where the scheduler does not answer the task fails, the hold stays, and the next run finishes the work.
options:
  owner:
    description:
      - Who wants the node out of work, one word such as V(repair) or a user name. M(aicluster.baremetal.resume) with the same owner undoes it.
    type: str
    required: true
  reason:
    description: Why, in plain words for people who read C(sinfo -R) or ask why.
    type: str
    required: true
  exit_condition:
    description: When the hold ends. Default is that the owner resumes the node.
    type: str
    default: ""
  automation:
    description:
      - Whether automation asks. With V(false) a person does, and automation can then not release the hold.
    type: bool
    default: true
  hold:
    description: Whether a hold is recorded. V(false) is for drains that belong to a running attempt, whose state already keeps the node out of work.
    type: bool
    default: true
  scheduler:
    description: The scheduler of the node. V(none) only tells the registry.
    type: str
    choices: [slurm, none]
    default: slurm
  wait:
    description: Whether to wait until no job runs on the node.
    type: bool
    default: false
  release:
    description:
      - Whether the node also leaves its scheduler. Once it is drained and idle (or Slurm does not know it), its lease is released. Needs O(wait=true).
      - The drain of O(owner) is then handed over to the enrolment, which is what brings the node back to work. The hold stays until it is resumed.
    type: bool
    default: false
  deadline:
    description: Seconds to wait with O(wait). When it is over the task fails and names the jobs; the drain stays.
    type: float
    default: 3600.0
extends_documentation_fragment:
  - aicluster.baremetal.slurm
  - aicluster.baremetal.slurm.controller
seealso:
  - module: aicluster.baremetal.resume
"""

EXAMPLES = r"""
- name: Take the node out of work for a repair and wait until it is idle
  aicluster.baremetal.drain:
    owner: repair
    reason: GPU 3 reports uncorrectable memory errors
    wait: true
    deadline: 86400

- name: Take the node out of Slurm, so that it can be deployed again
  aicluster.baremetal.drain:
    owner: alice
    reason: new image
    automation: false
    wait: true
    release: true
"""

RETURN = r"""
scheduler:
  description: The node as the scheduler shows it afterwards, with C(present), C(state), C(drained), C(drain_owner), C(reason) and C(jobs).
  type: dict
  returned: success
notes:
  description: What was left as it was, and why.
  type: list
  elements: str
  returned: success
"""
