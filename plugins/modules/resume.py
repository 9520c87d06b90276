#!/usr/bin/python
# Documentation of the action resume, which runs in the controller (plugins/action/resume.py).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: resume
short_description: Give a node back to work, where nobody else keeps it out
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Releases the hold of O(owner) and undoes a drain in the scheduler that has the same owner in its reason.
  - A drain of an administrator, of another automation or of the scheduler itself is never undone. While another hold or the maintenance flag is there,
    the node stays drained and the drain's reason is handed over to it.
  - A hold that a person placed is not released by automation.
  - The node must be in state C(active) or C(enrolling) and have the lease C(slurm).
options:
  owner:
    description: Whose drain and hold end.
    type: str
    required: true
  automation:
    description: Whether automation asks. Set it to V(false) to release the hold of a person.
    type: bool
    default: true
  scheduler:
    description: The scheduler of the node. V(none) only tells the registry.
    type: str
    choices: [slurm, none]
    default: slurm
  require_burn_in:
    description: Refuse unless the newest burn-in passed on the software that is installed now.
    type: bool
    default: false
  strict:
    description: Whether the task fails when the node stays out of work because of others.
    type: bool
    default: true
extends_documentation_fragment:
  - aicluster.baremetal.slurm
  - aicluster.baremetal.slurm.controller
seealso:
  - module: aicluster.baremetal.drain
"""

EXAMPLES = r"""
- name: The repair is done
  aicluster.baremetal.resume:
    owner: repair
"""

RETURN = r"""
in_service:
  description: Whether nothing keeps the node out of work any more.
  type: bool
  returned: always
kept_by:
  description: Who keeps it out, in words.
  type: list
  elements: str
  returned: always
scheduler:
  description: The node as the scheduler shows it afterwards.
  type: dict
  returned: always
"""
