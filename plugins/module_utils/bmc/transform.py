# Pure: the shapes that BMCs answer with -> the shapes that this collection uses. Nothing but `@odata.id` is required of a resource; null is empty.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ..core.errors import Conflict, NotFound
from ..core.texts import clean
from . import quirks

# Seen first on real trees (reference: the vendors' own ids). Only used to choose between several systems that could all be the host.
HOST_IDS = ("System_0", "DGX", "1", "Self", "System.Embedded.1", "Node0", "system")
NOT_HOST = re.compile(r"^(HGX_|UBB|GPU_?BOARD|BlueField)", re.IGNORECASE)

POWER_WORDS = {"On": "on", "Off": "off", "PoweringOn": "powering_on", "PoweringOff": "powering_off", "Paused": "paused"}

# Our boot target -> Redfish names for it, in the order of preference; `none` is no override.
BOOT_TARGETS = {
    "pxe": ("Pxe",),
    "uefi_http": ("UefiHttp",),
    "disk": ("Hdd",),
    "cd": ("Cd", "CD/DVD", "UsbCd"),
    "bios": ("BiosSetup",),
    "none": ("None",),
}
BOOT_MODES = {"uefi": "UEFI", "legacy": "Legacy"}


def dig(value, *keys):
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text(resource, *keys):
    """A string property without control characters, "" where it is absent, null or no string."""
    value = dig(resource, *keys)
    if isinstance(value, bool) or value is None or isinstance(value, (dict, list)):
        return ""
    return clean(str(value)).strip()


def number(resource, *keys):
    value = dig(resource, *keys)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value


def strings(value):
    return [clean(str(item)) for item in value if item is not None] if isinstance(value, list) else []


def link(resource, *keys):
    """The URI that a reference property points to, "" where there is none; lists give their first."""
    value = dig(resource, *keys)
    if isinstance(value, list):
        value = value[0] if value else None
    return text(value, "@odata.id") if isinstance(value, dict) else (value if isinstance(value, str) else "")


def links(resource, *keys):
    value = dig(resource, *keys)
    items = value if isinstance(value, list) else [value]
    return [uri for uri in (text(item, "@odata.id") for item in items if isinstance(item, dict)) if uri]


def items(resource, *keys):
    """The dicts of a list property; [] for every other shape."""
    value = dig(resource, *keys)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def members_of(page):
    """Members of a collection: `null`, absent and a single object are met on real BMCs."""
    value = dig(page, "Members")
    if isinstance(value, dict):
        return [value]
    return value if isinstance(value, list) else []


def same_path(path):
    """For comparing two URIs only: iLO answers with other case and a slash at the end."""
    return str(path or "").split("?", 1)[0].rstrip("/").lower()


def state_of(resource):
    return text(resource, "Status", "State")


def present(resource):
    return state_of(resource) not in ("Absent", "UnavailableOffline")


# ---- choosing -------------------------------------------------------------------------------------------------------------------------
def choose_system(systems, wanted=None, host=None):
    """The system that is the host itself: it can be reset and booted, and is no GPU tray. Raises NotFound or Conflict with the ids."""
    ids = [text(item, "Id") or text(item, "@odata.id").rstrip("/").rsplit("/", 1)[-1] for item in systems]
    if wanted:
        for item, name in zip(systems, ids):
            if name.lower() == str(wanted).lower():
                return item
        raise NotFound(
            "this BMC has no such system",
            host=host,
            thing="system_id",
            wanted=wanted,
            seen=", ".join(ids),
            next_step="name one of these with system_id, or leave it out",
        )
    if len(systems) == 1:
        return systems[0]
    pairs = [(item, name) for item, name in zip(systems, ids) if not NOT_HOST.match(name)] or list(zip(systems, ids))
    able = [(item, name) for item, name in pairs if dig(item, "Actions", "#ComputerSystem.Reset") is not None]
    booting = [(item, name) for item, name in able if isinstance(item.get("Boot"), dict)]
    for candidates in (booting, able, pairs):
        if len(candidates) == 1:
            return candidates[0][0]
        if candidates:
            known = [item for item, name in candidates if name in HOST_IDS]
            if len(known) == 1:
                return known[0]
            break
    raise Conflict(
        "several systems could be the host",
        host=host,
        thing="system_id",
        wanted="one of them",
        seen=", ".join(ids),
        next_step="name it with system_id",
        code="ambiguous_system",
    )


def manager_uri(system):
    return link(system, "Links", "ManagedBy")


def choose_manager(managers, system):
    mine = same_path(text(system, "@odata.id"))
    for item in managers:
        if mine in [same_path(uri) for uri in links(item, "Links", "ManagerForServers")]:
            return item
    return managers[0] if len(managers) == 1 else None


def allowed_by_action_info(info, parameter):
    """AllowableValues of one parameter of an ActionInfo resource."""
    for item in dig(info, "Parameters") or [] if isinstance(dig(info, "Parameters"), list) else []:
        if text(item, "Name") == parameter:
            return strings(item.get("AllowableValues"))
    return []


# ---- words ----------------------------------------------------------------------------------------------------------------------------
def power_word(value):
    return POWER_WORDS.get(str(value), "unknown") if value else "unknown"


def boot_targets(system):
    return strings(dig(system, "Boot", "BootSourceOverrideTarget@Redfish.AllowableValues"))


def boot(system):
    """{target, enabled, mode, targets}: target in our words, enabled in once/persistent/disabled, mode uefi/legacy or None where it has none."""
    have = dig(system, "Boot")
    have = have if isinstance(have, dict) else {}
    enabled = {"Once": "once", "Continuous": "persistent", "Disabled": "disabled"}.get(
        text(have, "BootSourceOverrideEnabled"), "disabled"
    )
    target = boot_word(text(have, "BootSourceOverrideTarget")) or "none"
    mode = {"UEFI": "uefi", "Legacy": "legacy"}.get(text(have, "BootSourceOverrideMode"))
    if target == "none":
        enabled = "disabled"
    targets = [word for word in (boot_word(name) for name in boot_targets(system)) if word]
    return {
        "target": target if enabled != "disabled" else "none",
        "enabled": enabled,
        "mode": mode,
        "targets": list(dict.fromkeys(targets)),
        **({"http_uri": text(have, "HttpBootUri") or None} if "HttpBootUri" in have else {}),
    }


def boot_word(name):
    for word, names in BOOT_TARGETS.items():
        if name in names:
            return word
    return name.lower() if name else ""


def has_boot_mode(system):
    have = dig(system, "Boot")
    return isinstance(have, dict) and "BootSourceOverrideMode" in have


# ---- who is it ------------------------------------------------------------------------------------------------------------------------
def bmc_identity(root, manager, system):
    """{vendor, model, firmware}; a root without Vendor is normal (Supermicro, Cray, Intel): go on to Oem keys, manager, system."""
    oem = dig(root, "Oem")
    vendor = (
        text(root, "Vendor")
        or next((str(key) for key in (oem if isinstance(oem, dict) else {}) if str(key) != "Vendor"), "")
        or text(manager, "Manufacturer")
        or text(system, "Manufacturer")
    )
    return {
        "vendor": vendor or None,
        "model": text(manager, "Model") or text(root, "Product") or None,
        "firmware": text(manager, "FirmwareVersion") or None,
    }


def own_serial(system):
    """What the system itself says is its serial, "" where it says nothing."""
    return text(system, quirks.of_system(system)["serial"]) or text(system, "SerialNumber")


# ChassisType (DSP2046) of what is no box but a part of one.
BOARDS = ("Component", "Module", "Card", "Zone", "StorageEnclosure", "HeatExchanger", "ImmersionTank")


def is_board(chassis):
    return text(chassis, "ChassisType") in BOARDS


def box_of(everything, system):
    """The one chassis of a list that is no board, has a serial, and says that it holds the system; None where there is none, or several."""
    mine = same_path(text(system, "@odata.id"))
    found = [
        item
        for item in everything
        if text(item, "ChassisType")
        and not is_board(item)
        and text(item, "SerialNumber")
        and mine in [same_path(uri) for uri in links(item, "Links", "ComputerSystems")]
    ]
    return found[0] if len(found) == 1 else None


def system_facts(system, chassis):
    """The system section. The serial is what the operating system reads as the system's serial (on Dell the service tag)."""
    chassis = chassis or {}
    serial = own_serial(system) or text(chassis, "SerialNumber")
    return {
        "id": text(system, "Id") or None,
        "manufacturer": text(system, "Manufacturer") or text(chassis, "Manufacturer") or None,
        "model": text(system, "Model") or text(chassis, "Model") or None,
        "serial": serial or None,
        "uuid": text(system, "UUID").lower() or None,
        "sku": text(system, "SKU") or None,
        "power": power_word(system.get("PowerState")),
        "bios_version": text(system, "BiosVersion") or None,
        "memory_gib": number(system, "MemorySummary", "TotalSystemMemoryGiB"),
        "health": text(system, "Status", "HealthRollup") or text(system, "Status", "Health") or None,
    }


def location(chassis):
    """{rack, slot} where the BMC knows its place (Chassis.Location.Placement), with None for what it does not know."""
    place = dig(chassis, "Location", "Placement")
    offset = number(place, "RackOffset")
    units = {"EIA_310": "u", "OpenU": "ou"}.get(text(place, "RackOffsetUnits"), "u")
    return {"rack": text(place, "Rack") or None, "slot": f"{units}{int(offset):02d}" if offset is not None else None}


def slot_of(resource):
    return (
        text(resource, "Location", "PartLocation", "ServiceLabel")
        or text(resource, "PhysicalLocation", "PartLocation", "ServiceLabel")
        or text(resource, "DeviceLocator")
        or text(resource, "Id")
        or text(resource, "Name")
        or text(resource, "@odata.id").rstrip("/").rsplit("/", 1)[-1]
    )


def processors(items):
    found = []
    for item in items:
        if text(item, "ProcessorType") not in ("CPU", "") or not present(item):
            continue
        found.append(
            {
                "slot": text(item, "Socket") or text(item, "Id"),
                "model": text(item, "Model") or text(item, "Name") or None,
                "cores": number(item, "TotalCores"),
                "threads": number(item, "TotalThreads"),
            }
        )
    return found


_NO_SERIAL = re.compile(r"[0\s]*|n/?a", re.IGNORECASE)


def gpus(items, seen_serials=()):
    """GPUs among processors (ProcessorType GPU), without those whose serial was seen already, in another system that shows them too.

    Within one list every id counts: some BMCs give all GPUs the same serial (Cray EX: zeros, which is no serial).
    """
    found = []
    for item in items:
        if text(item, "ProcessorType") != "GPU" or not present(item):
            continue
        serial = text(item, "SerialNumber")
        serial = None if _NO_SERIAL.fullmatch(serial) else serial
        if serial and serial in seen_serials:
            continue
        facts = {
            "slot": text(item, "Id") or slot_of(item),
            "model": text(item, "Model") or text(item, "Name") or None,
            "serial": serial,
        }
        if facts not in found:
            found.append(facts)
    return found


def pcie_gpus(items):
    """GPUs among PCIe devices, for BMCs that do not list them as processors."""
    found = []
    for item in items:
        words = " ".join(text(item, key) for key in ("Name", "Model", "Description", "DeviceClass")).lower()
        if not present(item) or not re.search(r"\b(gpu|h100|h200|b200|b300|a100|l40s?|mi2\d\dx?|mi3\d\dx?)\b", words):
            continue
        found.append(
            {
                "slot": slot_of(item),
                "model": text(item, "Model") or text(item, "Name") or None,
                "serial": text(item, "SerialNumber") or None,
            }
        )
    return found


def memory(items):
    found = []
    for item in items:
        capacity = number(item, "CapacityMiB")
        if not present(item) or not capacity:
            continue
        found.append(
            {
                "slot": text(item, "DeviceLocator") or text(item, "Id"),
                "size_bytes": int(capacity) * 1024 * 1024,
                "serial": text(item, "SerialNumber") or None,
            }
        )
    return found


_MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")


def mac(value):
    plain = str(value or "").strip().lower().replace("-", ":")
    return plain if _MAC.match(plain) and plain != "00:00:00:00:00:00" else None


def nics(items):
    """The host's own interfaces; `mac` is None where the BMC knows none. What only lies on another one (a VLAN) is left out."""
    found = []
    for item in items:
        if text(item, "Id") == "ToManager":
            continue  # the host's USB link to its own BMC, not a network
        address = mac(text(item, "PermanentMACAddress")) or mac(text(item, "MACAddress"))
        if text(item, "EthernetInterfaceType") == "Virtual" and address in [None, *(nic["mac"] for nic in found)]:
            continue
        found.append({"slot": text(item, "Id") or slot_of(item), "mac": address, "name": text(item, "Name") or None})
    return found


def drives(items):
    found = []
    for item in items:
        if not present(item):
            continue
        protocol, media = text(item, "Protocol"), text(item, "MediaType")
        kind = "nvme" if "NVMe" in protocol else {"SSD": "ssd", "HDD": "hdd"}.get(media, media.lower() or None)
        size = number(item, "CapacityBytes")
        found.append(
            {
                "slot": text(item, "Id") or slot_of(item),
                "model": text(item, "Model") or text(item, "Name") or None,
                "serial": text(item, "SerialNumber") or None,
                "size_bytes": int(size) if size is not None else None,
                "type": kind,
            }
        )
    return found


def simple_drives(items):
    """Drives of SimpleStorage resources, for BMCs that have nothing in Storage (DGX H100); not the virtual ones of the BMC itself."""
    found = []
    for item in items:
        devices = item.get("Devices")
        for device in devices if isinstance(devices, list) else []:
            words = " ".join(text(device, key) for key in ("Name", "Model"))
            if not isinstance(device, dict) or not present(device) or re.search(r"\bvirtual\b", words, re.IGNORECASE):
                continue
            size = number(device, "CapacityBytes")
            found.append(
                {
                    "slot": text(device, "Name") or None,
                    "model": text(device, "Model") or None,
                    "serial": text(device, "SerialNumber") or None,
                    "size_bytes": int(size) if size is not None else None,
                    "type": "nvme" if "nvme" in words.lower() else None,
                }
            )
    return found


def update_ways(service):
    """{"multipart", "push", "simple": URI} as an UpdateService offers them, in the order in which they are to be preferred."""
    found = {"multipart": text(service, "MultipartHttpPushUri"), "push": text(service, "HttpPushUri")}
    simple = dig(service, "Actions", "#UpdateService.SimpleUpdate")
    found["simple"] = text(simple, "target") if isinstance(simple, dict) else ""
    return {name: uri for name, uri in found.items() if uri}


def firmware(items):
    found = [
        {"id": text(item, "Id") or text(item, "Name"), "version": text(item, "Version") or None}
        for item in items
        if text(item, "Id") or text(item, "Name")
    ]
    return sorted(found, key=lambda item: item["id"])


def account_facts(item):
    """{username, role, enabled, locked, uri} of a ManagerAccount; the password is never readable."""
    return {
        "username": text(item, "UserName"),
        "role": text(item, "RoleId") or None,
        "enabled": item.get("Enabled") is not False,
        "locked": item.get("Locked") is True,
        "uri": text(item, "@odata.id"),
    }
