#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# An event of the boot timeline.
from __future__ import annotations

DOCUMENTATION = r"""
module: boot_event
short_description: Record an event of a boot that only the controller sees
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Records one event of the boot timeline. Refused when a newer attempt owns the node.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.attributes
  - aicluster.baremetal.boot
options:
  step:
    description: The step.
    type: str
    choices: [power_on, disk_boot, ssh]
    required: true
  detail:
    description: What was seen.
    type: raw
"""

EXAMPLES = r"""
- name: Note the start of a boot
  aicluster.baremetal.boot_event:
    step: power_on
"""

RETURN = r"""
error:
  description: Machine-readable form of a failure.
  returned: failure
  type: dict
"""
