# Work that a BMC goes on with after its answer: Redfish tasks and vendors' jobs, followed by their state and never by the HTTP status alone.
#
# A task answers 200 while it runs; a monitor vanishes when the work is done (iLO), or when the BMC restarts in the middle (OpenBMC); a job says 100 % and
# goes on (GB300). So what a task says is only believed for "running" and "failed". Where it is gone, or lies, what it was to change is read (`verify`).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ..core.deadline import Deadline
from ..core.errors import AuthenticationFailed, BaremetalError, DeadlineExceeded, Refused, Unreachable
from . import transform
from .errors import HttpError

RUNNING, DONE, FAILED, WAITING, GONE = "running", "done", "failed", "waiting", "gone"

# TaskState (DSP2046, Task) and JobState (Job; Dell's DellJob): in our words. What is in no list is running.
STATES = {
    DONE: ("completed", "completedok", "success", "successful", "complete"),
    FAILED: (
        "exception",
        "killed",
        "cancelled",
        "canceled",
        "failed",
        "completedwitherrors",
        "rebootfailed",
        "invalid",
        "error",
    ),
    # Goes on only when somebody restarts the server or decides something.
    WAITING: ("scheduled", "rebootpending", "userintervention", "suspended", "service", "waitingforreset"),
    # "Interrupted" is to go on by itself (DSP2046); where it does not within the grace, it has failed.
    "interrupted": ("interrupted",),
}
# A new task answers 404 for a while on iDRAC, and so do tasks while the BMC restarts.
GRACE_S = 30.0
# How long "100 %, running" is believed to be running still, where it can be looked up whether the work is done.
LIE_S = 20.0
POLL_S = (1.0, 5.0)
RESTART_KEYS = ("ResetRequired", "ResetRecommended", "OperationTransitionedToJob", "SystemResetRequired")


@dataclass
class Outcome:
    """How the work ended: `state` done, failed, waiting (for a restart or a person) or gone (nobody can say); with what the BMC said last."""

    state: str
    said: str = ""
    percent: int = None
    messages: list = field(default_factory=list)
    uri: str = None
    body: dict = field(default_factory=dict)

    @property
    def ok(self):
        return self.state == DONE


def state_of(body):
    """(our word, the BMC's word) of a Task or Job resource; (None, "") for what is neither."""
    said = transform.text(body, "TaskState") or transform.text(body, "JobState")
    if not said:
        return None, ""
    plain = said.replace(" ", "").replace("_", "").lower()
    word = next((word for word, names in STATES.items() if plain in names), RUNNING)
    return word, said


def words_of(body):
    """What a Task or Job says in its messages, without doubles."""
    found = []
    items = body.get("Messages") if isinstance(body, dict) else None
    for item in items if isinstance(items, list) else []:
        text = transform.text(item, "Message") or transform.text(item, "MessageId")
        if text:
            found.append(text)
    if transform.text(body, "Message"):
        found.append(transform.text(body, "Message"))
    return list(dict.fromkeys(found))


def percent_of(body):
    value = transform.number(body, "PercentComplete")
    return int(value) if value is not None else None


@dataclass
class Handle:
    """Where the work can be asked after: the monitor (preferred) and the task or job itself; one of them may be missing, or both."""

    monitor: str = None
    task: str = None
    body: dict = field(default_factory=dict)

    def __bool__(self):
        return bool(self.monitor or self.task)


def handle_of(answer):
    """The Handle in the answer to a write. A body that is a task itself counts where Location is missing (Supermicro X13); both may be there."""
    body = answer.body if isinstance(answer.body, dict) else {}
    location = (answer.headers or {}).get("Location") or ""
    parts = urlsplit(location)
    monitor = parts.path + (f"?{parts.query}" if parts.query else "") if parts.path else None
    is_task = state_of(body)[0] is not None or any(
        word in transform.text(body, "@odata.type") for word in ("#Task.", "Job.")
    )
    task = transform.text(body, "@odata.id") if is_task else None
    named = transform.text(body, "TaskMonitor") if is_task else ""
    if answer.status == 201 and not is_task and monitor and not _is_work(monitor):
        monitor = None  # Location names the thing that was made
    if monitor and task and transform.same_path(monitor) == transform.same_path(task):
        monitor = None
    if not is_task and answer.status != 202 and monitor and not _is_work(monitor):
        monitor = None
    return Handle(monitor or named or None, task or None, body if is_task else {})


def _is_work(path):
    return any(word in path.lower() for word in ("/task", "/job", "monitor"))


def follow(client, handle, deadline, *, thing="the task", verify=None, interval=None, progress=None):
    """Wait until the work behind `handle` (Handle, Answer or URI) has ended; returns its Outcome.

    `verify()` reads the thing that the work is to change: True where it is so. It decides where the task is gone or says 100 % and goes on. A BMC that does
    not answer for a while (it restarts) is waited for. `progress(percent, said)` is called when one of them moved. DeadlineExceeded at the end of the time.
    """
    if isinstance(handle, str):
        handle = Handle(task=handle)
    elif not isinstance(handle, Handle):
        handle = handle_of(handle)
    last = Outcome(RUNNING, uri=handle.task or handle.monitor)
    if not handle:
        return _decide(client, deadline, verify, last, "the BMC gave no task")
    gone_since = lie_since = stuck_since = None
    pause, refused_after_outage, outage, told = POLL_S[0], 0, False, None
    place = handle.monitor or handle.task
    while True:
        wait = None
        try:
            answer = client.look(place)
            gone_since, wait = None, client.wait_asked(answer)
            word, said, body = _read(client, handle, place, answer)
            percent = percent_of(body)
            messages = words_of(body) or last.messages
            last = Outcome(
                word, said or last.said, percent if percent is not None else last.percent, messages, last.uri, body
            )
            if progress and (last.percent, last.said) != told:
                told = (last.percent, last.said)
                progress(*told)
            if word in (DONE, FAILED, WAITING):
                return last
            stuck_since = None if word != "interrupted" else stuck_since or deadline._clock()
            if stuck_since is not None and deadline._clock() - stuck_since > GRACE_S:
                last.state = FAILED
                return last
            lie_since = None if (percent or 0) < 100 else lie_since or deadline._clock()
            if lie_since is not None and verify and deadline._clock() - lie_since > LIE_S and _quiet(verify):
                last.state = DONE
                client.warnings.append(
                    f"{thing}: the BMC still shows it at 100 % and running; what it was to change is so"
                )
                return last
        except HttpError as error:
            if error.status in (404, 410):
                gone_since = gone_since or deadline._clock()
                if verify and _quiet(verify):
                    last.state = DONE
                    return last
                other = handle.task if place == handle.monitor else None
                if other:
                    place = other
                elif deadline._clock() - gone_since > GRACE_S:
                    return _decide(client, deadline, verify, last, "the task is gone")
            elif error.status < 500 and error.status not in (401, 403, 408, 425, 429):
                # The monitor gives the operation's own answer in the end, so this is how it ended.
                return Outcome(
                    FAILED, error.seen, last.percent, [item["text"] or item["id"] for item in error.messages], last.uri
                )
        except Unreachable:
            outage = True
        except AuthenticationFailed:
            # While it starts, a BMC refuses what it will accept a minute later; twice, because the third time may lock the account.
            if not outage or refused_after_outage:
                raise
            refused_after_outage, wait = 1, 30.0
        except DeadlineExceeded:
            pass
        except BaremetalError as error:
            if error.code != "not_json":
                raise
        if deadline.expired():
            raise _late(client, deadline, thing, last)
        pause = min(POLL_S[1], pause * 1.3)
        deadline._sleep(min(wait or interval or pause, max(0.01, deadline.remaining())))


def _read(client, handle, place, answer):
    """(word, the BMC's word, task body) from the answer of a monitor or a task."""
    word, said = state_of(answer.body)
    if word is not None:
        return word, said, answer.body
    if answer.status == 202:
        return RUNNING, "", answer.body or {}
    if place != handle.monitor:
        return RUNNING, "", answer.body or {}
    # The monitor has the operation's own answer: it is over. How it ended, the task itself may still know.
    if handle.task:
        try:
            body = client.look(handle.task).body
        except HttpError:
            body = None
        word, said = state_of(body)
        if word is not None:
            return word, said, body
    return DONE, f"HTTP {answer.status}", answer.body or {}


def _quiet(verify):
    try:
        return bool(verify())
    except BaremetalError:
        return False


def _decide(client, deadline, verify, last, why):
    """No task to ask: what it was to change is the only witness; it gets as long as the deadline allows, because a restart may still be under way."""
    last.said = last.said or why
    if verify is None:
        last.state = GONE
        return last
    part = Deadline(min(deadline.remaining(), 10 * GRACE_S), why, host=client.endpoint.label)
    while True:
        if _quiet(verify):
            last.state = DONE
            return last
        if part.expired():
            last.state = GONE
            return last
        part._sleep(min(POLL_S[1], max(0.01, part.remaining())))


def _late(client, deadline, thing, last):
    return DeadlineExceeded(
        "the BMC has not finished",
        host=client.endpoint.label,
        thing=thing,
        wanted=f"the end of {last.uri} within {deadline.seconds:.0f} s",
        seen=f"{last.said or 'nothing'}" + (f", {last.percent} %" if last.percent is not None else ""),
        next_step="it may go on without us: run again later, the present state is read first",
        code="task_not_done",
    )


def require(client, outcome, thing):
    """The Outcome where the work is done (or waits for a restart); raises Refused with the BMC's own words where it failed or nobody can say."""
    if outcome.state in (DONE, WAITING):
        return outcome
    said = "; ".join(outcome.messages)[:400] or outcome.said
    failed = outcome.state == FAILED
    raise Refused(
        "the BMC accepted it and then failed" if failed else "the task is gone and what it was to change is not so",
        host=client.endpoint.label,
        thing=thing,
        wanted="a task that ends well",
        seen=f"{outcome.said}{f' at {outcome.percent} %' if outcome.percent is not None else ''}"
        + (f": {said}" if said != outcome.said else ""),
        next_step="read the BMC's event log (bmc_log) for the reason; run again when it is mended"
        if failed
        else "look at the state of the BMC (bmc_info, bmc_log); run again: the present state is read first",
        code="task_failed" if failed else "task_gone",
    )
