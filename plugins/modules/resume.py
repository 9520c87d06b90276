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
  - A drain is undone only in state C(active) or C(enrolling) and with the lease C(slurm). A hold is released in every state.
  - That the node is back at work is said only when it was seen, see RV(in_service).
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
    description: The scheduler of the node. V(none) only tells and asks the registry.
    type: str
    choices: [slurm, none]
    default: slurm
  require_burn_in:
    description: Refuse unless the newest burn-in passed on the software that is installed now.
    type: bool
    default: false
  strict:
    description:
      - Whether the task fails when the node stays out of work because of others, or because the scheduler does not know it or gives it no work.
      - A node whose place in its life is in no scheduler, such as one in state C(deployed), is no failure; RV(kept_by) says so.
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
  description:
    - Whether the node takes work. The registry has it in state C(active) or C(enrolling) with the lease of its scheduler, nobody holds it, and the
      scheduler knows it and shows it in a state that takes work.
    - With O(scheduler=none) the registry alone decides. In check mode it is what the run would find.
  type: bool
  returned: always
kept_by:
  description: Who or what keeps it out, in words. Empty exactly when RV(in_service) is true.
  type: list
  elements: str
  returned: always
scheduler:
  description: The node as the scheduler shows it afterwards.
  type: dict
  returned: always
"""
