# The secure erasure of drives (Drive.SecureErase): only drives that nothing uses, only with each drive's own serial number as consent.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core.deadline import Deadline
from ..core.errors import (
    AuthenticationFailed,
    BaremetalError,
    Conflict,
    DeadlineExceeded,
    InvalidInput,
    NotFound,
    Refused,
    Unsupported,
)
from ..core.plan import Change, Plan
from . import connect, tasks, transform
from . import consent as word
from .endpoint import check_seconds
from .errors import AnswerLost
from .result import Result, known_identity, read_until
from .storage import choose_drives, volume_facts

# DSP0268, Drive.DataSanitizationType
METHODS = ("CryptographicErase", "BlockErase", "Overwrite")
# Time in which a BMC without a task must show that it has begun, and in which a drive shows up again after the work.
SHOWS_S = 15.0
BACK_S = 300.0


# ---- pure ---------------------------------------------------------------------------------------------------------------------------------
def is_own_volume(volume, facts):
    """Whether a Volume resource is nothing but the drive itself: iDRAC lists bare drives as volumes, NVMe drives have a namespace."""
    namespace = isinstance(volume.get("NVMeNamespaceProperties"), dict)
    return len(facts["drives"]) < 2 and (facts["raw"] or namespace) and facts["level"] in (None, "None")


def label_of(drive):
    return transform.text(drive, "Id") or transform.text(drive, "@odata.id").rstrip("/").rsplit("/", 1)[-1]


def operation_of(drive):
    """What a drive says that it is doing ("Sanitize 40 %"), or ""."""
    found = []
    for item in transform.items(drive, "Operations"):
        name = (
            transform.text(item, "Operation")
            or transform.text(item, "OperationName")
            or transform.link(item, "AssociatedTask")
        )
        percent = transform.number(item, "PercentageComplete")
        found.append((name or "an operation") + (f" {percent:.0f} %" if percent is not None else ""))
    if not found and transform.state_of(drive) in ("Updating", "InTest", "Starting"):
        found.append(transform.state_of(drive))
    return ", ".join(found)


# ---- the operation --------------------------------------------------------------------------------------------------------------------------
def erase(
    endpoint,
    drives,
    method=None,
    passes=None,
    controller=None,
    consent=(),
    apply_time=None,
    deadline_s=7200.0,
    check=False,
    fence=None,
    interval=2.0,
):
    """Erase `drives` (ids, slot labels or serial numbers) one after the other. It is always a change. `consent`: the serial number of each of them.

    `erased` of a drive in the result is true where the BMC showed the erasure and its end, and false where it waits for the server's next start.
    Everything else, an erasure of which nothing was seen too, is an error, which says how far the drives before it came.
    """
    check_seconds("timeout", deadline_s, endpoint.label)
    if not drives or (method is not None and method not in METHODS):
        raise InvalidInput(
            "this cannot be erased",
            host=endpoint.label,
            thing="drives, sanitization",
            wanted=f"one drive or more; {', '.join(METHODS)}",
            seen=f"{', '.join(map(str, drives or ())) or 'no drives'}; {method}",
        )
    endpoint.require_redfish("IPMI knows no drives")
    deadline = Deadline(deadline_s, f"the erasure of {len(drives)} drives", host=endpoint.label)
    with connect(endpoint, deadline, fence) as client:
        client.login()
        storages = client.members(transform.link(client.system(), "Storage"), "the storage")
        chosen = choose_drives(_drives(client, storages, controller), drives, endpoint.label)
        actions = [_action(client, drive, method) for drive in chosen]
        for drive in chosen:
            _refuse_used(client, storages, drive)
        later = apply_time == "OnReset"
        words = "erased" + (f" ({method})" if method else "") + (" at the next start of the server" if later else "")
        plan = Plan([Change(f"drive.{label_of(drive)}", _shown(drive), words) for drive in chosen])
        given = word.words_of(consent)
        result = Result(
            True,
            plan,
            {"drives": [_facts(drive, None) for drive in chosen]},
            {"drives": [_facts(drive, not later) for drive in chosen]},
            client.warnings,
            client.source,
        )
        serials = [transform.text(drive, "SerialNumber") for drive in chosen]
        result.more = {**word.lacking(serials, given, "a serial number that the BMC shows"), "reboot_required": later}
        if given or not check:
            _require(endpoint, chosen, given, plan)
        if not check:
            found = result.after["drives"] = []
            for drive, action in zip(chosen, actions):
                try:
                    done = _erase(client, drive, action, method, passes, apply_time, deadline, interval)
                except BaremetalError as error:
                    if len(chosen) > 1:
                        error.seen = f"{error.seen or error.message}; {_how_far(chosen, found)}"
                    raise
                found.append(_facts(drive, done))
            result.more["reboot_required"] = not all(facts["erased"] for facts in found)
        result.bmc = known_identity(client)
        return result


def _shown(drive):
    model = transform.text(drive, "Model")
    return f"{model + ' ' if model else ''}serial {transform.text(drive, 'SerialNumber') or 'unknown'}"


def _facts(drive, erased):
    found = {"id": label_of(drive), "serial": transform.text(drive, "SerialNumber") or None}
    return found if erased is None else {**found, "erased": erased}


def _how_far(chosen, found):
    """What is known of each drive when the work ends with an error at the one after `found`."""
    states = ["erased" if facts["erased"] else "not erased before the server's next start" for facts in found]
    states += ["unknown", *["not begun"] * len(chosen)]
    return ", ".join(f"drive {label_of(drive)}: {state}" for drive, state in zip(chosen, states))


def _drives(client, storages, controller):
    """All drives of the host's storage, or those of one controller."""
    found, names = [], []
    for storage in storages:
        name = label_of(storage)
        names.append(name)
        if controller and name.lower() != controller.lower():
            continue
        for uri in transform.links(storage, "Drives"):
            drive = client.get(uri)
            if transform.present(drive):
                found.append({**drive, "@odata.id": transform.text(drive, "@odata.id") or uri})
    if controller and controller.lower() not in [name.lower() for name in names]:
        raise NotFound(
            "the server has no such storage controller",
            host=client.endpoint.label,
            thing="controller",
            wanted=controller,
            seen=", ".join(names) or "none",
            next_step="name one of these",
        )
    return found


def _action(client, drive, method):
    """The SecureErase action of a drive; raises Unsupported where it has none or not with this method."""
    action = transform.dig(drive, "Actions", "#Drive.SecureErase")
    if not isinstance(action, dict) or not transform.text(action, "target"):
        raise Unsupported(
            "the BMC cannot erase this drive",
            host=client.endpoint.label,
            thing=f"drive {label_of(drive)}",
            wanted="the action Drive.SecureErase",
            seen="no such action",
            next_step="erase it in the operating system (nvme format, nvme sanitize, hdparm), or by the controller's own tool",
            code="erase_not_offered",
        )
    offered = client.allowed_values(action, "SanitizationType")
    if method and offered and method not in offered:
        raise Unsupported(
            "the drive is not erased in this way",
            host=client.endpoint.label,
            thing=f"drive {label_of(drive)}",
            wanted=method,
            seen=", ".join(offered),
            next_step="use one of these with sanitization, or leave it out",
            code="erase_not_offered",
        )
    return action


def _refuse_used(client, storages, drive):
    """A drive that belongs to a volume is not erased; by its own links and by those of the volumes, as BMCs often have only one of them."""
    own = transform.same_path(transform.text(drive, "@odata.id"))
    volumes = [client.if_there(uri) for uri in transform.links(drive, "Links", "Volumes")]
    linked = len(volumes)
    for storage in storages:
        uri = transform.link(storage, "Volumes")
        if uri and own in map(transform.same_path, transform.links(storage, "Drives")):
            for item in client._pages(client.if_there(uri), client.if_there):
                volumes.append(item if len(item) > 3 else client.if_there(transform.text(item, "@odata.id")))
    uses = []
    for number, volume in enumerate(volumes):
        facts = volume_facts(volume or {})
        if volume and (number < linked or own in facts["drives"]) and not is_own_volume(volume, facts):
            uses.append(f"volume {facts['name'] or facts['id']}")
    busy = operation_of(drive)
    if busy:
        raise Conflict(
            "the drive is busy, it was not erased",
            host=client.endpoint.label,
            thing=f"drive {label_of(drive)}",
            wanted="a drive that does nothing",
            seen=busy,
            next_step="wait until it is done (bmc_info, section storage) and run again",
            code="drive_busy",
        )
    spare = transform.text(drive, "HotspareType")
    if spare and spare != "None":
        uses.append(f"a spare ({spare})")
    if uses:
        raise Conflict(
            "the drive is in use, it was not erased",
            host=client.endpoint.label,
            thing=f"drive {label_of(drive)}",
            wanted="a drive that no volume uses",
            seen=", ".join(dict.fromkeys(uses)),
            next_step="remove the volume first (state: absent with consent), or choose another drive",
            code="drive_in_use",
        )


def _require(endpoint, chosen, given, plan):
    serials = [transform.text(drive, "SerialNumber") for drive in chosen]
    if all(serials) and sorted(given) == sorted(serials):
        return
    known = ", ".join(serial or f"drive {label_of(drive)} shows none" for serial, drive in zip(serials, chosen))
    raise Refused(
        "this destroys what is on the drives and nobody consented to it for exactly these",
        host=endpoint.label,
        thing="consent",
        wanted=f"the serial number of each drive: {known}",
        seen=", ".join(given) or "nothing",
        next_step=f"look at the plan ({plan.summary()}), then run again with consent: [{', '.join(filter(None, serials))}]",
        code="consent_required",
    )


def _erase(client, drive, action, method, passes, apply_time, deadline, interval):
    """One drive: sent once, followed to its end, read back. Returns whether it is erased; False: it waits for a restart of the server."""
    thing, uri = f"the erasure of drive {label_of(drive)}", transform.text(drive, "@odata.id")
    body = {}
    if method:
        body["SanitizationType"] = method
    if passes and method == "Overwrite":
        body["OverwritePasses"] = int(passes)
    if apply_time:
        body["@Redfish.OperationApplyTime"] = apply_time
    answer = lost = None
    try:
        answer = client.post(transform.text(action, "target"), body)
    except AnswerLost as error:
        lost = error
        client.warnings.append(f"the answer to {thing} was lost; the drive was read instead")
    handle = tasks.handle_of(answer) if answer is not None else None
    if handle:
        outcome = tasks.require(client, tasks.follow(client, handle, deadline, thing=thing), thing)
        if outcome.state == tasks.WAITING:
            return False
    elif not _await_begin(client, uri, deadline, interval):
        if lost is not None:
            lost.next_step = "look at the drive and at the BMC's log (bmc_log) before you run it again"
            raise lost
        raise DeadlineExceeded(
            "the BMC accepted it and showed nothing of it, so the drive must not be taken for erased",
            host=client.endpoint.label,
            thing=thing,
            wanted=f"a task, or an operation of the drive within {SHOWS_S:.0f} s",
            seen=f"HTTP {answer.status}, and a drive that does nothing",
            next_step="look in the operating system at what is on it (nvme sanitize-log), or erase it there (nvme sanitize, hdparm)",
            code="erase_not_seen",
        )
    _await_end(client, uri, drive, deadline, interval, thing)
    return True


def _await_begin(client, uri, deadline, interval):
    """Whether the drive shows an operation within SHOWS_S. One that cannot be read meanwhile may be at work or not, so it is waited for."""
    part = Deadline(min(SHOWS_S, deadline.remaining()), "a sign of the erasure", host=client.endpoint.label)
    while True:
        readable = True
        try:
            if operation_of(client.get(uri)):
                return True
        except AuthenticationFailed:
            raise
        except BaremetalError:
            readable = False
        if deadline.expired() or (readable and part.expired()):
            return False
        part._sleep(min(interval, max(0.01, deadline.remaining())))


def _await_end(client, uri, drive, deadline, interval, thing):
    """The drive is there again, has the same serial number and does nothing any more."""
    busy = Deadline(deadline.remaining(), thing, host=client.endpoint.label)
    seen = read_until(
        client,
        busy,
        lambda: client.if_there(uri),
        lambda body: body is not None and not operation_of(body),
        thing=thing,
        wanted="a drive that is there and does nothing",
        message="the BMC has not finished the erasure",
        next_step="it may go on without us: look at the drive with bmc_info before you run it again",
        interval=interval,
        describe=lambda body: "no such drive" if body is None else operation_of(body),
        code="task_not_done",
    )
    serial = transform.text(drive, "SerialNumber")
    if transform.text(seen, "SerialNumber") not in ("", serial):
        raise Conflict(
            "another drive is in this place now",
            host=client.endpoint.label,
            thing=thing,
            wanted=serial,
            seen=transform.text(seen, "SerialNumber"),
            next_step="look at the drives with bmc_info; nothing else was sent",
            code="drive_changed",
        )
