# The machines behind the BMCs: QEMU, systemd-nspawn, or none.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .base import Boot, Driver, DriverError

if TYPE_CHECKING:
    from ..node import Node

_DRIVERS = {"qemu": "QemuDriver", "nspawn": "NspawnDriver", "none": "NoneDriver"}
__all__ = ["Boot", "Driver", "DriverError", "make_driver"]


def make_driver(name: str, node: Node, lab: dict[str, Any]) -> Driver:
    """The driver of that name; its file is only read when a node asks for it."""
    module = importlib.import_module(f".{name}", __package__)
    return getattr(module, _DRIVERS[name])(node, lab)
