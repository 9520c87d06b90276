# Thousands of simulated BMCs in one process: a listener per BMC, shared data, one certificate authority, counters.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`python -m bmc_simulator fleet --count 1000`. The BMCs have no machine behind them and keep everything in memory.

A fleet is groups of equal BMCs (profile, behaviour, firmware) and faults that are laid over a share of them.
What a BMC answers is made when it is asked for, and what it keeps when it first changes: about 4 KB for each.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import ipaddress
import json
import os
import pathlib
import random
import resource
import shutil
import socket
import ssl
import sys
import tempfile
import uuid
import warnings
from typing import Any

from . import profiles, rehearsal
from .behaviour import BehaviourError, check_value
from .certificate import (
    Authority,
    certificate_text,
    ensure_certificate,
    fingerprint,
    server_context,
    write_private,
)
from .faults import FAULTS, switches
from .firmware import DEFAULTS, components
from .hardware import GPU_PROFILES
from .node import Node
from .profiles import Profile
from .schema import SchemaError, parse_size
from .server import ConnectionServer
from .service import Service

Json = dict[str, Any]
# context, fingerprint, file
Certificate = tuple[ssl.SSLContext, str, pathlib.Path]
# addresses that share a certificate: few contexts in memory, and a certificate that stays small
SHARED_CERTIFICATE = 64
# asyncio takes 256 KiB of memory for each TLS connection otherwise
TLS_BUFFER_BYTES = 64 * 1024
BACKLOG = 64
SPARE_FILES = 4096
USERNAME, PASSWORD = "admin", "factory-secret"
HARDWARE: Json = {
    "cpus": 96,
    "memory_mib": 2 * 2**20,
    "firmware": "uefi",
    "nics": 3,
    "disks": [
        {"slot": "disk0", "size": "3840 GB", "type": "nvme"},
        {"slot": "disk1", "size": "480 GB", "type": "ssd"},
        {"slot": "disk2", "size": "480 GB", "type": "ssd"},
    ],
    "gpu_profile": "h100x8",
}
GROUP_KEYS = {
    "count",
    "prefix",
    "profile",
    "address",
    "port",
    "one_address",
    "behaviour",
    "power",
    "hardware",
    "components",
    "rack_size",
    "tls",
    "ipmi",
}
FLEET_KEYS = {"name", "dir", "run_dir", "seed", "groups", "faults", "accounts", "session_limit", "cpu"}


@functools.lru_cache(maxsize=4096)
def _uuid_of(serial: str) -> str:
    # Remembered: a BMC shows it in several resources that are asked for together.
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"aicluster-fleet:{serial}"))


class NodeConfig(dict):
    """What lab.json says of a node, worked out from its group and number when a key is asked for."""

    __slots__ = ("group", "number")

    def __init__(self, group: Group, number: int):
        super().__init__()
        self.group, self.number = group, number

    def __missing__(self, key: str) -> Any:
        return getattr(self, f"_{key}")()

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except AttributeError:
            return default

    def _name(self) -> str:
        return f"{self.group.prefix}{self.number:05d}"

    def _serial(self) -> str:
        return f"SIM-{self.group.prefix}-{self.number:05d}".upper()

    def _uuid(self) -> str:
        return _uuid_of(self._serial())

    def _rack(self) -> str:
        return f"r{(self.number - 1) // self.group.rack_size + 1:03d}"

    def _slot(self) -> str:
        return f"u{(self.number - 1) % self.group.rack_size + 1:02d}"

    def _bmc(self) -> Json:
        group = self.group
        address, port, ipmi_port = group.place(self.number)
        return {
            "address": address,
            "port": port,
            "ipmi_port": ipmi_port,
            "protocols": ["redfish", "ipmi"] if group.has_ipmi(self.number) else ["redfish"],
            "accounts": group.fleet.accounts,
            "session_limit": group.fleet.session_limit,
            "mac": None,
            "tls": group.tls,
        }

    def _nics(self) -> list[Json]:
        number = self.number + self.group.offset
        tail = f"{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
        return [
            {"slot": f"nic{index}", "mac": f"52:54:{index:02x}:{tail}", "bridge": None, "tap": None}
            for index in range(self.group.hardware["nics"])
        ]

    def _disks(self) -> list[Json]:
        return [
            {"bus": None, **disk, "serial": f"{self._serial()}-{disk['slot']}"} for disk in self.group.hardware["disks"]
        ]

    def _behaviour(self) -> Json:
        return self.group.fleet.behaviour_of(self.group, self.number)

    def _components(self) -> Json:
        return {}

    def _profile(self) -> str:
        return self.group.profile.name if self.group.profile else "default"

    def _driver(self) -> str:
        return "none"

    def _power(self) -> str:
        return self.group.power

    def _fault(self) -> None:
        return None

    def _root(self) -> None:
        return None

    def _cpus(self) -> int:
        return self.group.hardware["cpus"]

    def _memory_mib(self) -> int:
        return self.group.hardware["memory_mib"]

    def _firmware(self) -> str:
        return self.group.hardware["firmware"]

    def _gpu_profile(self) -> str | None:
        return self.group.hardware["gpu_profile"]


class Group:
    """BMCs that are alike. Numbers count from 1 within the group."""

    def __init__(self, fleet: Fleet, value: Json, index: int, offset: int):
        problems = [f"groups[{index}].{key}: unknown key" for key in value if key not in GROUP_KEYS]
        self.fleet, self.offset = fleet, offset
        self.count = value.get("count", 1)
        self.prefix = value.get("prefix", "sim" if index == 0 else f"sim{chr(96 + index)}")
        self.first = ipaddress.IPv4Address(value.get("address") or ipaddress.IPv4Address("127.20.0.1") + offset)
        self._first = int(self.first)
        self.port = value.get("port", 8443)
        self.one_address = bool(value.get("one_address", False))
        self.rack_size = value.get("rack_size", 16)
        self.tls = value.get("tls", True)
        self.power = value.get("power", "off")
        self.ipmi = value.get("ipmi", 0)
        self.profile: Profile | None = None
        try:
            self.profile = profiles.load(value.get("profile", "default"))
        except profiles.ProfileError as error:
            problems.append(f"groups[{index}].profile: {error}")
        base = self.profile
        self.hardware = {**HARDWARE, **(base.hardware if base else {}), **value.get("hardware", {})}
        self.behaviour: Json = dict(base.behaviour) if base else {}
        if not isinstance(self.count, int) or not 1 <= self.count <= 200_000:
            problems.append(f"groups[{index}].count: wants a whole number from 1 to 200000, got {self.count!r}")
        if not self.first.is_loopback:
            problems.append(f"groups[{index}].address: a fleet stays on loopback (127/8), got {self.first}")
        if self.power not in ("on", "off"):
            problems.append(f"groups[{index}].power: wants on or off, got {self.power!r}")
        if self.hardware["gpu_profile"] not in (None, *GPU_PROFILES):
            problems.append(f"groups[{index}].hardware.gpu_profile: wants one of {', '.join(GPU_PROFILES)}")
        for disk in self.hardware["disks"]:
            try:
                parse_size(disk["size"])
            except (KeyError, ValueError) as error:
                problems.append(f"groups[{index}].hardware.disks: {error}")
        for name, setting in value.get("behaviour", {}).items():
            try:
                self.behaviour[name] = check_value(name, setting)
            except BehaviourError as error:
                problems.append(f"groups[{index}].behaviour: {error}")
        self.components = DEFAULTS
        try:
            self.components = components(value.get("components", {}), base.components if base else None)
        except ValueError as error:
            problems.append(f"groups[{index}].components: {error}")
        self.versions = {name: row.version for name, row in self.components.items()}
        if problems:
            raise SchemaError(problems)

    def has_ipmi(self, number: int) -> bool:
        return self.ipmi is True or (self.ipmi is not True and number <= int(self.ipmi))

    def place(self, number: int) -> tuple[str, int, int]:
        """Address, Redfish port and IPMI port of a BMC of the group."""
        if self.one_address:
            return str(self.first), self.port + number - 1, self.port + number - 1
        # asked for several times in each request, and ipaddress takes as long as the rest of the answer
        address = socket.inet_ntoa((self._first + number - 1).to_bytes(4, "big"))
        return address, self.port, 623 if self.port == 443 else self.port + 1

    def __iter__(self):
        return (NodeConfig(self, number) for number in range(1, self.count + 1))


class FleetFront:
    """The listener of one BMC: a socket and, once somebody has connected, a server. Takes the place of server.Front."""

    __slots__ = (
        "node",
        "fleet",
        "service",
        "fingerprint",
        "ipmi_port",
        "_socket",
        "_server",
        "_shown",
        "_listening",
        "_ipmi",
    )

    def __init__(self, node: Node, fleet: Fleet):
        self.node, self.fleet = node, fleet
        self.service = Service(node)
        self.fingerprint: str | None = None
        self.ipmi_port: int | None = None
        self._socket: socket.socket | None = None
        self._server: ConnectionServer | None = None
        self._shown: tuple[str, Any] | None = None
        self._listening = False
        self._ipmi: asyncio.DatagramTransport | None = None
        node.on_reachability = self.update
        node.on_certificate = self._install
        node.certificate = self._shown_certificate

    async def update(self) -> None:
        """Make the listener fit the node's reachability: no (normal), refuse, silent."""
        wanted = self.node.reachable
        ipmi = "ipmi" in self.node.config["bmc"]["protocols"] and self.node.settings["ipmi_enabled"]
        if (wanted, ipmi) == self._shown:
            return
        self._shown = (wanted, ipmi)
        loop = asyncio.get_running_loop()
        if self._listening:
            loop.remove_reader(self._socket)
            self._listening = False
        self._drop_connections()
        await self._update_ipmi(wanted if ipmi else "refuse")
        if wanted == "refuse":
            if self._socket:
                self._socket.close()
                self._socket = None
            return
        if self._socket is None:
            self._listen()
        if wanted == "no":
            # silent: the kernel takes connections into the backlog and nobody ever answers them
            loop.add_reader(self._socket, self._accept)
            self._listening = True

    async def _update_ipmi(self, wanted: str) -> None:
        """A port that answers, one that says nothing, or none."""
        if self._ipmi:
            self._ipmi.abort()
            self._ipmi = None
            await asyncio.sleep(0)  # the port is free after the loop's next turn
        bmc = self.node.config["bmc"]
        if wanted == "refuse":
            return
        from .ipmi_server import FleetIpmi

        protocol = FleetIpmi(self.node) if wanted == "no" else asyncio.DatagramProtocol()
        place = (bmc["address"], bmc["ipmi_port"])
        try:
            self._ipmi, _protocol = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: protocol, local_addr=place
            )
        except OSError as error:
            raise OSError(
                f"IPMI of {self.node.name} cannot listen on {place[0]} port {place[1]}: {error.strerror}"
            ) from None
        self.ipmi_port = bmc["ipmi_port"]

    def _listen(self) -> None:
        bmc = self.node.config["bmc"]
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        try:
            listener.bind((bmc["address"], bmc["port"]))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise OSError(
                f"the BMC of {self.node.name} cannot listen on {bmc['address']} port {bmc['port']}: {error.strerror}"
            ) from None
        self._socket = listener

    def _accept(self) -> None:
        for _turn in range(BACKLOG):
            try:
                connection, _peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # out of file descriptors: what waits in the backlog is taken when some are free again
                return
            connection.setblocking(False)
            self.node.stats["connections"] += 1
            self.fleet.take(self, connection)

    async def _install(self, pem: bytes) -> None:
        """A certificate of this BMC's own; new connections see it."""
        self.fingerprint = self.fleet.install(self.node, pem)

    def _shown_certificate(self) -> str | None:
        return certificate_text(self.fleet.certificate_path(self.node)) if self.node.config["bmc"]["tls"] else None

    def protocol(self) -> asyncio.Protocol:
        if self._server is None:
            self._server = ConnectionServer(self.service.handle, self.node.behaviour.keepalive_s)
        return self._server()

    def context(self) -> ssl.SSLContext | None:
        return self.fleet.context(self.node) if self.node.config["bmc"]["tls"] else None

    def _drop_connections(self) -> None:
        for handler in list(self._server.connections) if self._server else ():
            if handler.transport:
                handler.transport.abort()
        self._server = None

    async def close(self) -> None:
        if self._listening:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._listening = False
        self._drop_connections()
        if self._ipmi:
            self._ipmi.abort()
        if self._socket:
            self._socket.close()
            self._socket = None

    def describe(self) -> Json:
        config = self.node.config
        bmc = config["bmc"]
        return {
            "name": self.node.name,
            "serial": config["serial"],
            "rack": config["rack"],
            "address": bmc["address"],
            "port": bmc["port"],
            "tls": bmc["tls"],
            "ipmi_port": self.ipmi_port,
            "protocols": bmc["protocols"],
            "fingerprint": self.fingerprint,
            "profile": self.node.profile.name if self.node.profile else "default",
            "faults": self.fleet.faults_of(self.node.name),
        }


class Fleet:
    """All BMCs of a fleet in one event loop. Answers the control socket as server.Simulator does."""

    def __init__(self, value: Json):
        problems = [
            f"{key}: unknown key (known: {', '.join(sorted(FLEET_KEYS))})" for key in value if key not in FLEET_KEYS
        ]
        if not value.get("dir"):
            problems.append("dir: is missing")
        if problems:
            raise SchemaError(problems)
        self.directory = pathlib.Path(value["dir"])
        self.run_dir = pathlib.Path(value.get("run_dir") or value["dir"])
        self.control_path = self.run_dir / "bmc.sock"
        self.accounts = value.get("accounts") or [{"username": USERNAME, "password": PASSWORD, "role": "Administrator"}]
        for account in self.accounts:
            account.setdefault("role", "Administrator")
        self.session_limit = value.get("session_limit", 8)
        self.seed = value.get("seed", 1)
        self.groups: list[Group] = []
        for index, item in enumerate(value.get("groups") or [{"count": 1}]):
            self.groups.append(Group(self, item, index, sum(group.count for group in self.groups)))
        self.count = sum(group.count for group in self.groups)
        self._faulty = self._assign(value.get("faults", []))
        self.lab: Json = {"volatile": True, "scratch": self.directory, "dir": str(self.directory), "cpu": "simulated"}
        self.fronts: dict[str, FleetFront] = {}
        self.ready = False
        self.authority: Authority | None = None
        self._control: asyncio.Server | None = None
        self._contexts: dict[tuple[str, Any], Certificate] = {}
        self._pending: set[asyncio.Task] = set()

    # ---- faults --------------------------------------------------------------------------------

    def _assign(self, faults: list[Json]) -> dict[str, list[Json]]:
        """Which BMC has which faults: shares are dealt from one shuffled pack, so that they do not overlap while it lasts."""
        names = [config["name"] for group in self.groups for config in group]
        pack = list(names)
        random.Random(self.seed).shuffle(pack)
        out: dict[str, list[Json]] = {}
        problems, position = [], 0
        for index, fault in enumerate(faults):
            unknown = set(fault) - {"name", "behaviour", "share", "count", "nodes"}
            if unknown or not {"behaviour", "name"} & set(fault):
                problems.append(f"faults[{index}]: wants name or behaviour, and one of share, count, nodes")
                continue
            try:
                given = fault["behaviour"] if "behaviour" in fault else switches(fault["name"])
                behaviour = {name: check_value(name, value) for name, value in given.items()}
            except (BehaviourError, KeyError) as error:
                problems.append(f"faults[{index}]: {error.args[0]}")
                continue
            chosen = fault.get("nodes")
            if chosen is None:
                count = fault["count"] if "count" in fault else round(fault.get("share", 1.0) * len(names))
                chosen = [pack[(position + step) % len(pack)] for step in range(min(count, len(pack)))]
                position += len(chosen)
            entry = {"name": fault.get("name") or ",".join(behaviour), "behaviour": behaviour}
            for name in chosen:
                out.setdefault(name, []).append(entry)
        if problems:
            raise SchemaError(problems)
        return out

    def faults_of(self, name: str) -> list[str]:
        return [fault["name"] for fault in self._faulty.get(name, [])]

    def behaviour_of(self, group: Group, number: int) -> Json:
        """The switches of one BMC; those without a fault share the dictionary of their group."""
        faults = self._faulty.get(f"{group.prefix}{number:05d}")
        if not faults:
            return group.behaviour
        merged = dict(group.behaviour)
        for fault in faults:
            merged.update(fault["behaviour"])
        return merged

    # ---- start and end -------------------------------------------------------------------------

    async def start(self) -> None:
        from .control import serve_control

        asyncio.sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES
        self.directory.mkdir(parents=True, exist_ok=True)
        self.run_dir.mkdir(parents=True, exist_ok=True)
        for leftover in self.directory.glob("upload-*"):
            leftover.unlink()
        self.authority = Authority(self.directory)
        self._control = await serve_control(self)
        try:
            for group in self.groups:
                for config in group:
                    node = Node(config, self.lab)
                    node.components, node.firmware = group.components, group.versions
                    front = self.fronts[node.name] = FleetFront(node, self)
                    await front.update()
            self.write_endpoints()
            self.write_user_files()
            self.ready = True
        except BaseException:
            await self.close()
            raise
        # what was made so far stays: the collector need not look at it again and again
        gc.collect()
        gc.freeze()

    def take(self, front: FleetFront, connection: socket.socket) -> None:
        """Hand an accepted connection to its BMC; the TLS handshake goes on beside everything else."""
        task = asyncio.get_running_loop().create_task(self._serve(front, connection))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    @staticmethod
    async def _serve(front: FleetFront, connection: socket.socket) -> None:
        try:
            context = front.context()
            await asyncio.get_running_loop().connect_accepted_socket(
                front.protocol, connection, ssl=context, ssl_handshake_timeout=30 if context else None
            )
        except (OSError, ssl.SSLError):
            # a client that gave up, or that does not trust the certificate
            front.node.stats["handshakes_failed"] += 1
            connection.close()

    def context(self, node: Node) -> ssl.SSLContext:
        return self._shown(node)[0]

    def certificate_path(self, node: Node) -> pathlib.Path:
        return self._shown(node)[2]

    def install(self, node: Node, pem: bytes) -> str:
        """Give a BMC a certificate of its own; returns its fingerprint."""
        path = self.directory / f"{node.name}-own.pem"
        write_private(path, pem)
        shown = (server_context(path), fingerprint(path), path)
        self._contexts[node.name, "normal"] = shown
        return shown[1]

    def _shown(self, node: Node) -> Certificate:
        """The certificate that a BMC shows: what was installed, what its behaviour wants, or the one of its neighbourhood."""
        kind = node.behaviour.certificate
        key = (node.name, kind)
        if key in self._contexts:
            return self._contexts[key]
        if kind == "normal":
            return self._shared(node)
        address, name = node.config["bmc"]["address"], f"{node.name}-{kind}"
        if kind == "self_signed":
            path = ensure_certificate(self.directory, name, address, f"{name}.pem")
        else:
            days = -1 if kind == "expired" else 3650
            path = self.authority.ensure(f"{name}.pem", name, [address], days)
        self._contexts[key] = (server_context(path), fingerprint(path), path)
        return self._contexts[key]

    def _shared(self, node: Node) -> Certificate:
        config: NodeConfig = node.config
        group = config.group
        part = 0 if group.one_address else (config.number - 1) // SHARED_CERTIFICATE
        key = (group.prefix, part)
        if key not in self._contexts:
            numbers = range(part * SHARED_CERTIFICATE + 1, min(group.count, (part + 1) * SHARED_CERTIFICATE) + 1)
            addresses = [str(group.first)] if group.one_address else [group.place(number)[0] for number in numbers]
            name = f"{group.prefix}-{part}"
            path = self.authority.ensure(f"{group.prefix}-{addresses[0]}-{len(addresses)}.pem", name, addresses)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            if group.profile and group.profile.legacy_tls:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    context.minimum_version = ssl.TLSVersion.TLSv1
                    context.maximum_version = ssl.TLSVersion.TLSv1_1
                context.set_ciphers("ALL:@SECLEVEL=0")
            context.load_cert_chain(path)
            # clients of a fleet come once: tickets for a second visit would cost more than the visit
            context.num_tickets = 0
            self._contexts[key] = (context, fingerprint(path), path)
        return self._contexts[key]

    def node(self, name: str) -> Node:
        if name not in self.fronts:
            raise KeyError(
                f"there is no node {name!r} (nodes: {self.count}, the first is {next(iter(self.fronts), None)})"
            )
        return self.fronts[name].node

    async def replace(self, nodes: list[Json]) -> Any:
        raise ValueError("the BMCs of a fleet cannot be replaced: start another fleet")

    async def close(self) -> None:
        for front in self.fronts.values():
            await front.close()
        for task in list(self._pending):
            task.cancel()
        await asyncio.gather(*(front.node.close(keep=False) for front in self.fronts.values() if front.node.busy))
        if self._control:
            self._control.close()
            self.control_path.unlink(missing_ok=True)
            self.control_path.with_name("endpoints.json").unlink(missing_ok=True)

    # ---- files for users -----------------------------------------------------------------------

    def write_endpoints(self) -> None:
        for front in self.fronts.values():
            if front.node.config["bmc"]["tls"]:
                front.fingerprint = self._shown(front.node)[1]
        rows = [front.describe() for front in self.fronts.values()]
        _replace(self.run_dir / "endpoints.json", json.dumps(rows))

    def inventory(self) -> Json:
        """An Ansible inventory of the fleet, as a YAML or JSON file takes it."""
        hosts = {}
        for front in self.fronts.values():
            config = front.node.config
            bmc = config["bmc"]
            hosts[front.node.name] = {
                "bmc_address": bmc["address"],
                "bmc_port": bmc["port"],
                "aicluster_rack": config["rack"],
                "aicluster_slot": config["slot"],
                "aicluster_serial": config["serial"],
                **({"bmc_ipmi_port": front.ipmi_port} if front.ipmi_port else {}),
                **_product_variables(front.node),
            }
        variables = {
            "bmc_protocol": "redfish",
            "bmc_credential": "fleet",
            "bmc_ca_path": str(self.directory / "ca.pem"),
            "aicluster_secrets": str(self.directory / "secrets.yml"),
            "ansible_connection": "local",
        }
        return {"nodes": {"hosts": hosts, "vars": variables}}

    def write_user_files(self) -> None:
        """inventory.json and secrets.yml (mode 0600) beside ca.pem."""
        account = self.accounts[0]
        _replace(self.directory / "inventory.json", json.dumps(self.inventory(), indent=1))
        secret = {"fleet": {"username": account["username"], "password": account["password"]}}
        _replace(self.directory / "secrets.yml", json.dumps(secret) + "\n", 0o600)


def _product_variables(node: Node) -> Json:
    """Host variables that some products need: the TLS profile, and which of several systems is meant."""
    out: Json = {}
    if node.profile and node.profile.legacy_tls:
        out["bmc_tls"] = "legacy"
    if node.profile and node.profile.systems:
        out["bmc_system_id"] = node.profile.systems[0]
    return out


def _replace(path: pathlib.Path, text: str, mode: int = 0o644) -> None:
    partial = path.with_name(path.name + ".new")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as handle:
        handle.write(text)
    os.replace(partial, path)


def raise_file_limit(wanted: int) -> int:
    """Allow this many open files if that can be had; returns what was got."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
            return wanted
        except (ValueError, OSError):
            pass
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


# ---- command line ------------------------------------------------------------------------------


def _setting(text: str) -> tuple[str, Any]:
    """`name=value` of a behaviour switch; the value is JSON, or a text where it is none."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"wants SWITCH=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _fault(text: str) -> Json:
    """`2%:busy_every_n=7,retry_after_form=date`, or `20:slash` (a number of BMCs, a fault by its name)."""
    amount, colon, rest = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"wants SHARE%:FAULT or SHARE%:SWITCH=VALUE[,SWITCH=VALUE], got {text!r}")
    try:
        size: Json = {"share": float(amount[:-1]) / 100} if amount.endswith("%") else {"count": int(amount)}
    except ValueError:
        raise argparse.ArgumentTypeError(f"wants a share such as 2% or a number of BMCs, got {amount!r}") from None
    if "=" not in rest:
        return {"name": rest, **size}
    return {"name": rest, "behaviour": dict(_setting(part) for part in rest.split(",")), **size}


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(prog="bmc_simulator fleet", description="Thousands of simulated BMCs on loopback.")
    out.add_argument("description", nargs="?", metavar="FLEET.JSON", help="groups and faults; options below add to it")
    out.add_argument("--count", type=int, help="number of BMCs (one group)")
    out.add_argument("--address", help="first address, in 127/8 (default 127.20.0.1)")
    out.add_argument("--port", type=int, help="port of every BMC (default 8443)")
    out.add_argument("--one-address", action="store_true", help="all on one address, with ports from --port on")
    out.add_argument("--profile", help=f"what they are: default, {', '.join(profiles.names())}")
    out.add_argument("--power", choices=("on", "off"), help="power state at the start")
    out.add_argument("--ipmi", type=int, help="how many of them, the first ones, also answer IPMI (port 8444)")
    out.add_argument("--no-tls", action="store_true", help="plain HTTP")
    out.add_argument(
        "--set", type=_setting, action="append", default=[], metavar="SWITCH=VALUE", help="behaviour of all"
    )
    out.add_argument("--fault", type=_fault, action="append", default=[], metavar="2%:FAULT", help="of a share")
    out.add_argument("--all-faults", metavar="2%", help="every named fault, each on this share or number of BMCs")
    out.add_argument(
        "--baseline", metavar="FILE", help="rehearse this firmware baseline: with stand-in images, in --dir"
    )
    out.add_argument(
        "--server", metavar="SERVER.JSON", help="what bmc_firmware_info says of a server: the BMCs run that"
    )
    out.add_argument("--platform", help="which of the baseline's platforms they are")
    out.add_argument("--seed", type=int, help="which BMCs are faulty (default 1)")
    out.add_argument(
        "--dir", help="certificates, inventory, control socket (default: a new directory, removed at the end)"
    )
    out.add_argument("--check", action="store_true", help="check the description and end")
    out.add_argument("--die-with", type=int, metavar="PID", help="end when this process, the parent, ends")
    return out


def describe(options: argparse.Namespace) -> Json:
    """The description of a fleet from its file and the options."""
    value: Json = {}
    if options.description:
        try:
            value = json.loads(pathlib.Path(options.description).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SchemaError([f"{options.description}: {error}"]) from None
        if not isinstance(value, dict):
            raise SchemaError([f"{options.description}: wants an object"])
    group: Json = {}
    for key in ("count", "address", "port", "power", "profile", "ipmi"):
        if getattr(options, key) is not None:
            group[key] = getattr(options, key)
    if options.one_address:
        group["one_address"] = True
    if options.no_tls:
        group["tls"] = False
    if options.set:
        group["behaviour"] = dict(options.set)
    groups = value.get("groups") or [{}]
    value["groups"] = [
        {**item, **group, "behaviour": {**item.get("behaviour", {}), **group.get("behaviour", {})}} for item in groups
    ]
    value["faults"] = [*value.get("faults", []), *options.fault]
    if options.all_faults:
        try:
            value["faults"] += [_fault(f"{options.all_faults}:{name}") for name in FAULTS]
        except argparse.ArgumentTypeError as error:
            raise SchemaError([f"--all-faults: {error}"]) from None
    if options.seed is not None:
        value["seed"] = options.seed
    if options.dir:
        value["dir"] = options.dir
    return value


def rehearse(options: argparse.Namespace, value: Json) -> str | None:
    """Put what a server runs into the description; returns the platform of the baseline that is rehearsed, if any."""
    if not options.baseline and not options.server:
        return None
    missing = [f"--{name}" for name in ("baseline", "server", "dir") if not getattr(options, name)]
    if missing:
        raise SchemaError([f"a rehearsal wants --baseline, --server and --dir; missing: {', '.join(missing)}"])
    directory = pathlib.Path(options.dir)
    for group in value["groups"]:
        components, platform = rehearsal.prepare(
            options.baseline, options.server, directory, options.platform, group.get("profile")
        )
        group["components"] = {**components, **group.get("components", {})}
    return platform


def main(argv: list[str]) -> int:
    from .__main__ import die_with, run

    options = parser().parse_args(argv)
    if options.die_with:
        die_with(options.die_with)
    temporary = None
    try:
        value = describe(options)
        if not value.get("dir"):
            value["dir"] = temporary = tempfile.mkdtemp(prefix="bmcfleet-")
        rehearsed = rehearse(options, value)
        fleet = Fleet(value)
        if options.check:
            print(f"{fleet.count} BMCs, {len(fleet._faulty)} of them with faults")
            return 0
        limit = raise_file_limit(fleet.count + SPARE_FILES)
        if limit < fleet.count + 256:
            print(f"bmc_simulator: {fleet.count} BMCs need as many open files, {limit} are allowed", file=sys.stderr)
            return 1
        if rehearsed:
            servers = [
                {key: config[key] for key in ("serial", "name", "rack", "slot")}
                for group in fleet.groups
                for config in group
            ]
            rehearsal.write_expected(fleet.directory, servers, rehearsed)
        asyncio.run(run(fleet, f"{fleet.count} BMCs"))
    except SchemaError as error:
        print(
            "this does not describe a fleet:\n" + "\n".join(f"  {problem}" for problem in error.problems),
            file=sys.stderr,
        )
        return 2
    except OSError as error:
        print(f"bmc_simulator: {error}", file=sys.stderr)
        return 1
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)
    return 0
