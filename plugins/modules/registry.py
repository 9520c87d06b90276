#!/usr/bin/python
# Documentation of the action plugin plugins/action/registry.py, which does the work in the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: registry
short_description: Make or migrate the registry
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Makes the schema of an empty database, or moves an older one to the version that this collection wants.
  - Everything else in this collection only looks at the version and refuses a registry of another one.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.attributes
options:
  expected:
    description:
      - The whole list of expected servers, each with C(serial) and any of C(name), C(site), C(rack), C(slot), C(role), C(platform), C(tenant),
        C(bmc_address), C(bmc_protocol), C(provision_mac), C(provision_ip), C(provision_prefix) and C(ansible_host).
      - Left alone when not given.
    type: list
    elements: dict
"""

EXAMPLES = r"""
- name: Make the registry
  aicluster.baremetal.registry:
    registry: sqlite:////var/lib/aicluster/registry.db
  run_once: true
"""

RETURN = r"""
schema_before:
  description: The schema version before, or none for an empty database.
  returned: success
  type: str
schema:
  description: The schema version of this collection.
  returned: success
  type: str
  sample: "0002"
"""
