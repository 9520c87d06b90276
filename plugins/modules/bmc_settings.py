#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Settings of a BMC.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_settings
short_description: Set name, time and name servers, IPMI over LAN, event destinations of a BMC and secure boot
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Compares what is given with what the BMC has, sends what differs and reads it back. What is not given is left as it is.
  - Needs Redfish. A setting that the BMC does not show by Redfish is an error that names it, with the code C(setting_not_offered), before anything is sent.
    One that it shows and does not let change, such as time servers that DHCP decides, is an error with the code C(setting_read_only).
  - What can be no name, address or destination is refused before anything is sent, in check mode too.
  - HPE iLO keeps time servers in its DateTime resource; they are found there.
  - Inside an attempt (the host variable C(aicluster_fencing) is set) the fencing number is checked immediately before each request.
extends_documentation_fragment:
  - aicluster.baremetal.bmc
options:
  hostname:
    description:
      - Name of the BMC, with or without a domain, as RFC 1123 has it (no underscore).
    type: str
  ntp_servers:
    description:
      - Time servers, in this order, each an IP address or a host name. An empty list removes them.
    type: list
    elements: str
  ntp_enabled:
    description:
      - Whether the BMC takes the time from them.
    type: bool
  dns_servers:
    description:
      - Name servers, in this order, instead of those that DHCP gives. Each is an IP address.
    type: list
    elements: str
  ipmi_over_lan:
    description:
      - Whether the BMC answers IPMI on the network.
    type: bool
  secure_boot:
    description:
      - Secure boot of the server. It is taken by the server's next start; see RV(reboot_required).
    type: bool
  event_destinations:
    description:
      - Where the BMC sends its events. Others that it has are left alone.
    type: list
    elements: dict
    suboptions:
      destination:
        description:
          - URL of a receiver of Redfish events, or C(host:port) of a syslog server.
        type: str
        required: true
      protocol:
        description:
          - How they are sent.
        type: str
        choices: [Redfish, SyslogUDP, SyslogTCP, SyslogTLS]
        default: Redfish
      context:
        description:
          - Text that the BMC sends with each event.
        type: str
      state:
        description:
          - Whether the destination shall be there.
        type: str
        choices: [present, absent]
        default: present
  timeout:
    description:
      - Seconds that the whole may take. Default is 120.
    type: float
"""

EXAMPLES = r"""
- name: Time, names and events of the BMCs
  aicluster.baremetal.bmc_settings:
    hostname: "{{ inventory_hostname }}-bmc"
    ntp_servers: [10.77.0.1, 10.77.0.2]
    ntp_enabled: true
    ipmi_over_lan: false
    event_destinations:
      - destination: 10.77.0.1:514
        protocol: SyslogUDP
"""

RETURN = r"""
before:
  description: What was asked for, as it was found.
  returned: success
  type: dict
after:
  description: The same afterwards (in check mode, as it would be).
  returned: success
  type: dict
reboot_required:
  description: Whether the secure boot state waits for a restart of the server.
  returned: success
  type: bool
bmc_reset_required:
  description: Whether the BMC says that it wants to be restarted (M(aicluster.baremetal.bmc_reset)) before it uses what was set.
  returned: success
  type: bool
source:
  description: Protocol that was used.
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
    door("bmc_settings")


if __name__ == "__main__":
    main()
