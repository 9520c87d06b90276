# A bootable CD of our own making: its loader is a UEFI program of 24 bytes and a text, which prints one line on the console and stops.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Proves which disc a machine booted: the line is chosen by the caller and stands nowhere else. Needs mkfs.vfat, mmd and mcopy.

Layout: ISO 9660 with an El Torito boot record (UEFI specification, 13.3.2.1) that points to a FAT image with EFI/BOOT/BOOTX64.EFI in it.
"""

from __future__ import annotations

import pathlib
import shutil
import struct
import subprocess
import tempfile

TOOLS = ("mkfs.vfat", "mmd", "mcopy")
SECTOR = 2048
FAT_KIB = 1440
FIRST_FREE = 23  # the first sector after descriptors, catalog, root directory and path tables


def missing_tools():
    return [tool for tool in TOOLS if not shutil.which(tool)]


def loader(text):
    """A PE32+ file: a UEFI application that prints `text`."""
    code = bytes.fromhex(
        "4883ec28"  # sub rsp, 40          room for the called function's arguments
        "4889d3"  # mov rbx, rdx           the system table
        "488b4b40"  # mov rcx, [rbx+64]    ConOut
        "488d1506000000"  # lea rdx, [text]
        "ff5108"  # call [rcx+8]           OutputString
        "f4ebfd"  # hlt; jmp to the hlt
    )
    content = code + f"\r\n{text}\r\n\0".encode("utf-16-le")
    raw = content + bytes(-len(content) % 512)
    optional = struct.pack("<HBBIIIII", 0x20B, 0, 0, len(raw), 0, 0, 0x1000, 0x1000)
    optional += struct.pack("<QII", 0x400000, 0x1000, 0x200) + struct.pack("<HHHHHHI", 0, 0, 0, 0, 0, 0, 0)
    image_size = 0x1000 + len(raw) + -len(raw) % 0x1000
    optional += struct.pack("<IIIHH", image_size, 0x200, 0, 10, 0)  # subsystem 10: UEFI application
    optional += struct.pack("<QQQQII", 0x10000, 0x1000, 0, 0, 0, 16) + bytes(16 * 8)
    coff = struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, len(optional), 0x22)
    section = struct.pack("<8sIIIIIIHHI", b".text", len(raw), 0x1000, len(raw), 0x200, 0, 0, 0, 0, 0x60000020)
    head = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + coff + optional + section
    return head + bytes(0x200 - len(head)) + raw


def fat_image(program):
    """A FAT file system with the program where UEFI looks for it on removable media."""
    with tempfile.TemporaryDirectory(prefix="boot-disc-") as folder:
        image, file = pathlib.Path(folder) / "fat.img", pathlib.Path(folder) / "program"
        file.write_bytes(program)
        for words in (
            ["mkfs.vfat", "-C", str(image), str(FAT_KIB)],
            ["mmd", "-i", str(image), "::/EFI", "::/EFI/BOOT"],
            ["mcopy", "-i", str(image), str(file), "::/EFI/BOOT/BOOTX64.EFI"],
        ):
            subprocess.run(words, check=True, capture_output=True)
        return image.read_bytes()


def _both(value, form):
    """A number in both byte orders, as ISO 9660 has them."""
    return struct.pack("<" + form, value) + struct.pack(">" + form, value)


def _directory(sector, name):
    record = bytes([34, 0]) + _both(sector, "I") + _both(SECTOR, "I") + bytes([126, 12, 1, 0, 0, 0, 0, 2, 0, 0])
    return record + _both(1, "H") + bytes([1]) + name


def iso(text):
    """The whole disc as bytes."""
    fat = fat_image(loader(text))
    total = FIRST_FREE + -(-len(fat) // SECTOR)
    primary = bytearray(b"\x01CD001\x01\0".ljust(SECTOR, b"\0"))
    primary[8:72] = b"AICLUSTER".ljust(32) + b"AICLUSTER_TEST".ljust(32)
    primary[80:88], primary[120:132] = _both(total, "I"), _both(1, "H") + _both(1, "H") + _both(SECTOR, "H")
    primary[132:140], primary[140:144], primary[148:152] = (
        _both(10, "I"),
        struct.pack("<I", 21),
        struct.pack(">I", 22),
    )
    primary[156:190] = _directory(20, b"\0")
    primary[190:813] = b" " * 623
    primary[881] = 1
    boot = b"\0CD001\x01" + b"EL TORITO SPECIFICATION".ljust(64, b"\0") + struct.pack("<I", 19)
    end = b"\xffCD001\x01"
    validation = bytearray(struct.pack("<BBH24sHBB", 1, 0xEF, 0, b"aicluster", 0, 0x55, 0xAA))
    words = struct.unpack("<16H", validation)
    validation[28:30] = struct.pack("<H", -sum(words) & 0xFFFF)
    entry = struct.pack("<BBHBBHI", 0x88, 0, 0, 0, 0, len(fat) // 512, FIRST_FREE).ljust(32, b"\0")
    root = _directory(20, b"\0") + _directory(20, b"\x01")
    tables = [bytes([1, 0]) + struct.pack(order + "IH", 20, 1) + b"\0\0" for order in "<>"]
    sectors = [bytes(primary), boot, end, bytes(validation) + entry, root, *tables]
    return (
        bytes(16 * SECTOR)
        + b"".join(sector.ljust(SECTOR, b"\0") for sector in sectors)
        + fat.ljust((total - FIRST_FREE) * SECTOR, b"\0")
    )
