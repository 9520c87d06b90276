# What may stand in a column of a node, whoever writes it: the registry, the node module, the expected-servers list.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import re

from .errors import InvalidInput
from .texts import clean as clean_text

PROTOCOLS = ("redfish", "ipmi")
_BMC_PORT = {"redfish": 443, "ipmi": 623}  # what an empty bmc_port means
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
# Ansible's own names, and the groups of the inventory plugin that a host name could equal: all others of it have an underscore.
RESERVED_NAMES = ("all", "ungrouped", "localhost", "127.0.0.1", "nodes", "held")
_HOST = re.compile(r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?)*", re.IGNORECASE)
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")
_HOST_WANTED = "an IPv4 or IPv6 address or a host name, without scheme, port and brackets"
_IP_WANTED = "one IPv4 or IPv6 address of a host, without prefix length"
_MOST = 255


def ip(text):
    """The usual form of the address of one host; ValueError says what was wanted."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(_IP_WANTED) from None
    if parsed.is_unspecified or parsed.is_multicast or str(parsed) == "255.255.255.255":
        raise ValueError(_IP_WANTED)
    return str(parsed)


def host(text):
    """The usual form of an address, or a host name as it is; ValueError says what was wanted."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # What ends in a number is meant as an IPv4 address (10.0.0.300), whatever the rules of host names would allow.
        if len(text) <= 253 and _HOST.fullmatch(text) and not text.rpartition(".")[2].isdigit():
            return text
        raise ValueError(_HOST_WANTED) from None
    try:
        return ip(text)
    except ValueError:
        raise ValueError(_HOST_WANTED) from None


def mac(text):
    """Lower case with colons; ValueError says what was wanted."""
    text = text.lower().replace("-", ":")
    if not _MAC.fullmatch(text):
        raise ValueError("a MAC address like 52:54:00:12:34:56")
    if int(text[1], 16) & 1 or text == "00:00:00:00:00:00":
        raise ValueError("the MAC address of one card, neither a group's nor all zeros")
    return text


def _number(top):
    def check(text):
        if not re.fullmatch(r"\d+", text) or not 0 < int(text) <= top:
            raise ValueError(f"a number from 1 to {top}")
        return int(text)

    return check


def _name(text):
    if not _NAME.fullmatch(text) or len(text) > 253:
        raise ValueError("a host name: lower case letters, digits, hyphens")
    if text in RESERVED_NAMES:
        raise ValueError(f"a name that means nothing else in an inventory (not {', '.join(RESERVED_NAMES)})")
    return text


def _protocol(text):
    if text not in PROTOCOLS:
        raise ValueError(" or ".join(PROTOCOLS))
    return text


def _fingerprint(text):
    text = text.lower().replace(":", "")
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError("a SHA-256 fingerprint in hexadecimal")
    return text


_CHECKS = {
    "name": _name,
    "bmc_address": host,
    "bmc_port": _number(65535),
    "bmc_protocol": _protocol,
    "bmc_fingerprint": _fingerprint,
    "provision_mac": mac,
    "provision_ip": ip,
    "provision_prefix": _number(128),
    "ansible_host": host,
}


def clean_serial(value):
    """The serial in its stored form; InvalidInput where there is none: a node is known by it."""
    serial = clean("serial", value)
    if not serial:
        raise InvalidInput(
            "a node needs its chassis serial",
            thing="serial",
            wanted="the serial that the BMC and the system tell",
            seen="nothing",
            next_step="give the serial",
        )
    return serial


def clean(column, value, serial=None, where=None):
    """The value in its stored form, None for an empty one. InvalidInput names column, wanted, seen and what to do.

    `where`: the place that holds the value ("list.csv line 7"), named in front of the column where there is one.
    """
    if value is None or value == "":
        return False if column == "maintenance" else None
    try:
        if column == "maintenance":
            if not isinstance(value, bool):
                raise ValueError("true or false")
            return value
        if isinstance(value, (bool, list, dict, tuple, set)):
            raise ValueError("one text or number")
        text = str(value).strip()
        if column == "maintenance_reason":
            text = clean_text(text).strip()
        if not text:
            return None
        if column != "maintenance_reason" and (len(text) > _MOST or not text.isprintable()):
            raise ValueError(f"one line of at most {_MOST} characters")
        return _CHECKS[column](text) if column in _CHECKS else text
    except ValueError as error:
        raise InvalidInput(
            f"{column} cannot be right",
            host=serial,
            thing=f"{where}, {column}" if where else column,
            wanted=str(error),
            seen=value,
            next_step=f"correct {column} {f'in {where}' if where else 'of this node'}",
        ) from None


def check_pair(address, prefix, serial=None, where=None):
    """provision_ip and provision_prefix (stored forms) must go together: a prefix of the address's family, and a host in that network."""
    if address is None or prefix is None:
        return
    parsed = ipaddress.ip_interface(f"{address}/{prefix if prefix <= 32 or ':' in address else 32}")
    top = parsed.max_prefixlen
    network = parsed.network
    edge = network.prefixlen < top - 1 and parsed.ip == network.network_address
    edge = edge or (parsed.version == 4 and network.prefixlen < 31 and parsed.ip == network.broadcast_address)
    if prefix <= top and not edge:
        return
    column = "provision_prefix" if prefix > top else "provision_ip"
    raise InvalidInput(
        "provision_ip and provision_prefix do not go together",
        host=serial,
        thing=f"{where}, {column}" if where else column,
        wanted=f"a prefix length from 1 to {top}" if prefix > top else f"the address of a host in {network}",
        seen=prefix if prefix > top else f"{address}/{prefix}",
        next_step=f"correct {column} {f'in {where}' if where else 'of this node'}",
    )


def place_of(row):
    """`site s1, rack r1, slot u01` of a row or record; None where rack or slot is not known."""
    if not row.get("rack") or not row.get("slot"):
        return None
    return ", ".join(f"{key} {row[key]}" for key in ("site", "rack", "slot") if row.get(key))


def own_things(row):
    """{what a person calls it: value} of what no two machines in use can share: provisioning addresses, the BMC's address and port, the place."""
    found = {column: row[column] for column in ("provision_mac", "provision_ip") if row.get(column)}
    if row.get("bmc_address"):
        port = row.get("bmc_port") or _BMC_PORT[row.get("bmc_protocol") or "redfish"]
        found["bmc_address"] = f"{str(row['bmc_address']).lower()} port {port}"
    if place_of(row):
        found["place"] = place_of(row)
    return found
