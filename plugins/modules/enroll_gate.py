#!/usr/bin/python
# Documentation of the action enroll_gate, which runs in the controller (plugins/action/enroll_gate.py).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: enroll_gate
short_description: Whether a node may be enrolled, by its burn-in
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - The newest burn-in of the node must have passed with its results on record, and neither the deploy nor the software stage may have begun since.
  - Results that failed or could not be tested are no pass. Those that do not gate (C(gates) is false) decide nothing, and are named in the reason.
options:
  required:
    description: Whether the task fails when the gate is closed.
    type: bool
    default: true
extends_documentation_fragment:
  - aicluster.baremetal.slurm
"""

EXAMPLES = r"""
- name: Only nodes with a passed burn-in go on
  aicluster.baremetal.enroll_gate:
"""

RETURN = r"""
burn_in:
  description:
    - The burn-in that decides, with C(passed), C(reason), C(attempt), C(time) and C(simulated), with C(outcome), how that attempt ended,
      and with C(stale), whether the node was written to since.
  type: dict
  returned: success
first_job_done:
  description: Whether the first job of the present attempt is on record.
  type: bool
  returned: success
"""
