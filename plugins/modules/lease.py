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
  - While a scheduler has the lease, no stage writes to the node, and it is not moved to manageable, servicing, burn_in, cleaning or retired.
  - Slurm's lease is released only when Slurm shows the node drained and idle, or does not know it. M(aicluster.baremetal.drain) has
    an option for all of it, C(release).
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
  consent:
    description:
      - With O(state=released), the chassis serial of the node. Slurm is then not asked whether work runs there, a person answers for it.
      - Needed for V(kubernetes), which cannot be asked, and for a Slurm that is gone for good.
    type: str
extends_documentation_fragment:
  - aicluster.baremetal.slurm
  - aicluster.baremetal.slurm.controller
seealso:
  - module: aicluster.baremetal.drain
"""

EXAMPLES = r"""
- name: Give the node to Slurm
  aicluster.baremetal.lease:
    lease: slurm

- name: Take a node back that Slurm shows drained and idle
  aicluster.baremetal.lease:
    lease: slurm
    state: released
"""

RETURN = r"""#"""
