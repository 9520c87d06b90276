# RAID volumes of a simulated server, and the erasing of drives. Only where no machine stands behind the BMC: a real disk has no RAID controller here.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re

from .messages import Problem
from .node import Node
from .resources import Json, S, collection, disk_bus, kind, link, ok, resource, volumes_offered
from .schema import parse_size
from .writes import TASKS, Answer, Call, of_type, one_of, parameters, patch, write

# RAID type: fewest drives, and how much of n equal drives can be used
LEVELS = {
    "None": (1, lambda count: count),
    "RAID0": (1, lambda count: count),
    "RAID1": (2, lambda count: count / 2),
    "RAID5": (3, lambda count: count - 1),
    "RAID6": (4, lambda count: count - 2),
    "RAID10": (4, lambda count: count / 2),
}
STORAGE = S + "/Storage/{bus}"


def _drives(node: Node, bus: str) -> dict[str, Json]:
    return {disk["slot"]: disk for disk in node.config["disks"] if disk_bus(disk) == bus}


@resource(STORAGE + "/Volumes")
def volume_collection(node: Node, path: str, bus: str) -> Json | None:
    if not _drives(node, bus):
        return None
    return collection(path, "Volume", [number for number, row in node.volumes.items() if row["bus"] == bus])


@resource(STORAGE + "/Volumes/{volume}")
def volume_resource(node: Node, path: str, bus: str, volume: str) -> Json | None:
    row = node.volumes.get(volume)
    if row is None or row["bus"] != bus:
        return None
    storage = path.rsplit("/", 2)[0]
    return {
        "@odata.id": path,
        "@odata.type": kind("Volume"),
        "Id": volume,
        "Name": row["name"],
        "DisplayName": row["name"],
        "RAIDType": row["raid"],
        "CapacityBytes": row["bytes"],
        "BlockSizeBytes": 512,
        "Status": ok(),
        "Links": {
            "Drives": [link(f"{storage}/Drives/{slot}") for slot in row["drives"]],
            "Drives@odata.count": len(row["drives"]),
        },
        "Actions": {"#Volume.Initialize": {"target": f"{path}/Actions/Volume.Initialize"}},
    }


@write("POST", STORAGE + "/Volumes", "ConfigureComponents")
async def create_volume(call: Call) -> Answer:
    node, bus, body = call.node, call.arguments["bus"], call.body
    drives = _drives(node, bus)
    if not drives:
        raise Problem("ResourceMissingAtURI", call.path)
    if not volumes_offered(node, bus):
        raise Problem("OperationNotAllowed", headers={"Allow": "GET, HEAD"})
    known = ("RAIDType", "Name", "DisplayName", "CapacityBytes", "Links", "InitializeMethod", "ReadCachePolicy")
    for name in body:
        if name not in known and not name.startswith("@"):
            raise Problem("PropertyUnknown", name, related=(name,))
    for name in ("RAIDType", "Links"):
        if name not in body:
            raise Problem("CreateFailedMissingReqProperties", name, related=(name,))
    raid = one_of(body["RAIDType"], LEVELS, "RAIDType")
    chosen = of_type(of_type(body["Links"], dict, "Links").get("Drives"), list, "Links/Drives")
    base = f"{call.path.rsplit('/', 1)[0]}/Drives/"
    slots = [str(item.get("@odata.id", "")).removeprefix(base) if isinstance(item, dict) else "" for item in chosen]
    for slot in slots:
        if slot not in drives:
            raise Problem("PropertyValueNotInList", json.dumps(slot), "Links/Drives", related=("Links/Drives",))
        if slot in [used for row in node.volumes.values() for used in row["drives"]]:
            raise Problem("ResourceInUse", related=("Links/Drives",))
    fewest, usable = LEVELS[raid]
    if len(slots) < fewest or len(set(slots)) != len(slots) or (raid == "RAID10" and len(slots) % 2):
        raise Problem("PropertyValueIncorrect", "Links/Drives", len(slots), related=("Links/Drives",))
    most = int(min(parse_size(drives[slot]["size"]) for slot in slots) * usable(len(slots)))
    size = of_type(body.get("CapacityBytes", most), int, "CapacityBytes")
    if not 0 < size <= most:
        raise Problem("PropertyValueOutOfRange", size, "CapacityBytes", related=("CapacityBytes",))
    name = of_type(body.get("DisplayName", body.get("Name", "")), str, "Name")
    number = node.next_id("volume")
    row = {"bus": bus, "name": name or f"Volume {number}", "raid": raid, "drives": slots, "bytes": size}
    path = f"{call.path}/{number}"
    if "volume" in node.behaviour.accept_and_do_nothing:
        return Answer(202 if node.behaviour.volume_task_s else 204)
    if node.behaviour.volume_task_s:
        return _later(call, "Create volume", lambda: node.volumes.update({number: row}))
    node.volumes[number] = row
    node.event("volume_created", volume=number, raid=raid, drives=",".join(slots))
    node.save()
    return Answer(201, volume_resource(node, path, bus, number), {"Location": path})


def _later(call: Call, name: str, change) -> Answer:
    """The change as a task, as some controllers have it."""
    import asyncio

    from . import resources

    async def work(_task) -> None:
        await asyncio.sleep(call.node.behaviour.volume_task_s)
        change()
        call.node.save()

    task = call.node.start_task(name, work)
    return Answer(202, resources.task_body(task), {"Location": f"{TASKS}/{task.id}", "Retry-After": "1"})


@write("PATCH", STORAGE + "/Volumes/{volume}", "ConfigureComponents")
async def patch_volume(call: Call) -> Answer:
    row = call.node.volumes.get(call.arguments["volume"])
    if row is None:
        raise Problem("ResourceMissingAtURI", call.path)

    def name(value) -> None:
        row["name"] = of_type(value, str, "DisplayName")

    return patch(call, {"DisplayName": name})


@write("DELETE", STORAGE + "/Volumes/{volume}", "ConfigureComponents")
async def delete_volume(call: Call) -> Answer:
    node, number = call.node, call.arguments["volume"]
    row = node.volumes.get(number)
    if row is None or row["bus"] != call.arguments["bus"]:
        raise Problem("ResourceMissingAtURI", call.path)
    if "volume" in node.behaviour.accept_and_do_nothing:
        return Answer()
    if node.behaviour.volume_task_s:
        return _later(call, "Delete volume", lambda: node.volumes.pop(number, None))
    del node.volumes[number]
    node.event("volume_deleted", volume=number)
    node.save()
    return Answer()


@write("POST", STORAGE + "/Volumes/{volume}/Actions/Volume.Initialize", "ConfigureComponents")
async def initialize_volume(call: Call) -> Answer:
    if call.arguments["volume"] not in call.node.volumes:
        raise Problem("ResourceMissingAtURI", call.path)
    body = parameters(call, "Volume.Initialize", ("InitializeType", "InitializeMethod"))
    one_of(body.get("InitializeType", "Fast"), ("Fast", "Slow"), "InitializeType")
    call.node.event("volume_initialized", volume=call.arguments["volume"])
    return Answer()


@write("POST", STORAGE + "/Drives/{slot}/Actions/Drive.SecureErase", "ConfigureComponents")
async def erase_drive(call: Call) -> Answer:
    node, slot = call.node, call.arguments["slot"]
    if slot not in _drives(node, call.arguments["bus"]) or node.config["driver"] != "none":
        raise Problem("ResourceMissingAtURI", call.path)
    parameters(call, "Drive.SecureErase", ("SanitizationType", "OverwritePasses"))
    if any(slot in row["drives"] for row in node.volumes.values()):
        raise Problem("ResourceInUse")
    if "volume" in node.behaviour.accept_and_do_nothing:
        return Answer()
    # Always a task, as on real BMCs: the drive itself shows nothing of it.
    return _later(call, "Erase drive", lambda: node.event("drive_erased", slot=slot))


def volumes_of(node: Node, slot: str) -> list[str]:
    """Paths of the volumes that a drive belongs to."""
    return [
        f"{S}/Storage/{row['bus']}/Volumes/{number}"
        for number, row in sorted(node.volumes.items(), key=lambda item: int(re.sub(r"\D", "", item[0]) or 0))
        if slot in row["drives"]
    ]
