#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# A server's firmware, brought to a baseline by a plan that survives the end of its controller.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_firmware
short_description: Bring a server's firmware to a baseline, through its BMC
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Compares what runs with what the baseline wants, plans the images with the fewest resets between them, sends them one by one and reads the running
    versions back. It succeeds when the wanted versions run, whatever status codes and tasks said.
  - Every image is recorded in the registry before it is sent. A run that was killed is taken up by the next one, which reads from the BMC what became of an
    image without an answer; no image is flashed twice.
  - The server is restarted as often as the plan says. A node whose registry state says that it may be in use is refused.
  - Check mode shows the whole plan and sends nothing. With C(--diff) the versions before and after and each step are shown.
  - Runs in the controller; it cannot be delegated.
extends_documentation_fragment:
  - aicluster.baremetal.firmware
  - aicluster.baremetal.bmc
  - aicluster.baremetal.registry
options:
  in_band:
    description:
      - Also do the components whose C(path) is not the BMC, by tools on the node, over Ansible's connection to it. It needs a running operating system
        with C(mstflint) (NICs), C(nvme) (drives) or C(nvidia-smi) and the vendor's tool (GPU VBIOS).
      - A NIC image is burnt only when its board id (PSID) is that of the NIC and one of the baseline's.
    type: bool
    default: false
  siblings:
    description:
      - Names of the nodes that share a chassis with this one. A reset of a component that the baseline marks C(siblings) waits until they are quiet.
      - Default is the host variable C(aicluster_siblings).
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: See what would be done
  aicluster.baremetal.bmc_firmware:
    baseline: /etc/aicluster/firmware
  check_mode: true
  diff: true

- name: Bring it to the baseline
  aicluster.baremetal.bmc_firmware:
    baseline: /etc/aicluster/firmware/hgx-h100.yml
    consent: [S3RIAL0815]
"""

RETURN = r"""
state:
  description: What came of it, of C(active) (all wanted versions run), C(planned) (check mode), C(awaiting_activation) and C(parked).
  returned: always
  type: str
  sample: active
plan:
  description: The plan for people, one line for each image, reset and component that is left alone.
  returned: success
  type: list
  elements: str
steps:
  description: One entry for each image, with number, round, component, from_version, to_version, activation, image, state, pushes, method and reason.
  returned: success
  type: list
  elements: dict
resets:
  description: How many resets the plan needs.
  returned: success
  type: int
components:
  description: Running and wanted version of each component, when the plan was made.
  returned: success
  type: dict
not_planned:
  description: Components that are left alone, with component, code, text and problem (whether somebody has to do something about it).
  returned: success
  type: list
  elements: dict
consent_needed:
  description: Components of the plan that want O(consent).
  returned: success
  type: list
  elements: str
consent_missing:
  description: In check mode, those of RV(consent_needed) for which O(consent) does not have this server's serial number.
  returned: in check mode
  type: list
  elements: str
would_refuse:
  description: In check mode, why the real run would not begin. It stands in RV(plan) too.
  returned: in check mode
  type: str
health_worse:
  description: Parts of the server whose health is worse than before; then the task fails.
  returned: when images were sent
  type: list
  elements: str
notes:
  description: What went otherwise than usual, such as an answer that was lost.
  returned: success
  type: list
  elements: str
bmc_warnings:
  description: What could not be read or was done in another way.
  returned: success
  type: list
  elements: str
error:
  description: Machine-readable form of a failure, with the keys code, message, host, thing, wanted, seen and next_step.
  returned: failure
  type: dict
"""
