# Human units: sizes in bytes (binary and decimal prefixes are different things) and durations in seconds.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

_FACTOR = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "p": 10**15,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
    "pi": 2**50,
}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgtp]i?)?b?\s*$", re.IGNORECASE)


def parse_size(value):
    """Bytes from 8589934592, "8 GiB", "8GB" (decimal) or "512Mi"; ValueError on anything else, and on negative numbers."""
    if isinstance(value, bool):
        raise ValueError(f"not a size: {value!r}")
    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"a size cannot be negative: {value}")
        return value
    match = _SIZE.match(str(value))
    if not match:
        raise ValueError(f"not a size: {value!r} (examples: 8 GiB, 512 MiB, 3.84 TB, 8589934592)")
    return int(round(float(match.group(1)) * _FACTOR[(match.group(2) or "").lower()]))


def format_size(size):
    """ "8.0 GiB" from bytes."""
    size = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def format_seconds(seconds):
    """ "45 s", "2 min 5 s", "1 h 3 min", "2 d 4 h"."""
    seconds = float(seconds)
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
    minutes, rest = divmod(int(round(seconds)), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def format_time(text):
    """A registry time as people read it in a page: to the second, with its zone."""
    return f"{str(text)[:19].replace('T', ' ')} UTC" if text else ""


def format_count(value, unit):
    """ "2 errors", "1 error", "1 row or page", "0.5 of the memory", "3"; the unit is given in the plural."""
    if not unit:
        return f"{value}"
    if isinstance(value, (int, float)) and value == 1 and not isinstance(value, bool) and "/" not in unit:
        unit = re.sub(r"(?<=[A-Za-z]{2})s\b", "", unit)
    return f"{value} {unit}"
