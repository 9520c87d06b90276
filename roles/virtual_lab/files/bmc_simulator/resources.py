# The Redfish resources of one BMC: pure functions from a node's state to the JSON of a resource.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Each function is registered for a URI pattern; it returns None where the resource does not exist for this node.

Schemas: DMTF DSP8010; the versions named in VERSIONS are those that the properties used here belong to.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import uuid
from collections.abc import Callable
from typing import Any

from . import hardware, messages
from .journal import now_text
from .node import PRIVILEGES, Account, Node, Session, Task
from .schema import parse_size

Json = dict[str, Any]
V1 = "/redfish/v1"
SYSTEM = "1"
HGX = "HGX_Baseboard_0"
MANAGER = "BMC"
CHASSIS = "1"
S, M, C = f"{V1}/Systems/{SYSTEM}", f"{V1}/Managers/{MANAGER}", f"{V1}/Chassis/{CHASSIS}"
ACCOUNTS, ROLES = f"{V1}/AccountService/Accounts", f"{V1}/AccountService/Roles"
SESSIONS = f"{V1}/SessionService/Sessions"
TASKS, MONITORS = f"{V1}/TaskService/Tasks", f"{V1}/TaskService/TaskMonitors"
UPDATE = f"{V1}/UpdateService"
CHASSIS_RESETS = ("PowerCycle", "FullPowerCycle")
AUX_RESET, AUX_RESETS = "NvidiaChassis.AuxPowerReset", ("AuxPowerCycle", "AuxPowerCycleForce")
BIOS_REGISTRY = "BiosAttributeRegistry.v1_0_0"
VERSIONS = {
    "ServiceRoot": "v1_15_0",
    "ComputerSystem": "v1_20_0",
    "Processor": "v1_18_0",
    "Memory": "v1_17_1",
    "Storage": "v1_15_0",
    "StorageController": "v1_7_0",
    "Drive": "v1_17_0",
    "EthernetInterface": "v1_9_0",
    "Bios": "v1_2_0",
    "LogService": "v1_4_0",
    "LogEntry": "v1_15_0",
    "VirtualMedia": "v1_6_0",
    "Manager": "v1_17_0",
    "Chassis": "v1_23_0",
    "UpdateService": "v1_12_0",
    "SoftwareInventory": "v1_9_0",
    "TaskService": "v1_2_0",
    "Task": "v1_7_0",
    "SessionService": "v1_1_8",
    "Session": "v1_5_0",
    "AccountService": "v1_13_0",
    "ManagerAccount": "v1_10_0",
    "Role": "v1_3_1",
    "ActionInfo": "v1_3_0",
    "MessageRegistryFile": "v1_1_3",
    "AttributeRegistry": "v1_3_6",
    "ManagerNetworkProtocol": "v1_9_0",
    "PowerSubsystem": "v1_1_0",
    "PowerSupply": "v1_5_0",
    "ThermalSubsystem": "v1_3_0",
    "ThermalMetrics": "v1_3_0",
    "Fan": "v1_5_0",
    "Sensor": "v1_7_0",
    "EnvironmentMetrics": "v1_3_0",
    "Power": "v1_7_1",
    "Thermal": "v1_7_1",
    "Volume": "v1_9_0",
    "CertificateService": "v1_0_4",
    "CertificateLocations": "v1_0_3",
    "Certificate": "v1_7_0",
    "EventService": "v1_10_0",
    "EventDestination": "v1_13_0",
    "SecureBoot": "v1_1_0",
    "BootOption": "v1_0_4",
    "Settings": "v1_3_5",
    "Message": "v1_1_2",
}
RESOURCES: list[tuple[re.Pattern[str], Callable[..., Json | None]]] = []


def resource(pattern: str) -> Callable[[Callable[..., Json | None]], Callable[..., Json | None]]:
    """Register a function for URIs such as `/redfish/v1/Systems/{system}`; the names in braces become its arguments."""
    expression = re.compile("^" + re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern) + "$")

    def register(function: Callable[..., Json | None]) -> Callable[..., Json | None]:
        RESOURCES.append((expression, function))
        _route.cache_clear()
        return function

    return register


def locate(node: Node, path: str) -> tuple[Node, str, str]:
    """Whose resource a path is: node, path there, and the prefix that stands for the node's own system in answers.

    Where one BMC has several servers, `/Systems/@2` is the second one's.
    """
    if node.profile is not None and node.profile.systems and path.startswith(f"{V1}/Systems/@"):
        identity, slash, rest = path[len(f"{V1}/Systems/@") :].partition("/")
        if identity.isdigit() and 2 <= int(identity) <= len(node.profile.systems):
            return node.child(int(identity)), f"{S}{slash}{rest}", f"{V1}/Systems/@{identity}"
    return node, path, S


def moved(value: Any, prefix: str) -> Any:
    """A body of another server of the same BMC, with its paths as this BMC has them."""
    if isinstance(value, str):
        return prefix + value[len(S) :] if value == S or value.startswith(S + "/") else value
    if isinstance(value, dict):
        return {key: moved(item, prefix) for key, item in value.items()}
    return [moved(item, prefix) for item in value] if isinstance(value, list) else value


def find(node: Node, path: str) -> Json | None:
    """The resource at a path (without a slash at the end), or None."""
    profile = node.profile
    if profile is None:
        return _find(node, path)
    owner, local, prefix = locate(node, path)
    if owner is not node:
        body = find(owner, local)
        if body is not None and local == S:
            body = {**body, "Id": profile.systems[owner.number - 1]}
        return None if body is None else moved(body, prefix)
    return profile.shape(node, path, _find(node, path))


def _find(node: Node, path: str) -> Json | None:
    function, arguments = _route(path)
    return function(node, path, **arguments) if function else None


@functools.lru_cache(maxsize=4096)
def _route(path: str) -> tuple[Callable[..., Json | None] | None, dict[str, str]]:
    """Whose path it is. Remembered: thousands of BMCs are asked for the same paths, and the table is long."""
    for expression, function in RESOURCES:
        match = expression.match(path)
        if match:
            return function, match.groupdict()
    return None, {}


def kind(name: str) -> str:
    return f"#{name}.{VERSIONS[name]}.{name}"


def link(path: str) -> Json:
    return {"@odata.id": path}


def collection(path: str, name: str, members: list[str], title: str | None = None) -> Json:
    return {
        "@odata.id": path,
        "@odata.type": f"#{name}Collection.{name}Collection",
        "Name": title or f"{name} Collection",
        "Members": [link(f"{path}/{member}") for member in members],
        "Members@odata.count": len(members),
    }


def ok(state: str = "Enabled") -> Json:
    return {"State": state, "Health": "OK"}


def simulated() -> Json:
    return {"AICluster": {"@odata.type": "#AICluster.v1_0_0.Simulated", "Simulated": True}}


def system_ids(node: Node) -> list[str]:
    count = len(node.profile.systems) if node.profile is not None else 0
    hosts = [SYSTEM, *(f"@{number}" for number in range(2, count + 1))]
    return {"no": hosts, "hgx_first": [HGX, *hosts], "hgx_last": [*hosts, HGX]}[node.behaviour.two_systems]


# ---- the root and its services -----------------------------------------------------------------


@resource(V1)
def service_root(node: Node, path: str) -> Json:
    offered = not node.behaviour.no_query_support
    return {
        "@odata.id": V1 + "/",
        "@odata.type": kind("ServiceRoot"),
        "Id": "RootService",
        "Name": "Root Service",
        "RedfishVersion": "1.15.0",
        "UUID": str(uuid.uuid5(uuid.UUID(node.config["uuid"]), "bmc")),
        "Vendor": hardware.MANUFACTURER,
        "Product": "Simulated BMC",
        "ProtocolFeaturesSupported": {
            "ExpandQuery": {
                "ExpandAll": offered,
                "Levels": offered,
                "Links": offered,
                "NoLinks": offered,
                **({"MaxLevels": 3} if offered else {}),
            },
            "SelectQuery": offered,
            "FilterQuery": offered,
            "OnlyMemberQuery": offered,
            "ExcerptQuery": False,
            "DeepOperations": {"DeepPATCH": False, "DeepPOST": False},
        },
        "Systems": link(f"{V1}/Systems"),
        "Managers": link(f"{V1}/Managers"),
        "Chassis": link(f"{V1}/Chassis"),
        "SessionService": link(f"{V1}/SessionService"),
        "AccountService": link(f"{V1}/AccountService"),
        "Tasks": link(f"{V1}/TaskService"),
        "UpdateService": link(UPDATE),
        "EventService": link(f"{V1}/EventService"),
        "CertificateService": link(f"{V1}/CertificateService"),
        "Registries": link(f"{V1}/Registries"),
        "Links": {"Sessions": link(SESSIONS)},
    }


@resource(f"{V1}/SessionService")
def session_service(node: Node, path: str) -> Json:
    return {
        "@odata.id": path,
        "@odata.type": kind("SessionService"),
        "Id": "SessionService",
        "Name": "Session Service",
        "ServiceEnabled": True,
        "SessionTimeout": min(86400, max(30, int(node.session_timeout))),
        "Status": ok(),
        "Sessions": link(SESSIONS),
    }


@resource(SESSIONS)
def session_collection(node: Node, path: str) -> Json:
    node.expire_sessions()
    return collection(path, "Session", [session.id for session in node.sessions.values()])


def session_body(node: Node, session: Session) -> Json:
    account = node.accounts.get(session.account)
    return {
        "@odata.id": f"{SESSIONS}/{session.id}",
        "@odata.type": kind("Session"),
        "Id": session.id,
        "Name": "User Session",
        "UserName": account.username if account else "",
        "Password": None,
        "SessionType": "Redfish",
        "CreatedTime": session.created,
        "ClientOriginIPAddress": session.client,
        "Roles": [account.role] if account else [],
    }


@resource(SESSIONS + "/{session}")
def session_resource(node: Node, path: str, session: str) -> Json | None:
    return next((session_body(node, entry) for entry in node.sessions.values() if entry.id == session), None)


@resource(f"{V1}/AccountService")
def account_service(node: Node, path: str) -> Json:
    settings = node.settings
    return {
        "@odata.id": path,
        "@odata.type": kind("AccountService"),
        "Id": "AccountService",
        "Name": "Account Service",
        "ServiceEnabled": True,
        "Status": ok(),
        "AccountLockoutThreshold": settings["lockout_threshold"],
        "AccountLockoutDuration": settings["lockout_duration"],
        "AccountLockoutCounterResetAfter": settings["lockout_reset"],
        "MinPasswordLength": settings["min_password"],
        "MaxPasswordLength": 20,
        "Accounts": link(ACCOUNTS),
        "Roles": link(ROLES),
    }


@resource(ACCOUNTS)
def account_collection(node: Node, path: str) -> Json:
    return collection(path, "ManagerAccount", list(node.accounts))


def account_body(account: Account) -> Json:
    return {
        "@odata.id": f"{ACCOUNTS}/{account.id}",
        "@odata.type": kind("ManagerAccount"),
        "Id": account.id,
        "Name": "User Account",
        "UserName": account.username,
        "Password": None,
        "RoleId": account.role,
        "Enabled": account.enabled,
        "Locked": account.locked,
        "PasswordChangeRequired": account.change_required,
        "AccountTypes": ["Redfish", "IPMI"],
        "Links": {"Role": link(f"{ROLES}/{account.role}")},
    }


@resource(ACCOUNTS + "/{account}")
def account_resource(node: Node, path: str, account: str) -> Json | None:
    return account_body(node.accounts[account]) if account in node.accounts else None


@resource(ROLES)
def role_collection(node: Node, path: str) -> Json:
    return collection(path, "Role", list(PRIVILEGES))


@resource(ROLES + "/{role}")
def role_resource(node: Node, path: str, role: str) -> Json | None:
    if role not in PRIVILEGES:
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("Role"),
        "Id": role,
        "Name": f"{role} Role",
        "RoleId": role,
        "IsPredefined": True,
        "AssignedPrivileges": list(PRIVILEGES[role]),
        "OemPrivileges": [],
    }


@resource(f"{V1}/TaskService")
def task_service(node: Node, path: str) -> Json:
    return {
        "@odata.id": path,
        "@odata.type": kind("TaskService"),
        "Id": "TaskService",
        "Name": "Task Service",
        "ServiceEnabled": True,
        "DateTime": now_text(),
        "CompletedTaskOverWritePolicy": "Oldest",
        "LifeCycleEventOnTaskStateChange": False,
        "Status": ok(),
        "Tasks": link(TASKS),
    }


@resource(TASKS)
def task_collection(node: Node, path: str) -> Json:
    return collection(path, "Task", [task.id for task in node.tasks.values() if node.shows(task)])


def task_body(task: Task) -> Json:
    body = {
        "@odata.id": f"{TASKS}/{task.id}",
        "@odata.type": kind("Task"),
        "Id": task.id,
        "Name": task.name,
        "TaskState": task.state,
        "TaskStatus": "Critical" if task.state == "Exception" else "OK",
        "PercentComplete": task.percent,
        "StartTime": task.started,
        "TaskMonitor": f"{MONITORS}/{task.id}",
        "HidePayload": True,
        "Messages": [messages.info(message_id, *arguments) for message_id, arguments in task.messages],
    }
    if task.ended:
        body["EndTime"] = task.ended
    return body


@resource(TASKS + "/{task}")
def task_resource(node: Node, path: str, task: str) -> Json | None:
    found = node.tasks.get(task)
    return task_body(found) if found and node.shows(found) else None


@resource(f"{V1}/Registries")
def registry_collection(node: Node, path: str) -> Json:
    return collection(path, "MessageRegistryFile", [messages.REGISTRY, BIOS_REGISTRY], "Registry File Collection")


@resource(V1 + "/Registries/{registry}")
def registry_file(node: Node, path: str, registry: str) -> Json | None:
    where = {
        messages.REGISTRY: {
            "Language": "en",
            "PublicationUri": f"https://redfish.dmtf.org/registries/{messages.REGISTRY}.0.json",
        },
        BIOS_REGISTRY: {"Language": "en", "Uri": f"{path}/{BIOS_REGISTRY}.json"},
    }.get(registry)
    if where is None:
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("MessageRegistryFile"),
        "Id": registry,
        "Name": f"{registry} Registry File",
        "Languages": ["en"],
        "Location": [where],
        "Registry": registry,
    }


@resource(V1 + "/Registries/{registry}/" + BIOS_REGISTRY + ".json")
def bios_registry(node: Node, path: str, registry: str) -> Json | None:
    attributes = []
    for name, value in node.bios.items():
        entry: Json = {
            "AttributeName": name,
            "DisplayName": name,
            "ReadOnly": False,
            "ResetRequired": True,
            "Hidden": False,
        }
        if name in node.bios_choices:
            entry.update(
                Type="Enumeration",
                Value=[{"ValueName": choice, "ValueDisplayName": choice} for choice in node.bios_choices[name]],
            )
        elif isinstance(value, int):
            entry.update(Type="Integer", LowerBound=0, UpperBound=100, ScalarIncrement=1)
        else:
            entry.update(Type="String", MinLength=0, MaxLength=64)
        attributes.append(entry)
    return {
        "@odata.type": kind("AttributeRegistry"),
        "Id": BIOS_REGISTRY,
        "Name": "BIOS Attribute Registry",
        "Language": "en",
        "OwningEntity": "AI Cluster Lab",
        "RegistryVersion": "1.0.0",
        "RegistryEntries": {"Attributes": attributes},
    }


# ---- systems -----------------------------------------------------------------------------------


@resource(f"{V1}/Systems")
def system_collection(node: Node, path: str) -> Json:
    return collection(path, "ComputerSystem", system_ids(node))


def boot_body(node: Node) -> Json:
    override, behaviour = node.override, node.behaviour
    boot: Json = {"BootSourceOverrideEnabled": override["enabled"], "BootSourceOverrideTarget": override["target"]}
    if behaviour.boot_mode != "absent":
        boot["BootSourceOverrideMode"] = override["mode"]
    if "UefiHttp" in behaviour.boot_targets:
        boot["HttpBootUri"] = override["uri"]
    if not behaviour.no_allowable_values:
        boot["BootSourceOverrideTarget@Redfish.AllowableValues"] = list(behaviour.boot_targets)
        boot["BootSourceOverrideEnabled@Redfish.AllowableValues"] = list(behaviour.boot_enabled)
        if behaviour.boot_mode not in ("absent", "read_only"):
            boot["BootSourceOverrideMode@Redfish.AllowableValues"] = ["UEFI", "Legacy"]
    return boot


def boot_order(node: Node) -> Json:
    options = manager_services.boot_options(node)
    if not options:
        return {}
    return {"BootOptions": link(f"{S}/BootOptions"), "BootOrder": list(node.boot_order or options)}


def action(node: Node, path: str, name: str, parameter: str, values: list[str], info: str | None = None) -> Json:
    """An entry of Actions with its allowable values, inline or by ActionInfo as the behaviour has it."""
    entry: Json = {"target": f"{path}/Actions/{name}"}
    if not node.behaviour.no_allowable_values:
        entry[f"{parameter}@Redfish.AllowableValues"] = list(values)
    if info and not node.behaviour.no_action_info:
        entry["@Redfish.ActionInfo"] = f"{path}/{info}"
    return {f"#{name}": entry}


def action_info(path: str, name: str, parameter: str, values: list[str]) -> Json:
    return {
        "@odata.id": path,
        "@odata.type": kind("ActionInfo"),
        "Id": path.rsplit("/", 1)[1],
        "Name": f"{name} Action Info",
        "Parameters": [{"Name": parameter, "Required": True, "DataType": "String", "AllowableValues": list(values)}],
    }


def last_reset(node: Node) -> Json:
    """LastResetTime: a restart shows no other sign, because PowerState stays On."""
    times = [entry["time"] for entry in node.events.recent if entry["event"] in ("power_on", "reset")]
    return {"LastResetTime": times[-1]} if times else {}


@resource(V1 + "/Systems/{system}")
def system_resource(node: Node, path: str, system: str) -> Json | None:
    if system not in system_ids(node):
        return None
    if system == HGX:
        return {
            "@odata.id": path,
            "@odata.type": kind("ComputerSystem"),
            "Id": HGX,
            "Name": "GPU Baseboard",
            "SystemType": "Physical",
            "Manufacturer": "NVIDIA",
            "SerialNumber": f"{node.config['serial']}-HGX",
            "PowerState": node.power,
            "Status": ok(),
            "Processors": link(f"{path}/Processors"),
            "Links": {"ManagedBy": [link(M)], "Chassis": [link(C)]},
            "Oem": simulated(),
        }
    config, on = node.config, node.driver.running
    return {
        "@odata.id": path,
        "@odata.type": kind("ComputerSystem"),
        "Id": SYSTEM,
        "Name": node.name,
        "SystemType": "Physical",
        "Manufacturer": hardware.MANUFACTURER,
        "Model": hardware.MODEL,
        "SKU": "VGS-1",
        "SerialNumber": config["serial"],
        "PartNumber": "VGS-1-A",
        "UUID": config["uuid"],
        "AssetTag": node.settings["asset_tag"],
        "HostName": node.name if on else "",
        "PowerState": node.power,
        **last_reset(node),
        "PowerRestorePolicy": node.settings["power_restore"],
        "LocationIndicatorActive": node.settings["indicator"],
        "BiosVersion": node.firmware.get("BIOS"),
        "Status": {**ok("Enabled" if on else "Disabled"), "Health": node.health, "HealthRollup": node.health},
        "ProcessorSummary": {
            "Count": 1,
            "CoreCount": config["cpus"],
            "LogicalProcessorCount": config["cpus"],
            "Model": "QEMU Virtual CPU",
        },
        "MemorySummary": {"TotalSystemMemoryGiB": config["memory_mib"] / 1024},
        "Boot": {**boot_body(node), **boot_order(node)},
        "Processors": link(f"{path}/Processors"),
        "Memory": link(f"{path}/Memory"),
        "Storage": link(f"{path}/Storage"),
        "EthernetInterfaces": link(f"{path}/EthernetInterfaces"),
        "Bios": link(f"{path}/Bios"),
        **({"SecureBoot": link(f"{path}/SecureBoot")} if config["firmware"] == "uefi" else {}),
        "LogServices": link(f"{path}/LogServices"),
        "VirtualMedia": link(f"{path}/VirtualMedia"),
        "Links": {"ManagedBy": [link(M)], "Chassis": [link(C)]},
        "Actions": action(
            node, path, "ComputerSystem.Reset", "ResetType", node.behaviour.reset_types, "ResetActionInfo"
        ),
        "Oem": simulated(),
    }


@resource(f"{S}/ResetActionInfo")
def system_reset_info(node: Node, path: str) -> Json | None:
    return (
        None if node.behaviour.no_action_info else action_info(path, "Reset", "ResetType", node.behaviour.reset_types)
    )


def gpu_names(node: Node) -> list[str]:
    return [
        f"GPU_{index}" for index in range(len(hardware.gpu_serials(node.config["serial"], node.config["gpu_profile"])))
    ]


@resource(V1 + "/Systems/{system}/Processors")
def processor_collection(node: Node, path: str, system: str) -> Json | None:
    if system not in system_ids(node):
        return None
    gpus = gpu_names(node)
    names = gpus if system == HGX else ["CPU_0", *(gpus if HGX not in system_ids(node) else [])]
    return collection(path, "Processor", names)


@resource(V1 + "/Systems/{system}/Processors/{processor}")
def processor_resource(node: Node, path: str, system: str, processor: str) -> Json | None:
    parent = processor_collection(node, path.rsplit("/", 1)[0], system)
    if parent is None or link(path) not in parent["Members"]:
        return None
    base = {
        "@odata.id": path,
        "@odata.type": kind("Processor"),
        "Id": processor,
        "Name": processor,
        "Socket": processor,
        "Status": ok(),
        "Links": {"Chassis": link(C)},
    }
    if processor == "CPU_0":
        cores = node.config["cpus"]
        return {
            **base,
            "ProcessorType": "CPU",
            "Manufacturer": "QEMU",
            "Model": f"QEMU Virtual CPU ({node.lab['cpu']})",
            "TotalCores": cores,
            "TotalThreads": cores,
            "ProcessorArchitecture": "x86",
            "InstructionSet": "x86-64",
        }
    profile = hardware.GPU_PROFILES[node.config["gpu_profile"]]
    index = int(processor.rsplit("_", 1)[1])
    serial = hardware.gpu_serials(node.config["serial"], node.config["gpu_profile"])[index]
    return {
        **base,
        "ProcessorType": "GPU",
        "Manufacturer": profile.model.split()[0],
        "Model": profile.model,
        "SerialNumber": serial,
        "ProcessorMemory": [
            {"CapacityMiB": profile.memory_gib * 1024, "MemoryType": profile.memory_type, "IntegratedMemory": True}
        ],
        "Oem": simulated(),
    }


@resource(S + "/Memory")
def memory_collection(node: Node, path: str) -> Json:
    return collection(path, "Memory", [dimm["slot"] for dimm in hardware.dimms(node.config)])


@resource(S + "/Memory/{slot}")
def memory_resource(node: Node, path: str, slot: str) -> Json | None:
    dimm = next((dimm for dimm in hardware.dimms(node.config) if dimm["slot"] == slot), None)
    if dimm is None:
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("Memory"),
        "Id": slot,
        "Name": slot,
        "Location": {"PartLocation": {"ServiceLabel": slot, "LocationType": "Slot"}},
        "MemoryType": "DRAM",
        "MemoryDeviceType": "DDR5",
        "CapacityMiB": dimm["size_mib"],
        "SerialNumber": dimm["serial"],
        "Manufacturer": "QEMU",
        "PartNumber": "VDIMM",
        "OperatingSpeedMhz": 4800,
        "Status": ok(),
    }


def disk_bus(disk: Json) -> str:
    """How the disk is attached: nvme for NVMe, scsi for SSD and HDD, unless the lab says otherwise."""
    return disk["bus"] or ("nvme" if disk["type"] == "nvme" else "scsi")


def _buses(node: Node) -> list[str]:
    return sorted({disk_bus(disk) for disk in node.config["disks"]})


@resource(S + "/Storage")
def storage_collection(node: Node, path: str) -> Json:
    return collection(path, "Storage", _buses(node))


@resource(S + "/Storage/{bus}")
def storage_resource(node: Node, path: str, bus: str) -> Json | None:
    if bus not in _buses(node):
        return None
    drives = [link(f"{path}/Drives/{disk['slot']}") for disk in node.config["disks"] if disk_bus(disk) == bus]
    return {
        "@odata.id": path,
        "@odata.type": kind("Storage"),
        "Id": bus,
        "Name": f"{bus} storage",
        "Status": ok(),
        "Controllers": link(f"{path}/Controllers"),
        "Volumes": link(f"{path}/Volumes"),
        "Drives": drives,
        "Drives@odata.count": len(drives),
    }


@resource(S + "/Storage/{bus}/Controllers")
def controller_collection(node: Node, path: str, bus: str) -> Json | None:
    return collection(path, "StorageController", ["0"]) if bus in _buses(node) else None


@resource(S + "/Storage/{bus}/Controllers/0")
def controller_resource(node: Node, path: str, bus: str) -> Json | None:
    if bus not in _buses(node):
        return None
    protocol = "NVMe" if bus == "nvme" else "SAS"
    return {
        "@odata.id": path,
        "@odata.type": kind("StorageController"),
        "Id": "0",
        "Name": f"{bus} controller",
        "Manufacturer": "QEMU",
        "Model": {"nvme": "QEMU NVMe Ctrl", "scsi": "Virtio SCSI", "virtio": "Virtio Block"}[bus],
        "Status": ok(),
        "SupportedControllerProtocols": ["PCIe"],
        "SupportedDeviceProtocols": [protocol],
        **({"SupportedRAIDTypes": list(volumes.LEVELS)} if volumes_offered(node, bus) else {}),
    }


def volumes_offered(node: Node, bus: str) -> bool:
    """Whether volumes can be made here: no NVMe, and no disks that a machine really has."""
    return bus != "nvme" and node.config["driver"] == "none"


@resource(S + "/Storage/{bus}/Drives/{slot}")
def drive_resource(node: Node, path: str, bus: str, slot: str) -> Json | None:
    disk = next((disk for disk in node.config["disks"] if disk["slot"] == slot and disk_bus(disk) == bus), None)
    if disk is None:
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("Drive"),
        "Id": slot,
        "Name": slot,
        "Manufacturer": "QEMU",
        "Model": f"Virtual {disk['type'].upper()}",
        "SerialNumber": disk["serial"],
        "CapacityBytes": parse_size(disk["size"]),
        "BlockSizeBytes": 512,
        "MediaType": "HDD" if disk["type"] == "hdd" else "SSD",
        "Protocol": "NVMe" if disk["type"] == "nvme" else "SAS",
        "RotationSpeedRPM": 7200 if disk["type"] == "hdd" else None,
        "FailurePredicted": False,
        "Status": ok(),
        "PhysicalLocation": {
            "PartLocation": {
                "ServiceLabel": slot,
                "LocationType": "Bay",
                "LocationOrdinalValue": int(re.sub(r"\D", "", slot) or 0),
            }
        },
        "Links": {"Chassis": link(C), "Volumes": [link(volume) for volume in volumes.volumes_of(node, slot)]},
        **(
            {"Actions": {"#Drive.SecureErase": {"target": f"{path}/Actions/Drive.SecureErase"}}}
            if node.config["driver"] == "none"
            else {}
        ),
    }


@resource(S + "/EthernetInterfaces")
def system_nic_collection(node: Node, path: str) -> Json:
    return collection(path, "EthernetInterface", [nic["slot"] for nic in node.config["nics"]])


@resource(S + "/EthernetInterfaces/{slot}")
def system_nic(node: Node, path: str, slot: str) -> Json | None:
    nic = next((nic for nic in node.config["nics"] if nic["slot"] == slot), None)
    if nic is None:
        return None
    up = node.driver.running
    return {
        "@odata.id": path,
        "@odata.type": kind("EthernetInterface"),
        "Id": slot,
        "Name": slot,
        "Description": f"{nic['bridge'] or 'unconnected'}",
        "MACAddress": nic["mac"].upper(),
        "PermanentMACAddress": nic["mac"].upper(),
        "InterfaceEnabled": True,
        "FullDuplex": True,
        "LinkStatus": "LinkUp" if up else "LinkDown",
        "SpeedMbps": 10000 if up else None,
        "MTUSize": 1500,
        "Status": ok(),
    }


@resource(S + "/Bios")
def bios_resource(node: Node, path: str) -> Json:
    return {
        "@odata.id": path,
        "@odata.type": kind("Bios"),
        "Id": "Bios",
        "Name": "BIOS Settings",
        "AttributeRegistry": BIOS_REGISTRY,
        "Attributes": dict(node.bios),
        "ResetBiosToDefaultsPending": False,
        "@Redfish.Settings": {
            "@odata.type": "#Settings.v1_3_5.Settings",
            "SettingsObject": link(f"{path}/Settings"),
            "SupportedApplyTimes": ["OnReset"],
            "Messages": [],
        },
        "Actions": {"#Bios.ResetBios": {"target": f"{path}/Actions/Bios.ResetBios"}},
    }


@resource(S + "/Bios/Settings")
def bios_settings(node: Node, path: str) -> Json:
    return {
        "@odata.id": path,
        "@odata.type": kind("Bios"),
        "Id": "Settings",
        "Name": "BIOS Settings for the next boot",
        "AttributeRegistry": BIOS_REGISTRY,
        "Attributes": {**node.bios, **node.bios_pending},
    }


# ---- virtual media: the same drive is reachable below the system and below the manager -----------


@resource(S + "/VirtualMedia")
@resource(M + "/VirtualMedia")
def media_collection(node: Node, path: str) -> Json:
    return collection(path, "VirtualMedia", ["Cd"])


@resource(S + "/VirtualMedia/Cd")
@resource(M + "/VirtualMedia/Cd")
def media_resource(node: Node, path: str) -> Json:
    media = node.media or {}
    return {
        "@odata.id": path,
        "@odata.type": kind("VirtualMedia"),
        "Id": "Cd",
        "Name": "Virtual CD",
        "MediaTypes": ["CD", "DVD"],
        "Image": media.get("image"),
        "ImageName": media.get("name"),
        "Inserted": bool(media),
        "WriteProtected": True,
        "ConnectedVia": "URI" if media else "NotConnected",
        "TransferMethod": "Upload",
        "TransferProtocolType": media.get("protocol"),
        "VerifyCertificate": False,
        "Status": ok(),
        **(
            {}
            if node.behaviour.media_patch_only
            else {
                "Actions": {
                    "#VirtualMedia.InsertMedia": {"target": f"{path}/Actions/VirtualMedia.InsertMedia"},
                    "#VirtualMedia.EjectMedia": {"target": f"{path}/Actions/VirtualMedia.EjectMedia"},
                }
            }
        ),
    }


# ---- logs --------------------------------------------------------------------------------------


def _log(node: Node, owner: str, service: str):
    """Entries and kind of a log service, or None: the system's event log and the manager's own log."""
    return {(S, "SEL"): (node.system_log, "SEL"), (M, "Log"): (node.manager_log, "Event")}.get((owner, service))


@resource(S + "/LogServices")
def system_logs(node: Node, path: str) -> Json:
    return collection(path, "LogService", ["SEL"])


@resource(M + "/LogServices")
def manager_logs(node: Node, path: str) -> Json:
    return collection(path, "LogService", ["Log"])


@resource(V1 + "/{kind_}/{identity}/LogServices/{service}")
def log_service(node: Node, path: str, kind_: str, identity: str, service: str) -> Json | None:
    if _log(node, f"{V1}/{kind_}/{identity}", service) is None:
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("LogService"),
        "Id": service,
        "Name": f"{service} Log Service",
        "ServiceEnabled": True,
        "MaxNumberOfRecords": 1000,
        "OverWritePolicy": "WrapsWhenFull",
        "DateTime": now_text(),
        "DateTimeLocalOffset": "+00:00",
        "LogEntryType": "SEL" if service == "SEL" else "Event",
        "Status": ok(),
        "Entries": link(f"{path}/Entries"),
        "Actions": {"#LogService.ClearLog": {"target": f"{path}/Actions/LogService.ClearLog"}},
    }


@resource(V1 + "/{kind_}/{identity}/LogServices/{service}/Entries")
def log_entries(node: Node, path: str, kind_: str, identity: str, service: str) -> Json | None:
    found = _log(node, f"{V1}/{kind_}/{identity}", service)
    if found is None:
        return None
    body = collection(path, "LogEntry", [])
    body["Members"] = [_entry(path, entry, found[1]) for entry in found[0]]
    body["Members@odata.count"] = len(body["Members"])
    return body


def _entry(path: str, entry: Json, entry_type: str) -> Json:
    body = {
        "@odata.id": f"{path}/{entry['id']}",
        "@odata.type": kind("LogEntry"),
        "Id": entry["id"],
        "Name": f"Log Entry {entry['id']}",
        "EntryType": entry_type,
        "Severity": entry["severity"],
        "Created": entry["time"],
        "Message": entry["text"],
    }
    if entry_type == "SEL":
        body.update(EntryCode="State Asserted", SensorType="System Event")
    return body


@resource(V1 + "/{kind_}/{identity}/LogServices/{service}/Entries/{number}")
def log_entry(node: Node, path: str, kind_: str, identity: str, service: str, number: str) -> Json | None:
    found = _log(node, f"{V1}/{kind_}/{identity}", service)
    return (
        next((_entry(path.rsplit("/", 1)[0], entry, found[1]) for entry in found[0] if entry["id"] == number), None)
        if found
        else None
    )


# ---- manager and chassis -----------------------------------------------------------------------


@resource(f"{V1}/Managers")
def manager_collection(node: Node, path: str) -> Json:
    return collection(path, "Manager", [MANAGER])


@resource(M)
def manager_resource(node: Node, path: str) -> Json:
    return {
        "@odata.id": path,
        "@odata.type": kind("Manager"),
        "Id": MANAGER,
        "Name": "Baseboard Management Controller",
        "ManagerType": "BMC",
        "Manufacturer": hardware.MANUFACTURER,
        "Model": "Simulated BMC",
        "FirmwareVersion": node.firmware.get("BMC"),
        "PowerState": "On",
        # few products tell of their BMC's restarts; those with a profile do not unless it says so
        **({"LastResetTime": node.bmc_started} if node.profile is None else {}),
        "UUID": str(uuid.uuid5(uuid.UUID(node.config["uuid"]), "bmc")),
        "ServiceEntryPointUUID": str(uuid.uuid5(uuid.UUID(node.config["uuid"]), "bmc")),
        "DateTime": now_text(),
        "DateTimeLocalOffset": "+00:00",
        "Status": ok(),
        "EthernetInterfaces": link(f"{path}/EthernetInterfaces"),
        "VirtualMedia": link(f"{path}/VirtualMedia"),
        "LogServices": link(f"{path}/LogServices"),
        "NetworkProtocol": link(f"{path}/NetworkProtocol"),
        "Links": {
            "ManagerForServers": [link(f"{V1}/Systems/{identity}") for identity in system_ids(node)],
            "ManagerForChassis": [link(C)],
            "ManagerInChassis": link(C),
        },
        "Actions": action(
            node, path, "Manager.Reset", "ResetType", node.behaviour.manager_reset_types, "ResetActionInfo"
        ),
        "Oem": simulated(),
    }


@resource(f"{M}/ResetActionInfo")
def manager_reset_info(node: Node, path: str) -> Json | None:
    return (
        None
        if node.behaviour.no_action_info
        else action_info(path, "Reset", "ResetType", node.behaviour.manager_reset_types)
    )


@resource(M + "/EthernetInterfaces")
def manager_nics(node: Node, path: str) -> Json:
    return collection(path, "EthernetInterface", ["eth0"])


def manager_mac(node: Node) -> str:
    given = node.config["bmc"]["mac"]
    raw = uuid.uuid5(uuid.UUID(node.config["uuid"]), "bmc-mac").bytes
    return given.upper() if given else ":".join(f"{octet:02X}" for octet in (0x52, 0x54, 0x01, *raw[:3]))


@resource(M + "/EthernetInterfaces/eth0")
def manager_nic(node: Node, path: str) -> Json:
    address = ipaddress.ip_address(node.config["bmc"]["address"])
    network = node.settings.get("network") or {}
    body: Json = {
        "@odata.id": path,
        "@odata.type": kind("EthernetInterface"),
        "Id": "eth0",
        "Name": "Manager Ethernet Interface",
        "MACAddress": manager_mac(node),
        "PermanentMACAddress": manager_mac(node),
        "InterfaceEnabled": True,
        "SpeedMbps": 1000,
        "AutoNeg": True,
        "FullDuplex": True,
        "LinkStatus": "LinkUp",
        "MTUSize": 1500,
        "HostName": node.settings["hostname"],
        "FQDN": node.settings["hostname"],
        "Status": ok(),
        "NameServers": [],
        "StaticNameServers": network.get("name_servers", []),
        "Links": {"Chassis": link(C)},
        "DHCPv4": {
            "DHCPEnabled": network.get("dhcpv4", False),
            "UseDNSServers": False,
            "UseGateway": False,
            "UseNTPServers": False,
            "UseDomainName": False,
            "UseStaticRoutes": False,
        },
    }
    if address.version == 4:
        shown = {"Address": str(address), "SubnetMask": "255.255.255.0", "AddressOrigin": "Static", "Gateway": None}
        body["IPv4Addresses"] = [shown]
        body["IPv4StaticAddresses"] = network.get(
            "ipv4", [{"Address": str(address), "SubnetMask": "255.255.255.0", "Gateway": None}]
        )
    else:
        body["IPv6Addresses"] = [
            {"Address": str(address), "PrefixLength": 64, "AddressOrigin": "Static", "AddressState": "Preferred"}
        ]
    return body


@resource(M + "/NetworkProtocol")
def network_protocol(node: Node, path: str) -> Json:
    bmc = node.config["bmc"]
    return {
        "@odata.id": path,
        "@odata.type": kind("ManagerNetworkProtocol"),
        "Id": "NetworkProtocol",
        "Name": "Manager Network Protocol",
        "HostName": node.settings["hostname"],
        "FQDN": node.settings["hostname"],
        "Status": ok(),
        "HTTP": {"ProtocolEnabled": False, "Port": 80},
        "HTTPS": {
            "ProtocolEnabled": True,
            "Port": bmc["port"] or 443,
            "Certificates": link(f"{path}/HTTPS/Certificates"),
        },
        "IPMI": {
            "ProtocolEnabled": "ipmi" in bmc["protocols"] and node.settings["ipmi_enabled"],
            "Port": bmc["ipmi_port"] or 623,
        },
        "NTP": {"ProtocolEnabled": node.settings["ntp_enabled"], "NTPServers": list(node.settings["ntp_servers"])},
        "SSH": {"ProtocolEnabled": False, "Port": 22},
    }


@resource(f"{V1}/Chassis")
def chassis_collection(node: Node, path: str) -> Json:
    return collection(path, "Chassis", [CHASSIS])


@resource(C)
def chassis_resource(node: Node, path: str) -> Json:
    placement = {key: value for key, value in (("Rack", node.config["rack"]), ("Row", None)) if value}
    drives = [link(f"{S}/Storage/{disk_bus(disk)}/Drives/{disk['slot']}") for disk in node.config["disks"]]
    body: Json = {
        "@odata.id": path,
        "@odata.type": kind("Chassis"),
        "Id": CHASSIS,
        "Name": node.name,
        "ChassisType": "RackMount",
        "Manufacturer": hardware.MANUFACTURER,
        "Model": hardware.MODEL,
        "SerialNumber": node.config["serial"],
        "PartNumber": "VGS-1-A",
        "AssetTag": node.settings["chassis_asset_tag"],
        "PowerState": "On" if node.driver.running else "Off",
        "Status": ok(),
        "LocationIndicatorActive": node.settings["indicator"],
        **chassis_parts.chassis_links(node),
        "Links": {
            "ComputerSystems": [link(f"{V1}/Systems/{identity}") for identity in system_ids(node)],
            "ManagedBy": [link(M)],
            "ManagersInChassis": [link(M)],
            "Drives": drives,
        },
        "Actions": {
            "#Chassis.Reset": {
                "target": f"{path}/Actions/Chassis.Reset",
                "ResetType@Redfish.AllowableValues": list(CHASSIS_RESETS),
            },
            **(
                {"Oem": {f"#{AUX_RESET}": {"target": f"{path}/Actions/Oem/{AUX_RESET}"}}}
                if node.behaviour.aux_power_reset
                else {}
            ),
        },
        "Oem": simulated(),
    }
    if placement or node.config["slot"]:
        body["Location"] = {"Placement": placement}
        offset = re.fullmatch(r"u?(\d+)", node.config["slot"] or "")
        if offset:
            body["Location"]["Placement"].update(RackOffset=int(offset.group(1)), RackOffsetUnits="EIA_310")
    return body


# ---- updates -----------------------------------------------------------------------------------


@resource(UPDATE)
def update_service(node: Node, path: str) -> Json:
    methods = node.behaviour.update_methods
    body: Json = {
        "@odata.id": path,
        "@odata.type": kind("UpdateService"),
        "Id": "UpdateService",
        "Name": "Update Service",
        "ServiceEnabled": True,
        "Status": ok(),
        "FirmwareInventory": link(f"{path}/FirmwareInventory"),
        "MaxImageSizeBytes": 512 * 2**20,
    }
    if "multipart" in methods:
        body["MultipartHttpPushUri"] = f"{path}/update-multipart"
    if "push" in methods:
        body.update(
            HttpPushUri=f"{path}/update",
            HttpPushUriTargets=list(node.push_targets),
            HttpPushUriTargetsBusy=False,
            HttpPushUriOptions={"HttpPushUriApplyTime": {"ApplyTime": node.push_apply_time}},
        )
    if "simple" in methods:
        body["Actions"] = {
            "#UpdateService.SimpleUpdate": {
                "target": f"{path}/Actions/UpdateService.SimpleUpdate",
                "TransferProtocol@Redfish.AllowableValues": ["HTTP", "HTTPS"],
            }
        }
    return body


@resource(f"{UPDATE}/FirmwareInventory")
def firmware_collection(node: Node, path: str) -> Json:
    names = [row.id or name for name, row in node.components.items()]
    return collection(path, "SoftwareInventory", names, "Firmware Inventory")


@resource(UPDATE + "/FirmwareInventory/{identity}")
def firmware_resource(node: Node, path: str, identity: str) -> Json | None:
    component = node.component_named(identity)
    if component is None:
        return None
    row = node.components[component]
    body = {
        "@odata.id": path,
        "@odata.type": kind("SoftwareInventory"),
        "Id": identity,
        "Name": row.name or f"{component} firmware",
        "Updateable": row.updateable,
        "Version": node.firmware[component],
        "SoftwareId": f"SIM-{component}",
        "Manufacturer": row.manufacturer or hardware.MANUFACTURER,
        "Status": ok(),
        "RelatedItem": [link(f"{V1}/{row.related or 'Chassis/' + CHASSIS}")],
        "RelatedItem@odata.count": 1,
        "Oem": simulated(),
    }
    if component in node.firmware_pending:
        # what is written and waits for its reset
        body["Oem"]["AICluster"]["StagedVersion"] = node.firmware_pending[component]
    return body


# further resources register themselves here; at the end, because they use what is above
from . import chassis_parts, manager_services, volumes  # noqa: E402
