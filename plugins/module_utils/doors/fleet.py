# The door of fleet: which operations it has, their options, and one job's call. The options of an operation are those of the bmc_* module of that name.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..bmc import operations
from ..bmc.result import Result
from ..bmc.wire import Wire
from ..core.errors import InvalidInput
from ..core.plan import Plan
from ..core.redact import Redactor
from ..fleet.health import health
from . import bmc

HEALTH = {
    "accepted": {"type": "list", "elements": "str", "default": ["OK"]},
    "power": {"type": "str", "choices": ["on", "off"]},
}
SENSORS = {
    "sections": {"type": "list", "elements": "str", "choices": ["power", "thermal"], "default": ["power", "thermal"]},
    "section_timeout": bmc.INFO["section_timeout"],
}
START = {
    **{name: bmc.BOOT[name] for name in ("http_uri", "once", "mode")},
    "target": {**bmc.BOOT["target"], "required": True},
    "state": {"type": "str", "choices": ["on", "reset", "cycle"], "default": "reset"},
}
BOOT_SECONDS = 60.0


def _health(endpoint, params, check, before_write, before_power):
    return health(endpoint, tuple(params["accepted"]), params["power"], params["timeout"])


def _sensors(endpoint, params, check, before_write, before_power):
    return bmc.MODULES["bmc_info"][1](endpoint, params, check, before_write)


def _start(endpoint, params, check, before_write, before_power):
    """The boot override, and when it is shown the power: one result of both. A BMC that does not take the override is not switched."""

    def write_power():
        for hook in (before_write, before_power):
            if hook:
                hook()

    boot = operations.boot(
        endpoint,
        params["target"],
        params["once"],
        params["mode"],
        min(BOOT_SECONDS, params["timeout"]),
        check,
        functools.partial(before_write, paced=False) if before_write else None,
        http_uri=params["http_uri"],
    )
    power = operations.power(endpoint, params["state"], params["timeout"], check=check, fence=write_power)
    return Result(
        boot.changed or power.changed,
        Plan([*boot.plan.changes, *power.plan.changes]),
        {"boot": boot.before, **power.before},
        {"boot": boot.after, **power.after},
        [*boot.warnings, *power.warnings],
        power.source,
        power.bmc or boot.bmc,
        power.more,
    )


# Operations that no module of single BMCs has: (options, function).
OWN = {"health": (HEALTH, _health), "sensors": (SENSORS, _sensors), "start": (START, _start)}
# operation: (module whose options and function it has, or None for OWN; seconds for one BMC unless the task says so)
OPERATIONS = {
    "account": ("bmc_account", 60.0),
    "bios": ("bmc_bios", 1800.0),
    "boot": ("bmc_boot", BOOT_SECONDS),
    "firmware_info": ("bmc_firmware_info", 300.0),
    "health": (None, 60.0),
    "info": ("bmc_info", 120.0),
    "log": ("bmc_log", 120.0),
    "power": ("bmc_power", bmc.POWER_SECONDS),
    "reset": ("bmc_reset", 600.0),
    "sensors": (None, 120.0),
    "settings": ("bmc_settings", 120.0),
    "start": (None, 300.0),
    "virtual_media": ("bmc_virtual_media", 180.0),
}
SECRETS = ("bmc_password", "password", "image_password")


def usual_seconds(operation, options=None):
    """Seconds for one BMC where the task says nothing; a BMC whose own power is taken away needs its start on top."""
    if operation == "power":
        return bmc.power_seconds((options or {}).get("state"))
    return OPERATIONS[operation][1]


def option_spec(operation):
    """(argument specification, further rules) of the operation's own options; the connection is the fleet's business."""
    module = OPERATIONS[operation][0]
    if module is None:
        return OWN[operation][0], {}
    own, _function, more = bmc.MODULES[module]
    return own, more


def check_options(operation, given, later=()):
    """The operation's options, validated and with their defaults; `later` names those whose value comes from each host's own variables."""
    spec, more = option_spec(operation)
    unknown = sorted((set(given) | set(later)) - set(spec))
    if unknown:
        raise InvalidInput(
            "the operation has no such option",
            thing=f"options of {operation}",
            wanted=", ".join(sorted(spec)) or "none",
            seen=", ".join(unknown),
            next_step=f"correct `options` (in the playbook fleet: fleet_options), see the documentation of {OPERATIONS[operation][0] or 'fleet'}",
        )
    both = sorted(set(given) & set(later))
    if both:
        raise InvalidInput(
            "an option is given twice",
            thing=", ".join(both),
            wanted="either in options or in options_from",
            seen="both",
            next_step="take it out of one of them",
        )
    if later:
        # What belongs together is judged when each host's own values are there; what is wrong for all is said before anything is sent.
        more = {}
        spec = {name: {**rule, "required": False} if name in later else rule for name, rule in spec.items()}
    found = _validated(operation, spec, more, given)
    if found.get("profile"):
        # Read once and not for each host.
        found["attributes"] = {**bmc.read_profile(found["profile"]), **(found["attributes"] or {})}
        found["profile"] = None
    return found


def host_options(operation, options, own):
    """The options of one host: those of all and its own values, validated together."""
    spec, more = option_spec(operation)
    return _validated(operation, spec, more, {**options, **own})


def _validated(operation, spec, more, given):
    checked = ArgumentSpecValidator(spec, **more).validate(
        {key: value for key, value in given.items() if value is not None}
    )
    if checked.error_messages:
        raise InvalidInput(
            checked.error_messages[0],
            thing=f"options of {operation}",
            wanted=f"the options of {OPERATIONS[operation][0] or operation}",
            seen=", ".join(sorted(given)) or "none",
            next_step="correct `options` (in the playbook fleet: fleet_options)",
        )
    return checked.validated_parameters


def call(operation, params, host, seconds, check, diff, before_write, watch=None, before_power=None):
    """One operation on one BMC; returns the result that the per-host module gives too. Raises BaremetalError.

    `before_power` is called before each write of `start` that switches the server, after `before_write`.
    """
    params = {**params, "timeout": seconds}
    endpoint = bmc.endpoint_of(params, host, functools.partial(Wire, watch=watch))
    module = OPERATIONS[operation][0]
    if module is None:
        found = OWN[operation][1](endpoint, params, check, before_write, before_power)
    else:
        found = bmc.MODULES[module][1](endpoint, params, check, before_write)
    result = found if isinstance(found, dict) else found.as_result(diff)
    return Redactor([params.get(name) for name in SECRETS])(result)
