#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# The TLS certificate of a BMC.
from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_certificate
short_description: Install the TLS certificate of a BMC, or have it make a signing request
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Installs a certificate, waits until the BMC shows it, and proves it by an authenticated read. A BMC that shows it already is unchanged.
  - With O(state=request) the BMC makes a key, which never leaves it, and returns a signing request.
  - Where the host's pinned certificate comes from the registry, the new one is pinned there at once and for the rest of the run.
  - Inside an attempt (the host variable C(aicluster_fencing) is set) the fencing number is checked immediately before each request.
extends_documentation_fragment:
  - aicluster.baremetal.bmc
options:
  state:
    description:
      - V(installed) installs O(certificate), V(request) makes a signing request.
    type: str
    choices: [installed, request]
    default: installed
  certificate:
    description:
      - PEM text, the BMC's own certificate first, then those between it and the authority.
    type: str
  certificate_file:
    description:
      - File on the controller with that text.
    type: path
  private_key:
    description:
      - PEM text of the private key, where the signing request was not made by the BMC.
    type: str
  private_key_file:
    description:
      - File on the controller with the private key.
    type: path
  common_name:
    description:
      - Name in the signing request; all parts of the subject are needed for one.
    type: str
  organization:
    description:
      - Organization in the signing request.
    type: str
  organizational_unit:
    description:
      - Unit in the signing request.
    type: str
  city:
    description:
      - City in the signing request.
    type: str
  state_name:
    description:
      - State or province in the signing request.
    type: str
  country:
    description:
      - Country in the signing request, two letters.
    type: str
  alternative_names:
    description:
      - Other names and addresses of the BMC.
    type: list
    elements: str
  key_algorithm:
    description:
      - Kind of key, as the BMC calls it, such as C(TPM_ALG_ECDSA). Default is the BMC's own choice.
    type: str
  timeout:
    description:
      - Seconds that the whole may take. Default is 300.
    type: float
"""

EXAMPLES = r"""
- name: Have the BMC make a signing request
  aicluster.baremetal.bmc_certificate:
    state: request
    common_name: "{{ inventory_hostname }}-bmc.example.org"
    alternative_names: ["IP:{{ bmc_address }}"]
    organization: Example
    organizational_unit: Cluster
    city: Example
    state_name: Example
    country: DE
  register: request

- name: Install what the authority made of it
  aicluster.baremetal.bmc_certificate:
    certificate_file: "signed/{{ inventory_hostname }}.pem"
"""

RETURN = r"""
before:
  description: Fingerprint of the certificate that the BMC showed (C(fingerprint)).
  returned: with O(state=installed)
  type: dict
after:
  description: Fingerprint of the certificate that it shows now.
  returned: with O(state=installed)
  type: dict
fingerprint:
  description: SHA-256 of the installed certificate, for O(bmc_fingerprint).
  returned: with O(state=installed)
  type: str
pinned:
  description: Whether the new fingerprint is recorded in the registry (in check mode, whether it would be). Where it was not yet, that is a change too.
  returned: when the host had another one pinned
  type: bool
csr:
  description: The signing request as PEM text; null in check mode.
  returned: with O(state=request)
  type: str
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
    door("bmc_certificate")


if __name__ == "__main__":
    main()
