#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Find BMCs, take them over, record their servers.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_discover
short_description: Find BMCs in address ranges, take them over and record their servers in the registry
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Asks every address of the ranges, without credentials, whether it is a BMC, and tells BMCs from other hosts.
  - Pins the certificate of a new BMC; a known one that shows another certificate is reported and nothing is sent to it.
  - Logs in with the site credential where the BMC has one, else with the factory credentials. Each is tried once.
  - Replaces a factory password by a random one of its own for each BMC. It is stored before it is set on the BMC, and verified by logging in.
    A server that a list of expected servers does not have keeps it, see O(approve).
  - Reads the hardware and records node, parts and facts in the registry. New nodes become C(manageable), and C(available) when they are expected.
  - Compares with the list of expected servers and reports what is missing, unexpected or in the wrong place.
  - A BMC that was to let us in and did not is evidence C(bmc_access) of its node, in whatever state that is; a later success takes it back. Only a node
    that was never verified is moved by it, to C(verifying_failed).
  - A secret store that is missing or cannot be read, and a list of expected servers with a mistake, end the task before anything is asked.
  - Trouble with one BMC is an entry in RV(problems) and never stops the others; the task itself does not fail for it.
  - A second run changes nothing. In check mode nothing is written anywhere.
options:
  ranges:
    description:
      - Addresses to ask, such as C(10.0.0.0/24), C(10.0.0.5-10.0.0.9), C(10.0.0.5-9) or C(10.0.0.5). C(:port) may follow.
      - A host name is taken where a node or the list of expected servers has it as C(bmc_address); the controller resolves it.
    type: list
    elements: str
  lease_files:
    description:
      - Files of DHCP leases on the controller, of dnsmasq, ISC dhcpd or Kea (CSV). The addresses whose lease is valid now are asked too.
    type: list
    elements: path
  ssdp:
    description:
      - Whether Redfish services are searched by SSDP (multicast on every interface of the machine that reaches the BMCs); what answers is asked too.
    type: bool
    default: false
  ssdp_wait:
    description:
      - Seconds in which an answer to the search counts.
    type: float
    default: 3.0
  port:
    description:
      - Port of the Redfish services.
    type: int
    default: 443
  ipmi_port:
    description:
      - Port of IPMI over LAN. V(0) leaves IPMI out.
    type: int
    default: 623
  scan_timeout:
    description:
      - Seconds after which an address counts as silent.
    type: float
    default: 1.5
  concurrency:
    description:
      - BMCs that are worked on at the same time, of those over IPMI at most 32.
    type: int
    default: 200
  factory_credentials:
    description:
      - Names of entries in the secret store to try on new BMCs, in this order.
    type: list
    elements: str
    default: []
  rotate:
    description:
      - Whether factory passwords are replaced. Without it, a node is recorded with its factory credential and waits in C(manageable).
    type: bool
    default: true
  site_credential:
    description:
      - Name of each BMC's own entry in the secret store. C({serial}) stands for the serial of the server.
    type: str
    default: bmc/{serial}
  password_length:
    description:
      - Length of the random passwords, from 12 to 20. IPMI takes no more than 20 bytes.
    type: int
    default: 16
  expected:
    description:
      - Servers that should be there. No two may have the same serial, name, address or place.
      - Each row has C(serial) and any of C(name), C(site), C(rack), C(slot), C(role), C(platform), C(tenant),
        C(protocol) (how power is driven, C(redfish) or C(ipmi)), C(bmc_address), C(provision_mac), C(provision_ip), C(provision_prefix), C(ansible_host).
      - Without this and O(expected_file) the list that the registry holds counts. With an empty list every server is welcome.
    type: list
    elements: dict
  expected_file:
    description:
      - The same as a file on the controller, CSV (first row names the columns) or YAML. Values are taken as the text that stands there.
      - The list is kept in the registry with all of its columns, so that a later run may leave the file out.
    type: path
  approve:
    description:
      - Which servers are taken over and may become C(available).
      - With V(expected) and a list of expected servers, nothing is written to the BMC of a server that is not listed. It is recorded with its factory
        credential under a name made of its serial and waits in C(manageable). One that demands a new password before it tells its serial is taken over
        only where the list has its C(bmc_address).
    type: str
    choices: [expected, all]
    default: expected
  accept_misplaced:
    description:
      - Whether a server in another place than the list says, or in one place with another server, may become C(available).
    type: bool
    default: false
  provision_nic:
    description:
      - Slot of the network interface that boots from the network. Default is the first that the BMC lists.
    type: str
  sections:
    description:
      - Parts of the inventory to read. Default is all. See M(aicluster.baremetal.bmc_info).
    type: list
    elements: str
    choices: [system, bmc, processors, memory, nics, drives, gpus, firmware, boot]
  registry:
    description:
      - URL of the registry. Default is the setting C(aicluster_registry).
    type: str
  secrets:
    description:
      - Path of the secret store. Default is the setting C(aicluster_secrets).
    type: str
  errand:
    description:
      - Used by the action plugin only, for the part of the work that C(delegate_to) sends to another machine.
    type: str
    choices: [scan, ssdp, visit, rotate]
    default: scan
  targets:
    description:
      - Used by the action plugin only, with O(errand).
    type: str
requirements:
  - "sushy (Redfish) and pyghmi (IPMI), on the controller, or on the host of delegate_to"
notes:
  - With C(delegate_to) the BMCs are asked from that host; registry and secret store stay with the controller.
attributes:
  check_mode:
    description: Can run in check mode and say what would change without changing anything.
    support: full
  diff_mode:
    description: Shows what changes, in check mode too.
    support: full
seealso:
  - module: aicluster.baremetal.bmc_info
  - module: aicluster.baremetal.bmc_account
"""

EXAMPLES = r"""
- name: Take over the BMCs of a row of racks
  aicluster.baremetal.bmc_discover:
    ranges: [10.20.0.0/22]
    factory_credentials: [factory-supermicro, factory-dell]
    expected_file: /srv/delivery/row-7.csv
  register: found

- name: Take over what the management network's DHCP server gave an address, and what answers a search
  aicluster.baremetal.bmc_discover:
    lease_files: [/var/lib/misc/dnsmasq.leases]
    ssdp: true
    factory_credentials: [factory]

- name: Look into another room, from the machine that can reach it
  aicluster.baremetal.bmc_discover:
    ranges: [192.168.10.1-200]
    factory_credentials: [factory]
  delegate_to: room2-gateway
"""

RETURN = r"""
bmcs:
  description:
    - One entry for each BMC, with address, port, protocols, fingerprint, serial, name, state, changed, C(error) (text or null)
      and C(pending) (why it does not become available, or null).
  returned: success
  type: list
  elements: dict
lost:
  description: Addresses of known or listed BMCs that did not answer as one. They count neither in RV(others) nor in RV(silent); each is in RV(problems).
  returned: success
  type: list
  elements: str
others:
  description: Hosts that answered and are no BMC.
  returned: success
  type: list
  elements: dict
silent:
  description: Number of addresses that did not answer. (A list, when the module was started without its action plugin.)
  returned: success
  type: raw
asked:
  description: Number of addresses that were asked.
  returned: success
  type: int
missing:
  description: Expected servers whose hardware was never read. One that was read before and has lost its BMC is in RV(problems) only.
  returned: success
  type: list
  elements: dict
unexpected:
  description: Servers in the registry that nobody expected.
  returned: success
  type: list
  elements: dict
misplaced:
  description: Servers that are somewhere else than expected; C(differences) has the expected and the found value of each column.
  returned: success
  type: list
  elements: dict
matched:
  description: Servers that are where they are expected.
  returned: success
  type: list
  elements: dict
problems:
  description: What went wrong with single BMCs, each with code, host, address, serial and msg.
  returned: success
  type: list
  elements: dict
reasons:
  description: The problems by node name, for the nodes that are in the registry.
  returned: success
  type: dict
failing:
  description: Names of the nodes in RV(reasons) and of one node without a problem, for a play that fails exactly those nodes and lets the run go on.
  returned: success
  type: list
  elements: str
warnings_of_discovery:
  description:
    - What could not be read, and what looks wrong without being one BMC's problem, such as two servers that are recorded in the same place,
      a retired server that still answers, or a factory credential that the secret store does not have.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.aicluster.baremetal.plugins.module_utils.doors.discover import main

if __name__ == "__main__":
    main()
