# The UEFI variable store: a variable that is written can be found, replaces its older value, and the rest stays.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
import struct

import pytest

from bmc_simulator.drivers.qemu import FIRMWARE
from bmc_simulator.efivars import AUTHENTICATED_STORE, set_variable

NAME = "OsIndications".encode("utf-16-le")


def empty_store(size=1024):
    head = bytearray(72)
    head[40:44] = b"_FVH"
    struct.pack_into("<H", head, 48, 72)
    store = struct.pack("<16sIBBHI", AUTHENTICATED_STORE.bytes_le, size, 0x5A, 0xFE, 0, 0)
    return bytes(head) + store.ljust(size, b"\xff")


def test_a_second_value_retires_the_first():
    once = set_variable(empty_store(), "OsIndications", b"\x01" * 8)
    twice = set_variable(once, "OsIndications", b"\x02" * 8)
    assert once.count(NAME) == 1 and twice.count(NAME) == 2
    first, second = twice.index(NAME) - 60, twice.rindex(NAME) - 60
    assert (twice[first + 2], twice[second + 2]) == (0x3D, 0x3F)
    assert twice.endswith(once[-100:]) and len(twice) == len(empty_store())


def test_another_variable_stays():
    store = set_variable(set_variable(empty_store(), "Other", b"x"), "OsIndications", b"y")
    assert store[store.index("Other".encode("utf-16-le")) - 58] == 0x3F


def test_a_full_store_and_a_foreign_file_are_refused():
    with pytest.raises(ValueError, match="full"):
        set_variable(empty_store(120), "OsIndications", bytes(8))
    with pytest.raises(ValueError, match="not a firmware volume"):
        set_variable(bytes(4096), "OsIndications", bytes(8))


@pytest.mark.skipif(not pathlib.Path(FIRMWARE[0][1]).exists(), reason="needs OVMF")
def test_the_store_of_ovmf():
    template = pathlib.Path(FIRMWARE[0][1]).read_bytes()
    store = set_variable(template, "OsIndications", (1).to_bytes(8, "little"))
    assert len(store) == len(template) and NAME in store
