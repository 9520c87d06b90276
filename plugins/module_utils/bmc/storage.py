# Volumes of a server's storage controllers: found by name, level and drives, made or removed only with consent bound to the server's serial number.
# The erasure of drives is in erase.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core.deadline import Deadline
from ..core.errors import BaremetalError, Conflict, InvalidInput, NotFound, Unsupported
from ..core.plan import Change, Plan
from . import connect, tasks, transform
from . import consent as word
from .endpoint import check_seconds
from .errors import AnswerLost, HttpError
from .result import Result, known_identity, read_until

# level: (fewest drives, their number must be a multiple of it). DSP0268, Volume.RAIDType; the fewest are those of the level itself.
LEVELS = {
    "None": (1, 1),
    "RAID0": (1, 1),
    "RAID1": (2, 2),
    "RAID5": (3, 1),
    "RAID6": (4, 1),
    "RAID10": (4, 2),
    "RAID50": (6, 1),
    "RAID60": (8, 1),
}
# Volume.VolumeType, which was there before RAIDType
OLD_TYPES = {
    "RawDevice": "None",
    "NonRedundant": "RAID0",
    "Mirrored": "RAID1",
    "StripedWithParity": "RAID5",
    "SpannedMirrors": "RAID10",
    "SpannedStripesWithParity": "RAID50",
}
MOST_TRIES = 5
VERIFY_S = 120.0


# ---- pure ---------------------------------------------------------------------------------------------------------------------------------
def volume_facts(resource):
    """{id, uri, name, level, drives (normal paths), bytes, raw} of a Volume resource."""
    old = transform.text(resource, "VolumeType")
    drives = transform.links(resource, "Links", "Drives") or transform.links(resource, "Drives")
    return {
        "id": transform.text(resource, "Id"),
        "uri": transform.text(resource, "@odata.id"),
        "name": transform.text(resource, "DisplayName") or transform.text(resource, "Name"),
        "level": transform.text(resource, "RAIDType") or OLD_TYPES.get(old) or None,
        "drives": sorted({transform.same_path(uri) for uri in drives}),
        "bytes": transform.number(resource, "CapacityBytes"),
        # iDRAC lists every drive that no controller manages as a volume of its own
        "raw": old == "RawDevice",
    }


def choose_controller(storages, wanted=None, host=None):
    """The storage resource to work with: the one named, else the only one that has volumes at all."""
    words = {
        transform.text(item, "Id") or transform.text(item, "@odata.id").rstrip("/").rsplit("/", 1)[-1]: item
        for item in storages
    }
    if wanted:
        for word, item in words.items():
            if word.lower() == wanted.lower():
                return item
        raise NotFound(
            "the server has no such storage controller",
            host=host,
            thing="controller",
            wanted=wanted,
            seen=", ".join(words) or "none",
            next_step="name one of these",
        )
    able = {word: item for word, item in words.items() if transform.link(item, "Volumes")}
    if len(able) == 1:
        return next(iter(able.values()))
    if not able:
        raise Unsupported(
            "no storage controller of this server has volumes",
            host=host,
            thing="Storage",
            wanted="a link Volumes",
            seen=", ".join(words) or "no storage",
            next_step="drives behind no RAID controller are used as they are; mirror them in the operating system",
        )
    raise Conflict(
        "several storage controllers could be meant",
        host=host,
        thing="controller",
        wanted="one of them",
        seen=", ".join(able),
        next_step="name it with controller",
        code="ambiguous_controller",
    )


def choose_drives(drives, names, host=None):
    """The drives that `names` mean (id, label of the slot, or serial number), in their order."""
    chosen = []
    for name in names:
        fitting = [
            drive
            for drive in drives
            if str(name).lower()
            in (
                transform.text(drive, "Id").lower(),
                transform.text(drive, "SerialNumber").lower(),
                transform.slot_of(drive).lower(),
            )
        ]
        if len(fitting) != 1:
            raise NotFound(
                "the controller has no such drive" if not fitting else "several drives are called like this",
                host=host,
                thing="drives",
                wanted=name,
                seen=", ".join(
                    f"{transform.text(drive, 'Id')} ({transform.text(drive, 'SerialNumber') or 'no serial'})"
                    for drive in drives
                )
                or "no drives",
                next_step="name each by its id or its serial number",
            )
        if fitting[0] in chosen:
            raise InvalidInput("a drive is named twice", host=host, thing="drives", wanted="each once", seen=name)
        chosen.append(fitting[0])
    return chosen


def check_level(level, count, supported, host=None):
    if level not in LEVELS:
        raise InvalidInput(
            "there is no such RAID level", host=host, thing="raid_type", wanted=", ".join(LEVELS), seen=level
        )
    fewest, multiple = LEVELS[level]
    if count < fewest or count % multiple:
        raise InvalidInput(
            "this RAID level needs other drives",
            host=host,
            thing="drives",
            wanted=f"{fewest} or more" + (f", a multiple of {multiple}" if multiple > 1 else ""),
            seen=count,
        )
    if supported and level not in supported:
        raise Unsupported(
            "the controller does not have this RAID level",
            host=host,
            thing="raid_type",
            wanted=level,
            seen=", ".join(supported),
            next_step="choose one of these, or mirror in the operating system",
        )


def find_volume(volumes, name, level, drives, host=None):
    """The volume that is meant, or None: by its name; else by level and drives (BMCs that give volumes names of their own). A volume of this name that is
    something else is an error: it is never rebuilt."""
    paths = sorted(transform.same_path(transform.text(drive, "@odata.id")) for drive in drives)
    for volume in volumes:
        if volume["name"] != name:
            continue
        differs = [
            f"{word}: {have}"
            for word, have, wanted in (("level", volume["level"], level), ("drives", volume["drives"], paths or None))
            if wanted is not None and have != wanted
        ]
        if differs:
            raise Conflict(
                "a volume of this name is there and is another one",
                host=host,
                thing=f"volume {name}",
                wanted=f"level {level}, drives {', '.join(paths)}",
                seen="; ".join(differs),
                next_step="give it another name, or remove the old one first (state: absent with consent)",
                code="volume_differs",
            )
        return volume
    if level and paths:
        return next(
            (
                volume
                for volume in volumes
                if not volume["raw"] and volume["level"] == level and volume["drives"] == paths
            ),
            None,
        )
    return None


# ---- the operation --------------------------------------------------------------------------------------------------------------------------
def storage(
    endpoint,
    name,
    state="present",
    level=None,
    drives=(),
    capacity=None,
    controller=None,
    consent=None,
    apply_time=None,
    deadline_s=900.0,
    check=False,
    fence=None,
    interval=2.0,
):
    """One volume, present or absent. Making and removing it destroys what is on its drives, so both want `consent`: the server's serial number."""
    check_seconds("timeout", deadline_s, endpoint.label)
    if state not in ("present", "absent") or not name:
        raise InvalidInput(
            "this cannot be",
            host=endpoint.label,
            thing="state, name",
            wanted="present or absent, and a name",
            seen=f"{state}, {name}",
        )
    if state == "present" and (not level or not drives):
        raise InvalidInput(
            "a volume needs a level and drives",
            host=endpoint.label,
            thing="raid_type, drives",
            wanted="both",
            seen=f"{level}, {drives}",
        )
    endpoint.require_redfish("IPMI knows no volumes")
    deadline = Deadline(deadline_s, f"volume {name}", host=endpoint.label)
    with connect(endpoint, deadline, fence) as client:
        client.login()
        place = _Controller(client, controller)
        volumes = place.volumes()
        chosen = choose_drives(place.drives(), drives, endpoint.label) if drives else []
        volume = find_volume(
            volumes, name, level if state == "present" else None, chosen if state == "present" else [], endpoint.label
        )
        if state == "present":
            check_level(level, len(chosen), place.levels(), endpoint.label)
            plan = Plan(
                [
                    Change(
                        f"volume.{name}",
                        None,
                        f"{level} of {', '.join(transform.text(drive, 'Id') for drive in chosen)}",
                    )
                ]
                if volume is None
                else []
            )
            if volume is not None and volume["name"] != name:
                client.warnings.append(f"the volume is there and the BMC calls it {volume['name']}")
        else:
            plan = Plan([Change(f"volume.{name}", _word(volume), None)] if volume else [])
        result = Result(
            plan.changed, plan, {"volume": _shown(volume)}, {"volume": _shown(volume)}, client.warnings, client.source
        )
        result.more = {
            **word.lacking([word.server_serial(client)] if plan.changed else [], consent),
            "reboot_required": plan.changed and apply_time == "OnReset",
            "controller": transform.text(place.resource, "Id"),
        }
        if plan.changed:
            result.after = {
                "volume": None
                if state == "absent"
                else {"name": name, "level": level, "drives": [transform.text(drive, "Id") for drive in chosen]}
            }
            there = {"volume": _shown(volume)}
            if check and result.more["reboot_required"]:
                result.after = there
            if state == "present":
                _refuse_used(endpoint, volumes, chosen)
                place.refuse_unless("POST", place.collection)
            if not check or word.words_of(consent):
                word.require_server(client, consent, "this destroys what is on the drives", plan)
            if not check:
                waits = (
                    _create(client, place, name, level, chosen, capacity, apply_time, deadline, interval)
                    if state == "present"
                    else _remove(client, place, volume, apply_time, deadline, interval)
                )
                result.more["reboot_required"] = waits
                if waits:
                    result.after = there
        result.bmc = known_identity(client)
        return result


def _word(volume):
    return f"{volume['level']} of {len(volume['drives'])} drives"


def _shown(volume):
    if volume is None:
        return None
    return {
        "name": volume["name"],
        "level": volume["level"],
        "drives": [path.rsplit("/", 1)[-1] for path in volume["drives"]],
    }


def _refuse_used(endpoint, volumes, chosen):
    for drive in chosen:
        path = transform.same_path(transform.text(drive, "@odata.id"))
        user = next((volume for volume in volumes if path in volume["drives"] and not volume["raw"]), None)
        if user:
            raise Conflict(
                "a drive belongs to another volume",
                host=endpoint.label,
                thing=f"drive {transform.text(drive, 'Id')}",
                wanted="a free drive",
                seen=f"volume {user['name']}",
                next_step="remove that volume first (state: absent with consent), or choose other drives",
                code="drive_in_use",
            )


class _Controller:
    def __init__(self, client, wanted):
        self.client = client
        found = client.members(transform.link(client.system(), "Storage"), "the storage")
        self.resource = choose_controller(found, wanted, client.endpoint.label)
        self.collection = transform.link(self.resource, "Volumes")
        if not self.collection:
            raise Unsupported(
                "this storage controller has no volumes",
                host=client.endpoint.label,
                thing=f"controller {transform.text(self.resource, 'Id')}",
                wanted="a link Volumes",
                seen="none",
                next_step="its drives are used as they are; mirror them in the operating system",
            )

    def volumes(self):
        facts = [volume_facts(item) for item in self.client.members(self.collection, certain=True)]
        return [item for item in facts if item["uri"] and item["id"] != "Capabilities"]

    def drives(self):
        found = []
        for uri in transform.links(self.resource, "Drives"):
            drive = self.client.optional(uri, "a drive")
            if drive and transform.present(drive):
                found.append({**drive, "@odata.id": transform.text(drive, "@odata.id") or uri})
        return found

    def levels(self):
        """RAID levels that the controller says it has; [] where it says nothing."""
        items = transform.items(self.resource, "StorageControllers")
        items += self.client.members(transform.link(self.resource, "Controllers"), None)
        found = []
        for item in items:
            found += transform.strings(item.get("SupportedRAIDTypes"))
        return list(dict.fromkeys(found))

    def refuse_unless(self, method, uri):
        """BMCs that show volumes and cannot make any say so in Allow."""
        allow = (self.client.look(uri).headers or {}).get("Allow")
        if allow and method not in [word.strip().upper() for word in allow.split(",")]:
            raise Unsupported(
                "the BMC shows volumes and cannot make any",
                host=self.client.endpoint.label,
                thing=uri,
                wanted=method,
                seen=allow,
                next_step="use the controller's own tool in the operating system, or newer BMC firmware",
            )


def _create(client, place, name, level, chosen, capacity, apply_time, deadline, interval):
    """POST, again with what a refusal names: services differ in where the drives stand and how the level is called. Returns whether a restart is awaited."""
    links = [{"@odata.id": transform.text(drive, "@odata.id")} for drive in chosen]
    body = {"Name": name, "RAIDType": level, "Links": {"Drives": links}}
    if capacity:
        body["CapacityBytes"] = int(capacity)
    if apply_time:
        body["@Redfish.OperationApplyTime"] = apply_time
    paths = sorted(transform.same_path(link["@odata.id"]) for link in links)

    def found():
        return next(
            (
                item
                for item in place.volumes()
                if item["drives"] == paths and item["level"] in (level, None) and not (item["raw"] and level != "None")
            ),
            None,
        )

    answer = None
    try:
        for number in range(MOST_TRIES):
            try:
                answer = client.post(place.collection, body)
                break
            except HttpError as error:
                if error.status != 400 or number == MOST_TRIES - 1 or not _mend(body, error, level, links):
                    raise
    except AnswerLost:
        client.warnings.append("the answer to making the volume was lost; the volumes were read instead")
    if answer is not None and tasks.handle_of(answer):
        thing = f"volume {name}"
        outcome = tasks.require(
            client, tasks.follow(client, answer, deadline, thing=thing, verify=lambda: found() is not None), thing
        )
        if outcome.state == tasks.WAITING:
            return True
    _await(
        client,
        deadline,
        interval,
        found,
        lambda volume: volume is not None,
        f"volume {name}",
        f"{level} of {len(chosen)} drives",
        "the BMC accepted to make the volume and does not show it",
    )
    return False


def _mend(body, error, level, links):
    """Change the body by what the refusal names; False where it names nothing that could be changed."""
    old = next((word for word, new in OLD_TYPES.items() if new == level and word != "RawDevice"), None)
    if "Links" in body and error.names("Links"):
        body.pop("Links")
        body["Drives"] = links
    elif "RAIDType" in body and error.names("RAIDType") and old and "VolumeType" not in body:
        body.pop("RAIDType")
        body["VolumeType"] = old
    elif "Name" in body and error.names("Name"):
        body["DisplayName"] = body.pop("Name")
    elif "DisplayName" in body and error.names("DisplayName"):
        body.pop("DisplayName")
    else:
        return False
    return True


def _remove(client, place, volume, apply_time, deadline, interval):
    def gone():
        return next(
            (
                item
                for item in place.volumes()
                if transform.same_path(item["uri"]) == transform.same_path(volume["uri"])
            ),
            None,
        )

    answer = None
    try:
        answer = client.delete(volume["uri"])
    except AnswerLost:
        client.warnings.append("the answer to removing the volume was lost; the volumes were read instead")
    if answer is not None and tasks.handle_of(answer):
        thing = f"volume {volume['name']}"
        outcome = tasks.require(
            client, tasks.follow(client, answer, deadline, thing=thing, verify=lambda: gone() is None), thing
        )
        if outcome.state == tasks.WAITING:
            return True
    _await(
        client,
        deadline,
        interval,
        gone,
        lambda left: left is None,
        f"volume {volume['name']}",
        "no such volume",
        "the BMC accepted to remove the volume and still shows it",
    )
    return False


def _await(client, deadline, interval, read, done, thing, wanted, message):
    def quiet():
        try:
            return read()
        except BaremetalError as error:
            if error.code == "not_found":
                return None
            raise

    read_until(
        client,
        Deadline(min(VERIFY_S, deadline.remaining()), thing, host=client.endpoint.label),
        quiet,
        done,
        thing=thing,
        wanted=wanted,
        message=message,
        next_step="some controllers take it at the next start of the server (apply_time: OnReset, then restart); the BMC's log (bmc_log) may say why",
        interval=interval,
        describe=lambda volume: "no such volume" if volume is None else _word(volume),
    )
