# MAC and IP addresses as this room writes them: one form, checked before use.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import re

from ..core.errors import InvalidInput

_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")


def normal_mac(text):
    """ "52-54-00-AA-BB-CC", "5254.00aa.bbcc" or "52:54:..." -> "52:54:00:aa:bb:cc"; raises InvalidInput."""
    digits = re.sub(r"[-:.]", "", str(text or "").strip().lower())
    mac = ":".join(digits[i : i + 2] for i in range(0, 12, 2)) if len(digits) == 12 else ""
    if not _MAC.fullmatch(mac):
        raise InvalidInput(
            "is no MAC address", thing="MAC address", wanted="six pairs of hexadecimal digits", seen=str(text)[:40]
        )
    return mac


def is_inside(address, networks):
    """True when `address` (text) lies in one of `networks` (ip_network objects); text that is no address is outside."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    # A socket that listens on both families reports IPv4 peers as ::ffff:a.b.c.d.
    mapped = getattr(parsed, "ipv4_mapped", None)
    parsed = mapped or parsed
    return any(parsed in network for network in networks if network.version == parsed.version)


def same_address(left, right):
    """Compare two addresses in text form; anything unreadable is different."""
    try:
        parsed = [ipaddress.ip_address(str(item)) for item in (left, right)]
    except ValueError:
        return False
    return len({getattr(item, "ipv4_mapped", None) or item for item in parsed}) == 1
