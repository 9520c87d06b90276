# What can be done with one BMC: info, power, boot, account. Each is observe, plan (pure), apply, verify; check mode stops before apply.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from dataclasses import dataclass, field

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
from ..core.plan import Change, Plan
from . import connect, quirks, transform
from .errors import AnswerLost, HttpError

SECTIONS = ("system", "bmc", "processors", "memory", "nics", "drives", "gpus", "firmware", "boot")
POWER_ACTIONS = ("on", "off", "graceful", "reset", "cycle")
BOOT_TARGETS = tuple(transform.BOOT_TARGETS)
# What each action sends, in the order of preference. A graceful shutdown is never turned into a hard one unless asked (`fallback`).
RESET_TYPES = {
    "on": ("On", "ForceOn"),
    "off": ("ForceOff",),
    "graceful": ("GracefulShutdown",),
    "reset": ("ForceRestart",),
    "cycle": ("PowerCycle", "FullPowerCycle"),
}
# Seconds in which a restart must show itself where the BMC shows such a thing at all.
RESTART_SHOWS_S = {"reset": 4.0, "cycle": 12.0}
RESTART_MARK_S = 40.0


@dataclass
class Result:
    """What an operation did: `changed` only where a write was sent and accepted (in check mode: would be)."""

    changed: bool = False
    plan: Plan = field(default_factory=Plan)
    before: dict = field(default_factory=dict)
    after: dict = field(default_factory=dict)
    warnings: list = field(default_factory=list)
    source: str = "redfish"
    bmc: dict = field(default_factory=dict)

    def as_result(self, diff=False):
        found = {
            "changed": self.changed,
            "before": self.before,
            "after": self.after,
            "source": self.source,
            "bmc": self.bmc,
            "bmc_warnings": list(dict.fromkeys(self.warnings)),
            "msg": self.plan.summary(),
        }
        if diff:
            found["diff"] = self.plan.diff()
        return found


# ---- info ---------------------------------------------------------------------------------------------------------------------------------
def info(endpoint, sections=None, deadline_s=None):
    """The node's inventory by its BMC: a dict with the keys of SECTIONS (those asked for) plus `warnings`, `source` and `location`."""
    sections = tuple(sections or SECTIONS)
    unknown = [name for name in sections if name not in SECTIONS]
    if unknown:
        raise InvalidInput(
            "there is no such section",
            host=endpoint.label,
            thing="sections",
            wanted=", ".join(SECTIONS),
            seen=", ".join(unknown),
        )
    deadline = Deadline(deadline_s or endpoint.timeout, "the inventory", host=endpoint.label)
    with connect(endpoint, deadline) as client:
        if endpoint.protocol == "ipmi":
            return _ipmi_info(client, sections)
        if set(sections) - {"system", "bmc", "boot"}:
            client.login()
        return redfish_info(client, sections)


def redfish_info(client, sections=SECTIONS):
    """Inventory through an open Redfish client. A section that cannot be read is empty and a warning, never an error."""
    system = client.system()
    chassis = client.optional(transform.link(system, "Links", "Chassis"), "the chassis")
    found = {}
    readers = {
        "system": lambda: transform.system_facts(system, chassis),
        "bmc": client.identity,
        "processors": lambda: transform.processors(_processors(client)),
        "memory": lambda: transform.memory(client.members(transform.link(system, "Memory"), "the memory")),
        "nics": lambda: transform.nics(
            client.members(transform.link(system, "EthernetInterfaces"), "the network interfaces")
        ),
        "drives": lambda: transform.drives(_drives(client, system)),
        "gpus": lambda: _gpus(client, system, chassis),
        "firmware": lambda: transform.firmware(_firmware(client)),
        "boot": lambda: transform.boot(client.boot_place()[0]),
    }
    # The firmware list takes minutes on some GPU servers: last, so that it costs no other section its time.
    for name in sorted(sections, key=lambda section: section == "firmware"):
        try:
            found[name] = readers[name]()
        except (AuthenticationFailed, Unreachable):
            raise
        except DeadlineExceeded as error:
            found[name] = {} if name in ("system", "bmc", "boot") else []
            client.warnings.append(f"{name}: not read within the time given ({error.seen})")
        except BaremetalError as error:
            found[name] = {} if name in ("system", "bmc", "boot") else []
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
    items = [item for item in _processors(client) if transform.text(item, "ProcessorType") == "GPU"]
    mine = transform.same_path(transform.text(system, "@odata.id"))
    for other in client.systems_seen():
        if transform.same_path(transform.text(other, "@odata.id")) != mine:
            items += client.members(transform.link(other, "Processors"), "the processors of another system")
    found = transform.gpus(items)
    if not found:
        uris = transform.links(system, "PCIeDevices")
        devices = [client.optional(uri, "a PCIe device") for uri in uris[:64]]
        if not uris:
            devices = client.members(transform.link(chassis or {}, "PCIeDevices"), None)
        found = transform.pcie_gpus([item for item in devices if item])
    return found


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


def _firmware(client):
    service = client.optional(transform.link(client.root(), "UpdateService"), None)
    return client.members(transform.link(service or {}, "FirmwareInventory"), "the firmware inventory")


def _ipmi_info(client, sections):
    """The little that IPMI knows of a server; the sections that it cannot give are named in one warning."""
    fru = _quietly(client, client.read_fru, {})
    guid = _quietly(client, client.read_guid, "")
    found = {}
    if "system" in sections:
        found["system"] = {
            "id": None,
            "manufacturer": fru.get("Manufacturer") or fru.get("Board manufacturer"),
            "model": fru.get("Product name") or fru.get("Model"),
            "serial": fru.get("Serial Number") or fru.get("Chassis serial number") or fru.get("Board serial number"),
            "uuid": guid.lower() or None,
            "sku": None,
            "power": client.read_power(),
            "bios_version": None,
            "health": None,
        }
    if "bmc" in sections:
        found["bmc"] = client.identity()
    if "boot" in sections:
        found["boot"] = _quietly(client, client.read_boot, {})
    missing = [name for name in sections if name not in found]
    for name in missing:
        found[name] = []
    if missing:
        client.warnings.append("IPMI cannot tell: " + ", ".join(missing))
    found["location"] = {"rack": None, "slot": None}
    found["source"] = client.source
    found["warnings"] = list(dict.fromkeys(client.warnings))
    return found


def _quietly(client, read, default):
    try:
        return read()
    except Refused as error:
        client.warnings.append(str(error))
        return default


# ---- power --------------------------------------------------------------------------------------------------------------------------------
def plan_power(present, wanted):
    """Pure: the Plan for `wanted` with the power in state `present`. A restart of a server that is off means: switch it on."""
    if wanted == "on":
        return Plan([Change("power", present, "on")])
    if wanted in ("off", "graceful"):
        return Plan([Change("power", present, "off")])
    return (
        Plan([Change("power", present, "on")])
        if present == "off"
        else Plan([Change("power", present, f"on, after a {wanted}")])
    )


def power(endpoint, wanted, deadline_s=300.0, fallback=None, graceful_s=120.0, check=False, fence=None, interval=1.0):
    """Bring the power to `wanted` (POWER_ACTIONS) and read it back until it is so.

    `fallback="force"`: a graceful shutdown that is not offered, or not done within `graceful_s`, becomes a hard one. `fence` is called before each write.
    """
    if wanted not in POWER_ACTIONS:
        raise InvalidInput(
            "there is no such power action",
            host=endpoint.label,
            thing="state",
            wanted=", ".join(POWER_ACTIONS),
            seen=wanted,
        )
    deadline = Deadline(deadline_s, f"power {wanted}", host=endpoint.label)
    with connect(endpoint, deadline, fence) as client:
        present = client.read_power()
        if present in ("powering_on", "powering_off"):
            present = _settled(client, present, deadline, interval)
        plan = plan_power(present, wanted)
        goal = "off" if wanted in ("off", "graceful") else "on"
        result = Result(
            plan.changed,
            plan,
            {"power": present},
            {"power": goal if plan.changed else present},
            client.warnings,
            client.source,
        )
        if plan.changed and not check:
            _apply_power(client, endpoint, present, wanted, goal, deadline, fallback, graceful_s, interval)
        elif plan.changed and client.source == "redfish":
            _reset_type(client, "on" if present == "off" and goal == "on" else wanted, fallback)
        result.bmc = _known_identity(client)
        return result


def _settled(client, present, deadline, interval):
    """Wait out a transition that is already under way (bounded: some BMCs stay in PoweringOn for ever)."""
    part = Deadline(min(60.0, deadline.remaining()), "the power transition under way", host=client.endpoint.label)
    while present in ("powering_on", "powering_off") and not part.expired():
        part._sleep(min(interval, max(0.01, part.remaining())))
        present = client.read_power()
    return {"powering_on": "on", "powering_off": "off"}.get(present, present)


def _known_identity(client):
    """Who the BMC is, from what was read anyway: not worth a request of its own in every power call."""
    if client.source == "redfish":
        return client.identity(read=False)
    return {}


def _reset_type(client, action, fallback=None):
    """The Redfish ResetType for an action, from what the BMC allows. No equivalent is invented."""
    target, allowed = client.reset_action()
    names = RESET_TYPES[action] + (("ForceOff",) if action == "graceful" and fallback == "force" else ())
    if allowed is None:
        return names[0]
    for name in names:
        if name in allowed:
            return name
    if action == "cycle" and "ForceOff" in allowed and ("On" in allowed or "ForceOn" in allowed):
        return None  # off and on again, each verified: what a power cycle is
    raise Unsupported(
        "the BMC does not offer this",
        host=client.endpoint.label,
        thing=f"power {action}",
        wanted=" or ".join(names),
        seen=", ".join(allowed),
        next_step="fallback: force allows a hard power-off"
        if action == "graceful"
        else "use one of the actions that it lists",
    )


def _apply_power(client, endpoint, present, wanted, goal, deadline, fallback, graceful_s, interval):
    action = "on" if goal == "on" and present == "off" else wanted
    if client.source == "redfish":
        name = _reset_type(client, action, fallback)
        if name is None:
            action = "on"
            _send_power(client, "ForceOff")
            _await_power(client, "off", deadline, interval, "ForceOff")
            name = _reset_type(client, "on")
    else:
        name = action
    restarts = action in RESTART_SHOWS_S
    marks = client.restart_marks(fresh=False) if restarts else None
    lost = _send_power(client, name)
    if restarts:
        _await_restart(client, action, marks, deadline, interval, lost)
    if wanted == "graceful" and name in ("GracefulShutdown", "graceful") and fallback == "force":
        part = Deadline(min(graceful_s, deadline.remaining()), "graceful shutdown", host=endpoint.label)
        try:
            _await_power(client, goal, part, interval, name)
            return
        except DeadlineExceeded:
            client.warnings.append(
                f"the operating system did not shut down within {graceful_s:.0f} s, the power was cut as fallback: force asks"
            )
            name = "ForceOff" if client.source == "redfish" else "off"
            lost = _send_power(client, name)
    _await_power(client, goal, deadline, interval, name, lost)


def _await_restart(client, action, marks, deadline, interval, lost):
    """The power reads "on" before and after a restart, so a sign of it is awaited first.

    A BMC that has LastResetTime must move it; many have no sign at all, then the result says that only the power was verified.
    """
    certain = bool(marks[1:2] and marks[1])
    limit = min(RESTART_MARK_S if certain else RESTART_SHOWS_S[action], deadline.remaining())
    part = Deadline(limit, f"a sign of the {action}", host=client.endpoint.label)
    while not part.expired():
        try:
            if client.restart_marks() != marks:
                return
        except (Unreachable, HttpError) as error:
            if isinstance(error, HttpError) and error.status < 500:
                raise
        part._sleep(min(interval, 0.5, max(0.01, part.remaining())))
    if lost is not None:
        raise lost
    if certain:
        raise DeadlineExceeded(
            "the BMC accepted it but the server did not restart",
            host=client.endpoint.label,
            thing=f"power ({action})",
            wanted=f"another LastResetTime within {limit:.0f} s",
            seen=marks[1],
            next_step="look at the BMC's event log; if it accepts and ignores requests, restart the BMC",
            code="accepted_not_moved",
        )
    client.warnings.append(
        f"the BMC accepted the {action} and shows no sign of it; only that the power is on was verified"
    )


def _send_power(client, name):
    """Send once. A lost answer is not an error yet: what counts is what is read afterwards. Returns the AnswerLost, or None."""
    try:
        if client.source == "redfish":
            client.reset(name)
        else:
            client.send_power(name)
    except AnswerLost as error:
        client.warnings.append(f"the answer to {name} was lost; the power state was read instead")
        return error
    except HttpError as error:
        if error.status in (400, 409) and error.has("NoOperation", "ResourceInUse"):
            return None
        raise
    return None


def _await_power(client, goal, deadline, interval, sent, lost=None):
    last = {"seen": "nothing"}

    def probe():
        try:
            last["seen"] = client.read_power()
        except (Unreachable, HttpError) as error:
            if isinstance(error, HttpError) and error.status < 500:
                raise
            last["seen"] = f"no answer ({error.seen})"
        return last["seen"] == goal, last["seen"]

    try:
        deadline.wait(probe, interval=interval)
    except DeadlineExceeded:
        raise DeadlineExceeded(
            "the BMC accepted it but the power has not moved"
            if lost is None
            else "the answer was lost and the power has not moved",
            host=client.endpoint.label,
            thing=f"power ({sent})",
            wanted=f"{goal} within {deadline.seconds:.0f} s",
            seen=last["seen"],
            next_step="look at the BMC's event log; if it accepts and ignores requests, restart the BMC",
            code="accepted_not_moved",
        )


# ---- boot ---------------------------------------------------------------------------------------------------------------------------------
def plan_boot(present, target, enabled, mode=None):
    """Pure: the Plan from the boot override that is set (`transform.boot` shape) to the one wanted. Fields that mean nothing are not compared."""
    changes = [Change("boot.target", present["target"], target)]
    if target != "none":
        changes.append(Change("boot.enabled", present["enabled"], enabled))
        if mode:
            changes.append(Change("boot.mode", present["mode"], mode))
    return Plan(changes)


def boot(endpoint, target, once=True, mode=None, deadline_s=60.0, check=False, fence=None, interval=1.0):
    """Set the boot override: `target` of BOOT_TARGETS, for the next boot or (`once=False`) until changed; `mode` uefi or legacy, None leaves it."""
    if target not in BOOT_TARGETS:
        raise InvalidInput(
            "there is no such boot target",
            host=endpoint.label,
            thing="target",
            wanted=", ".join(BOOT_TARGETS),
            seen=target,
        )
    deadline = Deadline(deadline_s, f"boot target {target}", host=endpoint.label)
    enabled = "disabled" if target == "none" else ("once" if once else "persistent")
    with connect(endpoint, deadline, fence) as client:
        if client.source == "ipmi":
            observe = client.read_boot
            # IPMI cannot leave the mode: a bit for it is always sent, UEFI unless legacy was asked for. Several BMCs ignore it, so it is
            # compared only when it was asked for.
            wanted_mode = mode
        else:

            def observe():
                return transform.boot(client.fresh_boot_place()[0])

            place = client.boot_place()[0]
            wanted_mode = mode
            if mode and not transform.has_boot_mode(place):
                client.warnings.append("this BMC has no boot mode to set, it was left out")
                wanted_mode = None
        present = observe() if client.source == "ipmi" else transform.boot(place)
        plan = plan_boot(present, target, enabled, wanted_mode)
        after = (
            dict(present, target=target, enabled=enabled, mode=wanted_mode or present["mode"])
            if plan.changed
            else present
        )
        result = Result(plan.changed, plan, present, after, client.warnings, client.source)
        if plan.changed:
            if client.source == "redfish":
                body = boot_body(place, target, enabled, wanted_mode, client.endpoint.label)
                if not check:
                    _send_boot(client, place, body, present, wanted_mode)
            elif not check:
                client.send_boot(target, enabled == "persistent", mode or "uefi")
            if not check:
                result.after = _verify_boot(client, observe, target, enabled, wanted_mode, deadline, interval)
        result.bmc = _known_identity(client)
        return result


def boot_body(place, target, enabled, mode, host=None):
    """Pure: the PATCH body. The mode is sent where the BMC has that property (some demand it), and never where it has not."""
    names = transform.BOOT_TARGETS[target]
    allowed = transform.boot_targets(place)
    if target == "none":
        body = {"BootSourceOverrideEnabled": "Disabled"}
        if not allowed or "None" in allowed:
            body["BootSourceOverrideTarget"] = "None"
        return {"Boot": body}
    if target == "cd":
        names = quirks.of_system(place)["cd_targets"]
    name = next((item for item in names if item in allowed), None) if allowed else names[0]
    if name is None:
        raise Unsupported(
            "the BMC does not offer this boot target",
            host=host,
            thing="target",
            wanted=f"{target} ({' or '.join(names)})",
            seen=", ".join(allowed),
            next_step="choose one of those; for network boot pxe and uefi_http are different targets",
        )
    body = {
        "BootSourceOverrideTarget": name,
        "BootSourceOverrideEnabled": "Once" if enabled == "once" else "Continuous",
    }
    current = transform.text(place, "Boot", "BootSourceOverrideMode")
    if transform.has_boot_mode(place) and (mode or current):
        body["BootSourceOverrideMode"] = transform.BOOT_MODES[mode] if mode else current
    return {"Boot": body}


def _send_boot(client, place, body, present, mode):
    uri = client.boot_place()[1]
    try:
        client.patch(uri, body)
    except HttpError as error:
        if (
            error.status in (400, 403, 405, 409)
            and "BootSourceOverrideMode" in body["Boot"]
            and error.names("BootSourceOverrideMode")
        ):
            if mode and present["mode"] != mode:
                error.next_step = "the boot mode of this BMC is read-only; change it in the BIOS settings"
                raise
            body["Boot"].pop("BootSourceOverrideMode")
            client.patch(uri, body)
            return
        raise


def _verify_boot(client, observe, target, enabled, mode, deadline, interval):
    def probe():
        seen = observe()
        return not plan_boot(seen, target, enabled, mode).changed, seen

    part = Deadline(min(30.0, deadline.remaining()), f"boot target {target}", host=client.endpoint.label)
    try:
        return part.wait(
            probe, interval=interval, describe=lambda seen: f"{seen['target']}, {seen['enabled']}, {seen['mode']}"
        )
    except DeadlineExceeded as error:
        raise DeadlineExceeded(
            "the BMC accepted the boot override but does not show it",
            host=client.endpoint.label,
            thing="boot override",
            wanted=f"{target}, {enabled}" + (f", {mode}" if mode else ""),
            seen=error.seen,
            next_step="restart the BMC, or set it by IPMI",
            code="accepted_not_moved",
        )


# ---- account ------------------------------------------------------------------------------------------------------------------------------
def can_log_in(endpoint, username, password, deadline=None):
    """True or False: do these credentials work? One authenticated read, one try only (BMCs lock accounts). "Must be changed" counts as working."""
    trial = endpoint.with_account(username, password)
    with connect(trial, deadline) as client:
        try:
            if trial.protocol == "ipmi":
                client.login()
            else:
                client.get(
                    transform.link(client.root(), "Systems")
                    or transform.link(client.root(), "Managers")
                    or "/redfish/v1/Systems"
                )
        except AuthenticationFailed as error:
            return error.code == "password_change_required"
    return True


def account(
    endpoint,
    username,
    password=None,
    role=None,
    enabled=None,
    state="present",
    update_password="always",
    deadline_s=60.0,
    check=False,
    fence=None,
    password_right=None,
):
    """One account of the BMC: present with this password, role and switch, or absent.

    Whether the password is right is found out by logging in with it once, unless the caller knows (`password_right`); a failed log-in counts towards
    the BMC's lockout. With `update_password="on_create"` it is set at creation only.
    """
    deadline = Deadline(deadline_s, f"account {username}", host=endpoint.label)
    if endpoint.protocol == "ipmi":
        return _ipmi_account(endpoint, username, password, role, state, update_password, deadline, check, fence)
    with connect(endpoint, deadline, fence) as client:
        client.hide(password)
        service = client.get(transform.link(client.root(), "AccountService") or "/redfish/v1/AccountService")
        collection = transform.link(service, "Accounts")
        items = client.members(collection, "the accounts", expand=False)
        item = next((entry for entry in items if transform.text(entry, "UserName") == username), None)
        have = transform.account_facts(item) if item else None
        before = {key: have[key] for key in ("username", "role", "enabled")} if have else {}
        right = password_right
        if right is None and state == "present" and have and password is not None and update_password == "always":
            right = can_log_in(endpoint, username, password, deadline)
        plan = plan_account(username, have, state, password, role, enabled, update_password, right)
        after = account_after(before, plan, username)
        result = Result(plan.changed, plan, before, after, client.warnings, client.source)
        if plan.changed and state == "absent" and username == endpoint.username:
            raise Refused(
                "is the account that this task logs in with: removing it would lock everybody out",
                thing=f"account {username}",
                next_step="log in with another account to remove it",
            )
        if plan.changed and not check:
            if state == "absent":
                _remove_account(client, have, item)
            elif have is None:
                _create_account(
                    client, collection, items, username, password, role or "Administrator", enabled is not False
                )
            else:
                body = {}
                names = {
                    "account.password": ("Password", password),
                    "account.role": ("RoleId", role),
                    "account.enabled": ("Enabled", enabled),
                }
                for change in plan.changes:
                    key, value = names[change.thing]
                    body[key] = value
                patch_account(client, have["uri"], body)
            _verify_account(
                client,
                endpoint,
                collection,
                username,
                password if state == "present" else None,
                role,
                enabled,
                state,
                plan,
                deadline,
            )
        result.bmc = _known_identity(client) if not check else {}
        return result


def plan_account(username, have, state, password, role, enabled, update_password, password_right):
    """Pure: the Plan for one account. `have` is transform.account_facts or None; `password_right` None where it was not asked."""
    if state == "absent":
        return Plan([Change("account", username if have else None, None)])
    if have is None:
        if password is None:
            raise InvalidInput(
                "a new account needs a password", thing=f"account {username}", next_step="give password or credential"
            )
        return Plan(
            [
                Change("account", None, username),
                Change("account.role", None, role or "Administrator"),
                Change("account.enabled", None, enabled is not False),
                Change("account.password", "another", "the wanted one"),
            ],
            secret=("account.password",),
        )
    changes = []
    if role is not None:
        changes.append(Change("account.role", have["role"], role))
    if enabled is not None:
        changes.append(Change("account.enabled", have["enabled"], enabled))
    if password is not None and update_password == "always" and password_right is False:
        changes.append(Change("account.password", "another", "the wanted one"))
    return Plan(changes, secret=("account.password",))


def account_after(before, plan, username):
    after = dict(before)
    for change in plan.changes:
        if change.thing == "account":
            if change.after is None:
                return {}
            after["username"] = username
        elif change.thing in ("account.role", "account.enabled"):
            after[change.thing.split(".")[1]] = change.after
    return after


def patch_account(client, uri, body, etag=True):
    """Change an account. What became of a password whose answer was lost is for the caller to find out by logging in."""
    try:
        client.patch(uri, body, etag)
    except AnswerLost:
        client.warnings.append("the answer to a change of the account was lost; it was checked by logging in")
    except AuthenticationFailed as error:
        # PATCH may be repeated, and after the first one has changed our own password the second is refused: the log-in below decides.
        if "Password" not in body:
            raise
        client.warnings.append(
            f"the account was refused after its password was sent ({error.seen}); it was checked by logging in"
        )


def _create_account(client, collection, items, username, password, role, enabled):
    body = {"UserName": username, "Password": password, "RoleId": role, "Enabled": enabled}
    try:
        client.post(collection, body)
        return
    except HttpError as error:
        if error.status not in (400, 405, 501):
            raise
        # Some BMCs have fixed slots: a free one is an account without a name.
        reserved = quirks.of_system(client.system())["reserved_slots"]
        free = [
            item
            for item in items
            if not transform.text(item, "UserName") and transform.text(item, "Id") not in reserved
        ]
        if not free:
            raise
        client.patch(transform.text(free[0], "@odata.id"), body)


def _remove_account(client, have, item):
    try:
        client.delete(have["uri"])
    except HttpError as error:
        if error.status not in (405, 501):
            raise
        client.patch(have["uri"], {"UserName": "", "Enabled": False})


def _verify_account(client, endpoint, collection, username, password, role, enabled, state, plan, deadline):
    """Read back. A BMC that accepts a new password and goes on with the old one is found here."""
    if (
        username == endpoint.username
        and password is not None
        and any(change.thing == "account.password" for change in plan.changes)
    ):
        client.close()
        endpoint = endpoint.with_account(username, password)
    if password is not None and any(change.thing == "account.password" for change in plan.changes):
        part = Deadline(min(20.0, deadline.remaining()), f"log in as {username}", host=endpoint.label)
        # Some BMCs take seconds to distribute a new password; few and slow tries, because failed ones lock accounts.
        part.wait(lambda: (can_log_in(endpoint, username, password, part), "refused"), interval=5.0)
    with connect(endpoint, deadline) as fresh:
        fresh.hide(password)
        items = fresh.members(collection, "the accounts", expand=False)
    found = next(
        (transform.account_facts(entry) for entry in items if transform.text(entry, "UserName") == username), None
    )
    rest = (
        plan_account(username, found, state, password, role, enabled, "on_create", None)
        if found or state == "absent"
        else None
    )
    if rest is None or rest.changed:
        raise Refused(
            "the BMC accepted the change of the account but does not show it",
            host=endpoint.label,
            thing=f"account {username}",
            wanted=plan.summary(),
            seen="no such account" if found is None else f"role {found['role']}, enabled {found['enabled']}",
            next_step="look at the account on the BMC itself",
            code="accepted_not_moved",
        )


def _ipmi_account(endpoint, username, password, role, state, update_password, deadline, check, fence):
    if state != "present" or role is not None or password is None:
        raise Unsupported(
            "over IPMI only the password of an existing user can be set",
            host=endpoint.label,
            thing=f"account {username}",
            next_step="use Redfish",
        )
    right = update_password != "always" or can_log_in(endpoint, username, password, deadline)
    plan = Plan(
        [] if right else [Change("account.password", "another", "the wanted one")], secret=("account.password",)
    )
    result = Result(plan.changed, plan, {"username": username}, {"username": username}, [], "ipmi")
    if plan.changed and not check:
        endpoint.with_account(username, password)  # refuses what IPMI cannot hold, before anything is sent
        with connect(endpoint, deadline, fence) as client:
            client.hide(password)
            client.set_password(username, password)
        if not can_log_in(endpoint, username, password, deadline):
            raise Refused(
                "the BMC accepted the password but does not take it",
                host=endpoint.label,
                thing=f"account {username}",
                code="accepted_not_moved",
            )
    return result
