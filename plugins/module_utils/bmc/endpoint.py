# Where a BMC is and how to talk to it: address, credentials, trust, limits.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..core.errors import InvalidInput, Unsupported
from .tls import PROFILES, normal_fingerprint

PROTOCOLS = ("redfish", "ipmi")
DEFAULT_PORT = {"redfish": 443, "ipmi": 623}
# IPMI 2.0, section 22.30: a password has at most 20 bytes. Libraries send longer ones and report only a timeout.
IPMI_PASSWORD_BYTES = 20
IPMI_USERNAME_BYTES = 16
# IPMI 2.0, 6.8: privilege levels, and the cipher suites that authenticate and encrypt (table 22-20)
PRIVILEGES = {"callback": 1, "user": 2, "operator": 3, "administrator": 4}
CIPHER_SUITES = (3, 17)


def check_seconds(name, value, host=None):
    """A limit in seconds must be a number above zero: InvalidInput before anything is sent, not a wait that ends before it began."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = float("nan")
    if not 0 < seconds < float("inf"):
        raise InvalidInput(
            "a limit in seconds must be a number above zero",
            host=host,
            thing=name,
            wanted="more than 0",
            seen=value,
            next_step=f"leave {name} out for the usual limit",
        )
    return seconds


def port_of(value, protocol="redfish", host=None, thing="bmc_port"):
    """The number of a port; that of the protocol where none is given. InvalidInput for anything else."""
    usual = DEFAULT_PORT.get(protocol, DEFAULT_PORT["redfish"])
    port = usual if value is None else value
    if not str(port).isdigit() or not 0 < int(port) < 65536:
        raise InvalidInput(
            "there is no such port",
            host=host,
            thing=thing,
            wanted="1 to 65535",
            seen=value,
            next_step=f"correct {thing} of the host, or leave it out for {usual}",
        )
    return int(port)


def host_port(protocol, port=None, ipmi_port=None, host=None):
    """The port that a host's variables give for `protocol`; None for the usual one.

    A BMC answers Redfish and IPMI at different ports. `bmc_ipmi_port` (`ipmi_port`) is for IPMI alone; without it `bmc_port` counts, unless it is the usual
    port of the other protocol, as where somebody only says `-e bmc_protocol=ipmi`.
    """
    if protocol == "ipmi" and ipmi_port not in (None, ""):
        return port_of(ipmi_port, protocol, host, "bmc_ipmi_port")
    others = [str(usual) for name, usual in DEFAULT_PORT.items() if name != protocol]
    if port in (None, "") or (protocol in PROTOCOLS and str(port) in others):
        return None
    return port_of(port, protocol, host)


@dataclass(frozen=True)
class Endpoint:
    """One BMC. `timeout` is the deadline in seconds of a whole operation; `connect_timeout` and `read_timeout` bound one exchange.

    `transport` makes the carrier of the requests from the endpoint (None: connector.Connector); `fleet` gives one that is made for thousands of BMCs.
    `guarded`: a credential that this BMC refused is not tried again for a while (see guard.py); off only where a password was changed just now.
    """

    address: str
    port: int = None
    protocol: str = "redfish"
    username: str = ""
    password: str = field(default="", repr=False)
    fingerprint: str = None
    ca_path: str = None
    tls: str = "verify"
    system_id: str = None
    timeout: float = 60.0
    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    scheme: str = "https"
    name: str = None
    privilege: str = "administrator"
    cipher_suite: int = None
    transport: object = field(default=None, repr=False, compare=False)
    guarded: bool = True

    def __post_init__(self):
        if not self.address:
            raise InvalidInput(
                "the address of the BMC is not known",
                host=self.name,
                thing="bmc_address",
                wanted="an address or a name",
                seen="none",
                next_step="give bmc_address, or run the discover stage",
            )
        if self.protocol not in PROTOCOLS:
            raise InvalidInput(
                "there is no such protocol",
                host=self.name,
                thing="bmc_protocol",
                wanted=" or ".join(PROTOCOLS),
                seen=self.protocol,
                next_step="correct bmc_protocol of the host, or leave it out for redfish",
            )
        if self.privilege not in PRIVILEGES:
            raise InvalidInput(
                "there is no such privilege",
                host=self.name,
                thing="bmc_ipmi_privilege",
                wanted=", ".join(PRIVILEGES),
                seen=self.privilege,
                next_step="correct bmc_ipmi_privilege of the host, or leave it out for administrator",
            )
        if self.cipher_suite is not None and self.cipher_suite not in CIPHER_SUITES:
            raise InvalidInput(
                "this cipher suite is not used: it does not authenticate, does not encrypt, or is not known",
                host=self.name,
                thing="bmc_ipmi_cipher_suite",
                wanted=" or ".join(map(str, CIPHER_SUITES)),
                seen=self.cipher_suite,
                next_step="correct bmc_ipmi_cipher_suite of the host, or leave it out: the best that the BMC has is used",
            )
        if self.tls not in PROFILES:
            raise InvalidInput(
                "there is no such TLS profile",
                host=self.name,
                thing="bmc_tls",
                wanted=", ".join(PROFILES),
                seen=self.tls,
                next_step="correct bmc_tls of the host, or leave it out for verify",
            )
        for limit in ("timeout", "connect_timeout", "read_timeout"):
            check_seconds(limit, getattr(self, limit), self.label)
        port = port_of(self.port, self.protocol, self.label)
        fix = object.__setattr__  # frozen: only here, before anybody saw the object
        fix(self, "port", port)
        try:
            fix(self, "fingerprint", normal_fingerprint(self.fingerprint))
        except InvalidInput as error:
            raise error.with_host(self.label)
        if self.fingerprint and self.tls == "verify":
            fix(self, "tls", "pinned")
        if self.tls == "pinned" and not self.fingerprint:
            raise InvalidInput(
                "the TLS profile pinned needs a fingerprint",
                host=self.label,
                thing="bmc_fingerprint",
                wanted="the SHA-256 of the BMC's certificate",
                seen="none",
                next_step="run the discover stage, which records it",
            )
        if self.protocol == "ipmi":
            for what, value, limit in (
                ("password", self.password, IPMI_PASSWORD_BYTES),
                ("user name", self.username, IPMI_USERNAME_BYTES),
            ):
                if len((value or "").encode()) > limit:
                    raise InvalidInput(
                        f"the {what} is longer than IPMI 2.0 allows, no BMC can accept it",
                        host=self.label,
                        thing="bmc_credential",
                        wanted=f"at most {limit} bytes",
                        seen=f"{len(value.encode())} bytes",
                        next_step="use Redfish, or set a shorter one",
                    )

    @property
    def label(self):
        """How errors call this BMC: the node's name where known, else its address."""
        return self.name or self.address

    @property
    def url(self):
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{host}:{self.port}"

    def require_redfish(self, reason, next_step="use bmc_protocol: redfish for this task"):
        """Raise Unsupported over IPMI; `reason` says what IPMI lacks."""
        if self.protocol == "ipmi":
            raise Unsupported(
                reason, host=self.label, thing="bmc_protocol", wanted="redfish", seen="ipmi", next_step=next_step
            )

    def with_account(self, username, password):
        return replace(self, username=username, password=password)
