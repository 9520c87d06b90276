#!/usr/bin/python
# Documentation of the action plugin plugins/action/evidence.py, which does the work in the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: evidence
short_description: Store test results of a node in the registry
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Stores what was measured, with the rule that judged it. Evidence is not a change, and moves no state.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.attributes
options:
  items:
    description:
      - Each has C(check) and C(outcome), and any of C(gates), C(value), C(unit), C(limit), C(rule), C(source), C(simulated), C(detail) and C(time).
      - An outcome is one of V(pass), V(fail), V(not_applicable) and V(could_not_test).
      - C(gates) is true unless it is given. A result with C(gates=false) keeps its outcome and decides nothing.
    type: list
    elements: dict
    required: true
  name:
    description: Name or serial of the node. By default the host of the task.
    type: str
  attempt:
    description: The attempt that measured it. By default the variable C(aicluster_attempt).
    type: int
"""

EXAMPLES = r"""
- name: Store the result of a test
  aicluster.baremetal.evidence:
    items:
      - check: gpu3.ecc
        outcome: fail
        value: 2
        unit: errors
        limit: 0
        rule: ecc_uncorrectable.1
        source: nvidia-smi
        simulated: true
"""

RETURN = r"""
outcome:
  description: The worst outcome of the items that gate, V(could_not_test) when there are none.
  returned: success
  type: str
  sample: fail
checks:
  description: The names of the checks by outcome.
  returned: success
  type: dict
  sample: {pass: [], fail: [gpu3.ecc], not_applicable: [], could_not_test: []}
"""
