# What a BMC knows of its server, section by section. A section that cannot be read is empty and a warning, never an error.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core.deadline import Deadline
from ..core.errors import (
    AuthenticationFailed,
    BaremetalError,
    DeadlineExceeded,
    InvalidInput,
    Refused,
    Unreachable,
    Unsupported,
)
from . import connect, sensors, transform
from .bios import observed
from .endpoint import check_seconds
from .log import choose_logs, read_entries, read_services, sel_facts, wanted_entries
from .media import read_devices
from .settings import read_settings
from .storage import volume_facts

# What is read unless the caller says which; then what is only read when it is named.
SECTIONS = ("system", "bmc", "processors", "memory", "nics", "drives", "gpus", "firmware", "boot", "offers")
MORE_SECTIONS = ("storage", "power", "thermal", "bios", "logs", "accounts", "settings", "media")
DICTS = ("system", "bmc", "boot", "offers", "power", "thermal", "bios", "settings")
# What a service without any computer system (a chassis controller, a power shelf, a switch) can tell.
WITHOUT_SYSTEM = ("system", "bmc", "firmware", "offers", "logs")
LOG_ENTRIES = 50


def info(endpoint, sections=None, deadline_s=None, section_s=None, any_service=False):
    """The node's inventory by its BMC: a dict with the keys of SECTIONS (or those asked for) plus `warnings`, `source` and `location`.

    `section_s` bounds each section, so that a slow one costs the others nothing; what was not read is empty and a warning. `any_service`: one without any
    computer system (a chassis controller, a power shelf) tells what it can, else it is NotFound.
    """
    sections = tuple(sections or SECTIONS)
    unknown = [name for name in sections if name not in SECTIONS + MORE_SECTIONS]
    if unknown:
        raise InvalidInput(
            "there is no such section",
            host=endpoint.label,
            thing="sections",
            wanted=", ".join(SECTIONS + MORE_SECTIONS),
            seen=", ".join(unknown),
        )
    limit = endpoint.timeout if deadline_s is None else deadline_s
    check_seconds("timeout", limit, endpoint.label)
    if section_s is not None:
        check_seconds("section_timeout", section_s, endpoint.label)
    deadline = Deadline(limit, "the inventory", host=endpoint.label)
    with connect(endpoint, deadline) as client:
        if endpoint.protocol == "ipmi":
            return _ipmi_info(client, sections)
        if set(sections) - {"system", "bmc", "boot"}:
            client.login()
        return redfish_info(client, sections, section_s, any_service)


def redfish_info(client, sections=SECTIONS, section_s=None, any_service=False):
    """Inventory through an open Redfish client. A section that cannot be read is empty and a warning, never an error."""
    system = client.system_or_none() if any_service else client.system()
    # whether the linked one is the server's own is looked up (through all chassis of a GB200) only for what hangs on it
    chassis = client.chassis() if "system" in sections else client.linked_chassis()
    found = {}
    readers = {
        "system": lambda: transform.system_facts(system, chassis),
        "bmc": lambda: _bmc(client),
        "processors": lambda: transform.processors(_processors(client)),
        "memory": lambda: transform.memory(client.members(transform.link(system, "Memory"), "the memory")),
        "nics": lambda: transform.nics(
            client.members(transform.link(system, "EthernetInterfaces"), "the network interfaces")
        ),
        "drives": lambda: transform.drives(_drives(client, system)) or _simple_drives(client, system),
        "gpus": lambda: _gpus(client, system, chassis),
        "firmware": lambda: transform.firmware(_firmware(client)),
        "boot": lambda: transform.boot(client.boot_place()[0]),
        "offers": lambda: _offers(client, system),
        "storage": lambda: _storage(client, system),
        "power": lambda: sensors.power(client),
        "thermal": lambda: sensors.thermal(client),
        "bios": lambda: _bios(client, system),
        "logs": lambda: _logs(client),
        "accounts": lambda: _accounts(client),
        "settings": lambda: read_settings(client),
        "media": lambda: [
            {key: device[key] for key in ("id", "types", "image", "inserted")} for device in read_devices(client)
        ],
    }
    if not system:
        client.warnings.append(
            "this service has no computer system: it is a switch, a power shelf or a chassis controller"
        )
        found.update({name: {} if name in DICTS else [] for name in sections if name not in WITHOUT_SYSTEM})
    # The firmware list takes minutes on some GPU servers: last, so that it costs no other section its time.
    for name in sorted((item for item in sections if item not in found), key=lambda section: section == "firmware"):
        part = client.deadline
        try:
            with client.limited(section_s, name) as part:
                found[name] = readers[name]()
        except AuthenticationFailed:
            raise
        except Unreachable as error:
            # A BMC that is too slow for one section is not a BMC that does not answer.
            if section_s is None or not (part.expired() or getattr(error, "cut_short", False)):
                raise
            found[name] = {} if name in DICTS else []
            client.warnings.append(f"{name}: not read within the time given ({error.seen})")
        except DeadlineExceeded as error:
            found[name] = {} if name in DICTS else []
            client.warnings.append(f"{name}: not read within the time given ({error.seen})")
        except BaremetalError as error:
            found[name] = {} if name in DICTS else []
            client.warnings.append(f"{name}: {error}")
    found["location"] = transform.location(chassis)
    found["source"] = client.source
    found["warnings"] = list(dict.fromkeys(client.warnings))
    return found


def _processors(client):
    if client.seen_processors is None:
        client.seen_processors = client.members(transform.link(client.system(), "Processors"), "the processors")
    return client.seen_processors


def _gpus(client, system, chassis):
    """GPUs of the host's own processors, then of the other systems behind this BMC (HGX boards), then of the PCIe devices."""
    found = transform.gpus(_processors(client))
    mine = transform.same_path(transform.text(system, "@odata.id"))
    for other in client.systems_seen():
        if transform.same_path(transform.text(other, "@odata.id")) != mine:
            items = client.members(transform.link(other, "Processors"), "the processors of another system")
            found += transform.gpus(items, {gpu["serial"] for gpu in found if gpu["serial"]})
    if not found:
        uris = transform.links(system, "PCIeDevices")
        devices = [client.optional(uri, "a PCIe device") for uri in uris[:64]]
        if not uris:
            devices = client.members(transform.link(chassis or {}, "PCIeDevices"), None)
        found = transform.pcie_gpus([item for item in devices if item])
    return found


def _bmc(client):
    """{id, vendor, model, firmware}: who the BMC is. Cray's controllers show their version in the firmware inventory only, under the id BMC."""
    found = {"id": transform.text(client.manager(), "Id") or None, **client.identity()}
    if not found["firmware"]:
        service = client.optional(transform.link(client.root(), "UpdateService"), None) or {}
        page = client.optional(transform.link(service, "FirmwareInventory"), None) or {}
        uris = [transform.text(item, "@odata.id") for item in transform.members_of(page) if isinstance(item, dict)]
        uri = next((uri for uri in uris if transform.same_path(uri).endswith("/bmc")), None)
        found["firmware"] = transform.text(client.optional(uri, None) or {}, "Version") or None
    return found


def _offers(client, system):
    """{reset_types, update_methods}: what the BMC says that it can be asked for; [] where it says nothing."""
    try:
        resets = client.reset_action()[1] if system else None
    except Unsupported:
        resets = None
    service = client.optional(transform.link(client.root(), "UpdateService"), None) or {}
    return {"reset_types": resets or [], "update_methods": list(transform.update_ways(service))}


def _drives(client, system):
    drives, seen = [], set()
    for storage in client.members(transform.link(system, "Storage"), "the storage"):
        uris = transform.links(storage, "Drives")
        for uri in uris:
            if transform.same_path(uri) in seen:
                continue
            seen.add(transform.same_path(uri))
            drive = client.optional(uri, "a drive")
            if drive:
                drives.append(drive)
    return drives


def _simple_drives(client, system):
    return transform.simple_drives(client.members(transform.link(system, "SimpleStorage"), None))


def _storage(client, system):
    """[{id, controllers, volumes, drives}] of the host; what a controller does not show is empty."""
    found = []
    for item in client.members(transform.link(system, "Storage"), "the storage"):
        controllers = transform.items(item, "StorageControllers") or client.members(
            transform.link(item, "Controllers"), None
        )
        volumes = [volume_facts(one) for one in client.members(transform.link(item, "Volumes"), None)]
        found.append(
            {
                "id": transform.text(item, "Id") or transform.text(item, "@odata.id").rstrip("/").rsplit("/", 1)[-1],
                "controllers": [
                    {
                        "model": transform.text(one, "Model") or None,
                        "firmware": transform.text(one, "FirmwareVersion") or None,
                    }
                    for one in controllers
                ],
                "volumes": [
                    {key: one[key] for key in ("id", "name", "level", "bytes")}
                    for one in volumes
                    if one["id"] != "Capabilities"
                ],
                "drives": len(transform.links(item, "Drives")),
            }
        )
    return found


def _bios(client, system):
    """{attributes, pending} as bmc_bios compares them; pending only where the BMC links its settings object."""
    resource = client.get(transform.link(system, "Bios"))
    place = transform.link(resource, "@Redfish.Settings", "SettingsObject")
    live, pending = observed(resource, client.optional(place, None) if place else None)
    return {"attributes": live, "pending": pending}


def _logs(client):
    """The newest entries of each log that are worse than OK."""
    found = []
    for service in choose_logs(read_services(client), None):
        entries = wanted_entries(read_entries(client, service, None, LOG_ENTRIES), None, "Warning", LOG_ENTRIES)
        found.append({"log": service["name"], "entries": entries})
    return found


def _accounts(client):
    """[{username, role, enabled, locked}]; empty slots are no accounts."""
    service = client.get(transform.link(client.root(), "AccountService") or "/redfish/v1/AccountService")
    found = []
    for item in client.members(transform.link(service, "Accounts"), "the accounts", expand=False):
        facts = transform.account_facts(item)
        if facts["username"]:
            found.append({key: facts[key] for key in ("username", "role", "enabled", "locked")})
    return found


def _firmware(client):
    service = client.optional(transform.link(client.root(), "UpdateService"), None)
    # It takes minutes on some GPU servers: one long wait, not three short ones that each make the BMC begin again.
    with client.patient(client.quirks(manager=True)["firmware_list_s"]):
        return client.members(transform.link(service or {}, "FirmwareInventory"), "the firmware inventory")


def _ipmi_info(client, sections):
    """The little that IPMI knows of a server; the sections that it cannot give are named in one warning."""
    fru = _quietly(client, client.read_fru, {})
    guid = _quietly(client, client.read_guid, "")
    found = {}
    if "system" in sections:
        found["system"] = {
            "id": None,
            "manufacturer": _first(fru, "Manufacturer", "Board manufacturer"),
            "model": _first(fru, "Product name", "Model"),
            "serial": _first(fru, "Serial Number", "Chassis serial number", "Board serial number"),
            "uuid": guid.lower() or None,
            "sku": None,
            "power": client.read_power(),
            "bios_version": None,
            "memory_gib": None,
            "health": None,
        }
    if "bmc" in sections:
        found["bmc"] = client.identity()
    if "boot" in sections:
        found["boot"] = _quietly(client, client.read_boot, {})
    if "firmware" in sections:
        found["firmware"] = [{"id": "BMC", "version": client.identity()["firmware"]}]
    if {"thermal", "power"} & set(sections):
        rows = _quietly(client, client.read_sensors, None)
        if rows is not None and "thermal" in sections:
            found["thermal"] = sensors.ipmi_thermal(rows)
        if rows is not None and "power" in sections:
            found["power"] = sensors.ipmi_power(rows, _quietly(client, client.read_watts, None))
    if "logs" in sections:
        records = _quietly(client, lambda: client.read_log(LOG_ENTRIES), None)
        if records is not None:
            # IPMI's records have no severity, so the newest are all shown.
            entries = [sel_facts(bytes.fromhex(record)) for record in records]
            found["logs"] = [{"log": "sel", "entries": wanted_entries(entries, None, None, LOG_ENTRIES)}]
    missing = [name for name in sections if name not in found]
    for name in missing:
        found[name] = {} if name in DICTS else []
    if missing:
        client.warnings.append("IPMI cannot tell: " + ", ".join(missing))
    found["location"] = {"rack": None, "slot": None}
    found["source"] = client.source
    found["warnings"] = list(dict.fromkeys(client.warnings))
    return found


def _first(fru, *keys):
    """The first of these fields that says something; fields are filled up with spaces and NULs."""
    return next(filter(None, (transform.text(fru, key) for key in keys)), None)


def _quietly(client, read, default):
    try:
        return read()
    except Refused as error:
        client.warnings.append(str(error))
        return default
