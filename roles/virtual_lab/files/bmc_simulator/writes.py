# What a client may change through Redfish: PATCH, POST and DELETE handlers.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import asyncio
import functools
import ipaddress
import json
import pathlib
import re
import time
import urllib.parse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from . import firmware, resources
from .messages import Problem, error_body, info
from .node import PRIVILEGES, Account, Node, Task
from .resources import ACCOUNTS, MONITORS, SESSIONS, TASKS, UPDATE, V1, C, Json, M, S


@dataclass
class Call:
    """One authenticated request that wants to change something."""

    node: Node
    path: str
    body: Json
    account: Account | None
    client: str = ""
    token: str | None = None
    arguments: dict[str, str] = field(default_factory=dict)
    # the parts of a push update: JSON parameters and the file that was received
    parameters: Json = field(default_factory=dict)
    upload: pathlib.Path | None = None


@dataclass
class Answer:
    status: int = 204
    body: Json | None = None
    headers: dict[str, str] = field(default_factory=dict)


APPLY_TIME = "@Redfish.SettingsApplyTime"
Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True)
class Write:
    method: str
    expression: re.Pattern[str]
    handler: Handler
    privilege: str


WRITES: list[Write] = []


def write(method: str, pattern: str, privilege: str) -> Callable[[Handler], Handler]:
    """Register a handler for a method and URI pattern; the account needs the privilege."""
    expression = re.compile("^" + re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern) + "$")

    def register(handler: Handler) -> Handler:
        WRITES.append(Write(method, expression, handler, privilege))
        methods.cache_clear()
        return handler

    return register


@functools.lru_cache(maxsize=4096)
def methods(path: str) -> tuple[str, ...]:
    """Methods other than GET and HEAD that a path takes. Remembered: every answer to a GET names them."""
    return tuple(entry.method for entry in WRITES if entry.expression.match(path))


def find(method: str, path: str) -> tuple[Write, dict[str, str]] | None:
    for entry in WRITES:
        match = entry.expression.match(path) if entry.method == method else None
        if match:
            return entry, match.groupdict()
    return None


# ---- PATCH bodies ------------------------------------------------------------------------------

Setter = Callable[[Any], None]


def patch(call: Call, setters: dict[str, Setter]) -> Answer:
    """Apply a PATCH property by property. What can be applied is; complaints go into the answer (DSP0266, "PATCH").

    A setter raises Problem to refuse its value. Properties of the resource without a setter are read only.
    """
    present = resources.find(call.node, call.path) or {}
    wanted = {key: value for key, value in call.body.items() if not key.startswith("@")}
    if not wanted:
        raise Problem("NoOperation") if call.body else Problem("EmptyJSON")
    complaints, applied = [], 0
    for key, value in wanted.items():
        try:
            if key in setters and not (call.node.profile and call.node.profile.drops(call.path, key)):
                setters[key](value)
                applied += 1
            else:
                raise Problem("PropertyNotWritable" if key in present else "PropertyUnknown", key, related=(key,))
        except Problem as problem:
            complaints.append(
                (problem, info(problem.message_id, *problem.arguments, related=problem.related or (key,)))
            )
    if not applied:
        first = complaints[0][0]
        return Answer(first.status, error_body([entry for _problem, entry in complaints]))
    call.node.save()
    body = dict(resources.find(call.node, call.path) or {})
    if complaints:
        body["@Message.ExtendedInfo"] = [entry for _problem, entry in complaints]
    return Answer(200, body)


def of_type(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Problem("PropertyValueTypeError", json.dumps(value), name, related=(name,))
    return value


def one_of(value: Any, choices: Any, name: str) -> Any:
    of_type(value, str, name)
    if value not in choices:
        raise Problem("PropertyValueNotInList", value, name, related=(name,))
    return value


def elements(wanted: list[Any], present: list[Any]) -> list[Any]:
    """The elements of an array property after a PATCH (DSP0266): {} leaves one as it is, null takes one away."""
    out = []
    for index, item in enumerate(wanted):
        if item == {} and index < len(present):
            out.append(present[index])
        elif item not in (None, "", {}):
            out.append(item)
    return out


def setting(node: Node, key: str, name: str, kind: type, check: Callable[[Any], bool] | None = None) -> Setter:
    def assign(value: Any) -> None:
        of_type(value, kind, name)
        if check and not check(value):
            raise Problem("PropertyValueOutOfRange", value, name, related=(name,))
        node.settings[key] = value

    return assign


# ---- sessions ----------------------------------------------------------------------------------


@write("POST", SESSIONS, "")
@write("POST", SESSIONS + "/Members", "")
async def open_session(call: Call) -> Answer:
    node, body = call.node, call.body
    for name in ("UserName", "Password"):
        if name not in body:
            raise Problem("CreateFailedMissingReqProperties", name, related=(name,))
        of_type(body[name], str, name)
    for name in body:
        if name not in ("UserName", "Password", "SessionType", "Context", "Token", "Oem") and not name.startswith("@"):
            raise Problem("PropertyUnknown", name, related=(name,))
    account = node.authenticate(body["UserName"], body["Password"])
    if account is None:
        raise Problem("ResourceAtUriUnauthorized", SESSIONS, "wrong user name or password")
    session = node.open_session(account, call.client)
    if session is None:
        raise Problem("SessionLimitExceeded", headers={"Retry-After": "30"})
    answer = resources.session_body(node, session)
    if account.change_required:
        answer["@Message.ExtendedInfo"] = [info("PasswordChangeRequired", f"{ACCOUNTS}/{account.id}")]
    return Answer(201, answer, {"X-Auth-Token": session.token, "Location": answer["@odata.id"]})


@write("DELETE", SESSIONS + "/{session}", "")
async def close_session(call: Call) -> Answer:
    node = call.node
    session = next((entry for entry in node.sessions.values() if entry.id == call.arguments["session"]), None)
    if session is None:
        raise Problem("ResourceMissingAtURI", call.path)
    if call.account and session.account != call.account.id and "ConfigureManager" not in PRIVILEGES[call.account.role]:
        raise Problem("InsufficientPrivilege")
    del node.sessions[session.token]
    node.stats["sessions_deleted"] += 1
    return Answer()


@write("PATCH", f"{V1}/SessionService", "ConfigureManager")
async def patch_session_service(call: Call) -> Answer:
    return patch(
        call,
        {
            "SessionTimeout": setting(
                call.node, "session_timeout", "SessionTimeout", int, lambda value: 30 <= value <= 86400
            )
        },
    )


# ---- accounts ----------------------------------------------------------------------------------


def check_password(node: Node, value: Any) -> str:
    of_type(value, str, "Password")
    if not node.settings["min_password"] <= len(value) <= 20:
        raise Problem("PropertyValueFormatError", "******", "Password", related=("Password",))
    return value


def check_username(node: Node, value: Any) -> str:
    of_type(value, str, "UserName")
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,32}", value):
        raise Problem("PropertyValueFormatError", value, "UserName", related=("UserName",))
    if node.account_named(value):
        raise Problem("ResourceAlreadyExists", "ManagerAccount", "UserName", value, related=("UserName",))
    return value


@write("POST", ACCOUNTS, "ConfigureUsers")
async def create_account(call: Call) -> Answer:
    node, body = call.node, call.body
    if node.behaviour.account_slots:
        raise Problem("OperationNotAllowed", headers={"Allow": "GET, HEAD"})
    for name in ("UserName", "Password", "RoleId"):
        if name not in body:
            raise Problem("CreateFailedMissingReqProperties", name, related=(name,))
    known = {
        "UserName",
        "Password",
        "RoleId",
        "Enabled",
        "Locked",
        "PasswordChangeRequired",
        "AccountTypes",
        "Oem",
        "Name",
        "Description",
    }
    for name in body:
        if name not in known and not name.startswith("@"):
            raise Problem("PropertyUnknown", name, related=(name,))
    username, password = check_username(node, body["UserName"]), check_password(node, body["Password"])
    role = one_of(body["RoleId"], PRIVILEGES, "RoleId")
    if len(node.accounts) >= 16:
        raise Problem("CreateLimitReachedForResource")
    if "account" in node.behaviour.accept_and_do_nothing:
        return Answer(201, {**body, "Password": None}, {"Location": f"{ACCOUNTS}/99"})
    identity = next(str(number) for number in range(1, 100) if str(number) not in node.accounts)
    account = Account(
        identity,
        username,
        password,
        role,
        of_type(body.get("Enabled", True), bool, "Enabled"),
        of_type(body.get("PasswordChangeRequired", False), bool, "PasswordChangeRequired"),
    )
    node.accounts[identity] = account
    node.event("account_created", username=username, role=role)
    node.save()
    return Answer(201, resources.account_body(account), {"Location": f"{ACCOUNTS}/{identity}"})


@write("PATCH", ACCOUNTS + "/{account}", "ConfigureSelf")
async def patch_account(call: Call) -> Answer:
    node = call.node
    account = node.accounts.get(call.arguments["account"])
    if account is None:
        raise Problem("ResourceMissingAtURI", call.path)
    is_own = call.account is not None and call.account.id == account.id
    may_all = call.account is not None and "ConfigureUsers" in PRIVILEGES[call.account.role]
    if not may_all and not is_own:
        raise Problem("InsufficientPrivilege")
    if call.account.change_required and (not is_own or set(call.body) - {"Password"}):
        raise Problem("PasswordChangeRequired", f"{ACCOUNTS}/{call.account.id}")
    effective = "account" not in node.behaviour.accept_and_do_nothing

    def password(value: Any) -> None:
        check_password(node, value)
        if effective:
            account.password, account.change_required = value, False
            # the session that made the change lives on, all others of the account end
            for token in [
                token
                for token, session in node.sessions.items()
                if session.account == account.id and token != call.token
            ]:
                del node.sessions[token]
            node.event("password_changed", username=account.username)

    def assign(name: str, attribute: str, kind: type) -> Setter:
        def inner(value: Any) -> None:
            if not may_all:
                raise Problem("InsufficientPrivilege", related=(name,))
            of_type(value, kind, name)
            if effective:
                setattr(account, attribute, value)

        return inner

    def username(value: Any) -> None:
        if value != account.username and not (node.behaviour.account_slots and value == ""):
            check_username(node, value)
        assign("UserName", "username", str)(value)

    def role(value: Any) -> None:
        assign("RoleId", "role", str)(one_of(value, PRIVILEGES, "RoleId"))

    def locked(value: Any) -> None:
        if of_type(value, bool, "Locked"):
            raise Problem("PropertyValueIncorrect", "Locked", "true", related=("Locked",))
        account.locked_until, account.failures = 0.0, 0

    return patch(
        call,
        {
            "Password": password,
            "UserName": username,
            "RoleId": role,
            "Locked": locked,
            "Enabled": assign("Enabled", "enabled", bool),
            "PasswordChangeRequired": assign("PasswordChangeRequired", "change_required", bool),
        },
    )


@write("DELETE", ACCOUNTS + "/{account}", "ConfigureUsers")
async def delete_account(call: Call) -> Answer:
    node, identity = call.node, call.arguments["account"]
    if node.behaviour.account_slots:
        raise Problem("OperationNotAllowed", headers={"Allow": "GET, HEAD, PATCH"})
    account = node.accounts.get(identity)
    if account is None:
        raise Problem("ResourceMissingAtURI", call.path)
    if account.role == "Administrator" and not any(
        other.role == "Administrator" and other.enabled for other in node.accounts.values() if other is not account
    ):
        raise Problem("ResourceInUse", status=409)
    if "account" in node.behaviour.accept_and_do_nothing:
        return Answer()
    del node.accounts[identity]
    node.drop_sessions(identity)
    node.event("account_deleted", username=account.username)
    node.save()
    return Answer()


@write("PATCH", f"{V1}/AccountService", "ConfigureUsers")
async def patch_account_service(call: Call) -> Answer:
    node = call.node
    return patch(
        call,
        {
            "AccountLockoutThreshold": setting(
                node, "lockout_threshold", "AccountLockoutThreshold", int, lambda value: 0 <= value <= 100
            ),
            "AccountLockoutDuration": setting(
                node, "lockout_duration", "AccountLockoutDuration", int, lambda value: 0 <= value <= 86400
            ),
            "AccountLockoutCounterResetAfter": setting(
                node, "lockout_reset", "AccountLockoutCounterResetAfter", int, lambda value: 0 <= value <= 86400
            ),
            "MinPasswordLength": setting(
                node, "min_password", "MinPasswordLength", int, lambda value: 1 <= value <= 20
            ),
        },
    )


# ---- system: power, boot, BIOS -----------------------------------------------------------------


def parameters(call: Call, action: str, known: tuple[str, ...], required: tuple[str, ...] = ()) -> Json:
    """The parameters of an action, refused if unknown or missing."""
    for name in call.body:
        if name not in known and not name.startswith("@"):
            raise Problem("ActionParameterUnknown", action, name, related=(name,))
    for name in required:
        if name not in call.body:
            raise Problem("ActionParameterMissing", action, name, related=(name,))
    return call.body


def choice(call: Call, action: str, name: str, choices: Any) -> str:
    value = parameters(call, action, (name,), (name,))[name]
    if not isinstance(value, str):
        raise Problem("ActionParameterValueTypeError", json.dumps(value), name, action, related=(name,))
    if value not in choices:
        raise Problem("ActionParameterValueNotInList", value, name, action, related=(name,))
    return value


@write("POST", f"{S}/Actions/ComputerSystem.Reset", "ConfigureComponents")
async def reset_system(call: Call) -> Answer:
    kind = choice(call, "ComputerSystem.Reset", "ResetType", call.node.behaviour.reset_types)
    call.node.request_reset(kind)
    return Answer()


@write("POST", f"{C}/Actions/Chassis.Reset", "ConfigureComponents")
async def reset_chassis(call: Call) -> Answer:
    call.node.request_reset(choice(call, "Chassis.Reset", "ResetType", resources.CHASSIS_RESETS))
    return Answer()


@write("POST", f"{C}/Actions/Oem/{resources.AUX_RESET}", "ConfigureComponents")
async def aux_power_reset(call: Call) -> Answer:
    node = call.node
    if not node.behaviour.aux_power_reset:
        raise Problem("ResourceMissingAtURI", call.path)
    kind = choice(call, resources.AUX_RESET, "ResetType", resources.AUX_RESETS)
    if node.driver.running and kind == "AuxPowerCycle":
        # seen on GB200: refused unless the chassis is off
        raise Problem("ActionParameterNotSupported", "ResetType", resources.AUX_RESET)
    if "power" not in node.behaviour.accept_and_do_nothing:
        node.cut_power("aux_cycle")
    return Answer()


def set_boot(call: Call, value: Any) -> None:
    """Boot: the override properties together, so that target and enabled of one PATCH belong together."""
    node = call.node
    of_type(value, dict, "Boot")
    shown = {**resources.boot_body(node), **resources.boot_order(node)}
    new: Json = {}
    order: list[str] | None = None
    for name, wanted in value.items():
        pointer = f"Boot/{name}"
        if name == "BootSourceOverrideTarget":
            new["target"] = one_of(wanted, node.behaviour.boot_targets, name)
        elif name == "BootSourceOverrideEnabled":
            new["enabled"] = one_of(wanted, node.behaviour.boot_enabled, name)
        elif name == "BootSourceOverrideMode":
            if node.behaviour.boot_mode == "absent":
                raise Problem("PropertyUnknown", name, related=(pointer,))
            if node.behaviour.boot_mode == "read_only":
                raise Problem("PropertyNotWritable", name, related=(pointer,))
            new["mode"] = one_of(wanted, ("UEFI", "Legacy"), name)
        elif name == "HttpBootUri" and name in shown:
            if wanted is not None:
                of_type(wanted, str, name)
            new["uri"] = wanted or None
        elif name == "BootOrder":
            options = resources.boot_order(node).get("BootOrder")
            if options is None:
                raise Problem("PropertyNotWritable", name, related=(pointer,))
            of_type(wanted, list, name)
            if not wanted or not set(map(str, wanted)) <= set(options) or len(set(map(str, wanted))) != len(wanted):
                raise Problem("PropertyValueError", name, related=(pointer,))
            order = [*wanted, *(option for option in options if option not in wanted)]
        else:
            raise Problem("PropertyNotWritable" if name in shown else "PropertyUnknown", name, related=(pointer,))
    if order is not None and "boot" not in node.behaviour.accept_and_do_nothing:
        node.boot_order = order
    if not new:
        if order is None:
            raise Problem("NoOperation")
        return
    if node.behaviour.boot_mode == "required" and "mode" not in new:
        new["mode"] = "Legacy"
    if "target" in new and "enabled" not in new and new["target"] != "None" and node.override["enabled"] == "Disabled":
        new["enabled"] = "Once"
    node.set_override(**new)


@write("PATCH", S, "ConfigureComponents")
async def patch_system(call: Call) -> Answer:
    node = call.node

    def power_restore(value: Any) -> None:
        node.settings["power_restore"] = one_of(value, ("AlwaysOn", "AlwaysOff", "LastState"), "PowerRestorePolicy")

    return patch(
        call,
        {
            "Boot": lambda value: set_boot(call, value),
            "AssetTag": setting(node, "asset_tag", "AssetTag", str),
            "LocationIndicatorActive": setting(node, "indicator", "LocationIndicatorActive", bool),
            "PowerRestorePolicy": power_restore,
        },
    )


@write("PATCH", C, "ConfigureComponents")
async def patch_chassis(call: Call) -> Answer:
    node = call.node
    return patch(
        call,
        {
            "AssetTag": setting(node, "chassis_asset_tag", "AssetTag", str),
            "LocationIndicatorActive": setting(node, "indicator", "LocationIndicatorActive", bool),
        },
    )


@write("PATCH", f"{S}/Bios/Settings", "ConfigureComponents")
async def patch_bios(call: Call) -> Answer:
    node = call.node

    if (node.behaviour.bios_job_stuck and not node.bmc_restarted) or (node.bios_job and not node.bios_job.over):
        raise Problem("ServiceTemporarilyUnavailable", "60")

    def attributes(value: Any) -> None:
        of_type(value, dict, "Attributes")
        for name, wanted in value.items():
            pointer = (f"Attributes/{name}",)
            if name not in node.bios or name in node.vanished:
                raise Problem("PropertyUnknown", name, related=pointer)
            if name in node.bios_choices and wanted not in node.bios_choices[name]:
                raise Problem("PropertyValueNotInList", wanted, name, related=pointer)
            if type(wanted) is not type(node.bios_defaults[name]):
                raise Problem("PropertyValueTypeError", json.dumps(wanted), name, related=pointer)
            if isinstance(wanted, int) and not isinstance(wanted, bool) and not 0 <= wanted <= 100:
                raise Problem("PropertyValueOutOfRange", wanted, name, related=pointer)
        if "bios" not in node.behaviour.accept_and_do_nothing:
            pending = {**node.bios_pending, **value}
            node.bios_pending = {name: wanted for name, wanted in pending.items() if node.bios[name] != wanted}

    answer = patch(call, {"Attributes": attributes})
    if node.behaviour.bios_job and answer.status == 200 and node.bios_pending and call.body.get(APPLY_TIME):
        task = node.bios_job = Task(node.task_identity(), "BIOS settings", state="New")
        node.tasks[task.id] = task
        return Answer(202, resources.task_body(task), {"Location": f"{TASKS}/{task.id}"})
    return answer


@write("POST", f"{S}/Bios/Actions/Bios.ResetBios", "ConfigureComponents")
async def reset_bios(call: Call) -> Answer:
    parameters(call, "Bios.ResetBios", ("ResetType",))
    if "bios" not in call.node.behaviour.accept_and_do_nothing:
        defaults = call.node.bios_defaults
        call.node.bios_pending = {name: value for name, value in defaults.items() if call.node.bios[name] != value}
        call.node.save()
    return Answer()


@write("POST", V1 + "/{kind}/{identity}/LogServices/{service}/Actions/LogService.ClearLog", "ConfigureManager")
async def clear_log(call: Call) -> Answer:
    needed = ("ClearType",) if call.node.behaviour.clear_log_needs_type else ()
    parameters(call, "LogService.ClearLog", ("LogEntriesETag", "ClearType"), needed)
    log = {f"{S}/LogServices/SEL": call.node.system_log, f"{M}/LogServices/Log": call.node.manager_log}.get(
        call.path.split("/Actions/")[0]
    )
    if log is None:
        raise Problem("ResourceMissingAtURI", call.path)
    log.clear()
    return Answer()


# ---- virtual media -----------------------------------------------------------------------------


async def fetch(url: str, target: pathlib.Path, user: str | None = None, password: str | None = None) -> None:
    """Download as a BMC would: from its own network, without checking certificates."""
    auth = aiohttp.BasicAuth(user, password or "") if user else None
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, auth=auth) as session,
            session.get(url, ssl=False) as response,
        ):
            if response.status != 200:
                raise ValueError(f"{url} answered {response.status}")
            with target.open("wb") as handle:
                async for block in response.content.iter_chunked(2**20):
                    handle.write(block)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise ValueError(f"{url} could not be read: {error}") from None


async def insert(node: Node, url: str, user: str | None, password: str | None) -> None:
    protocol = urllib.parse.urlsplit(url).scheme.upper()
    media: Json = {
        "image": url,
        "name": pathlib.PurePosixPath(urllib.parse.urlsplit(url).path).name,
        "protocol": protocol,
        "file": None,
    }
    if node.driver.media_files:
        target = node.directory / "cd.iso"
        await fetch(url, target, user, password)
        media["file"] = str(target)
        if node.driver.running:
            await node.driver.set_media(target)
    node.media = media
    node.event("media_inserted", image=url)
    node.save()


async def eject(node: Node) -> None:
    if node.driver.running and node.driver.media_files:
        await node.driver.set_media(None)
    node.media = None
    node.event("media_ejected")
    node.save()


def check_image(url: Any, action: str | None) -> str:
    fits = isinstance(url, str) and urllib.parse.urlsplit(url).scheme in ("http", "https")
    if not fits:
        if action:
            raise Problem("ActionParameterValueFormatError", url, "Image", action, related=("Image",))
        raise Problem("PropertyValueFormatError", url, "Image", related=("Image",))
    return url


@write("POST", S + "/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia", "ConfigureManager")
@write("POST", M + "/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia", "ConfigureManager")
async def insert_media(call: Call) -> Answer:
    action = "VirtualMedia.InsertMedia"
    if call.node.behaviour.media_patch_only:
        raise Problem("ResourceMissingAtURI", call.path)
    body = parameters(
        call,
        action,
        (
            "Image",
            "Inserted",
            "WriteProtected",
            "MediaType",
            "TransferMethod",
            "TransferProtocolType",
            "UserName",
            "Password",
            "Stage",
        ),
        ("Image", *call.node.behaviour.media_needs),
    )
    url = check_image(body["Image"], action)
    if call.node.media:
        raise Problem("ResourceInUse")
    if "media" not in call.node.behaviour.accept_and_do_nothing:
        try:
            await insert(call.node, url, body.get("UserName"), body.get("Password"))
        except ValueError as error:
            raise Problem(
                "ResourceAtUriUnauthorized" if "401" in str(error) else "ActionParameterValueNotInList",
                url,
                str(error),
                action,
                status=400,
                related=("Image",),
            ) from None
    return Answer()


@write("POST", S + "/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia", "ConfigureManager")
@write("POST", M + "/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia", "ConfigureManager")
async def eject_media(call: Call) -> Answer:
    if call.node.behaviour.media_patch_only:
        raise Problem("ResourceMissingAtURI", call.path)
    parameters(call, "VirtualMedia.EjectMedia", ())
    if "media" not in call.node.behaviour.accept_and_do_nothing:
        await eject(call.node)
    return Answer()


@write("PATCH", S + "/VirtualMedia/Cd", "ConfigureManager")
@write("PATCH", M + "/VirtualMedia/Cd", "ConfigureManager")
async def patch_media(call: Call) -> Answer:
    """Image (and Inserted) set directly: what older and some present products have instead of the actions."""
    node, known = call.node, {"Image", "Inserted", "WriteProtected", "UserName", "Password"}
    for name in call.body:
        if name not in known and not name.startswith("@"):
            present = resources.find(node, call.path) or {}
            raise Problem("PropertyNotWritable" if name in present else "PropertyUnknown", name, related=(name,))
    if not set(call.body) & known:
        raise Problem("NoOperation") if call.body else Problem("EmptyJSON")
    if call.body.get("WriteProtected") is False:
        raise Problem("PropertyValueIncorrect", "WriteProtected", "false", related=("WriteProtected",))
    image = call.body.get("Image", (node.media or {}).get("image"))
    wanted = image if call.body.get("Inserted", image is not None) else None
    if wanted is not None:
        check_image(wanted, None)
    if "media" not in node.behaviour.accept_and_do_nothing and wanted != (node.media or {}).get("image"):
        if node.media:
            await eject(node)
        if wanted is not None:
            try:
                await insert(node, wanted, call.body.get("UserName"), call.body.get("Password"))
            except ValueError as error:
                raise Problem("PropertyValueError", str(error), related=("Image",)) from None
    return Answer(200, resources.find(node, call.path))


# ---- manager -----------------------------------------------------------------------------------


@write("POST", f"{M}/Actions/Manager.Reset", "ConfigureManager")
async def reset_manager(call: Call) -> Answer:
    if "ResetType" in call.body:
        choice(call, "Manager.Reset", "ResetType", call.node.behaviour.manager_reset_types)
    call.node.restart_bmc()
    return Answer()


@write("PATCH", f"{M}/EthernetInterfaces/eth0", "ConfigureManager")
async def patch_manager_nic(call: Call) -> Answer:
    node = call.node
    network = node.settings.setdefault("network", {})

    def hostname(value: Any) -> None:
        of_type(value, str, "HostName")
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62})", value):
            raise Problem("PropertyValueFormatError", value, "HostName", related=("HostName",))
        node.settings["hostname"] = value

    def name_servers(value: Any) -> None:
        of_type(value, list, "StaticNameServers")
        new = elements(value, network.get("name_servers", []))
        for index, item in enumerate(new):
            try:
                ipaddress.ip_address(item)
            except ValueError:
                raise Problem(
                    "PropertyValueFormatError", item, "StaticNameServers", related=(f"StaticNameServers/{index}",)
                ) from None
        network["name_servers"] = new

    def static_addresses(value: Any) -> None:
        of_type(value, list, "IPv4StaticAddresses")
        kept = list(resources.manager_nic(node, call.path).get("IPv4StaticAddresses", []))
        new = []
        for index, item in enumerate(value):
            old = kept[index] if index < len(kept) else {}
            if item is None:
                continue
            of_type(item, dict, "IPv4StaticAddresses")
            entry = {**old, **item}
            for name in ("Address", "SubnetMask", "Gateway"):
                try:
                    if entry.get(name) is not None:
                        ipaddress.IPv4Address(entry[name])
                    elif name != "Gateway":
                        raise ValueError(name)
                except ValueError:
                    raise Problem(
                        "PropertyValueFormatError",
                        entry.get(name),
                        name,
                        related=(f"IPv4StaticAddresses/{index}/{name}",),
                    ) from None
            new.append({name: entry.get(name) for name in ("Address", "SubnetMask", "Gateway")})
        network["ipv4"] = new

    def dhcp(value: Any) -> None:
        of_type(value, dict, "DHCPv4")
        for name, wanted in value.items():
            if name != "DHCPEnabled":
                raise Problem("PropertyNotWritable", name, related=(f"DHCPv4/{name}",))
            # kept and shown; the lab's address stays, a BMC without its address could not be reached any more
            network["dhcpv4"] = of_type(wanted, bool, name)

    return patch(
        call,
        {
            "HostName": hostname,
            "StaticNameServers": name_servers,
            "IPv4StaticAddresses": static_addresses,
            "DHCPv4": dhcp,
        },
    )


# ---- updates -----------------------------------------------------------------------------------


def start_update(
    node: Node,
    method: str,
    obtain: Callable[[pathlib.Path], Awaitable[pathlib.Path]],
    targets: list[str],
    force: bool = False,
) -> Answer:
    """An update as a task: obtain the image, check it, write it (which takes its time), stage it."""
    behaviour = node.behaviour
    if behaviour.update_exclusive and any(
        task.name.startswith("Update") and not task.over for task in node.tasks.values()
    ):
        raise Problem("ServiceTemporarilyUnavailable", "30", headers={"Retry-After": "30"})

    too_soon = time.monotonic() - node.update_ended < behaviour.update_pause_s

    async def work(task: Task) -> None:
        target = node.directory / f"update-{node.name}-{task.id}.bin"
        entry: Json = {"method": method, "task": task.id, "outcome": "arriving"}
        try:
            image = await obtain(target)
            node.images.append(entry)
            node.stats["image_pushes"] += 1
            entry.update(bytes=image.stat().st_size, outcome="refused")
            head = firmware.read_image(image)
            entry["components"] = dict(head["components"])
            inventory = f"{UPDATE}/FirmwareInventory/"
            wanted = [node.component_named(item[len(inventory) :]) for item in targets if item.startswith(inventory)]
            names = [name for name in head["components"] if not wanted or name in wanted]
            if not names:
                raise ValueError(
                    f"the image is for {', '.join(head['components'])}, not for {', '.join(map(str, wanted))}"
                )
            firmware.check_image(head, node.firmware, names, force, not behaviour.downgrade_refused)
            for step in range(1, 11):
                await asyncio.sleep(behaviour.task_seconds / 10)
                task.percent = step * 10 if step < 10 else 99
            if too_soon:
                raise ValueError("out of memory")
            if behaviour.task_fails:
                raise ValueError("writing the flash failed")
            if behaviour.task_lies != "no":
                # at 100 %, or even called completed, long before the work is done
                task.percent = 100
                if behaviour.task_lies == "state":
                    task.state = "Completed"
                await asyncio.sleep(behaviour.task_lie_s)
            if "update" not in behaviour.accept_and_do_nothing:
                entry["outcome"] = "written"
                for name in names:
                    node.stage_firmware(name, head["components"][name])
            else:
                entry["outcome"] = "ignored"
        finally:
            target.unlink(missing_ok=True)

    task = node.start_task(f"Update ({method})", work)
    if behaviour.update_answers_200:
        return Answer(200, error_body([info("Success")]))
    headers = {} if behaviour.task_without_location else {"Location": f"{MONITORS}/{task.id}"}
    return Answer(202, resources.task_body(task), {**headers, "Retry-After": "1"})


def _targets(values: Any) -> list[str]:
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Problem("PropertyValueTypeError", json.dumps(values), "Targets", related=("Targets",))
    return values


@write("POST", f"{UPDATE}/Actions/UpdateService.SimpleUpdate", "ConfigureComponents")
async def simple_update(call: Call) -> Answer:
    action = "UpdateService.SimpleUpdate"
    if "simple" not in call.node.behaviour.update_methods:
        raise Problem("ResourceMissingAtURI", call.path)
    body = parameters(
        call,
        action,
        (
            "ImageURI",
            "TransferProtocol",
            "Targets",
            "Username",
            "Password",
            "ForceUpdate",
            "Stage",
            "LocalImage",
            "ExcludeTargets",
        ),
        ("ImageURI",),
    )
    url = body["ImageURI"]
    if not isinstance(url, str):
        raise Problem("ActionParameterValueTypeError", json.dumps(url), "ImageURI", action, related=("ImageURI",))
    if "://" not in url:
        url = f"{str(body.get('TransferProtocol') or 'http').lower()}://{url}"
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise Problem("ActionParameterValueNotInList", url, "ImageURI", action, related=("ImageURI",))

    async def obtain(target: pathlib.Path) -> pathlib.Path:
        await fetch(url, target, body.get("Username"), body.get("Password"))
        return target

    return start_update(call.node, "simple", obtain, _targets(body.get("Targets")), body.get("ForceUpdate") is True)


@write("PATCH", UPDATE, "ConfigureComponents")
async def patch_update_service(call: Call) -> Answer:
    node = call.node
    if "push" not in node.behaviour.update_methods:
        raise Problem("OperationNotAllowed", headers={"Allow": "GET, HEAD"})

    def targets(value: Any) -> None:
        of_type(value, list, "HttpPushUriTargets")
        for item in value:
            of_type(item, str, "HttpPushUriTargets")
        node.push_targets = tuple(value)

    def options(value: Any) -> None:
        of_type(value, dict, "HttpPushUriOptions")
        when = of_type(value.get("HttpPushUriApplyTime"), dict, "HttpPushUriApplyTime")
        node.push_apply_time = one_of(when.get("ApplyTime"), ("Immediate", "OnReset"), "ApplyTime")

    return patch(call, {"HttpPushUriTargets": targets, "HttpPushUriOptions": options})


@write("POST", f"{UPDATE}/update-multipart", "ConfigureComponents")
@write("POST", f"{UPDATE}/update", "ConfigureComponents")
async def push_update(call: Call) -> Answer:
    method = "multipart" if call.path.endswith("multipart") else "push"
    if method not in call.node.behaviour.update_methods:
        raise Problem("ResourceMissingAtURI", call.path)
    if call.upload is None:
        raise Problem("PropertyMissing", "UpdateFile", related=("UpdateFile",))
    # the file belongs to the task from here on
    upload, call.upload = call.upload, None

    async def obtain(target: pathlib.Path) -> pathlib.Path:
        upload.replace(target)
        return target

    answer = start_update(
        call.node,
        method,
        obtain,
        _targets(call.parameters.get("Targets")) if method == "multipart" else list(call.node.push_targets),
        call.parameters.get("ForceUpdate") is True,
    )
    if call.node.behaviour.update_answer_s:
        await asyncio.sleep(call.node.behaviour.update_answer_s)
    return answer


@write("DELETE", TASKS + "/{task}", "ConfigureManager")
async def delete_task(call: Call) -> Answer:
    task = call.node.tasks.get(call.arguments["task"])
    if task is None:
        raise Problem("ResourceMissingAtURI", call.path)
    if not task.over:
        raise Problem("ResourceInUse")
    del call.node.tasks[task.id]
    return Answer()
