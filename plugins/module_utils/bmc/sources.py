# Where BMCs may be besides address ranges: leases of a DHCP server, and what answers an SSDP search for Redfish services. Addresses only; who they are
# the scan finds out, and nothing that is read here is believed further.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import csv
import datetime
import ipaddress
import re
import select
import socket
import struct
import time
from urllib.parse import urlsplit

from ..core.errors import InvalidInput
from .endpoint import check_seconds

# DSP0266, 16: Redfish services answer a search for this on SSDP's group (UPnP Device Architecture 1.0) with their address in AL.
SERVICE = "urn:dmtf-org:service:redfish-rest:1"
GROUP = ("239.255.255.250", 1900)
MOST_BYTES = 64 * 2**20


# ---- leases -------------------------------------------------------------------------------------------------------------------------------
def leases(text, now=None):
    """[(address, MAC or None)] of the leases that are valid now, from the file of dnsmasq, ISC dhcpd or Kea; the last word on an address counts."""
    now = time.time() if now is None else now
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.lower().startswith("address,"):
        rows = _kea(text)
    elif re.search(r"^\s*lease6?\s+\S+\s*\{", text, re.MULTILINE) or re.match(r"\s*(#|authoring-byte-order)", first):
        rows = _isc(text)
    else:
        rows = _dnsmasq(text)
    found, understood = {}, not first
    for address, mac, ends in rows:
        try:
            address = str(ipaddress.ip_address(address))
        except ValueError:
            continue
        understood = True
        found.pop(address, None)
        if ends is None or ends > now:
            found[address] = mac
    if not understood and not first.startswith(("#", "authoring", "address,", "server-duid", "duid")):
        raise InvalidInput(
            "this is no lease file",
            thing="lease_files",
            wanted="leases of dnsmasq, ISC dhcpd or Kea (CSV)",
            seen=first[:60],
            next_step="name the file that the DHCP server writes, such as /var/lib/misc/dnsmasq.leases",
        )
    return list(found.items())


def _mac(text):
    plain = str(text or "").strip().lower().replace("-", ":")
    return plain if re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", plain) else None


def _dnsmasq(text):
    """Lines of: end (0: never), MAC or IAID, address, name, client id."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[0].isdigit():
            ends = int(words[0])
            yield words[2], _mac(words[1].rpartition("-")[2]), None if ends == 0 else ends


def _kea(text):
    """memfile of kea-dhcp4 and kea-dhcp6; `state` 0 is a lease in use, 1 declined, 2 reclaimed."""
    for row in csv.DictReader(text.splitlines()):
        ends = row.get("expire") or ""
        in_use = (row.get("state") or "0") == "0" and ends.isdigit()
        endless = (row.get("valid_lifetime") or "") == "4294967295"
        yield row.get("address"), _mac(row.get("hwaddr")), (None if endless else int(ends)) if in_use else 0


def _isc(text):
    """Blocks of dhcpd.leases; times are UTC."""
    for address, body in re.findall(r"^\s*lease\s+(\S+)\s*\{(.*?)(?:^\s*\}|\}\s*$)", text, re.MULTILINE | re.DOTALL):
        state = re.search(r"^\s*binding state (\w+);", body, re.MULTILINE)
        mac = re.search(r"^\s*hardware ethernet ([0-9a-fA-F:]+);", body, re.MULTILINE)
        ends = re.search(r"^\s*ends (.+?);", body, re.MULTILINE)
        until = _isc_time(ends.group(1)) if ends else 0
        if state and state.group(1) != "active":
            until = 0
        yield address, _mac(mac.group(1)) if mac else None, until


def _isc_time(text):
    """Seconds since 1970, None for never, 0 for what cannot be read."""
    if text.strip() == "never":
        return None
    epoch = re.match(r"epoch (\d+)", text)
    if epoch:
        return int(epoch.group(1))
    match = re.match(r"\d (\d+)/(\d+)/(\d+) (\d+):(\d+):(\d+)", text)
    if not match:
        return 0
    try:
        return datetime.datetime(*map(int, match.groups()), tzinfo=datetime.timezone.utc).timestamp()
    except ValueError:
        return 0


def read_leases(paths, now=None):
    """Addresses of the valid leases of all files, without doubles."""
    found = {}
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as handle:
                text = handle.read(MOST_BYTES)
        except OSError as error:
            raise InvalidInput(
                "the lease file cannot be read",
                thing=path,
                wanted="a file of leases of dnsmasq, ISC dhcpd or Kea",
                seen=error.strerror or type(error).__name__,
                next_step="correct lease_files; the file is read on the controller",
            )
        try:
            found.update(leases(text, now))
        except InvalidInput as error:
            error.thing = path
            raise
    return list(found)


# ---- SSDP ---------------------------------------------------------------------------------------------------------------------------------
def search_words(wait_s):
    return (
        f"M-SEARCH * HTTP/1.1\r\nHOST: {GROUP[0]}:{GROUP[1]}\r\n"
        f'MAN: "ssdp:discover"\r\nMX: {max(1, int(wait_s) - 1)}\r\nST: {SERVICE}\r\n\r\n'
    ).encode()


def read_answer(data, sender):
    """(address, port) of a Redfish service in an answer to the search, None for anything else. The address is the sender's whatever the answer says: nobody
    points us at somebody else."""
    lines = data.decode("latin-1").split("\r\n")
    if not re.match(r"HTTP/1\.[01] 200\b", lines[0]):
        return None
    fields = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            fields[name.strip().lower()] = value.strip()
    if not fields.get("st", "").lower().startswith(SERVICE[:-2]):
        return None
    try:
        parts = urlsplit(fields.get("al") or fields.get("location") or "")
        return sender, parts.port or 443
    except ValueError:
        return sender, 443


def ssdp(wait_s=3.0, target=GROUP):
    """[(address, port)] of the Redfish services that answer within `wait_s`; asked twice on every interface of this machine, because UDP may drop."""
    check_seconds("ssdp_wait", wait_s)
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 2)
        for part in (0.4, 0.6):
            for index, _name in socket.if_nameindex():
                try:
                    sock.setsockopt(
                        socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("=4s4si", b"\0" * 4, b"\0" * 4, index)
                    )
                    sock.sendto(search_words(wait_s), target)
                except OSError:
                    pass  # an interface without IPv4 or without multicast
            end = time.monotonic() + wait_s * part
            while (left := end - time.monotonic()) > 0 and select.select([sock], [], [], left)[0]:
                try:
                    data, sender = sock.recvfrom(4096)
                except OSError:
                    continue
                answer = read_answer(data, sender[0])
                if answer:
                    found[answer] = None
    return list(found)
