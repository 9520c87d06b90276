# Behaviour switches of a simulated BMC: one table of names, types, defaults and meanings. Values are data.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Each switch reproduces one way in which real BMCs differ or fail; its default is the well-behaved BMC."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

# FullPowerCycle takes mains power away: offered where a profile says so
RESET_TYPES = (
    "On",
    "ForceOn",
    "ForceOff",
    "GracefulShutdown",
    "ForceRestart",
    "GracefulRestart",
    "PowerCycle",
    "PushPowerButton",
    "Nmi",
)
BOOT_TARGETS = ("None", "Pxe", "UefiHttp", "Cd", "Hdd", "BiosSetup")
# names that products have besides; without a machine behind them they are kept and shown
MORE_BOOT_TARGETS = (
    "CD/DVD",
    "Diags",
    "Floppy",
    "RemoteDrive",
    "SDCard",
    "UefiBootNext",
    "UefiCd",
    "UefiHdd",
    "UefiShell",
    "UefiTarget",
    "Usb",
    "UsbCd",
    "Utilities",
)
BOOT_ENABLED = ("Disabled", "Once", "Continuous")
MANAGER_RESETS = ("ForceRestart", "GracefulRestart")
WRITES = ("power", "boot", "bios", "account", "media", "update", "volume", "settings", "certificate")
UPDATE_METHODS = ("simple", "multipart", "push")


@dataclass(frozen=True)
class Switch:
    """One switch. `kind` is bool, int, number, text, list (of text) or faults; `choices` limits texts and lists."""

    kind: str
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()


SWITCHES: dict[str, Switch] = {
    # power and boot
    "power_lag_s": Switch("number", 1.0, "Seconds between an accepted power command and the machine following it."),
    "graceful_off_s": Switch(
        "number", 0.5, "Seconds that the operating system of a node with driver none takes to shut down."
    ),
    "graceful_ignored": Switch("bool", False, "The operating system ignores the power button."),
    "intermediate_power_states": Switch("bool", False, "PowerState shows PoweringOn and PoweringOff during the lag."),
    "accept_and_do_nothing": Switch("list", [], "Writes of these kinds are accepted and not carried out.", WRITES),
    "reset_types": Switch(
        "list", list(RESET_TYPES), "Reset types that the system offers.", (*RESET_TYPES, "FullPowerCycle")
    ),
    "boot_targets": Switch(
        "list", list(BOOT_TARGETS), "Boot targets that the system offers.", (*BOOT_TARGETS, *MORE_BOOT_TARGETS)
    ),
    "boot_mode": Switch(
        "text",
        "optional",
        "How BootSourceOverrideMode is treated: absent from the resource, read only, or required in "
        "each boot PATCH (without it the BMC falls back to Legacy).",
        ("optional", "absent", "read_only", "required"),
    ),
    "boot_enabled": Switch(
        "list", list(BOOT_ENABLED), "Values of BootSourceOverrideEnabled that are offered.", BOOT_ENABLED
    ),
    "manager_reset_types": Switch(
        "list", list(MANAGER_RESETS), "Reset types that the manager offers.", (*MANAGER_RESETS, "StatefulReset")
    ),
    "boot_once_sticks": Switch("bool", False, "A one-time override is read back as Continuous and is not consumed."),
    "no_allowable_values": Switch("bool", False, "Allowable values are not listed inline, only through ActionInfo."),
    "no_action_info": Switch("bool", False, "There is no ActionInfo either (with no_allowable_values)."),
    "two_systems": Switch(
        "text",
        "no",
        "A GPU baseboard is listed as a second system, before or after the host.",
        ("no", "hgx_first", "hgx_last"),
    ),
    "aux_power_reset": Switch(
        "bool", False, "The chassis has the OEM action NvidiaChassis.AuxPowerReset; it wants the server off."
    ),
    # BIOS
    "bios_job": Switch(
        "bool",
        False,
        "Pending BIOS values wait for a job, which a PATCH with an apply time makes (202 with Location); without a job a boot "
        "leaves them pending, and while one is queued further PATCHes get 503.",
    ),
    "bios_job_s": Switch("number", 1.0, "Seconds that a BIOS job runs on after the boot that applies it."),
    "bios_job_stuck": Switch(
        "bool", False, "An old BIOS job blocks every PATCH of the settings until the BMC is reset."
    ),
    "vanished": Switch("list", [], "Properties or BIOS attributes that are not there until the BMC is reset."),
    # sessions and accounts
    "account_slots": Switch(
        "int",
        0,
        "Accounts are this many fixed slots: the first is reserved, POST gets 405, an empty one is filled by PATCH.",
    ),
    "lockout_after": Switch(
        "int", 0, "Failed logins after which an account is locked (0 takes the account service's threshold)."
    ),
    "lockout_s": Switch("number", 30, "Seconds that lockout_after locks an account."),
    "session_limit": Switch("int", 0, "Open sessions allowed; 0 takes bmc.session_limit."),
    "sessions_taken": Switch("bool", False, "All sessions are somebody else's: the limit is always reached."),
    "session_idle_s": Switch("number", 1800, "Idle seconds after which a session ends."),
    "session_expires_after": Switch("int", 0, "A session ends after this many requests (0: never)."),
    "password_change_required": Switch(
        "bool", False, "Every account must change its password before anything else works."
    ),
    "no_basic_auth": Switch("bool", False, "HTTP Basic is refused, only sessions work."),
    "ipmi_suites": Switch("list", ["3", "17"], "IPMI cipher suites that a BMC of a fleet takes.", ("3", "17")),
    # transport
    "certificate": Switch(
        "text",
        "normal",
        "Which TLS certificate is shown: changed is another one of the same authority, self_signed has none.",
        ("normal", "changed", "self_signed", "expired"),
    ),
    "slow_path": Switch("text", "", "Answers to paths that match this regular expression take slow_s seconds."),
    "slow_s": Switch("number", 180, "Seconds of slow_path."),
    "reset_reused": Switch("bool", False, "The second request on a connection is answered by cutting it."),
    "broken_json_every_n": Switch("int", 0, "Every n-th GET has a body that is no JSON."),
    "warmup_s": Switch("number", 0, "Seconds of 503 after the BMC is back from a restart."),
    "unreachable": Switch(
        "text",
        "no",
        "refuse: nothing listens; silent: connections are taken and never answered.",
        ("no", "refuse", "silent"),
    ),
    "delay_s": Switch("number", 0, "Seconds before each answer."),
    "busy_every_n": Switch("int", 0, "Every n-th request gets 503 with Retry-After."),
    "retry_after_s": Switch("number", 1, "Seconds in Retry-After."),
    "retry_after_form": Switch("text", "seconds", "Form of Retry-After.", ("seconds", "date", "none")),
    "html_504_every_n": Switch("int", 0, "Every n-th request gets 504 with an HTML page (1: all of them)."),
    "answer_lost_after_post": Switch(
        "int",
        0,
        "The connection is cut, after the work was done, for this many POSTs (counts down; -1: for ever). "
        "Opening a session is not counted.",
    ),
    "close_connections": Switch("bool", False, "The connection is closed after each answer."),
    "keepalive_s": Switch("number", 75, "Seconds that an idle connection is kept."),
    "faults": Switch(
        "faults",
        [],
        "General faults: {method, path (regular expression), status, times (-1: for ever), message, drop}.",
    ),
    # HTTP and resource shape
    "license_required": Switch("list", [], "Writes of these kinds get 403: not licensed.", ("update", "bios", "media")),
    "etag_missing_status": Switch("int", 428, "Status of a PATCH without If-Match, where etag_required asks for it."),
    "redirect_status": Switch("int", 308, "Status of redirect_slash."),
    "expand_partial": Switch("bool", False, "Members that $expand shows lack Id and Name."),
    "secondary_needs_power": Switch("bool", False, "The GPU baseboard's system gets 503 while the server is off."),
    "media_patch_only": Switch("bool", False, "Virtual media have no actions: Image is set by PATCH."),
    "media_needs": Switch(
        "list",
        [],
        "Parameters without which InsertMedia gets 400.",
        ("TransferProtocolType", "TransferMethod", "UserName", "Password"),
    ),
    "clear_log_needs_type": Switch("bool", False, "ClearLog without ClearType gets 400."),
    "etag_required": Switch("bool", False, "PATCH without If-Match gets 428."),
    "weak_etag": Switch("bool", False, "ETags are weak."),
    "etag_refuses_own_weak": Switch("bool", False, "412 for a weak tag in If-Match, also for the BMC's own."),
    "paging": Switch("int", 0, "Members per page (0: all at once)."),
    "redirect_slash": Switch("bool", False, "308 to the same path with a slash at the end."),
    "case_insensitive": Switch("bool", False, "Paths are matched without regard to case."),
    "members_null": Switch("bool", False, "An empty collection has Members null."),
    "drop_properties": Switch("list", [], "Properties that are left out of every resource."),
    "null_properties": Switch("list", [], "Properties that are null in every resource."),
    "sensor_schemas": Switch(
        "text",
        "new",
        "Sensors by PowerSubsystem and ThermalSubsystem (new), by Power and Thermal (old), or both.",
        ("new", "old", "both"),
    ),
    "volume_task_s": Switch("number", 0, "Making and deleting a volume is a task of this many seconds (0: at once)."),
    "no_query_support": Switch(
        "bool", False, "ProtocolFeaturesSupported offers no query parameter and they are refused."
    ),
    # tasks and updates
    "task_seconds": Switch("number", 2.0, "Seconds that an update task runs."),
    "task_monitor_gone": Switch("bool", False, "Task and monitor answer 404 once the work is over."),
    "task_fails": Switch("bool", False, "Update tasks end as Exception."),
    "task_without_location": Switch("bool", False, "202 carries the task in the body only, without Location."),
    "update_methods": Switch("list", list(UPDATE_METHODS), "Update methods offered.", UPDATE_METHODS),
    "update_without_effect": Switch("bool", False, "An update completes, the version stays."),
    "task_late_s": Switch("number", 0, "Seconds for which a new task is not found yet (404)."),
    "update_answers_200": Switch("bool", False, "An update is answered with 200 and no task."),
    "update_pause_s": Switch("number", 0, "An update within this many seconds of the last one fails: out of memory."),
    "task_lies": Switch(
        "text",
        "no",
        "For task_lie_s before an update is really written, its task shows 100 % (percent) or is even Completed (state).",
        ("no", "percent", "state"),
    ),
    "task_lie_s": Switch("number", 3.0, "Seconds of task_lies."),
    "update_answer_s": Switch("number", 0, "Seconds between an image that arrived whole and the answer to it."),
    "health_after_update": Switch(
        "text", "OK", "Health of the system from when an image that was sent runs.", ("OK", "Warning", "Critical")
    ),
    "update_exclusive": Switch("bool", False, "A second update while one runs gets 503."),
    "downgrade_refused": Switch("bool", False, "An image older than what runs is refused, unless ForceUpdate is sent."),
    "upload_cut_after": Switch("int", 0, "The connection is cut after this many bytes of an image (0: never)."),
    "upload_cut_times": Switch("int", -1, "How many uploads are cut (counts down; -1: all)."),
    "manager_reset_s": Switch("number", 2.0, "Seconds that the BMC is away after Manager.Reset or its own update."),
}


_COUNTDOWNS = ("answer_lost_after_post", "upload_cut_times")


class BehaviourError(ValueError):
    """A switch that does not exist or a value that it does not take."""


def _as_list(value: Any, switch: Switch) -> list[str]:
    if value is True and switch.choices:
        return list(switch.choices)
    if value is False or value is None:
        return []
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BehaviourError("wants a list of texts")
    return list(value)


def _as_text(value: Any, switch: Switch) -> str:
    # true and false are natural for the switches that are "off" or "on with a flavour"
    if value is False:
        value = switch.default
    elif value is True and switch.default == "no":
        value = switch.choices[1]
    if not isinstance(value, str):
        raise BehaviourError("wants a text")
    return value


def _as_faults(value: Any) -> list[dict]:
    if not isinstance(value, list):
        raise BehaviourError("wants a list of faults")
    known = {"method", "path", "status", "times", "message", "drop", "retry_after"}
    faults = []
    for item in value:
        if not isinstance(item, dict) or not set(item) <= known:
            raise BehaviourError(f"wants faults with the keys {', '.join(sorted(known))}")
        faults.append(
            {
                "method": None,
                "path": ".*",
                "status": 500,
                "times": -1,
                "message": "InternalError",
                "drop": False,
                **item,
            }
        )
    return faults


def check_value(name: str, value: Any) -> Any:
    """Return the value of a switch in its normal form, or raise BehaviourError naming the switch and what it takes."""
    switch = SWITCHES.get(name)
    if switch is None:
        raise BehaviourError(f"unknown behaviour {name!r} (known: {', '.join(sorted(SWITCHES))})")
    try:
        if switch.kind == "bool":
            if not isinstance(value, bool):
                raise BehaviourError("wants true or false")
        elif switch.kind in ("int", "number"):
            if isinstance(value, bool) and switch.kind == "int":
                value = -1 if value and name == "answer_lost_after_post" else int(value)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or (switch.kind == "int" and not isinstance(value, int))
            ):
                raise BehaviourError("wants a whole number" if switch.kind == "int" else "wants a number")
            if value < 0 and name not in _COUNTDOWNS:
                raise BehaviourError("must not be negative")
        elif switch.kind == "list":
            value = _as_list(value, switch)
        elif switch.kind == "text":
            value = _as_text(value, switch)
        else:
            value = _as_faults(value)
        if switch.choices:
            wrong = [item for item in (value if isinstance(value, list) else [value]) if item not in switch.choices]
            if wrong:
                raise BehaviourError(f"does not take {wrong[0]!r} (choices: {', '.join(switch.choices)})")
    except BehaviourError as error:
        raise BehaviourError(f"behaviour {name}: {error}, got {value!r}") from None
    return value


_DEFAULTS = {name: switch.default for name, switch in SWITCHES.items()}


class Behaviour:
    """The switches of one BMC; attributes are the switch names. Only what differs from the defaults is kept."""

    __slots__ = ("_initial", "_values")

    def __init__(self, values: dict[str, Any] | None = None, checked: bool = False):
        """`checked`: the values went through check_value and may be shared between BMCs."""
        self._initial = values or {}
        if not checked:
            self._initial = {name: check_value(name, value) for name, value in self._initial.items()}
        self._values: dict[str, Any] = {}
        self.reset()

    def __getattr__(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        try:
            default = _DEFAULTS[name]
        except KeyError:
            raise AttributeError(name) from None
        return list(default) if isinstance(default, list) else default

    def reset(self) -> None:
        """Back to the values of the description."""
        self._values = dict(self._initial)
        if "faults" in self._values:
            # their `times` count down
            self._values["faults"] = [dict(fault) for fault in self._values["faults"]]

    def set(self, values: dict[str, Any]) -> None:
        """Change switches; nothing changes if one value is wrong. None puts a switch back to its default."""
        new = {
            name: _DEFAULTS[name] if value is None and name in SWITCHES else check_value(name, value)
            for name, value in values.items()
        }
        self._values = {**self._values, **new}

    def as_dict(self) -> dict[str, Any]:
        return {**_DEFAULTS, **self._values}


def _takes(name: str, switch: Switch) -> str:
    """What a switch takes, in words: type, unit, and every value where they are few."""
    if switch.kind == "bool":
        return "true or false"
    if switch.kind == "text":
        return f"one of {', '.join(switch.choices)}" if switch.choices else "text"
    if switch.kind == "list":
        return f"list of {', '.join(switch.choices)} (true: all of them)" if switch.choices else "list of texts"
    if switch.kind == "faults":
        return "list of faults"
    unit = "seconds" if name.endswith(("_s", "_seconds")) else "number"
    least = "-1 or more" if name == "answer_lost_after_post" else "0 or more"
    return f"{unit}, {'whole, ' if switch.kind == 'int' else ''}{least}"


def as_markdown() -> list[str]:
    """The lines of the table in docs/lab-bmc.md."""
    rows = []
    for name, switch in SWITCHES.items():
        default = "all" if switch.default and isinstance(switch.default, list) else json.dumps(switch.default)
        rows.append(f"| `{name}` | {_takes(name, switch)} | {default} | {switch.meaning} |")
    return rows
