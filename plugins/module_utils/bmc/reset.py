# Restart of the BMC itself (not of its server), and the wait until it is ready: two good authenticated reads, not a ping.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time
from dataclasses import replace

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
from . import connect, transform
from .endpoint import check_seconds
from .errors import AnswerLost, HttpError
from .result import Result, known_identity

# A graceful restart that is not on offer becomes the other one: both end with the same BMC, and its server does not notice either.
RESET_TYPES = {"graceful": ("GracefulRestart", "ForceRestart"), "force": ("ForceRestart", "GracefulRestart")}
# In this time a BMC that restarts must go away once; one that does not and has no LastResetTime leaves it open.
GOES_AWAY_S = 60.0
# Between the two reads that make it ready.
BETWEEN_S = 3.0
# While it starts, a BMC may refuse what it accepts a minute later; more tries would lock the account.
MOST_REFUSED = 2
REFUSED_PAUSE_S = 30.0


def reset(endpoint, kind="graceful", wait=True, deadline_s=600.0, check=False, fence=None, interval=2.0):
    """Restart the BMC; with `wait` until it is ready again. It is always a change; `verified` says whether the BMC showed it."""
    check_seconds("timeout", deadline_s, endpoint.label)
    if kind not in RESET_TYPES:
        raise InvalidInput(
            "there is no such restart", host=endpoint.label, thing="kind", wanted=", ".join(RESET_TYPES), seen=kind
        )
    deadline = Deadline(deadline_s, "the restart of the BMC", host=endpoint.label)
    plan = Plan([Change("bmc", "running", f"restarted ({kind})")])
    with connect(endpoint, deadline, fence) as client:
        if client.source == "redfish":
            body, target, mark = prepare(client, kind)
        else:
            client.identity()
            body = target = mark = None
        result = Result(
            True,
            plan,
            {"last_reset": mark},
            {"last_reset": mark},
            client.warnings,
            client.source,
            known_identity(client),
        )
        result.more = {"waited": False, "seconds": None}
        if check:
            return result
        result.more["verified"] = False
        began, lost = time.monotonic(), None
        try:
            send_reset(client, target, body)
        except AnswerLost as error:
            lost = error  # it may have gone down before it could answer; what follows tells
        client.abandon()
    if wait:
        seen, shown = await_ready(endpoint, deadline, {"bmc": mark}, interval, result.warnings, lost=lost)
        result.after = {"last_reset": seen["bmc"]}
        result.more = {"waited": True, "seconds": round(time.monotonic() - began, 1), "verified": shown}
    elif lost is not None:
        result.warnings.append("the answer to the restart was lost, and nobody waited to see whether it was done")
    return result


def prepare(client, kind):
    """(body, target, LastResetTime) of the manager's Reset action; raises Unsupported where it has none."""
    manager = client.manager()
    action = transform.dig(manager, "Actions", "#Manager.Reset")
    target = transform.text(action or {}, "target")
    if not target:
        raise Unsupported(
            "this BMC cannot be restarted by Redfish",
            host=client.endpoint.label,
            thing=transform.text(manager, "@odata.id") or "Managers",
            wanted="the action Manager.Reset",
            seen="no such action",
            next_step="restart it by IPMI (bmc_protocol: ipmi), or take its power away",
        )
    allowed = client.allowed_values(action, "ResetType", "the list of reset types")
    name = next((item for item in RESET_TYPES[kind] if item in allowed), None) if allowed else RESET_TYPES[kind][0]
    if name is None:
        raise Unsupported(
            "the BMC offers no restart of itself",
            host=client.endpoint.label,
            thing="kind",
            wanted=" or ".join(RESET_TYPES[kind]),
            seen=", ".join(allowed),
            next_step="restart it by IPMI (bmc_protocol: ipmi)",
        )
    if allowed and name != RESET_TYPES[kind][0]:
        client.warnings.append(f"the BMC offers no {RESET_TYPES[kind][0]}, {name} is what it has")
    return {"ResetType": name}, target, transform.text(manager, "LastResetTime") or None


def send_reset(client, target, body):
    if client.source == "ipmi":
        client.reset_bmc()
        return
    try:
        client.post(target, body)
    except HttpError as error:
        if error.status != 400 or not error.names("ResetType"):
            raise
        client.post(target)  # Redfish 1.0 services (X10) have the action without parameters


def await_ready(
    endpoint,
    deadline,
    marks,
    interval,
    warnings,
    *,
    what="restart",
    look=None,
    must=("bmc",),
    away_s=None,
    next_step="try kind: force, or by IPMI (bmc_protocol: ipmi)",
    lost=None,
):
    """Away, back, and two good reads. Returns (the marks as they are then, whether there was a sign of the `what`).

    `marks`: {name: value or None} before, as `look` reads them again; one that differs is a sign of the `what`, and so is a BMC that goes away (`outage`: for
    so short that a repeated read got through). A BMC that shows no sign within `away_s` has not done it if it has one of the marks `must`; else nobody
    can say, and that is a warning. Where the answer to the request was lost (`lost`, its error), that is an error.
    """
    look = look or _look
    away_s = GOES_AWAY_S if away_s is None else away_s
    asker = replace(
        endpoint,
        guarded=False,
        connect_timeout=min(3.0, endpoint.connect_timeout),
        read_timeout=min(15.0, endpoint.read_timeout),
    )
    began, moved, good, refused, said = time.monotonic(), False, 0, 0, "nothing"
    certain = {name: marks[name] for name in must if marks.get(name)}
    while True:
        pause = interval
        try:
            seen = look(asker, deadline)
            moved = (
                moved
                or seen.pop("outage", False)
                or any(
                    value is not None and seen.get(name) is not None and seen[name] != value
                    for name, value in marks.items()
                )
            )
            overdue = time.monotonic() - began > min(away_s, deadline.seconds / 2)
            said = "it answers, and has not gone away"
            if overdue and not moved and certain:
                raise DeadlineExceeded(
                    f"the BMC accepted the {what} and did not do it",
                    host=endpoint.label,
                    thing="LastResetTime",
                    wanted=f"another one than {', '.join(certain.values())}",
                    seen=", ".join(str(seen.get(name)) for name in certain),
                    next_step=next_step,
                    code="accepted_not_moved",
                )
            if moved or overdue:
                good += 1
                said = f"{good} good read"
                pause = min(BETWEEN_S, interval * 2)
                if good == 2:
                    if not moved and lost is not None:
                        raise lost
                    if not moved:
                        warnings.append(
                            f"the BMC accepted the {what} and was never seen to go away; only that it answers was verified"
                        )
                    return seen, moved
        except (Unreachable, HttpError, AuthenticationFailed) as error:
            good = 0
            if isinstance(error, HttpError) and error.status < 500 and error.status not in (401, 403, 404, 429):
                raise
            if isinstance(error, AuthenticationFailed):
                refused += 1
                pause = min(REFUSED_PAUSE_S, deadline.remaining() / 2)
                if refused > MOST_REFUSED:
                    error.next_step = "the BMC refuses this account since its restart: it may have lost its accounts, try the factory ones"
                    raise
            moved = True
            said = f"no good answer ({error.seen})"
        except DeadlineExceeded as error:
            if error is lost or error.code == "accepted_not_moved":
                raise
        except Refused:
            raise  # another certificate: it is not for us to go on
        except BaremetalError as error:
            if error is lost:
                raise
            good, moved, said = 0, True, f"no good answer ({error.seen or error.message})"
        if deadline.expired():
            raise DeadlineExceeded(
                "the BMC is not ready again",
                host=endpoint.label,
                thing=f"{endpoint.address} port {endpoint.port}",
                wanted=f"two good reads within {deadline.seconds:.0f} s",
                seen=said,
                next_step="wait and look at it with bmc_info; a BMC that does not come back needs its power taken away",
                code="bmc_not_ready",
            )
        deadline._sleep(min(pause, max(0.01, deadline.remaining())))


def _look(endpoint, deadline):
    """One authenticated look on a connection of its own: the system's power and the manager. Returns {"bmc": LastResetTime or None}."""
    part = Deadline(min(20.0, max(0.5, deadline.remaining())), "an answer of the BMC", host=endpoint.label)
    with connect(endpoint, part) as client:
        if client.source == "ipmi":
            client.read_power()
            return {"bmc": None}
        client.system_or_none()
        return {"bmc": transform.text(client.manager(), "LastResetTime") or None, "outage": had_outage(client)}


def had_outage(client):
    """Whether a request of this client had no answer."""
    return any(status is None for unused, unused2, status in client.sent)
