# Power: on, off, graceful, restart, reset, cycle, nmi, and mains or standby power away. Observe, plan (pure), apply, verify; check mode stops before apply.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core.deadline import Deadline
from ..core.errors import BaremetalError, DeadlineExceeded, InvalidInput, Refused, Unreachable, Unsupported
from ..core.plan import Change, Plan
from . import connect, cycle, transform
from . import consent as word
from .endpoint import check_seconds
from .errors import AnswerLost, HttpError
from .reset import await_ready, had_outage
from .result import Result, known_identity, read_until

POWER_ACTIONS = ("on", "off", "graceful", "restart", "reset", "cycle", "nmi", *cycle.KINDS)
# What each action sends, in the order of preference. A graceful shutdown is never turned into a hard one unless asked (`fallback`).
RESET_TYPES = {
    "on": ("On", "ForceOn"),
    "off": ("ForceOff",),
    "graceful": ("GracefulShutdown",),
    "reset": ("ForceRestart",),
    "cycle": ("PowerCycle",),  # FullPowerCycle takes mains power away, from the BMC too: that is ac_cycle
    "nmi": ("Nmi",),
}
# Seconds in which a restart must show itself where the BMC shows such a thing at all.
RESTART_SHOWS_S = {"reset": 4.0, "cycle": 12.0}
RESTART_MARK_S = 40.0
# What the power state shows when it is done; for these alone a BMC's "nothing to do" or "I am busy with that" is left to what is read back.
READ_BACK = ("on", "off", "graceful")
SETTLE_S = 60.0
# Seconds in which a BMC whose own power is taken away must go away, and in which a server takes its "on" again afterwards.
CYCLE_SHOWS_S = 180.0
CYCLE_ON_S = 300.0


def plan_power(present, wanted):
    """Pure: the Plan for `wanted` with the power in state `present`. A restart of a server that is off means: switch it on; mains power is taken away from it
    all the same."""
    if wanted in cycle.KINDS:
        return Plan([Change("power", present, f"on, after an {wanted}")])
    if wanted == "on":
        return Plan([Change("power", present, "on")])
    if wanted in ("off", "graceful"):
        return Plan([Change("power", present, "off")])
    return (
        Plan([Change("power", present, "on")])
        if present == "off"
        else Plan([Change("power", present, f"on, after a {wanted}")])
    )


def power(
    endpoint,
    wanted,
    deadline_s=300.0,
    fallback=None,
    graceful_s=120.0,
    check=False,
    fence=None,
    interval=1.0,
    consent=None,
    siblings=(),
):
    """Bring the power to `wanted` (POWER_ACTIONS) and read it back until it is so.

    A graceful shutdown has `graceful_s`; with `fallback="force"` one that is not offered, or not done by then, becomes a hard one, else it is an error.
    `fence` is called before each write. An ac_cycle or aux_cycle that takes down other servers of the chassis (those that the BMC names and `siblings`)
    wants `consent`: the serial number of this server. After a real run the result has `verified`: whether the BMC showed that it was done.
    """
    if wanted not in POWER_ACTIONS:
        raise InvalidInput(
            "there is no such power action",
            host=endpoint.label,
            thing="state",
            wanted=", ".join(POWER_ACTIONS),
            seen=wanted,
        )
    check_seconds("timeout", deadline_s, endpoint.label)
    check_seconds("graceful_timeout", graceful_s, endpoint.label)
    deadline = Deadline(deadline_s, f"power {wanted}", host=endpoint.label)
    with connect(endpoint, deadline, fence) as client:
        present = _settled(client, client.read_power(), deadline, interval)
        if wanted in cycle.KINDS:
            return _power_cycle(client, wanted, present, deadline, check, interval, consent, siblings)
        if wanted == "nmi" and present == "off":
            raise Refused(
                "a server that is off takes no NMI",
                host=endpoint.label,
                thing="power state",
                wanted="on",
                seen="off",
                next_step="an NMI makes a running operating system write a dump; there is none to write",
                code="server_off",
            )
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
        if not check:
            result.more = {"verified": True}
        if plan.changed and not check:
            for state, step, end in _steps(present, wanted, goal):
                seen = _apply_power(client, endpoint, state, step, end, deadline, fallback, graceful_s, interval)
                result.more["verified"] = result.more["verified"] and seen
        elif plan.changed and client.source == "redfish":
            for state, step, end in _steps(present, wanted, goal):
                _reset_type(client, "on" if state == "off" and end == "on" else step, fallback)
        result.bmc = known_identity(client)
        return result


def _power_cycle(client, kind, present, deadline, check, interval, consent, siblings):
    way = cycle.choose(client, kind)
    others = sorted({*way.others, *(str(name) for name in siblings or ())})
    plan = plan_power(present, kind)
    result = Result(True, plan, {"power": present}, {"power": "on"}, client.warnings, client.source)
    given = word.words_of(consent)
    serials = [word.server_serial(client)] if others and not given else []
    result.more = {"action": way.word, "siblings": others, **word.lacking(serials, given)}
    if others and (given or not check):
        word.require_server(
            client, consent, f"this takes the power away from other servers too ({', '.join(others)})", plan
        )
    if not check:
        client.login()  # a session that is gone afterwards is a sign that the BMC restarted
        marks = _cycle_marks(client)
        if way.off_first:
            marks["power"] = None
        lost = start_cycle(client, way, deadline, interval)
        result.more["verified"] = _after_cycle(client, kind, present, marks, deadline, interval, lost)
    result.bmc = known_identity(client)
    return result


def start_cycle(client, way, deadline, interval=1.0):
    """Take the power away by `way`, with the server switched off first where the BMC wants that. The BMC is gone then, and our session with it.

    Returns the error of a lost answer, or None.
    """
    if way.off_first and _settled(client, client.read_power(), deadline, interval) == "on":
        _apply_power(client, client.endpoint, "on", "off", "off", deadline, None, 0.0, interval)
    lost = cycle.fire(client, way)
    if lost is not None:
        client.warnings.append(f"the answer to {way.word} was lost; what followed was read instead")
    return lost


def _cycle_marks(client):
    return {
        "power": "on" if client.read_power(fresh=False) == "on" else None,
        "host": transform.text(client.system(), "LastResetTime") or None,
        "bmc": transform.text(client.manager(), "LastResetTime") or None,
    }


def _after_cycle(client, kind, present, marks, deadline, interval, lost=None):
    """The BMC away and ready again, then the server on. `off` may be what its BIOS says about power that comes back, so it is switched on.

    Returns whether the BMC showed that it was done.
    """

    def look(endpoint, limit):
        part = Deadline(min(20.0, max(0.5, limit.remaining())), "an answer of the BMC", host=endpoint.label)
        with connect(endpoint, part) as asker:
            found = _cycle_marks(asker)
            gone = had_outage(asker) or client.session_gone()
            return {**found, "power": asker.read_power(fresh=False), "outage": gone}

    unused, shown = await_ready(
        client.endpoint,
        deadline,
        marks,
        interval,
        client.warnings,
        what=kind,
        look=look,
        # where the server was off its LastResetTime need not move
        must=("bmc",) if present == "off" else ("bmc", "host"),
        away_s=CYCLE_SHOWS_S,
        next_step="look at the BMC's event log; do it at the PDU if the BMC cannot",
        lost=lost,
    )
    part = Deadline(
        min(CYCLE_ON_S, deadline.remaining()), f"the server on after the {kind}", host=client.endpoint.label
    )
    while True:
        try:
            if _settled(client, client.read_power(), part, interval) == "off":
                _apply_power(client, client.endpoint, "off", "on", "on", deadline, None, 0.0, interval)
            return shown
        except (HttpError, Unreachable):
            # a BMC that is ready may refuse to switch on until the boards behind it are
            if part.expired():
                raise
            part._sleep(min(5.0, interval * 5, max(0.01, part.remaining())))


def _steps(present, wanted, goal):
    """[(state before, action, state after)]. A restart is a shutdown and a start, each verified: few BMCs show whether a GracefulRestart was done."""
    if wanted == "restart" and present != "off":
        return [(present, "graceful", "off"), ("off", "on", "on")]
    return [(present, "on" if wanted == "restart" else wanted, goal)]


def _settled(client, present, deadline, interval):
    """The power once it is on or off. A transition that is under way is waited out (bounded: some BMCs stay in PoweringOn for ever), and so is a BMC
    that shows no power state; one that goes on showing none is an error, because nothing that is sent to it could be verified."""
    part = Deadline(min(SETTLE_S, deadline.remaining()), "the power transition under way", host=client.endpoint.label)
    while present not in ("on", "off") and not part.expired():
        part._sleep(min(interval, max(0.01, part.remaining())))
        try:
            present = client.read_power()
        except DeadlineExceeded:
            break  # the time ended in the middle of the read; what was seen before it counts
        except BaremetalError as error:
            if error.code != "not_json":  # an empty answer in the middle of a transition is "not yet"
                raise
    settled = {"powering_on": "on", "powering_off": "off"}.get(present, present)
    if settled not in ("on", "off"):
        raise Refused(
            "the BMC does not say whether the server is on or off, so nothing was sent to it",
            host=client.endpoint.label,
            thing="power state",
            wanted=f"On or Off within {part.seconds:.0f} s",
            seen=client.power_said(),
            next_step="restart the BMC, or ask it by IPMI (bmc_protocol: ipmi)",
            code="power_unknown",
        )
    return settled


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
    """One step, sent once and read back. Returns whether the BMC showed that it was done; where it showed nothing, that is a warning too."""
    action = "on" if goal == "on" and present == "off" else wanted
    if client.source == "redfish":
        name = _reset_type(client, action, fallback)
        if name is None:
            action = "on"
            doubt = _send_power(client, "ForceOff", "off")
            _await_power(client, "off", deadline, interval, "ForceOff", doubt)
            name = _reset_type(client, "on")
    else:
        name = action
    shown = True
    marks = client.restart_marks(fresh=False) if action in RESTART_SHOWS_S else None
    doubt = _send_power(client, name, action)
    if marks is not None:
        shown = _await_restart(client, action, marks, deadline, interval, doubt)
    elif action == "nmi":
        shown = False
        client.warnings.append("the BMC accepted the nmi and cannot show it; only that the power is on was verified")
    if wanted == "graceful" and name in ("GracefulShutdown", "graceful"):
        part = Deadline(min(graceful_s, deadline.remaining()), "graceful shutdown", host=endpoint.label)
        try:
            _await_power(client, goal, part, interval, name, doubt)
            return shown
        except (DeadlineExceeded, HttpError) as error:
            if error is not doubt and not isinstance(error, DeadlineExceeded):
                raise
            if fallback != "force":
                if error is not doubt:
                    error.message = f"the operating system did not shut down within {part.seconds:.0f} s"
                    error.code = "shutdown_ignored"
                    error.next_step = "look at its console; fallback: force cuts the power when graceful_timeout is over, state: off cuts it at once"
                raise
            client.warnings.append(
                f"the operating system did not shut down within {part.seconds:.0f} s, the power was cut as fallback: force asks"
            )
            name = "ForceOff" if client.source == "redfish" else "off"
            doubt = _send_power(client, name, "off")
    _await_power(client, goal, deadline, interval, name, doubt)
    return shown


def _await_restart(client, action, marks, deadline, interval, lost):
    """The power reads "on" before and after a restart, so a sign of it is awaited first.

    A BMC that has LastResetTime must move it (but for those where it only tells of the power). Many have no sign at all: then False comes back, and a
    warning says that only the power was verified.
    """
    certain = bool(marks[1:2] and marks[1])
    if certain and action == "reset" and not client.quirks(manager=True)["reset_time_counts"]:
        certain = False
    limit = min(RESTART_MARK_S if certain else RESTART_SHOWS_S[action], deadline.remaining())
    part = Deadline(limit, f"a sign of the {action}", host=client.endpoint.label)
    while not part.expired():
        try:
            if client.restart_marks() != marks:
                return True
        except (Unreachable, HttpError) as error:
            if isinstance(error, HttpError) and error.status < 500:
                raise
        except BaremetalError as error:
            if error.code != "not_json":
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
    return False


def _send_power(client, name, action):
    """Send once. Where the power state shows what became of it (READ_BACK), a lost answer, or a refusal that may mean "it is so already", is not an
    error yet but what is returned (else None); what counts is what is read afterwards. An NMI that may not have arrived is an error at once."""
    try:
        if client.source == "redfish":
            client.reset(name)
        else:
            client.send_power(name)
    except AnswerLost as error:
        if action == "nmi":
            error.next_step = "look at the server's console or its dump before you send another one"
            raise
        client.warnings.append(f"the answer to {name} was lost; the power state was read instead")
        return error
    except HttpError as error:
        if action in READ_BACK and error.status in (400, 409) and error.has("NoOperation", "ResourceInUse"):
            return error
        raise
    return None


def _await_power(client, goal, deadline, interval, sent, doubt=None):
    """The power in state `goal`. `doubt`: what _send_power returned; a refusal is raised as it is where the power has not moved."""
    try:
        read_until(
            client,
            deadline,
            client.read_power,
            lambda seen: seen == goal,
            thing=f"power ({sent})",
            wanted=f"{goal} within {deadline.seconds:.0f} s",
            message="the BMC accepted it but the power has not moved"
            if doubt is None
            else "the answer was lost and the power has not moved",
            next_step="look at the BMC's event log; if it accepts and ignores requests, restart the BMC",
            interval=interval,
            describe=lambda seen: client.power_said() if seen == "unknown" else seen,
        )
    except DeadlineExceeded:
        if isinstance(doubt, HttpError):
            raise doubt
        raise
