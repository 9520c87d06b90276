#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Options of the stages, checked before a node is taken.
from __future__ import annotations

DOCUMENTATION = r"""
module: stage_options
short_description: Check the options of the stages before a node is taken
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Looks at the variables C(deploy_*), C(software_*) and C(burn_in_*) of the host, with the rules of the code that uses them, and fails with all that is
    wrong. So a slip in an option does not end as a failed attempt of the node.
  - Types and choices are those of the argument specs of the roles C(deploy), C(software) and C(burn_in).
  - That the image is in the image store is asked for hosts that the deploy stage may take.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.reads
options:
  stage:
    description:
      - The stage that is to begin. Its options must all be there, by the role's defaults if need be.
      - Of the other stages only those options are looked at that are set.
    type: str
    choices: [deploy, software, burn_in]
"""

EXAMPLES = r"""
- name: Options are such that the stage can work with them
  aicluster.baremetal.stage_options:
    stage: deploy
"""

RETURN = r"""
error:
  description: What is wrong, with C(thing) (the option), C(wanted), C(seen) and C(next_step).
  returned: failure
  type: dict
"""
