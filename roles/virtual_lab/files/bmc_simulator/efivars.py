# Writes one variable into a UEFI variable store file (OVMF), while no machine uses it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Layout: UEFI Platform Initialization specification, volume 3 (firmware volume), and edk2's authenticated variable store."""

from __future__ import annotations

import struct
import uuid

GLOBAL = uuid.UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
AUTHENTICATED_STORE = uuid.UUID("aaf32c78-947b-439a-a180-2e144ec37792")
# UEFI specification, 8.5.4: boot into the firmware's user interface, once
BOOT_TO_FIRMWARE_UI = 1
NON_VOLATILE_BOOT_RUNTIME = 7
ADDED, DELETED_MASK = 0x3F, 0xFD
_STORE = struct.Struct("<16sIBBHI")
_HEADER = struct.Struct("<HBBIQ16sIII16s")
_START = 0x55AA


def _aligned(offset: int) -> int:
    return (offset + 3) & ~3


def set_variable(data: bytes, name: str, value: bytes, vendor: uuid.UUID = GLOBAL) -> bytes:
    """The store with the variable set; raises ValueError if it is not such a store or is full."""
    store = bytearray(data)
    if store[40:44] != b"_FVH":
        raise ValueError("not a firmware volume")
    (start,) = struct.unpack_from("<H", store, 48)
    guid, size, form, *_rest = _STORE.unpack_from(store, start)
    if uuid.UUID(bytes_le=guid) != AUTHENTICATED_STORE or form != 0x5A:
        raise ValueError("not an authenticated variable store")
    wanted, end = name.encode("utf-16-le") + b"\0\0", start + size
    offset = _aligned(start + _STORE.size)
    while offset + _HEADER.size < end:
        mark, state, _reserved, _attributes, _count, _time, _key, name_size, data_size, owner = _HEADER.unpack_from(
            store, offset
        )
        if mark != _START:
            break
        found = bytes(store[offset + _HEADER.size : offset + _HEADER.size + name_size])
        if found == wanted and uuid.UUID(bytes_le=owner) == vendor and state == ADDED:
            store[offset + 2] = ADDED & DELETED_MASK
        offset = _aligned(offset + _HEADER.size + name_size + data_size)
    head = _HEADER.pack(
        _START, ADDED, 0, NON_VOLATILE_BOOT_RUNTIME, 0, bytes(16), 0, len(wanted), len(value), vendor.bytes_le
    )
    entry = head + wanted + value
    if offset + len(entry) > end:
        raise ValueError("the variable store is full")
    store[offset : offset + len(entry)] = entry
    return bytes(store)
