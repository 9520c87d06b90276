# Carries out a plan on one node, step by step, so that it can be killed at any line and taken up again without an image being sent twice.
#
# Three records make that so. Before an image is sent: the intent, with the tasks that the BMC had. When all but the last block is out: "final"; a controller
# that died before it certainly did not deliver a whole image. After the answer: the task. Whoever finds an intent without an answer reads the BMC: running
# version, staged version, new tasks. Where nothing can be seen of a finished send, the reset of the round, which is needed anyway, shows what was there.
# Success is the running version read back after the reset, never a status code or a task that says so.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..core.deadline import Deadline
from ..core.errors import BaremetalError, FencedOut, Refused, Unsupported
from .baseline import ACTIVATIONS
from .port import BROKEN_OFF, IN_DOUBT, PASSING
from .versions import Rule

# How often one image may be sent as a whole where nothing came of it that anybody could see: no task, no staged version, and the old version after the reset.
# An image that the BMC said it had written is never sent again.
MOST_PUSHES = 4
MOST_BROKEN_OFF = 4
# The restart mark of the part that a reset restarts for certain: where it is known and stays as it is, the reset was not done.
MARK_OF = {"bmc_reset": "bmc", "host_reboot": "host", "aux_cycle": "bmc", "ac_cycle": "bmc"}
# Seconds until a restart shows in its mark.
MARK_S = 60.0
# After these the BMC certainly did not take the reset.
NOT_TAKEN = ("bmc_busy",)


@dataclass
class Limits:
    """Seconds. `settle`: until a BMC shows what it has taken. `ready`: until it is back after a restart. `effect`: until a device that activates itself
    shows its new version. `activate`: from a reset to the new version (a host's whole self-test, with flashing). `full`: how long a task may stay at 100 %.
    `blind`: how long a BMC that shows neither task nor list of tasks is given to write an image, before anything is reset.
    """

    poll: float = 5.0
    pause: float = 5.0
    settle: float = 30.0
    ready: float = 900.0
    effect: float = 900.0
    activate: float = 1800.0
    full: float = 120.0
    blind: float = 600.0


@dataclass
class Outcome:
    """`state`: active (all of the plan runs), awaiting_activation, or parked (a person has to look). `code` and `reason` say why it is not active."""

    state: str
    code: str = None
    reason: str = None
    next_step: str = None
    steps: list = field(default_factory=list)
    notes: list = field(default_factory=list)


class _Stop(Exception):
    """The plan cannot go on for now."""

    def __init__(self, state, code, reason, next_step=None):
        super().__init__(reason)
        self.state, self.code, self.reason, self.next_step = state, code, reason, next_step


class Engine:
    """`port`: port.FirmwarePort. `journal`: `steps()` -> [{number, state, detail, pushes, resets, age_s}], `move(number, expected, new, detail, pushed,
    reset)`. `age_s`: seconds since the step was moved last (0 where nobody knows).

    `images`: images.Store. `may_activate(activation, steps)` -> None, or the reason why the reset must wait. `tell(text)` hears what is being done.
    """

    def __init__(
        self,
        port,
        journal,
        plan,
        images,
        limits=None,
        *,
        may_activate=None,
        tell=None,
        clock=time.monotonic,
        sleep=time.sleep,
    ):
        self._port, self._journal, self._plan, self._images = port, journal, plan, images
        self._limits = limits or Limits()
        self._may_activate, self._tell = may_activate, tell or (lambda text: None)
        self._clock, self._sleep = clock, sleep
        self._records = {}
        self._last_push = None
        self._sent_here = set()  # steps whose image this life sent
        self._notes = []

    def run(self):
        """Bring the plan to its end, or as far as it goes; returns an Outcome. Raises FencedOut when somebody else took the plan over."""
        self._records = {record["number"]: dict(record) for record in self._journal.steps()}
        if any(record["pushes"] for record in self._records.values()):
            self._last_push = self._clock()  # of an earlier life, nobody knows how long ago
        try:
            for number in range(1, len(self._plan.activations) + 1):
                self._round(number)
            self._confirm()
        except _Stop as stop:
            return self._outcome(stop.state, stop.code, stop.reason, stop.next_step)
        return self._outcome("active")

    def _outcome(self, state, code=None, reason=None, next_step=None):
        return Outcome(
            state, code, reason, next_step, [self._records[key] for key in sorted(self._records)], self._notes
        )

    # ---- records ------------------------------------------------------------------------------------------------------------------------------
    def _state(self, step):
        return self._records[step.number]["state"]

    def _detail(self, step):
        return self._records[step.number].get("detail") or {}

    def _move(self, step, new, pushed=False, reset=False, **detail):
        record = self._records[step.number]
        before = record["state"]
        self._journal.move(step.number, before, new, detail, pushed, reset)
        merged = {**(record.get("detail") or {}), **detail}
        record.update(
            state=new,
            detail={key: value for key, value in merged.items() if value is not None},
            pushes=record["pushes"] + bool(pushed),
            resets=record["resets"] + bool(reset),
        )
        if new != before:
            self._tell(f"{step.component} {step.to_version}: {new.replace('_', ' ')}")

    def _park(self, step, state, code, reason, next_step):
        self._move(step, state, code=code, reason=reason, next_step=next_step)
        raise _Stop("parked", code, f"{step.component} {step.from_version} -> {step.to_version}: {reason}", next_step)

    # ---- reading ------------------------------------------------------------------------------------------------------------------------------
    def _patiently(self, read, seconds, what):
        """The value of `read`, through restarts and busy answers of the BMC; _Stop when it does not come back."""
        limit = Deadline(seconds, what, clock=self._clock, sleep=self._sleep)
        while True:
            try:
                return read()
            except BaremetalError as error:
                if error.code not in PASSING:
                    raise
                if limit.expired():
                    raise _Stop(
                        "parked",
                        "bmc_lost",
                        f"the BMC does not answer any more ({error})",
                        "look at the BMC, then run again: the plan goes on where it is",
                    )
            self._sleep(self._limits.poll)

    def _inventory(self, only):
        return self._patiently(lambda: self._port.inventory(only), self._limits.ready, "the firmware inventory")

    def _rows(self, step):
        """The inventory rows of a step's component, patiently."""
        wanted = set(step.inventory)
        found = self._inventory(sorted(wanted))
        return [row for row in found if str(row.get("id")) in wanted]

    def _runs(self, step, rows=None):
        """Whether every row of the step runs its version."""
        rows = self._rows(step) if rows is None else rows
        rule = Rule(step.rule, step.extract)
        return len(rows) == len(set(step.inventory)) and all(
            rule.same(row.get("version"), step.to_version) for row in rows
        )

    def _staged(self, step, rows):
        rule = Rule(step.rule, step.extract)
        return bool(rows) and all(rule.same(row.get("staged"), step.to_version) for row in rows)

    @staticmethod
    def _seen(rows):
        return ", ".join(f"{row.get('id')} {row.get('version')}" for row in rows) or "it is not in the inventory"

    # ---- one round ----------------------------------------------------------------------------------------------------------------------------
    def _round(self, number):
        steps = self._plan.round(number)
        for _unused in range(MOST_PUSHES + 1):
            for step in steps:
                self._bring_in(step)
            self._activate(self._plan.activations[number - 1], steps)
            if all(self._state(step) == "active" for step in steps):
                return
        left = next(step for step in steps if self._state(step) != "active")
        self._park(
            left, "unknown", "no_sign", "it does not come to an end", "look at the BMC, then run again with retry"
        )

    def _bring_in(self, step):
        """Until the step is staged or active."""
        work = {"planned": self._push, "pushing": self._resolve, "writing": self._follow}
        while True:
            state = self._state(step)
            if state in ("failed", "unknown"):
                detail = self._detail(step)
                raise _Stop(
                    "parked",
                    detail.get("code") or state,
                    f"{step.component} {step.from_version} -> {step.to_version}: {detail.get('reason') or state}",
                    detail.get("next_step") or "remove the cause, then run again with retry",
                )
            if state not in work:
                return
            work[state](step)

    # ---- sending ------------------------------------------------------------------------------------------------------------------------------
    def _push(self, step):
        rows = self._rows(step)
        if self._runs(step, rows):
            self._move(step, "active", note="it ran already when its turn came")
            return
        if self._staged(step, rows):
            self._move(step, "staged", note="it was staged already when its turn came")
            return
        rule = Rule(step.rule, step.extract)
        if not any(rule.same(row.get("version"), step.from_version) for row in rows):
            self._park(
                step,
                "failed",
                "changed_since_plan",
                f"it does not run what the plan was made for: {self._seen(rows)}",
                "run again with retry: a new plan is made",
            )
        record = self._records[step.number]
        if record["pushes"] >= MOST_PUSHES:
            self._park(
                step,
                "failed",
                "no_effect",
                f"the image was sent {record['pushes']} times and nothing came of it; {self._seen(rows)}",
                "look at the BMC's log, update it by hand, or ask the vendor; then run again with retry",
            )
        try:
            method = self._patiently(lambda: self._port.method(step), self._limits.ready, "the update service")
            image = self._images.get(step.image, fetch=method != "simple")
        except BaremetalError as error:
            if isinstance(error, FencedOut):
                raise
            self._park(step, "failed", error.code, str(error), error.next_step)
        if self._pause() or self._wait_for_others(step):
            return  # still "planned": time has passed, so everything is looked at again
        tasks = self._patiently(self._port.tasks, self._limits.ready, "the list of tasks")
        late = self._ours(self._since(step, tasks)) if self._detail(step).get("doubt") else None
        if late:
            self._move(step, "writing", task=late["uri"], doubt=None, note="its task was shown late")
            return
        self._move(
            step,
            "pushing",
            method=method,
            tasks_before=None if tasks is None else sorted(tasks),
            final=False,
            task=None,
            monitor=None,
            assumed=None,
            doubt=None,
        )
        self._sent_here.add(step.number)
        try:
            handle = self._port.push(step, image, method, lambda: self._last_block(step))
        except FencedOut:
            raise
        except BaremetalError as error:
            self._last_push = self._clock()
            if error.code in IN_DOUBT:
                self._notes.append(f"{step.component}: the answer to the upload was lost; the BMC was read to find out")
                return  # still "pushing": resolved by reading
            broken = self._detail(step).get("broken", 0) + 1
            if error.code in BROKEN_OFF and not self._detail(step).get("final") and broken < MOST_BROKEN_OFF:
                self._notes.append(f"{step.component}: the upload broke off before its end ({error.seen})")
                self._move(step, "planned", broken=broken)
                self._sleep(self._limits.poll)
                return
            self._park(step, "failed", error.code, str(error), error.next_step)
        self._last_push = self._clock()
        self._move(
            step, "writing", task=handle.get("task"), monitor=handle.get("monitor"), done=handle.get("done") or None
        )

    def _last_block(self, step):
        """From here on the image may have arrived. Once a sending: a redirect that makes it go out twice is not two images."""
        if not self._detail(step).get("final"):
            self._move(step, "pushing", pushed=True, final=True)

    def _pause(self):
        """A BMC that gets one image after the other runs out of memory. True: it was waited."""
        left = 0 if self._last_push is None else self._last_push + self._limits.pause - self._clock()
        if left > 0:
            self._sleep(left)
        return left > 0

    def _wait_for_others(self, step):
        """An update that somebody else started must end first: two at once damage each other on many BMCs. True: there was one."""
        limit = Deadline(step.limit_s, "the end of an update that was under way", clock=self._clock, sleep=self._sleep)
        waited = False
        while True:
            tasks = self._patiently(self._port.tasks, self._limits.ready, "the list of tasks") or {}
            busy = [task for task in tasks.values() if task["state"] == "running" and task.get("update", True)]
            if not busy:
                return waited
            waited = True
            if limit.expired():
                raise _Stop(
                    "parked",
                    "bmc_busy",
                    f"a task of the BMC does not end: {busy[0].get('name')} ({busy[0].get('percent')} %)",
                    "look at the task on the BMC; nothing was sent; run again when it has ended",
                )
            self._sleep(self._limits.poll)

    # ---- finding out --------------------------------------------------------------------------------------------------------------------------
    def _resolve(self, step):
        """An intent without an answer: what became of the image is read off the BMC. Never answered by sending it again without a reason."""
        detail = self._detail(step)
        before = detail.get("tasks_before")
        limit = Deadline(self._limits.settle, "a sign of the image", clock=self._clock, sleep=self._sleep)
        while True:
            rows = self._rows(step)
            if self._runs(step, rows):
                self._move(step, "active", note="found running after the answer was lost")
                return
            if self._staged(step, rows):
                self._move(step, "staged", note="found staged after the answer was lost")
                return
            # a tool on the node has no task: what it did shows only in the device
            in_band = step.path != "bmc"
            tasks = None if in_band else self._patiently(self._port.tasks, self._limits.ready, "the list of tasks")
            ours = self._ours(self._since(step, tasks))
            if ours:
                self._move(step, "writing", task=ours["uri"], note="found by its task after the answer was lost")
                return
            if not detail.get("final"):
                self._move(step, "planned", note="the run ended before the whole image was sent", final=None)
                return
            if limit.expired():
                break
            self._sleep(self._limits.poll)
        if before and tasks and set(before) & set(tasks):
            # This BMC keeps its finished tasks, and there is none for the image: it never got the last block.
            self._move(
                step, "planned", note="the BMC has no task for the image: it did not arrive", final=None, doubt=True
            )
        elif step.activation != "immediate":
            if tasks is None:
                self._without_task(step, certain=False)
                return
            self._move(step, "staged", assumed=True, note="whether the image arrived will be seen after the reset")
        elif self._records[step.number]["pushes"] < MOST_PUSHES:
            self._move(step, "planned", note="no sign of the image and the old version runs", final=None, doubt=True)
        else:
            self._park(
                step,
                "unknown",
                "no_sign",
                f"nobody can tell whether the image arrived; {self._seen(rows)}",
                "look at the BMC, then run again with retry",
            )

    def _since(self, step, tasks):
        """Update tasks that came after the intent to send this step's image."""
        before = self._detail(step).get("tasks_before") or ()
        return {key: task for key, task in (tasks or {}).items() if key not in before and task.get("update", True)}

    @staticmethod
    def _ours(new):
        """Of the tasks that came since the intent, the one that is ours: the running one, else the newest."""
        if not new:
            return None
        running = [task for task in new.values() if task["state"] == "running"]
        return max(running or list(new.values()), key=lambda task: (task.get("started") or "", task["uri"]))

    # ---- following ----------------------------------------------------------------------------------------------------------------------------
    def _follow(self, step):
        """Until the BMC has done its part. What its task says is only a hint about when to look at the version."""
        limit = Deadline(step.limit_s, "the BMC's task", clock=self._clock, sleep=self._sleep)
        detail = self._detail(step)
        full_since, seen = None, {}
        if detail.get("done"):
            self._written(step, certain=True)
            return
        if not (detail.get("task") or detail.get("monitor")):
            self._without_task(step, certain=False)
            return
        while True:
            try:
                seen = self._port.task(detail)
            except BaremetalError as error:
                if error.code not in PASSING:
                    raise
                seen = {**seen, "state": "running", "text": f"the BMC does not answer ({error.code})"}
            state = seen["state"]
            if state == "staged":
                self._move(step, "staged")
                return
            if state == "done":
                self._written(step, certain=True)
                return
            if state == "gone":
                self._written(step, certain=False)
                return
            if state == "failed":
                self._failed(step, seen)
                return
            if seen.get("percent") == 100:
                full_since = self._clock() if full_since is None else full_since
                if self._clock() - full_since > self._limits.full:
                    self._notes.append(f"{step.component}: the BMC's task stays at 100 % and does not end")
                    self._without_task(step, certain=False)
                    return
            if limit.expired():
                self._park(
                    step,
                    "unknown",
                    "task_overdue",
                    f"the BMC's task did not end within {step.limit_s:.0f} s ({seen.get('percent')} %, {seen.get('text') or 'no message'})",
                    "look at the task on the BMC; run again with retry when it has ended",
                )
            self._sleep(self._limits.poll)

    def _without_task(self, step, certain):
        """Taken without a task: over when the version is there, or no task runs any more; where no task is ever shown, after long enough."""
        self._wait_written(step, min(self._limits.blind, step.limit_s))
        self._written(step, certain)

    def _wait_written(self, step, seconds):
        """Until the version runs or shows as staged. Many BMCs do not show it: then the time has to do, because some say "completed" before they are."""
        limit = Deadline(seconds, "the writing", clock=self._clock, sleep=self._sleep)
        while True:
            rows = self._rows(step)
            if self._runs(step, rows) or self._staged(step, rows) or limit.expired():
                return
            self._sleep(self._limits.poll)

    def _failed(self, step, seen):
        if self._runs(step):
            self._notes.append(
                f"{step.component}: the BMC's task failed ({seen.get('text')}), but the wanted version runs"
            )
            self._move(step, "active")
            return
        if (
            self._detail(step).get("method") == "simple"
            and step.number not in self._sent_here
            and not step.image.get("url")
        ):
            # The BMC was fetching from the controller that died: it could not get the whole image, and says that it did not write it.
            self._move(step, "planned", note="the BMC could not fetch the image to its end", final=None)
            return
        self._park(
            step,
            "failed",
            "task_failed",
            f"the BMC could not write the image: {seen.get('text') or 'it gives no reason'}",
            "look at the BMC's log; run again with retry when the cause is removed",
        )

    def _written(self, step, certain):
        """The task has ended (`certain`: it said so; else it is gone). An image that needs a reset is staged; one that does not must run now."""
        if step.activation != "immediate":
            self._wait_written(step, self._limits.settle)
            if self._runs(step):
                self._move(step, "active", note="it took effect without a reset")
            else:
                self._move(step, "staged", assumed=None if certain else True)
            return
        if self._wait_running([step], self._limits.effect):
            return
        rows = self._rows(step)
        if certain:
            self._park(
                step,
                "failed",
                "no_effect",
                f"the BMC says that the update is complete, but the old version runs: {self._seen(rows)}",
                "restart the BMC and look at its log; run again with retry",
            )
        self._park(
            step,
            "unknown",
            "no_sign",
            f"the BMC forgot the task and the old version runs: {self._seen(rows)}",
            "look at the BMC, then run again with retry",
        )

    def _wait_running(self, steps, seconds):
        """Wait until all of `steps` run their version; each is set active when it does. True when all do."""
        limit = Deadline(seconds, "the new version", clock=self._clock, sleep=self._sleep)
        while True:
            rows = self._inventory(sorted({name for step in steps for name in step.inventory}))
            for step in steps:
                mine = [row for row in rows if str(row.get("id")) in step.inventory]
                if self._state(step) != "active" and self._runs(step, mine):
                    self._move(step, "active", assumed=None)
            if all(self._state(step) == "active" for step in steps):
                return True
            if limit.expired():
                return False
            self._sleep(self._limits.poll)

    def _confirm(self):
        """All versions once more at the end: what was active in an earlier life, or before a later reset, may not be so any more."""
        last = {}
        for step in self._plan.steps:
            last[step.component] = step
        left = list(last.values())
        limit = Deadline(self._limits.settle, "the versions at the end", clock=self._clock, sleep=self._sleep)
        # while a host starts, its devices may not be in the inventory
        back = Deadline(self._limits.activate, "all devices at the end", clock=self._clock, sleep=self._sleep)
        while True:
            rows = self._inventory(sorted({name for step in left for name in step.inventory}))
            mine = {step.number: [row for row in rows if str(row.get("id")) in step.inventory] for step in left}
            left = [step for step in left if not self._runs(step, mine[step.number])]
            if not left:
                return
            there = [step for step in left if len(mine[step.number]) == len(set(step.inventory))]
            if back.expired() or (there and limit.expired()):
                step = (there or left)[0]
                self._park(
                    step,
                    "failed",
                    "reverted",
                    f"it ran the wanted version and does not any more: {self._seen(mine[step.number])}",
                    "look at the BMC's log; run again with retry: a new plan is made",
                )
            self._sleep(self._limits.poll)

    # ---- the reset ----------------------------------------------------------------------------------------------------------------------------
    def _activate(self, activation, steps):
        waiting = [step for step in steps if self._state(step) in ("staged", "activating", "awaiting_activation")]
        if not waiting or self._wait_running(waiting, 0):
            return
        waiting = [step for step in waiting if self._state(step) != "active"]
        activation = self._least(activation, waiting)
        begun = [step for step in waiting if self._state(step) == "activating"]
        if begun:
            sent = self._detail(begun[0]).get("activation") or activation
            age = min(float(self._records[step.number].get("age_s") or 0.0) for step in begun)
            if not self._detail(begun[0]).get("answered") and self._look_for_reset(sent, begun, age):
                self._answered(begun)
                age = 0.0
            if self._detail(begun[0]).get("answered"):
                self._tell(f"the {sent} was sent before; its effect is awaited")
                if not self._wait_running(waiting, max(self._limits.activate - age, self._limits.settle)):
                    self._no_effect(sent, waiting)
                return
        reason = self._may_activate(activation, waiting) if self._may_activate else None
        if reason:
            self._await_others(waiting, activation, reason)
        marks = self._patiently(self._port.marks, self._limits.ready, "the state of the server")
        for index, step in enumerate(waiting):
            self._move(step, "activating", reset=index == 0, marks=marks, activation=activation, answered=None)
        self._reset(activation, waiting)
        self._sleep(self._limits.poll)
        if not self._wait_running(waiting, self._limits.activate):
            self._no_effect(activation, waiting)

    def _reset(self, activation, waiting):
        """Send the reset once. It is sent again only where the BMC refused it, or where there is no sign of it in the time that it would need."""
        limit = Deadline(self._limits.ready, activation, clock=self._clock, sleep=self._sleep)
        taken = False
        while True:
            try:
                self._port.restart(activation)
                break
            except FencedOut:
                raise
            except Unsupported as error:
                self._await_others(waiting, activation, f"this BMC cannot do it ({error.seen or error.message})")
            except BaremetalError as error:
                if error.code in IN_DOUBT:
                    self._notes.append(f"the answer to the {activation} was lost; its effect is awaited")
                    return
                if error.code not in PASSING or limit.expired():
                    raise _Stop("parked", error.code, f"the {activation} could not be done: {error}", error.next_step)
                taken = error.code not in NOT_TAKEN
            if self._look_for_reset(activation, waiting) if taken else self._was_reset(waiting):
                break
            self._sleep(self._limits.poll)
            self._move(waiting[0], "activating")  # noted anew: whoever takes over counts from here
        self._answered(waiting)

    def _answered(self, steps):
        """The reset was taken: from here on only its effect is awaited, by whatever life."""
        for step in steps:
            self._move(step, self._state(step), answered=True)

    def _look_for_reset(self, activation, waiting, age=0.0):
        """Whether a reset that may have been sent, `age` seconds ago, was done. A second one could fall into the flash that the first began.

        A BMC that marks the restart of this part is looked at for a moment. One that does not is given the whole time of an activation to show the version.
        """
        marks = next((self._detail(step).get("marks") for step in waiting if self._detail(step).get("marks")), {})
        marked = marks.get(MARK_OF.get(activation)) is not None
        needed = min(MARK_S, self._limits.activate) if marked else self._limits.activate
        seconds = max(self._limits.settle, needed - age)
        limit = Deadline(seconds, "a sign of the reset", clock=self._clock, sleep=self._sleep)
        while True:
            if self._was_reset(waiting) or self._wait_running(waiting, 0):
                return True
            if limit.expired():
                return False
            if not marked:
                self._tell(f"whether the {activation} was sent nobody knows; its effect is awaited")
                marked = True
            self._sleep(self._limits.poll)

    @staticmethod
    def _least(activation, waiting):
        """The least reset that activates what is left of a round: an image that had to be sent again needs no second AC cycle for its own reboot."""
        kinds = {step.activation for step in waiting}
        fit = [kind for kind, row in ACTIVATIONS.items() if kinds <= {kind, *row["covers"]}]
        return min(fit, key=lambda kind: ACTIVATIONS[kind]["cost"], default=activation)

    def _was_reset(self, waiting):
        """Whether the server shows a restart since the marks that were taken before the reset. A BMC without such marks cannot say: then no."""
        now = self._patiently(self._port.marks, self._limits.ready, "the state of the server")
        marks = next((self._detail(step).get("marks") for step in waiting if self._detail(step).get("marks")), {})
        # that of a host which was never restarted comes with its first restart
        return any(now.get(name) != value for name, value in marks.items() if value is not None or name == "host")

    def _await_others(self, waiting, activation, reason):
        next_step = f"do the {activation}, then run again: the versions are read back"
        for step in waiting:
            if self._state(step) != "awaiting_activation":
                self._move(step, "awaiting_activation", reason=reason, activation=activation, next_step=next_step)
        raise _Stop(
            "awaiting_activation",
            "awaiting_activation",
            f"{', '.join(step.component for step in waiting)}: {activation} is needed and waits: {reason}",
            next_step,
        )

    def _no_effect(self, activation, waiting):
        """The reset was done and versions are still old. An image that nobody saw arrive is sent again; a staged one that did nothing is a failure."""
        again = []
        for step in waiting:
            if self._state(step) == "active":
                continue
            if self._detail(step).get("assumed") and self._records[step.number]["pushes"] < MOST_PUSHES:
                self._move(
                    step,
                    "planned",
                    assumed=None,
                    final=None,
                    note="after the reset the old version runs: the image had not arrived",
                )
                again.append(step)
                continue
            self._park(
                step,
                "failed",
                "no_effect",
                f"the {activation} was done and the old version runs: {self._seen(self._rows(step))}",
                "look at the BMC's log; run again with retry",
            )


def consent_refused(plan, serial, consent):
    """None, or the Refused for a plan that may brick something without a person's word for exactly this serial number."""
    if not plan.consent_needed or str(serial) in [str(item) for item in consent or ()]:
        return None
    return Refused(
        "a failed flash of these components may need hands on the server; that wants consent for this serial number",
        thing=", ".join(plan.consent_needed),
        wanted=f"consent: [{serial}] (in the playbook: firmware_baseline_consent)",
        seen=", ".join(str(item) for item in consent or ()) or "no consent",
        next_step=f"check that {serial} is the server that you mean, then give its serial number as consent",
        code="consent_needed",
    )
