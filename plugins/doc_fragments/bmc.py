# Options that every bmc_* module shares: where the BMC is, who logs in, how it is trusted.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  bmc_address:
    description:
      - Address of the BMC.
      - Default is the host variable of the same name, which the registry inventory gives.
    type: str
  bmc_port:
    description:
      - Port of the BMC. Default is the host variable of the same name, else 443 for Redfish and 623 for IPMI.
      - A BMC answers both at different ports. Over IPMI the host variable C(bmc_ipmi_port) counts before C(bmc_port), so that an inventory can give both.
    type: int
  bmc_protocol:
    description:
      - How to talk to the BMC. Default is the host variable of the same name, else V(redfish).
    type: str
    choices: [redfish, ipmi]
  bmc_credential:
    description:
      - Name of an entry in the secret store that holds the user name and the password.
      - Default is the host variable of the same name. The controller reads the entry; it never becomes an Ansible variable.
    type: str
  bmc_username:
    description:
      - User name, instead of O(bmc_credential).
    type: str
  bmc_password:
    description:
      - Password, together with O(bmc_username).
      - Over IPMI at most 20 bytes.
    type: str
  bmc_fingerprint:
    description:
      - SHA-256 of the BMC's certificate in hexadecimal. A BMC that shows another certificate is refused before anything is sent to it.
      - Default is the host variable of the same name, which the discover stage records.
    type: str
  bmc_ca_path:
    description:
      - File or directory with the certificate authorities that signed the BMC's certificate.
    type: path
  bmc_tls:
    description:
      - How the BMC's certificate is checked.
      - V(verify) checks it against the system's or O(bmc_ca_path)'s authorities; with O(bmc_fingerprint) it means V(pinned).
      - V(pinned) accepts exactly the certificate with O(bmc_fingerprint).
      - V(legacy) is V(verify) or V(pinned), but also speaks TLS 1.0 and old ciphers.
      - V(insecure) checks nothing.
    type: str
    choices: [verify, pinned, legacy, insecure]
    default: verify
  bmc_ipmi_privilege:
    description:
      - Privilege that an IPMI session asks for. Some BMCs refuse V(administrator) to an account that has less;
        what the privilege does not allow is then refused before anything is sent.
      - Default is the host variable of the same name.
    type: str
    choices: [user, operator, administrator]
    default: administrator
  bmc_ipmi_cipher_suite:
    description:
      - IPMI cipher suite. V(auto) offers 17 (SHA-256) and takes 3 (SHA-1) where the BMC has no 17.
      - Suites without authentication or encryption, and IPMI 1.5, are never used.
      - Default is the host variable of the same name.
    type: str
    choices: [auto, "3", "17"]
    default: auto
  system_id:
    description:
      - Id of the computer system, for a BMC that has several and where the right one cannot be told.
    type: str
  timeout:
    description:
      - Seconds that the whole operation may take.
    type: float
requirements:
  - "sushy (Redfish) and pyghmi (IPMI), on the controller, or on the host of delegate_to"
notes:
  - Without C(delegate_to), or delegated to localhost, the work is done in the controller. With C(delegate_to) to another host the module is sent there,
    for BMC networks that are only reachable from it. The node's own connection is never opened.
attributes:
  check_mode:
    description: Can run in check mode and say what would change without changing anything.
    support: full
  diff_mode:
    description: Shows what changes, in check mode too.
    support: full
"""
