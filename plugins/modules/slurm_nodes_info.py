#!/usr/bin/python
# Documentation of the action slurm_nodes_info, which runs in the controller (plugins/action/slurm_nodes_info.py).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_nodes_info
short_description: Lines of slurm.conf for the nodes that belong to Slurm
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - A node belongs to Slurm as long as it has the lease V(slurm), also while it is drained or failed. Its line comes from the hardware on record.
  - A retired node belongs to nobody; its name is in RV(remove) unless another node carries it now.
options:
  memory_percent:
    description:
      - How much of the memory that was detected is promised to Slurm.
      - The same server reports a little more or less after each change of firmware or kernel, and Slurm drains a node that reports less.
    type: int
    default: 97
  planned:
    description:
      - Name and C(hardware) (see M(aicluster.baremetal.slurm_hardware)) of nodes that a run would have leased to Slurm and put on record by now.
      - Looked at in check mode only, so that it foretells the lines that the run would write.
    type: dict
    default: {}
  registry:
    description:
      - URL of the registry.
      - Default is the variable C(aicluster_registry), else the environment variable E(AICLUSTER_REGISTRY), else C(registry) in section
        C([aicluster]) of C(ansible.cfg).
    type: str
attributes:
  check_mode:
    description: Reads only.
    support: full
"""

EXAMPLES = r"""
- name: Lines for slurm.conf
  aicluster.baremetal.slurm_nodes_info:
  register: lines
"""

RETURN = r"""
nodes:
  description: Name, line of C(slurm.conf) and line of C(gres.conf) of each node.
  type: list
  elements: dict
  returned: success
remove:
  description: Names that must not be in the configuration.
  type: list
  elements: str
  returned: success
without_hardware:
  description: Names of nodes with the lease whose hardware is not on record yet.
  type: list
  elements: str
  returned: success
"""
