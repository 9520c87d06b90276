#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Accounts of a BMC.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_account
short_description: Create, change or remove an account of a BMC
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Makes an account present with a password, a role and a switch, or absent, and verifies it by reading back and by logging in.
  - Whether the password is right already is found out by logging in with it once, because a password cannot be read.
  - What the BMC itself says it does not take (a role that it has not, a password too short or too long) fails before anything is sent, in check mode too.
  - The password of a disabled account cannot be checked, so it is left as it is, with a warning.
  - Over IPMI users have slots, at most 16 bytes of name and 20 of password, and the roles Administrator, Operator and ReadOnly (IPMI's user).
extends_documentation_fragment:
  - aicluster.baremetal.bmc
options:
  username:
    description:
      - Name of the account.
    type: str
    required: true
  password:
    description:
      - Password that it shall have. Up to 20 bytes where the account is also used over IPMI.
    type: str
  credential:
    description:
      - Entry of the secret store whose password the account shall have, instead of O(password).
    type: str
  role:
    description:
      - Redfish role, such as C(Administrator), C(Operator) or C(ReadOnly). A new account is an administrator by default.
    type: str
  enabled:
    description:
      - Whether the account can log in. A new account can by default.
    type: bool
  state:
    description:
      - Whether the account shall exist.
    type: str
    choices: [present, absent]
    default: present
  update_password:
    description:
      - V(on_create) sets the password of a new account only.
    type: str
    choices: [always, on_create]
    default: always
  unlock:
    description:
      - Whether an account that the BMC has locked after wrong passwords is let in again; its password is set again with it. Redfish only.
      - Without it the password of a locked account cannot be checked; it is left as it is, with a warning.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Change the password of the account that we use ourselves
  aicluster.baremetal.bmc_account:
    bmc_credential: factory
    username: admin
    credential: "bmc/{{ aicluster_serial }}"

- name: Give the monitoring system an account that can only read
  aicluster.baremetal.bmc_account:
    username: monitor
    credential: bmc-monitor
    role: ReadOnly
"""

RETURN = r"""
before:
  description: The account that was found, empty where there was none.
  returned: success
  type: dict
  sample: {username: monitor, role: ReadOnly, enabled: true}
after:
  description: The account as it is now (in check mode, as it would be).
  returned: success
  type: dict
source:
  description: Protocol that was used, C(redfish) or C(ipmi).
  returned: success
  type: str
  sample: redfish
bmc:
  description: What the BMC says of itself, as far as it was read (vendor, model, firmware).
  returned: success
  type: dict
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

from ansible_collections.aicluster.baremetal.plugins.module_utils.doors.bmc import main as door


def main():
    door("bmc_account")


if __name__ == "__main__":
    main()
