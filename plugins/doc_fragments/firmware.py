# Options that the firmware modules share.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  baseline:
    description:
      - Baseline file on the controller, or a directory of them. C(docs/firmware.md) describes it.
    type: path
    required: true
  components:
    description:
      - Names of the components to look at. Default is all of the platform.
    type: list
    elements: str
  downgrade:
    description:
      - Replace newer versions than the baseline wants, too.
    type: bool
    default: false
  consent:
    description:
      - Serial numbers of the servers for which components marked C(can_brick) may be flashed.
      - The serial number is compared with what the BMC says.
    type: list
    elements: str
    default: []
  retry:
    description:
      - Take up an update that stopped at a failure and waits for a person.
    type: bool
    default: false
  partial:
    description:
      - Begin although some components cannot be brought to the baseline (their version cannot be read, or no way leads to the wanted one).
    type: bool
    default: false
  in_service:
    description:
      - Update a node although its state says that it may be in use. It is restarted without a question.
    type: bool
    default: false
  restore_power:
    description:
      - Switch a server that was off, off again when all is done.
    type: bool
    default: true
  image_cache:
    description:
      - Directory on the controller for images that the baseline names by address.
    type: path
  image_server:
    description:
      - Address of the controller that the BMCs can reach, for BMCs that only fetch images themselves.
      - Images are served there, each under a path that cannot be guessed, only while the task runs.
    type: str
  image_server_port:
    description:
      - Port for O(image_server). V(0) takes a free one.
    type: int
    default: 0
  limits:
    description:
      - Seconds for what is waited for, as far as they are not as usual.
      - V(poll) between two looks (5), V(ready) until a BMC is back (900), V(effect) until a device that activates itself shows its new version (900),
        V(activate) from a reset to the new version (1800), V(full) how long a task may stay at 100 % (120), V(blind) for the writing where a BMC shows no
        task at all (600).
    type: dict
    default: {}
"""
