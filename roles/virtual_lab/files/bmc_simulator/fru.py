# IPMI FRU inventory data of a node (IPMI Platform Management FRU Information Storage Definition v1.0).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from . import hardware

RACK_MOUNT = 0x17
ENGLISH = 0x00
_END = 0xC1


def _field(text: str) -> bytes:
    """A type/length byte (8-bit ASCII) and the text, at most 63 bytes."""
    raw = text.encode("ascii", "replace")[:63]
    # a length of 1 in this type would be the end mark
    raw = raw + b" " if len(raw) == 1 else raw
    return bytes([0xC0 | len(raw)]) + raw


def _area(head: bytes, fields: list[str]) -> bytes:
    """An area: version, length in units of eight bytes, head, fields, end mark, padding, checksum."""
    body = head + b"".join(_field(text) for text in fields) + bytes([_END])
    size = -(-(len(body) + 3) // 8) * 8
    area = bytes([1, size // 8]) + body
    area = area.ljust(size - 1, b"\0")
    return area + bytes([-sum(area) & 0xFF])


def fru_data(node: dict[str, Any]) -> bytes:
    """The whole FRU of a node of lab.json."""
    serial = node["serial"]
    chassis = _area(bytes([RACK_MOUNT]), ["VGS-1-A", serial])
    # manufacturing time 0: not given
    board = _area(bytes([ENGLISH, 0, 0, 0]), [hardware.MANUFACTURER, hardware.MODEL, f"{serial}-MB", "VGS-1-MB", ""])
    product = _area(bytes([ENGLISH]), [hardware.MANUFACTURER, hardware.MODEL, "VGS-1", "1", serial, "", ""])
    offsets = [1, 1 + len(chassis) // 8, 1 + (len(chassis) + len(board)) // 8]
    head = bytes([1, 0, *offsets, 0, 0])
    return head + bytes([-sum(head) & 0xFF]) + chassis + board + product
