#!/usr/bin/python
# Documentation of the action plugin plugins/action/report.py, which does the work in the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Write the HTML report of the registry
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Writes one self-contained HTML file with a summary of the cluster, a row for each node, why a node is not in service, the boot timeline of its last
    deployment, and its test results. Results of simulated instruments are marked.
  - The page says only what the registry holds, so the same registry gives the same bytes, and a second run changes nothing.
extends_documentation_fragment:
  - aicluster.baremetal.registry
  - aicluster.baremetal.registry.attributes
options:
  path:
    description: The file to write, on the controller. A relative path counts from the directory in which Ansible is called.
    type: path
    required: true
  title:
    description: The heading of the page.
    type: str
    default: Cluster report
  names:
    description: Names or serials of the nodes to show. By default all.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Write the report
  aicluster.baremetal.report:
    path: /srv/www/cluster/index.html
    title: Cluster north
  run_once: true
"""

RETURN = r"""
path:
  description: The file, as an absolute path.
  returned: success
  type: str
  sample: /srv/www/cluster/index.html
nodes:
  description: How many nodes it shows.
  returned: success
  type: int
  sample: 2
in_service:
  description: How many of them are in service, that is active, not held, not in maintenance and leased to a scheduler.
  returned: success
  type: int
  sample: 1
out_of_service:
  description:
    - The nodes that failed, are quarantined, held or in maintenance, or are active and leased to no scheduler, with the first reason.
    - A node that is on its way, or waits for its next stage, is neither here nor in service.
  returned: success
  type: list
  elements: dict
  sample: [{name: gpu02, state: quarantined, reason: "GPU 3: 1 uncorrectable ECC error"}]
audit_ok:
  description: Whether the audit chain is intact.
  returned: success
  type: bool
  sample: true
"""
