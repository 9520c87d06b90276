# Reader of the SMBIOS table as the kernel gives it (/sys/firmware/dmi/tables/DMI): system identity and OEM strings.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import NamedTuple

from .values import Unreadable, reported


class Identity(NamedTuple):
    """Who this machine says it is. `oem` holds the OEM strings (type 11), for example "aicluster.gpu_profile=h100x8"."""

    manufacturer: str | None
    product: str | None
    serial: str | None
    oem: tuple


def structures(table):
    """Yield (type, formatted area, strings) for each structure. Source: SMBIOS reference specification (DSP0134), clause 6.1."""
    position = 0
    while position + 4 <= len(table):
        kind, length = table[position], table[position + 1]
        if length < 4 or position + length > len(table):
            raise Unreadable(f"the SMBIOS table is damaged at byte {position}")
        end = table.find(b"\0\0", position + length)
        if end < 0:
            raise Unreadable(f"the SMBIOS table is cut off after byte {position}")
        texts = table[position + length : end].split(b"\0") if end > position + length else []
        yield kind, table[position : position + length], tuple(text.decode("utf-8", "replace") for text in texts)
        if kind == 127:
            return
        position = end + 2


def read_dmi(table):
    """Identity from the raw table (bytes)."""
    manufacturer = product = serial = None
    oem = []
    for kind, area, texts in structures(table):

        def text(offset, area=area, texts=texts):
            number = area[offset] if offset < len(area) else 0
            return reported(texts[number - 1]) if 0 < number <= len(texts) else None

        if kind == 1:
            manufacturer, product, serial = text(4), text(5), text(7)
        elif kind == 11 and len(area) > 4:
            oem += [found for found in texts[: area[4]] if found.strip()]
    return Identity(manufacturer, product, serial, tuple(oem))


def hardware_strings(lines):
    """{"gpu_profile": "h100x8", ...} from the strings that begin with "aicluster."; the last of equal keys wins."""
    found = {}
    for line in lines:
        line = line.strip()
        key, equals, value = line.partition("=")
        if equals and key.startswith("aicluster."):
            found[key[len("aicluster.") :]] = value.strip()
    return found
