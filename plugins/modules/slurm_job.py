#!/usr/bin/python
# Documentation of the action slurm_job, which runs in the controller (plugins/action/slurm_job.py).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_job
short_description: Run the first job on a node and record what it printed
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Runs O(command) with C(srun) on exactly this node and records the output as evidence of the running attempt.
  - A job that is on record for the attempt is not run again. A job of the same name that a dead run left on the node is ended first.
options:
  command:
    description: Command and arguments.
    type: list
    elements: str
    default: [hostname]
  gres:
    description: Generic resources that the job asks for, such as V(gpu:8).
    type: str
    default: ""
  expect:
    description: Text that the output must contain.
    type: str
    default: ""
  simulated:
    description: Whether the resources of the node are simulated ones; stored with the evidence.
    type: bool
    default: false
  deadline:
    description: Seconds within which the job must have started and ended.
    type: float
    default: 120.0
extends_documentation_fragment:
  - aicluster.baremetal.slurm
  - aicluster.baremetal.slurm.controller
"""

EXAMPLES = r"""
- name: One job over all GPUs
  aicluster.baremetal.slurm_job:
    gres: gpu:8
    expect: "{{ inventory_hostname }}"
"""

RETURN = r"""
ran:
  description: Whether the job was run now.
  type: bool
  returned: success
output:
  description: What it printed.
  type: str
  returned: success
"""
