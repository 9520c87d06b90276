# Builds the boot service as one zipapp from the packages of this collection: the same input gives the same bytes.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import io
import pathlib
import zipfile

_ROOMS = ("core", "facts", "registry", "netboot")
_MAIN = """# Entry point of the boot service zipapp.
import sys

from aicluster_boot.netboot.run import main
from aicluster_boot.registry import open_registry

sys.exit(main(open_registry))
"""


def build():
    """The bytes of boot-service.pyz: package aicluster_boot holds the rooms that it needs, relative imports keep working."""
    house = pathlib.Path(__file__).resolve().parents[1]
    members = {"__main__.py": _MAIN.encode(), "aicluster_boot/__init__.py": b""}
    for room in _ROOMS:
        for path in sorted((house / room).rglob("*.py")):
            members[f"aicluster_boot/{path.relative_to(house).as_posix()}"] = path.read_bytes()
    out = io.BytesIO()
    out.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(members):
            # A fixed time: only the content may make two builds differ.
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, members[name])
    return out.getvalue()
