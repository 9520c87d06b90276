#!/usr/bin/python
# Documentation of the action slurm_info, which runs in the controller (plugins/action/slurm_info.py).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_info
short_description: Read Slurm through its controller
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Fails with what to do where the controller cannot be reached or does not answer, per host, so that other hosts of the play go on.
options:
  want:
    description:
      - How far to look.
      - V(reachable) the controller's host answers over its connection.
      - V(up) C(slurmctld) answers.
      - V(node) the node's state is read.
      - V(registered) waits until the node's C(slurmd) has reported.
    type: str
    choices: [reachable, up, node, registered]
    default: node
  deadline:
    description: Seconds to wait with V(want=registered).
    type: float
    default: 120.0
extends_documentation_fragment:
  - aicluster.baremetal.slurm
  - aicluster.baremetal.slurm.controller
"""

EXAMPLES = r"""
- name: What does Slurm say of this node
  aicluster.baremetal.slurm_info:
  register: slurm
"""

RETURN = r"""
controller:
  description: The inventory host that was asked.
  type: str
  returned: success
node:
  description: The node, with C(present), C(state), C(drained), C(drain_owner), C(reason), C(jobs), C(gres), C(registered) and C(invalid).
  type: dict
  returned: success
"""
