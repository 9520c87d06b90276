# What a lab is made of: turns the few options of a user into the one full description that the network, the disks, the BMC simulator and the
# inventory are all built from. Pure: the same options always give the same description, and no secret is in it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import uuid

from ..core.errors import InvalidInput
from ..core.units import parse_size

MAX_NODES = 8
BRIDGES = ("prov", "rail0", "rail1")
DRIVERS = ("qemu", "nspawn", "none")
# Seconds that the lab gives a BMC for one answer when it starts
ANSWER_LIMIT = 5
PROTOCOLS = ("redfish", "ipmi")
DISK_TYPES = ("nvme", "ssd", "hdd")
FIRMWARE = ("uefi", "bios")
# What the simulated instruments know (roles/lab_instruments/files: profiles/, setup): profile -> GPUs. The unit test compares them.
GPU_PROFILES = {"a100x4": 4, "a100x8": 8, "h100x8": 8, "h200x8": 8, "b200x8": 8}
FAULT_KINDS = ("ecc_dbe", "fell_off", "thermal_slowdown", "pcie_width", "nvlink_down", "row_remap_failed")

CONTROLLER_HOST = 1  # last byte of the controller's address in each of the lab's networks
SLURM_HOST = 2
DECOY_HOST = 5
FIRST_NODE_HOST = 10  # node i has last byte 10 + i

_NAME = re.compile(r"^[a-z][a-z0-9]{0,11}$")
# An interface name has at most 15 characters, and the longest that is derived from a node's name is "<node>n<k>".
_NODE_NAME = re.compile(r"^[a-z][a-z0-9-]{0,11}$")
_FAULT = re.compile(r"^gpu(\d+)_([a-z_]+)$")
_MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")

NODE_KEYS = {
    "name",
    "driver",
    "rack",
    "slot",
    "role",
    "site",
    "serial",
    "uuid",
    "cpus",
    "memory_mib",
    "firmware",
    "kernel_flavour",
    "nics",
    "disks",
    "gpu_profile",
    "fault",
    "protocol",
    "protocols",
    "session_limit",
    "behaviour",
    "root",
}
NIC_KEYS = {"slot", "bridge", "mac"}
DISK_KEYS = {"slot", "serial", "size", "type"}
NODE_DEFAULTS = {
    "driver": "qemu",
    "rack": "r1",
    "role": "compute",
    "site": "lab",
    "cpus": 2,
    "memory_mib": 1024,
    "firmware": "uefi",
    "kernel_flavour": "cloud",
    "gpu_profile": "h100x8",
    "fault": None,
    "protocol": "redfish",
    "protocols": ["redfish", "ipmi"],
    "session_limit": 8,
    "behaviour": {},
    "nics": [{"bridge": "prov"}, {"bridge": "rail0"}, {"bridge": "rail1"}],
    "disks": [{"size": "8 GiB", "type": "nvme"}, {"size": "4 GiB", "type": "ssd"}],
}


def namespaces(name):
    """The lab's own network namespaces by role (those of nspawn nodes come with the nodes)."""
    return {part: f"{name}-{part}" for part in ("ctl", "oob", "net", "slurm")}


def _bad(message, thing, wanted, seen):
    return InvalidInput(
        message, thing=thing, wanted=wanted, seen=seen, next_step="correct the option; docs/lab.md lists them"
    )


def _one_of(value, allowed, thing):
    if value not in allowed:
        raise _bad("not a value that the lab knows", thing, " | ".join(allowed), value)


def _keys(value, allowed, thing):
    if not isinstance(value, dict):
        raise _bad("not a dict of options", thing, f"any of {', '.join(sorted(allowed))}", value)
    unknown = sorted(str(key) for key in set(value) - allowed)
    if unknown:
        raise _bad("unknown option", thing, ", ".join(sorted(allowed)), ", ".join(unknown))


def _whole(value, low, high, thing):
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _bad("not a whole number in range", thing, f"{low} to {high}", value)


def _entries(nodes, defaults, settings):
    """The node options as one merged dict a node, in order."""
    defaults, settings = defaults or {}, settings or {}
    _keys(defaults, NODE_KEYS - {"name"}, "virtual_lab_node_defaults")
    if not isinstance(settings, dict):
        raise _bad("not a dict", "virtual_lab_node_settings", "a dict of node options by node name", settings)
    if isinstance(nodes, str) and nodes.isdigit():  # options given with -e arrive as text
        nodes = int(nodes)
    if isinstance(nodes, bool) or not isinstance(nodes, (int, list, tuple)):
        raise _bad(
            "neither a number of nodes nor a list of nodes",
            "virtual_lab_nodes",
            f"a number from 1 to {MAX_NODES}, or a list of dicts",
            nodes,
        )
    count = nodes if isinstance(nodes, int) else len(nodes)
    if not 1 <= count <= MAX_NODES:
        raise _bad("number of nodes out of range", "virtual_lab_nodes", f"1 to {MAX_NODES}", count)
    given = [{} for _unused in range(nodes)] if isinstance(nodes, int) else list(nodes)
    merged = []
    for position, entry in enumerate(given, 1):
        _keys(entry, NODE_KEYS, f"virtual_lab_nodes[{position}]")
        name = entry.get("name") or f"gpu{position:02d}"
        own = _setting(settings, name)
        merged.append({**NODE_DEFAULTS, **defaults, **own, **entry, "name": name})
    # Settings of servers that this lab is too small for are checked all the same: one inventory serves labs of every size, a slip serves none.
    names = [node["name"] for node in merged]
    possible = names + [name for name in (f"gpu{i:02d}" for i in range(1, MAX_NODES + 1)) if name not in names]
    for name in settings:
        if name not in possible:
            raise _bad("no lab has a server of this name", "virtual_lab_node_settings", ", ".join(possible), name)
        if name not in names:
            _check_options({**NODE_DEFAULTS, **defaults, **_setting(settings, name), "name": name})
    return merged


def _setting(settings, name):
    own = settings.get(name) or {}
    _keys(own, NODE_KEYS - {"name"}, f"virtual_lab_node_settings, node {name}")
    return own


def _check_options(node):
    """Raise InvalidInput where an option of one merged node has a value that no lab takes."""
    label = node["name"]
    if not _NODE_NAME.match(str(label)):
        raise _bad(
            "not a node name", "node name", "a letter, then up to 11 lower-case letters, digits or dashes", label
        )
    _one_of(node["driver"], DRIVERS, f"node {label}, driver")
    _one_of(node["firmware"], FIRMWARE, f"node {label}, firmware")
    _whole(node["cpus"], 1, 64, f"node {label}, cpus")
    _whole(node["memory_mib"], 256, 65536, f"node {label}, memory_mib")
    _whole(node["session_limit"], 1, 1000, f"node {label}, session_limit")
    for key in ("protocols", "nics", "disks"):
        if not isinstance(node[key], (list, tuple)):
            raise _bad("not a list", f"node {label}, {key}", "a list", node[key])
    for protocol in node["protocols"]:
        _one_of(protocol, PROTOCOLS, f"node {label}, protocols")
    _one_of(node["protocol"], PROTOCOLS, f"node {label}, protocol")
    if node["protocol"] not in node["protocols"]:
        raise _bad(
            "the server is to be driven by what its BMC does not answer",
            f"node {label}, protocol",
            f"one of protocols: {', '.join(node['protocols']) or 'an empty list'}",
            node["protocol"],
        )
    if not node["nics"] or not node["disks"]:
        raise _bad(
            "a server without NIC or disk cannot be deployed",
            f"node {label}",
            "at least one of nics, one of disks",
            "an empty list",
        )
    if not isinstance(node["behaviour"] or {}, dict):
        raise _bad("not a dict", f"node {label}, behaviour", "a dict of switches, docs/lab-bmc.md", node["behaviour"])
    _check_gpus(node["gpu_profile"], node["fault"], label)


def _answers(behaviour):
    """Will its BMC answer when the lab starts? One that is described as unreachable, or as slower than the lab's patience, is not waited for."""
    delay = behaviour.get("delay_s") or 0
    slow = isinstance(delay, (int, float)) and delay >= ANSWER_LIMIT
    return behaviour.get("unreachable") in (None, False, "no") and not slow


def _check_gpus(profile, fault, label):
    if profile is not None:
        _one_of(profile, tuple(GPU_PROFILES), f"node {label}, gpu_profile")
    if fault is None:
        return
    match = _FAULT.match(str(fault))
    gpus = GPU_PROFILES.get(profile, 0)
    if not match or match.group(2) not in FAULT_KINDS or int(match.group(1)) >= gpus:
        wanted = f"gpuN_ and one of {', '.join(FAULT_KINDS)}; N from 0 to {gpus - 1}" if gpus else "none without GPUs"
        raise _bad("not a fault that the simulated GPUs know", f"node {label}, fault", wanted, fault)


def _nic(index, k, nic, node):
    _keys(nic, NIC_KEYS, f"node {node}, nic {k}")
    bridge = nic.get("bridge", BRIDGES[k] if k < len(BRIDGES) else "prov")
    _one_of(bridge, BRIDGES, f"node {node}, nic {k}, bridge")
    mac = str(nic.get("mac") or f"52:54:00:77:{k:02x}:{index:02x}").lower()
    if not _MAC.match(mac):
        raise _bad("not a MAC address", f"node {node}, nic {k}, mac", "six hex pairs with colons", mac)
    return {"slot": nic.get("slot", f"nic{k}"), "mac": mac, "tap": f"{node}n{k}", "bridge": bridge}


def _disk(k, disk, node):
    _keys(disk, DISK_KEYS, f"node {node}, disk {k}")
    kind = disk.get("type", "nvme")
    _one_of(kind, DISK_TYPES, f"node {node}, disk {k}, type")
    size = str(disk.get("size", "8 GiB"))
    try:
        length = parse_size(size)
    except (ValueError, InvalidInput):
        raise _bad("not a size", f"node {node}, disk {k}, size", 'for example "8 GiB"', size) from None
    if length < 1024 * 1024 or length % 4096:
        raise _bad(
            "not a size that a disk can have",
            f"node {node}, disk {k}, size",
            "at least 1 MiB, a multiple of 4 KiB",
            size,
        )
    slot = disk.get("slot", f"disk{k}")
    # NVMe and virtio serials hold 20 characters at most.
    serial = str(disk.get("serial") or f"{node}-{slot}".upper())[:20]
    return {"slot": slot, "serial": serial, "size": size, "type": kind}


def describe(
    name,
    directory,
    run_directory,
    nodes=2,
    node_defaults=None,
    node_settings=None,
    accel="tcg,thread=multi",
    cpu="Nehalem",
    network="10.77",
):
    """The whole lab as a dict: what lab.json holds, less the accounts, plus `networks`, `namespaces` and what the expected-servers list needs.

    `nodes` is a number (1 to 8) or a list of node dicts; `node_defaults` apply to all; `node_settings` ({name: options}) to the node of that
    name and are not used where the lab has no such node, so that one inventory serves labs of every size.
    Raises InvalidInput naming the option, what is wanted and what was given.
    """
    if not _NAME.match(str(name)):
        raise _bad(
            "not a lab name", "virtual_lab_name", "a letter, then up to 11 letters or digits, all lower case", name
        )
    for option, path in (("virtual_lab_dir", directory), ("virtual_lab_run_dir", run_directory)):
        if not str(path).startswith("/") or len(str(path).strip("/").split("/")) < 2:
            raise _bad(
                "not a place for a lab", option, "an absolute path of two parts or more, used for nothing else", path
            )
    octets = [int(part) for part in str(network).split(".")] if re.match(r"^\d{1,3}\.\d{1,3}$", str(network)) else []
    if len(octets) != 2 or max(octets) > 255:
        raise _bad("not the first half of an IPv4 address", "virtual_lab_network", 'for example "10.77"', network)

    built = []
    for index, node in enumerate(_entries(nodes, node_defaults, node_settings), 1):
        label = node["name"]
        _check_options(node)
        serial = node.get("serial") or f"LAB-{name}-{index:04d}"
        host = FIRST_NODE_HOST + index
        if node["driver"] == "nspawn" and not node.get("root"):
            raise _bad(
                "an nspawn node needs an operating system",
                f"node {label}, root",
                "the directory that holds it (image format directory)",
                "nothing",
            )
        nics = [_nic(index, k, nic or {}, label) for k, nic in enumerate(node["nics"])]
        if node["driver"] == "nspawn":
            # No DHCP server answers a container that is not being deployed: it gets the node's addresses from its server.
            for nic in nics:
                nic["address"] = f"{network}.{BRIDGES.index(nic['bridge']) + 1}.{host}/24"
        built.append(
            {
                "name": label,
                "serial": serial,
                "uuid": str(node.get("uuid") or uuid.uuid5(uuid.NAMESPACE_DNS, f"{serial}.lab.aicluster")),
                "site": node["site"],
                "rack": node["rack"],
                "slot": node.get("slot") or f"u{index:02d}",
                "role": node["role"],
                "driver": node["driver"],
                "protocol": node["protocol"],
                "provision_ip": f"{network}.1.{host}",
                "bmc": {
                    "address": f"{network}.0.{host}",
                    "port": 443,
                    "ipmi_port": 623,
                    "protocols": list(node["protocols"]),
                    "session_limit": node["session_limit"],
                },
                "cpus": node["cpus"],
                "memory_mib": node["memory_mib"],
                "firmware": node["firmware"],
                "kernel_flavour": node["kernel_flavour"],
                "nics": nics,
                "disks": [_disk(k, disk or {}, label) for k, disk in enumerate(node["disks"])],
                "gpu_profile": node["gpu_profile"],
                "fault": node["fault"],
                "behaviour": dict(node["behaviour"] or {}),
                "awaited": _answers(node["behaviour"] or {}),
                "root": node.get("root"),
            }
        )
    for key in ("name", "serial", "uuid"):
        values = [node[key] for node in built]
        if len(set(values)) != len(values):
            raise _bad(
                "two nodes share one value", f"node option {key}", "a different value for each node", ", ".join(values)
            )
    macs = [nic["mac"] for node in built for nic in node["nics"]]
    shared = sorted(mac for mac in set(macs) if macs.count(mac) > 1)
    if shared:
        raise _bad(
            "two NICs share one MAC address", "node option nics", "a different MAC for each NIC", ", ".join(shared)
        )

    names = namespaces(name)
    return {
        "name": name,
        "dir": str(directory),
        "run_dir": str(run_directory),
        "accel": accel,
        "cpu": cpu,
        "net_namespace": names["net"],
        "namespaces": names,
        "networks": {net: f"{network}.{third}" for third, net in enumerate(("oob", *BRIDGES))},
        "nodes": built,
    }


def simulator_view(description, accounts):
    """lab.json: the description with `accounts` ([{username, password, role}]) given to every BMC."""
    view = {key: description[key] for key in ("name", "dir", "run_dir", "accel", "cpu", "net_namespace")}
    keys = (
        "name",
        "serial",
        "uuid",
        "rack",
        "slot",
        "driver",
        "cpus",
        "memory_mib",
        "firmware",
        "nics",
        "disks",
        "gpu_profile",
        "fault",
        "behaviour",
        "root",
    )
    view["nodes"] = [
        {**{key: node[key] for key in keys}, "bmc": {**node["bmc"], "accounts": accounts}}
        for node in description["nodes"]
    ]
    return view


def expected_servers(description):
    """The delivery note of the lab's racks: which servers somebody should find there."""
    return [
        {
            "serial": node["serial"],
            "name": node["name"],
            "site": node["site"],
            "rack": node["rack"],
            "slot": node["slot"],
            "role": node["role"],
            "bmc_address": node["bmc"]["address"],
            "bmc_protocol": node["protocol"],
            # The same host number on each of the lab's networks.
            "provision_ip": f"{description['networks']['prov']}.{node['bmc']['address'].rpartition('.')[2]}",
            "provision_prefix": 24,
        }
        for node in description["nodes"]
    ]
