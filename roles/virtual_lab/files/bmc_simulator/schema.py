# The description of a lab (lab.json): what it may hold, checked before anything starts; errors name the place.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import json
import pathlib
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import profiles
from .behaviour import BehaviourError, check_value
from .firmware import components
from .hardware import FAULT, GPU_PROFILES

REQUIRED = object()
_UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}


class SchemaError(ValueError):
    """Everything that is wrong with a lab description, one line each."""

    def __init__(self, problems: list[str]):
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Field:
    """One key: its type, its default (REQUIRED if there is none), and a check that returns a complaint or None."""

    kind: type | tuple[type, ...]
    default: Any = REQUIRED
    check: Callable[[Any], str | None] | None = None


def parse_size(text: str | int) -> int:
    """Bytes of a size such as `8 GiB`; raises ValueError with what was wrong."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(text))
    if not match or (match.group(2) or "B").upper() not in _UNITS:
        raise ValueError(f"wants a size such as '8 GiB', got {text!r}")
    return int(float(match.group(1)) * _UNITS[(match.group(2) or "B").upper()])


def _choice(*values: Any) -> Callable[[Any], str | None]:
    return lambda value: None if value in values else f"wants one of {', '.join(map(str, values))}, got {value!r}"


def _pattern(expression: str, example: str) -> Callable[[Any], str | None]:
    compiled = re.compile(expression)
    return lambda value: None if compiled.fullmatch(value) else f"wants a value such as {example}, got {value!r}"


def _whole(low: int, high: int) -> Callable[[Any], str | None]:
    return lambda value: None if low <= value <= high else f"wants a whole number from {low} to {high}, got {value!r}"


def _address(value: str) -> str | None:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return f"wants an IP address, got {value!r}"
    return None


def _uuid(value: str) -> str | None:
    try:
        uuid.UUID(value)
    except ValueError:
        return f"wants a UUID, got {value!r}"
    return None


def _size(value: str | int) -> str | None:
    try:
        parse_size(value)
    except ValueError as error:
        return str(error)
    return None


def _fault(value: str | None) -> str | None:
    return None if value is None or FAULT.fullmatch(value) else f"wants a fault such as gpu3_ecc_dbe, got {value!r}"


_NAME = _pattern(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "gpu01 (lower case letters, digits, dashes)")
_MAC = _pattern(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", "52:54:00:77:00:01 (lower case)")
_SLOT = _pattern(r"[A-Za-z0-9._-]{1,32}", "nic0")

LAB = {
    "name": Field(str, REQUIRED, _NAME),
    "dir": Field(str),
    "run_dir": Field(str),
    "accel": Field(str, "tcg,thread=multi"),
    "cpu": Field(str, "Nehalem"),
    "net_namespace": Field((str, type(None)), None),
    "nodes": Field(list),
}
NODE = {
    "name": Field(str, REQUIRED, _NAME),
    "serial": Field(str, REQUIRED, _pattern(r"[A-Za-z0-9._-]{1,64}", "LAB-aicl-0001")),
    "uuid": Field((str, type(None)), None, lambda value: None if value is None else _uuid(value)),
    "rack": Field((str, type(None)), None),
    "slot": Field((str, type(None)), None),
    "driver": Field(str, "none", _choice("qemu", "nspawn", "none")),
    "bmc": Field(dict),
    "cpus": Field(int, 1, _whole(1, 256)),
    "memory_mib": Field(int, 1024, _whole(64, 16 * 2**20)),
    "firmware": Field(str, "uefi", _choice("uefi", "bios")),
    "nics": Field(list, []),
    "disks": Field(list, []),
    "gpu_profile": Field((str, type(None)), None, _choice(None, *GPU_PROFILES)),
    "fault": Field((str, type(None)), None, _fault),
    "behaviour": Field(dict, {}),
    "components": Field(dict, {}),
    "profile": Field(str, "default"),
    "root": Field((str, type(None)), None),
    "power": Field(str, "off", _choice("on", "off")),
}
BMC = {
    "address": Field(str, REQUIRED, _address),
    "port": Field(int, 443, _whole(0, 65535)),
    "ipmi_port": Field(int, 623, _whole(0, 65535)),
    "protocols": Field(list, ["redfish"]),
    "accounts": Field(list),
    "session_limit": Field(int, 8, _whole(1, 1000)),
    "mac": Field((str, type(None)), None, lambda value: None if value is None else _MAC(value)),
    "tls": Field(bool, True),
}
ACCOUNT = {
    "username": Field(str, REQUIRED, _pattern(r"[A-Za-z0-9._-]{1,32}", "admin")),
    "password": Field(str),
    "role": Field(str, "Administrator", _choice("Administrator", "Operator", "ReadOnly")),
}
NIC = {
    "slot": Field(str, REQUIRED, _SLOT),
    "mac": Field(str, REQUIRED, _MAC),
    "tap": Field((str, type(None)), None),
    "bridge": Field((str, type(None)), None),
    "address": Field((str, type(None)), None),
    "gateway": Field((str, type(None)), None),
}
DISK = {
    "slot": Field(str, REQUIRED, _SLOT),
    "serial": Field(str, REQUIRED, _pattern(r"[A-Za-z0-9._-]{1,20}", "LAB0001D0 (at most 20 characters)")),
    "size": Field((str, int), REQUIRED, _size),
    "type": Field(str, "nvme", _choice("nvme", "ssd", "hdd")),
    "bus": Field((str, type(None)), None, _choice(None, "nvme", "scsi", "virtio")),
}
_KINDS = {str: "text", int: "whole number", dict: "object", list: "list", bool: "true or false", type(None): "null"}


class _Checker:
    """Walks the description once and collects every complaint."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.seen: dict[tuple[str, Any], str] = {}

    def complain(self, where: str, what: str) -> None:
        self.problems.append(f"{where}: {what}")

    def unique(self, what: str, value: Any, where: str) -> None:
        first = self.seen.setdefault((what, value), where)
        if first != where:
            shown = ":".join(map(str, value)) if isinstance(value, tuple) else value
            self.complain(where, f"duplicate {what} {shown} (first used at {first})")

    def table(self, fields: dict[str, Field], value: Any, where: str) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            self.complain(where, f"wants an object, got {type(value).__name__}")
            return None
        dot = f"{where}." if where else ""
        for key in value:
            if key not in fields:
                self.complain(f"{dot}{key}", f"unknown key (known: {', '.join(fields)})")
        out = {}
        for key, field in fields.items():
            if key not in value:
                if field.default is REQUIRED:
                    self.complain(f"{dot}{key}", "is missing")
                out[key] = None if field.default is REQUIRED else json.loads(json.dumps(field.default))
                continue
            item = value[key]
            kinds = field.kind if isinstance(field.kind, tuple) else (field.kind,)
            if not isinstance(item, kinds) or (isinstance(item, bool) and bool not in kinds):
                self.complain(f"{dot}{key}", f"wants {' or '.join(_KINDS[kind] for kind in kinds)}, got {item!r}")
                out[key] = None
                continue
            complaint = field.check(item) if field.check else None
            if complaint:
                self.complain(f"{dot}{key}", complaint)
            out[key] = item
        return out

    def rows(self, fields: dict[str, Field], value: Any, where: str) -> list[dict[str, Any]]:
        return [
            row
            for index, item in enumerate(value or [])
            if (row := self.table(fields, item, f"{where}[{index}]")) is not None
        ]

    def bmc(self, value: Any, where: str) -> dict[str, Any] | None:
        bmc = self.table(BMC, value, where)
        if bmc is None:
            return None
        bmc["accounts"] = self.rows(ACCOUNT, bmc["accounts"], f"{where}.accounts")
        if not bmc["accounts"]:
            self.complain(f"{where}.accounts", "wants at least one account")
        names = [account["username"] for account in bmc["accounts"]]
        for name in {name for name in names if names.count(name) > 1}:
            self.complain(f"{where}.accounts", f"duplicate username {name}")
        protocols = bmc["protocols"] or []
        for protocol in protocols:
            if protocol not in ("redfish", "ipmi"):
                self.complain(f"{where}.protocols", f"wants redfish or ipmi, got {protocol!r}")
        if not protocols:
            self.complain(f"{where}.protocols", "wants at least one of redfish, ipmi")
        for protocol, key, transport in (("redfish", "port", "tcp"), ("ipmi", "ipmi_port", "udp")):
            if protocol in protocols and bmc["address"] and bmc[key]:
                self.unique(f"{transport} address", (bmc["address"], bmc[key]), where)
        return bmc

    def node(self, value: Any, where: str) -> dict[str, Any] | None:
        node = self.table(NODE, value, where)
        if node is None:
            return None
        for key in ("name", "serial", "uuid"):
            if node[key]:
                self.unique(key, node[key], f"{where}.{key}")
        node["bmc"] = self.bmc(node["bmc"], f"{where}.bmc") if node["bmc"] is not None else None
        node["nics"] = self.rows(NIC, node["nics"], f"{where}.nics")
        node["disks"] = self.rows(DISK, node["disks"], f"{where}.disks")
        for kind, rows, keys in (("nics", node["nics"], ("mac", "tap")), ("disks", node["disks"], ("serial",))):
            slots = [row["slot"] for row in rows]
            for slot in {slot for slot in slots if slots.count(slot) > 1}:
                self.complain(f"{where}.{kind}", f"duplicate slot {slot}")
            for index, row in enumerate(rows):
                for key in keys:
                    if row[key]:
                        self.unique(
                            key if kind == "nics" else "disk serial", row[key], f"{where}.{kind}[{index}].{key}"
                        )
        for name, setting in (node["behaviour"] or {}).items():
            try:
                check_value(name, setting)
            except BehaviourError as error:
                self.complain(f"{where}.behaviour", str(error))
        try:
            profile = profiles.load(node["profile"])
            components(node["components"] or {}, profile.components if profile else None)
        except profiles.ProfileError as error:
            self.complain(f"{where}.profile", str(error))
        except ValueError as error:
            self.complain(f"{where}.components", str(error))
        if node["driver"] == "nspawn" and not node["root"]:
            self.complain(
                f"{where}.root", "is needed by the nspawn driver: the directory that holds the operating system"
            )
        if node["uuid"] is None and node["serial"]:
            node["uuid"] = str(uuid.uuid5(uuid.NAMESPACE_URL, f"aicluster-lab:{node['serial']}"))
        return node

    def lab(self, value: Any) -> dict[str, Any]:
        lab = self.table(LAB, value, "")
        if lab is not None and lab["nodes"] is not None:
            lab["nodes"] = [
                node
                for index, item in enumerate(lab["nodes"])
                if (node := self.node(item, f"nodes[{index}]")) is not None
            ]
        if self.problems:
            raise SchemaError(self.problems)
        return lab


def check_lab(value: Any) -> dict[str, Any]:
    """The description with every default filled in; raises SchemaError with all complaints."""
    return _Checker().lab(value)


def load_lab(path: str | pathlib.Path) -> dict[str, Any]:
    """Read and check a lab.json; raises SchemaError, also for a file that cannot be read or parsed."""
    try:
        value = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SchemaError([f"{path}: cannot be read: {error.strerror}"]) from None
    except ValueError as error:
        raise SchemaError([f"{path}: is not JSON: {error}"]) from None
    return check_lab(value)
