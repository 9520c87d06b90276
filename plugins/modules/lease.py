#!/usr/bin/python
# Documentation of the action lease, which runs in the controller (plugins/action/lease.py).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: lease
short_description: Give a node to one owner, or take it back
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - A node has one lease or none. A lease that another owner has is refused.
options:
  lease:
    description: The owner.
    type: str
    required: true
    choices: [slurm, kubernetes, maintenance]
  state:
    description: Whether the owner gets the node or gives it back.
    type: str
    choices: [acquired, released]
    default: acquired
extends_documentation_fragment:
  - aicluster.baremetal.slurm
"""

EXAMPLES = r"""
- name: Give the node to Slurm
  aicluster.baremetal.lease:
    lease: slurm
"""

RETURN = r"""#"""
