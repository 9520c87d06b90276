# Finds BMCs in address ranges without any credentials, and tells them from other hosts.
#
# Silent addresses cost one connection timeout, many at a time. A TLS answer on the Redfish port is asked for the service root; an address that answers
# the IPMI question "which authentication do you know" (it needs no login) is a BMC too. The certificate's fingerprint is recorded, not trusted.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import errno
import http.client
import io
import ipaddress
import json
import re
import select
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

from ..core.errors import InvalidInput
from . import tls, transform
from .endpoint import check_seconds

MOST_ADDRESSES = 65536
# Answers of a BMC that has no time now, and the seconds until it is asked once more.
BUSY = (429, 502, 503, 504)
AGAIN_S = 1.2
# The longest that one address may take with its answers: what sends a byte now and then must not hold up the scan.
ANSWER_S = 30.0
TOO_MANY = "name smaller networks in discover_ranges, or run discover more than once with a part of them each"
# RMCP presence ping (ASF 2.0, 3.2.4.2) and IPMI 2.0 22.13 Get Channel Authentication Capabilities, for channel "this one" and privilege administrator.
PRESENCE_PING = bytes.fromhex("0600ff06000011be80000000")
CAPABILITIES = bytes.fromhex("0600ff07000000000000000000092018c88100388e04b5")


def parse_ranges(ranges, port=443, limit=MOST_ADDRESSES):
    """[(address, port)] in order and without doubles, from `10.0.0.0/24`, `10.0.0.5-10.0.0.9`, `10.0.0.5-9`, single addresses; each with `:port` allowed."""
    found = {}
    for entry in ranges:
        text, number = str(entry).strip(), port
        match = re.fullmatch(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<v4>[0-9./-]+))(?::(?P<port>\d+))?", text)
        if match:
            text = match["v6"] or match["v4"]
            number = int(match["port"] or port)
        if not 0 < number < 65536:
            raise InvalidInput(
                "this is no port",
                thing="ranges",
                wanted="1 to 65535",
                seen=entry if match and match["port"] else number,
                next_step="correct this entry of discover_ranges, or discover_port",
            )
        try:
            for address in _expand(text, limit):
                found[(str(address), number)] = None
                if len(found) > limit:
                    raise InvalidInput(
                        "these are too many addresses for one scan",
                        thing="ranges",
                        wanted=f"at most {limit}",
                        seen=entry,
                        next_step=TOO_MANY,
                    )
        except ValueError as error:
            raise InvalidInput(
                "this is no address range",
                thing="ranges",
                wanted="10.0.0.0/24, 10.0.0.5-10.0.0.9, or one address",
                seen=f"{entry} ({error})",
                next_step="correct this entry of discover_ranges",
            )
    return list(found)


def _expand(text, limit):
    if "/" in text:
        network = ipaddress.ip_network(text, strict=False)
        if network.num_addresses > limit + 2:
            raise InvalidInput(
                "these are too many addresses for one scan",
                thing="ranges",
                wanted=f"at most {limit}",
                seen=text,
                next_step=TOO_MANY,
            )
        yield from network.hosts() if network.num_addresses > 1 else [network.network_address]
        return
    if "-" in text:
        first, unused, last = (part.strip() for part in text.partition("-"))
        start = ipaddress.ip_address(first)
        if last.isdigit():
            last = first.rpartition(".")[0] + "." + last
        end = ipaddress.ip_address(last)
        if int(end) < int(start):
            raise ValueError("it ends before it begins")
        if int(end) - int(start) >= limit:
            raise InvalidInput(
                "these are too many addresses for one scan",
                thing="ranges",
                wanted=f"at most {limit}",
                seen=text,
                next_step=TOO_MANY,
            )
        for number in range(int(start), int(end) + 1):
            yield type(start)(number)
        return
    yield ipaddress.ip_address(text)


def is_name(address):
    """Whether this is a host name and no address."""
    try:
        ipaddress.ip_address(address or "0.0.0.0")
    except ValueError:
        return True
    return False


def address_of(name):
    """The address of a host name, None where nobody knows it."""
    try:
        return socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0].partition("%")[0]
    except (OSError, UnicodeError):
        return None


def ipmi_presence(addresses, port=623, wait_s=1.5):
    """The addresses that answer as an IPMI BMC; one socket a family, all at once, asked twice because UDP may drop."""
    found = set()
    for family, version in ((socket.AF_INET, 4), (socket.AF_INET6, 6)):
        mine = [address for address in addresses if ipaddress.ip_address(address).version == version]
        if not mine:
            continue
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            for round_wait in (wait_s * 0.4, wait_s * 0.6):
                for number, address in enumerate(address for address in mine if address not in found):
                    for packet in (PRESENCE_PING, CAPABILITIES):
                        try:
                            sock.sendto(packet, (address, port))
                        except OSError:
                            pass  # no route, or the send buffer is full: the second round comes
                    if number % 64 == 63:
                        _collect(sock, found, mine, 0.005)
                _collect(sock, found, mine, round_wait)
                if len(found) == len(mine):
                    break
    return found


def _collect(sock, found, asked, wait_s):
    end = time.monotonic() + wait_s
    asked = set(asked)
    while len(found) < len(asked):
        left = end - time.monotonic()
        if left <= 0 or not select.select([sock], [], [], left)[0]:
            return
        try:
            data, sender = sock.recvfrom(2048)
        except OSError:
            continue  # an ICMP refusal of an earlier packet
        if len(data) >= 4 and data[0] == 0x06 and data[3] & 0x1F in (0x06, 0x07) and sender[0] in asked:
            found.add(sender[0])


def probe(address, port, timeout=2.0):
    """What answers on the Redfish port: {kind: redfish|other|silent, fingerprint, vendor, product, uuid, server}. No credentials are sent."""
    try:
        raw = socket.create_connection((address, port), timeout=timeout)
    except OSError as error:
        refused = error.errno == errno.ECONNREFUSED
        return {"kind": "silent", "reason": "refused" if refused else "no answer"}
    found = {"kind": "other", "fingerprint": None}
    with raw:
        raw.settimeout(max(timeout, 5.0))
        try:
            secure = tls.context_for("insecure").wrap_socket(raw, server_hostname=address)
        except (ssl.SSLError, OSError) as error:
            if not isinstance(error, ssl.SSLError):
                return {**found, "reason": f"no TLS ({error})"}
            return _probe_legacy(address, port, timeout, found)
        with secure:
            return _ask_root(secure, address, found)


def _probe_legacy(address, port, timeout, found):
    """Old BMCs only speak TLS 1.0 or old ciphers; a second connection asks in that way."""
    try:
        with socket.create_connection((address, port), timeout=timeout) as raw:
            raw.settimeout(max(timeout, 5.0))
            with tls.context_for("legacy", checked=False).wrap_socket(raw, server_hostname=address) as secure:
                return {**_ask_root(secure, address, found), "legacy_tls": True}
    except OSError as error:
        return {**found, "reason": f"no TLS ({error})"}


class _Limited:
    """A socket for http.client whose reads end together at `end` (monotonic)."""

    def __init__(self, sock, end):
        self._sock, self._end, self._pause = sock, end, sock.gettimeout()

    def makefile(self, _mode):
        return io.BufferedReader(_LimitedReads(self))

    def read_into(self, buffer):
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("its answer does not end")
        self._sock.settimeout(min(left, self._pause))
        return self._sock.recv_into(buffer)


class _LimitedReads(io.RawIOBase):
    def __init__(self, limited):
        super().__init__()
        self._limited = limited

    def readable(self):
        return True

    def readinto(self, buffer):
        return self._limited.read_into(buffer)


def _ask_root(secure, address, found):
    """The service root over an open TLS connection. A BMC that is busy, or gives something broken, is asked once more: it is a BMC all the same."""
    found["fingerprint"] = tls.fingerprint_of(secure.getpeercert(binary_form=True))
    host = f"[{address}]" if ":" in address else address
    paths, again = ["/redfish/v1/", "/redfish/v1"], True
    limited = _Limited(secure, time.monotonic() + ANSWER_S)
    try:
        while paths:
            head = (
                f"GET {paths[0]} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\nConnection: keep-alive\r\n\r\n"
            )
            secure.sendall(head.encode())
            answer = http.client.HTTPResponse(limited, method="GET")
            answer.begin()
            text = answer.read(1 << 20)
            found.setdefault("server", answer.getheader("Server"))
            root = _root_in(answer, text)
            if root:
                found.pop("reason", None)
                return {
                    **found,
                    "kind": "redfish",
                    "vendor": transform.bmc_identity(root, {}, {})["vendor"],
                    "product": transform.text(root, "Product") or None,
                    "uuid": transform.text(root, "UUID").lower() or None,
                }
            if again and not answer.will_close and (answer.status in BUSY or root is None):
                again = False
                time.sleep(AGAIN_S)
                continue
            if root is None:
                found["reason"] = "no usable answer (broken JSON)"
            if answer.status not in (301, 302, 307, 308) or answer.will_close:
                break
            paths.pop(0)
    except (OSError, ValueError, http.client.HTTPException) as error:
        found["reason"] = f"no usable answer ({error})"
    return found


def _root_in(answer, text):
    """The service root in an answer, {} where there is none, None where it says JSON and is none."""
    if answer.status != 200:
        return {}
    try:
        root = json.loads(text)
    except ValueError:
        return None if "json" in (answer.getheader("Content-Type") or "").lower() else {}
    good = isinstance(root, dict) and ("RedfishVersion" in root or "ServiceRoot" in str(root.get("@odata.type")))
    return root if good else {}


def _answer_of(future):
    """What a probe gave; an answer that it could not read is another host's, and never the end of the scan."""
    try:
        return future.result()
    except Exception as error:
        return {"kind": "other", "fingerprint": None, "reason": f"no usable answer ({type(error).__name__}: {error})"}


def scan(ranges, port=443, ipmi_port=623, timeout=1.5, concurrency=128):
    """Ask every address. Returns {bmcs: [...], others: [...], silent: [addresses], asked: N}.

    A BMC: {address, port, protocols, fingerprint, vendor, product, uuid, legacy_tls}; `others` answered TLS or TCP but are no BMC.
    """
    check_seconds("scan_timeout", timeout)
    targets = parse_ranges(ranges, port)
    with ThreadPoolExecutor(max_workers=max(1, min(concurrency, len(targets) or 1))) as pool:
        waiting = [(target, pool.submit(probe, target[0], target[1], timeout)) for target in targets]
        # One question for all, while the pool works; a second BMC on another port of one address (tests, gateways) has no IPMI of its own.
        answering = (
            ipmi_presence(list(dict.fromkeys(address for address, unused in targets)), ipmi_port)
            if ipmi_port
            else set()
        )
        seen = [(target, _answer_of(future)) for target, future in waiting]
    found = {"bmcs": [], "others": [], "silent": [], "asked": len(targets)}
    named = {address for (address, unused), answer in seen if answer["kind"] == "redfish"}
    for (address, number), answer in seen:
        ipmi = address in answering
        if answer["kind"] == "redfish":
            answer.pop("kind")
            found["bmcs"].append(
                {"address": address, "port": number, "protocols": ["redfish"] + (["ipmi"] if ipmi else []), **answer}
            )
        elif ipmi and address not in named:  # once, whatever other ports of its address were asked
            named.add(address)
            found["bmcs"].append(
                {
                    "address": address,
                    "port": ipmi_port,
                    "protocols": ["ipmi"],
                    "fingerprint": None,
                    "vendor": None,
                    "product": None,
                    "uuid": None,
                }
            )
        elif answer["kind"] == "other":
            found["others"].append(
                {
                    "address": address,
                    "port": number,
                    **{key: value for key, value in answer.items() if key in ("server", "reason", "fingerprint")},
                }
            )
        elif answer["reason"] == "refused":
            found["others"].append({"address": address, "port": number, "reason": "refuses connections"})
        else:
            found["silent"].append(address)
    return found
