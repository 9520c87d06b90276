#!/usr/bin/python
# Documentation of the action slurm_hardware, which runs in the controller (plugins/action/slurm_hardware.py).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_hardware
short_description: Record the hardware that slurmd sees on a node
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Runs C(slurmd -C) on the node, counts the GPU device files, and records both as evidence. M(aicluster.baremetal.slurm_nodes_info) makes the
    node's line of C(slurm.conf) from it.
options:
  gpu_type:
    description: Type of the GPUs in Slurm. Default is the word for the model that C(nvidia-smi) names, such as V(h100).
    type: str
extends_documentation_fragment:
  - aicluster.baremetal.slurm
"""

EXAMPLES = r"""
- name: Record what slurmd sees
  aicluster.baremetal.slurm_hardware:
"""

RETURN = r"""
hardware:
  description: CPUs, boards, sockets, cores, threads, memory, number and type of GPUs.
  type: dict
  returned: success
simulated:
  description: Whether the GPUs are the lab's simulated ones.
  type: bool
  returned: success
"""
