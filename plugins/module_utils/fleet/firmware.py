# A node's firmware brought to its baseline: the plan, its record in the registry, the engine and the BMC put together. One node, or many with a rolling limit.
#
# Taken up again after a kill by calling it again: what the dead run left is in the registry, and what became of it is read from the BMC.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field

from ..bmc import operations
from ..bmc.discover import FACT_SECTIONS, facts_of, node_name, parts_of
from ..bmc.update import RedfishUpdater
from ..core.errors import BaremetalError, Conflict, FencedOut, InvalidInput, Refused, Unsupported
from ..core.outcome import COULD_NOT_TEST, FAIL, PASS
from ..firmware import planner
from ..firmware.engine import Engine, Limits, consent_refused
from ..firmware.images import Store
from ..firmware.inband import WithInband
from ..firmware.port import regressions
from ..registry.engine import seconds_between
from ..registry.firmware import IN_FLIGHT, STOPPED, as_parked, next_step_of, parking_reason, retried
from .targets import named

RULE = "firmware-baseline-1"
# States of a node in which nobody's work runs on it, so that it may be restarted.
QUIET_STATES = (
    "registered",
    "manageable",
    "updating",
    "updating_failed",
    "available",
    "servicing",
    "servicing_failed",
    "quarantined",
)
# Where a person gives consent, in the words of the module and of the playbook.
CONSENT_BY = "option consent, or firmware_baseline_consent in the playbook"
# Codes after which the plan stays as it is: not the node's fault and not the plan's, the next run goes on.
GO_ON_CODES = ("bmc_lost", "bmc_busy", "awaiting_activation")


@dataclass
class Options:
    """What a run is asked for. `limits`: engine.Limits; `publish`: serve.ImageServer.publish or None.

    `inband`: (run, copy) for tools on the node itself (see firmware.inband), or None: then only what the BMC can do is looked at.
    `consent`: serial numbers; `partial`: begin although some components cannot be planned; `siblings`: names of the nodes in the same chassis, which lose their
    power with this one's shared components.
    """

    components: list = None
    downgrade: bool = False
    consent: list = field(default_factory=list)
    retry: bool = False
    partial: bool = False
    in_service: bool = False
    restore_power: bool = True
    limits: Limits = field(default_factory=Limits)
    publish: object = None
    inband: object = None
    siblings: list = field(default_factory=list)


# One writer at a time in this process: SQLite wakes waiting writers in no order, and on a slow disk some would wait until they give up.
_WRITING = threading.Lock()
LOCKED_S = 600.0
# The firmware list alone takes minutes on some servers.
RECORD_S = 900.0


def written(call, *arguments, **named):
    """Call a registry method that writes, patiently: a busy database must not end the update of a node in the middle."""
    end = time.monotonic() + LOCKED_S
    while True:
        try:
            with _WRITING:
                return call(*arguments, **named)
        except Conflict as error:
            busy = str(error.thing or "").startswith("registry") and error.code == "conflict"
            if not busy or time.monotonic() > end:
                raise
        time.sleep(1.0)


class RegistryJournal:
    """engine's journal, kept in the registry under one claim."""

    def __init__(self, registry, plan, claim, actor):
        self._registry, self._plan, self._claim, self._actor = registry, plan, claim, actor
        self._steps = None

    def steps(self):
        return self._steps

    def start(self, row):
        now = self._registry.now()
        self._steps = [{**step, "age_s": max(0.0, seconds_between(step["changed"], now))} for step in row["steps"]]

    def move(self, number, expected, new, detail=None, pushed=False, reset=False):
        written(
            self._registry.set_firmware_step,
            self._plan,
            self._claim,
            number,
            expected,
            new,
            detail,
            pushed,
            reset,
            self._actor,
        )

    def check(self):
        self._registry.check_firmware_claim(self._plan, self._claim)


def update(
    endpoint,
    registry,
    node,
    baseline,
    options=None,
    *,
    images=None,
    actor="",
    fence=None,
    attempt=None,
    check=False,
    tell=None,
    owner=None,
    begin=None,
):
    """Bring one node to its baseline; returns a result dict (changed, state, plan, diff, steps, msg, ...), `failed` with `error` where it is not there.

    `fence` is called before each write, beside the plan's own claim. `attempt`: (id, fencing number) for steps and evidence. With `check` nothing is written.
    `begin()` is called when something is going to be sent, and returns the attempt to do it in.
    """
    options, images = options or Options(), images or Store()
    if endpoint.protocol != "redfish":
        raise Unsupported(
            "firmware by plan needs Redfish",
            host=endpoint.label,
            thing="bmc_protocol",
            wanted="redfish",
            seen=endpoint.protocol,
            next_step="update this server in-band or by the vendor's own tool",
        )
    row = registry.node(node)
    return _Run(
        endpoint, registry, row, baseline, options, images, actor, fence, attempt, check, tell, owner, begin
    ).run()


class _Run:
    def __init__(
        self, endpoint, registry, row, baseline, options, images, actor, fence, attempt, check, tell, owner, begin
    ):
        self.endpoint, self.registry, self.row, self.baseline = endpoint, registry, row, baseline
        self.options, self.images, self.actor, self.fence = options, images, actor, fence
        self.attempt, self.check, self.tell, self.owner = attempt or (None, None), check, tell, owner
        self.begin = begin
        self.node, self.journal, self.bmc = row["serial"], None, None
        self.was_parked = False
        self.owned = None  # check mode: why a real run could not take the plan up

    def run(self):
        with RedfishUpdater(self.endpoint, self._before_write, self.options.publish) as port:
            self.bmc = port
            self._right_server(port)
            port = self._with_tools(port)
            result, resumed = self._once(port)
            if not resumed or result.get("failed"):
                return result
            # That was the plan of an earlier run. What this one is asked for may be more: another baseline, other components.
            self.journal = None
            further, _resumed = self._once(port)
            if not further["changed"] and not further.get("failed"):
                return result
            notes = [*result["notes"], f"firmware plan {resumed} of an earlier run was brought to its end first"]
            return {**further, "changed": True, "notes": [*notes, *further.get("notes", ())]}

    def _once(self, port):
        """(result, number of the firmware plan of an earlier run that was carried out, or None)."""
        plan, row, under_way = self._plan(port)
        if isinstance(plan, dict):
            return plan, None  # parked: nothing to do until a person says so
        result = self._result(plan)
        if not plan.changed:
            return self._unchanged(plan, result, port), None
        refused = self._refused(plan, under_way)
        if not under_way:
            refused = refused or self._no_way(plan, port) or self._no_image(plan)
        if self.check:
            if under_way:
                self._resumed(plan, row, port, result)
            return self._foretold(plan, under_way, refused, result), None
        if refused:
            return {**result, "changed": False, **refused.with_host(self.row["name"]).as_result()}, None
        if self.begin:
            self.attempt = self.begin()
        if row is None:
            row = self._save(plan, port)
        elif self.was_parked:
            row = self._retry(row)
        return self._carry_out(plan, row, port, result), row["id"] if under_way else None

    def _before_write(self):
        if self.journal is not None:
            self.journal.check()
        if self.fence:
            self.fence()
        if self.begin and self.attempt[1] is not None:
            self.registry.check_fence(self.node, self.attempt[1])

    def _right_server(self, port):
        seen = port.identity()
        platform = self.row.get("platform")
        if platform not in self.baseline.platforms and platform == node_name(seen["model"] or ""):
            # Discovery called it after its model: that is no person's word, and the baseline's patterns decide.
            platform = None
        self.facts = {**seen, "platform": platform}
        if seen["serial"] and seen["serial"] != self.node:
            raise Refused(
                "the BMC belongs to another server than the registry says",
                host=self.row["name"],
                thing="serial number",
                wanted=self.node,
                seen=seen["serial"],
                next_step="run the discover playbook; nothing was sent",
                code="wrong_server",
            )

    def _with_tools(self, port):
        """The port that also reaches the node's own tools, where they are asked for and the baseline has something for them."""
        read = self.registry.firmware_plan(self.node)
        paths = {step["path"] for step in read["plan"]["steps"]} if read else set()
        if self.options.inband:
            paths |= {component.path for component in self.baseline.platform_for(self.facts).components.values()}
        paths -= {"bmc"}
        if not paths:
            return port
        if not self.options.inband:
            raise Refused(
                "an update by tools on the node is under way, and this run is not to use them",
                host=self.row["name"],
                thing=f"firmware plan {read['id']}",
                wanted="in_band: true",
                seen=", ".join(sorted(paths)),
                next_step="run bmc_firmware for this node with in_band",
                code="needs_in_band",
            )
        return WithInband(port, *self.options.inband, sorted(paths))

    # ---- which plan -----------------------------------------------------------------------------------------------------------------------
    def _plan(self, port):
        """(FirmwarePlan, its row in the registry or None for a new one, whether images are in flight); or (result, ...) for a parked one.

        What `retry` makes of a parked plan is only looked at here; the registry hears of it when nothing refuses the run (`_retry`, `_save`).
        """
        read = self._taken_up()
        self.was_parked = bool(read) and read["state"] == "parked"
        if self.was_parked and not self.options.retry:
            return self._parked(read), read, False
        read = retried(read) if read else None
        busy = bool(read) and any(step["state"] in IN_FLIGHT for step in read["steps"])
        # One of which only the end is missing is ended as well: power as before, health compared.
        busy = busy or (bool(read) and all(step["state"] == "active" for step in read["steps"]))
        if busy:
            # What is in flight is brought to its end by the plan that sent it, whatever the baseline says by now.
            return planner.FirmwarePlan.from_dict(read["plan"]), read, True
        platform = self.baseline.platform_for(self.facts)
        only = self.options.components or None
        elsewhere = [c.name for c in platform.components.values() if c.path != "bmc"] if not self.options.inband else []
        if elsewhere:
            only = [name for name in (only or platform.components) if name not in elsewhere]
        plan = planner.plan_once(self.baseline, platform, port.inventory(), self.options.downgrade, only)
        for name in elsewhere:
            if not self.options.components or name in self.options.components:
                text = "is done by a tool on the node: run bmc_firmware with in_band"
                plan.skipped.append(planner.Skipped(name, "in_band", text, None, platform.components[name].wanted))
        if read and not self.check and not plan.changed and not self._incomplete(plan):
            written(self.registry.end_firmware_plan, read["id"], read["claim"], "done", "nothing is left to do")
        return plan, None, False

    def _taken_up(self):
        """The node's plan, claimed; a parked one as it is. In check mode what a claim would give."""
        claim = self.registry.claim_firmware_plan
        if not self.check:
            return written(claim, self.node, self.actor, self.owner)
        try:
            return claim(self.node, self.actor, self.owner, check=True)
        except Conflict as error:
            if error.code != "plan_claimed":
                raise
            self.owned = error
        read = self.registry.firmware_plan(self.node)
        return as_parked(read) if read else None

    def _retry(self, row):
        """Take up the parked plan: nothing refused the run."""
        taken = written(self.registry.claim_firmware_plan, self.node, self.actor, self.owner, True)
        if taken is None or taken["id"] != row["id"]:
            raise Conflict(
                "the firmware plan of this node ended while it was looked at",
                host=self.row["name"],
                thing=f"firmware plan {row['id']}",
                seen=f"firmware plan {taken['id']}" if taken else "no plan",
                next_step="run again; nothing was sent",
                code="plan_changed",
            )
        return taken

    def _parked(self, row):
        plan = planner.FirmwarePlan.from_dict(row["plan"])
        error = BaremetalError(
            "an earlier firmware update of this node stopped and waits for a person",
            host=self.row["name"],
            thing=f"firmware plan {row['id']}",
            seen=row["reason"] or parking_reason(row["steps"]),
            next_step=next_step_of(row["steps"])
            or "remove the cause, then run again with retry (firmware_retry_failed=true in the playbook)",
            code="parked",
        )
        return {**self._result(plan, row["steps"]), "changed": False, "state": "parked", **error.as_result()}

    def _refused(self, plan, under_way):
        """The reason why this plan must not begin, or None. What is in flight already is not stopped half way."""
        if self.owned:
            return self.owned
        if self.row["state"] not in QUIET_STATES and not self.options.in_service:
            return Refused(
                "the node may be in use, and an update restarts it",
                host=self.row["name"],
                thing="state",
                wanted=", ".join(QUIET_STATES),
                seen=self.row["state"],
                next_step="drain it and move it to servicing first",
                code="node_in_service",
            )
        if under_way:
            return None
        if self._incomplete(plan):
            return Refused(
                "not all components can be brought to the baseline, so nothing was begun",
                host=self.row["name"],
                thing=", ".join(item.component for item in plan.problems),
                wanted=f"baseline {plan.baseline}",
                seen="; ".join(item.text for item in plan.problems),
                next_step="correct the baseline, or ask for the others alone (partial: true, or components)",
                code="plan_incomplete",
            )
        return consent_refused(plan, self.node, self.options.consent)

    def _incomplete(self, plan):
        return bool(plan.problems) and not self.options.partial

    def _foretold(self, plan, under_way, refused, result):
        """The result of check mode: what a real run would refuse stands in the plan too, where people look."""
        lines = []
        if refused:
            refused.with_host(self.row["name"])
        lacking = None if under_way else consent_refused(plan, self.node, self.options.consent)
        if lacking:
            result["consent_missing"] = plan.consent_needed
            lines.append(f"{', '.join(plan.consent_needed)}: can brick, needs consent for {self.node} ({CONSENT_BY})")
        if refused and refused.code != "consent_needed":
            lines.append(f"a real run is refused: {refused}")
        result["would_refuse"] = str(refused) if refused else None
        result["plan"] = [*result["plan"], *(f"!  {line}" for line in lines)]
        result["diff"]["after"] += "".join(f"# !  {line}\n" for line in lines)
        return result

    def _resumed(self, plan, row, port, result):
        """What is left of a plan that a dead run began, into the result of check mode: with the versions as they are read now, and without what is done."""
        left = plan.left({step["number"]: step["state"] for step in row["steps"]}, port.inventory())
        done = len(plan.steps) - len(left.steps)
        head = f"resumes firmware plan {row['id']}: {done} of {len(plan.steps)} images are done"
        diff = left.diff()
        if plan.digest != self.baseline.digest:
            head += f"; then baseline {self.baseline.name} is planned anew"
        result.update(
            plan=[head, *left.lines()],
            steps=_steps(plan, row["steps"]),
            resets=left.resets,
            components=left.components,
            diff={**diff, "after": f"# {head}\n{diff['after']}"},
            msg=f"{left.summary()}; {head}",
        )

    @staticmethod
    def _no_way(plan, port):
        """The reason why an image of this plan cannot be sent at all, or None: said before anything is begun, and in check mode."""
        asked = set()
        for step in plan.steps:
            kind = (step.path, step.method, bool(step.image.get("url")))
            if kind in asked:
                continue
            asked.add(kind)
            try:
                port.method(step)
            except Unsupported as refused:
                return refused
        return None

    def _no_image(self, plan):
        """What is wrong with an image file of this plan, or None. Before the node is taken: it is no fault of the node's, and must not be found out in the
        middle. Check mode looks too, but fetches nothing.
        """
        for step in plan.steps:
            fetch = bool(self.images.cache) and not self.check and step.path == "bmc"
            try:
                self.images.get(step.image, fetch=fetch or not step.image.get("url"))
            except BaremetalError as error:
                return error
        return None

    def _save(self, plan, port):
        before = {"health": port.health(), "power": port.power()}
        self._before_write()
        return written(self.registry.save_firmware_plan, self.node, plan.as_dict(), self.actor, self.owner, before)

    # ---- doing it -------------------------------------------------------------------------------------------------------------------------
    def _carry_out(self, plan, row, port, result):
        self.journal = RegistryJournal(self.registry, row["id"], row["claim"], self.actor)
        self.journal.start(row)
        limits = Limits(**{**vars(self.options.limits), "pause": plan.pause_s, "settle": plan.settle_s})
        engine = Engine(
            port, self.journal, plan, self.images, limits, may_activate=self._may_activate, tell=self._heard
        )
        outcome = engine.run()
        result.update(
            changed=True,
            state=outcome.state,
            steps=_steps(plan, outcome.steps),
            notes=outcome.notes,
            bmc_warnings=list(dict.fromkeys(port.warnings)),
        )
        if outcome.state != "active":
            return self._stopped(row, outcome, result)
        worse = self._after(row, port)
        self._refresh_record(result)
        written(self.registry.end_firmware_plan, row["id"], row["claim"], "done", "; ".join(worse) or None)
        self._evidence(plan, FAIL if plan.problems else PASS, result)
        result["msg"] = f"{plan.summary()}: done"
        result["health_worse"] = worse
        if worse:
            error = BaremetalError(
                "the firmware is as wanted, and the server is not as healthy as it was before",
                host=self.row["name"],
                thing="health",
                wanted="no part worse than before",
                seen="; ".join(worse),
                next_step="look at the BMC's log before more servers get this firmware",
                code="health_regressed",
            )
            result.update(error.as_result())
        return result

    def _may_activate(self, activation, steps):
        """A reset of something that a whole chassis shares must find its other nodes quiet, and none of them in the middle of a flash."""
        if not any(step.siblings == "chassis" for step in steps):
            return None
        for name in self.options.siblings:
            sibling = self.registry.node(name)
            if sibling["serial"] == self.node:
                continue
            if sibling["state"] not in QUIET_STATES:
                return f"{name} in the same chassis is {sibling['state']}"
            plan = self.registry.firmware_plan(name)
            busy = [
                step
                for step in (plan or {"steps": ()})["steps"]
                if step["state"] in ("pushing", "writing", "activating")
            ]
            if busy:
                return f"{name} in the same chassis is being flashed ({busy[0]['component']} {busy[0]['state']})"
        return None

    def _stopped(self, row, outcome, result):
        if outcome.code not in GO_ON_CODES:
            written(self.registry.end_firmware_plan, row["id"], row["claim"], "parked", outcome.reason)
        else:
            written(self.registry.end_firmware_plan, row["id"], row["claim"], "open", outcome.reason)
        error = BaremetalError(
            outcome.reason,
            host=self.row["name"],
            thing="firmware",
            wanted=f"baseline {row['baseline']}",
            next_step=outcome.next_step,
            code=outcome.code,
        )
        self._evidence(
            planner.FirmwarePlan.from_dict(row["plan"]), FAIL if outcome.state == "parked" else COULD_NOT_TEST, result
        )
        return {**result, **error.as_result()}

    def _after(self, row, port):
        """Put the power back as it was; returns what is worse than before."""
        before = row["health"] or {}
        if self.options.restore_power and before.get("power") in ("on", "off") and port.power() != before["power"]:
            (port.switch_on if before["power"] == "on" else port.switch_off)()
        return regressions(before.get("health"), port.health())

    def _refresh_record(self, result):
        """The node's record with its new versions, so that the next look of discovery finds nothing changed.

        A record that cannot be refreshed is no failure of the update: discovery does it, and says so.
        """
        try:
            info = operations.info(self.endpoint, FACT_SECTIONS, RECORD_S)
            self.journal.check()
            facts = {**(self.registry.node(self.node).get("facts") or {}), **facts_of(info)}
            written(self.registry.save_node, self.node, self.actor, facts=facts, parts=parts_of(info))
        except FencedOut:
            raise
        except BaremetalError as error:
            result["notes"] = [*result["notes"], f"the inventory in the registry is that of before: {error}"]

    def _heard(self, text):
        attempt, fencing = self.attempt
        # what lies between is in the plan's own record; each step here is one more write to the registry
        if attempt is not None and not text.endswith(("writing", "staged", "activating")):
            written(self.registry.step, self.node, attempt, fencing, "firmware", text)
        if self.tell:
            self.tell(f"{self.row['name']}: {text}")

    # ---- results --------------------------------------------------------------------------------------------------------------------------
    def _result(self, plan, steps=None):
        return {
            "changed": plan.changed,
            "state": "planned" if plan.changed else "active",
            "baseline": plan.baseline,
            "platform": plan.platform,
            "components": plan.components,
            "plan": plan.lines(),
            "steps": _steps(plan, steps or ()),
            "resets": plan.resets,
            "consent_needed": plan.consent_needed,
            "consent_missing": [],
            "not_planned": [
                {"component": item.component, "code": item.code, "text": item.text, "problem": item.problem}
                for item in plan.skipped
            ],
            "diff": plan.diff(),
            "msg": plan.summary(),
            "notes": [],
            "bmc_warnings": [],
        }

    def _unchanged(self, plan, result, port):
        result["bmc_warnings"] = list(dict.fromkeys(port.warnings))
        if self.owned or self._incomplete(plan):
            refused = self._refused(plan, False).with_host(self.row["name"])
            if self.check:
                return self._foretold(plan, False, refused, result)
            self._evidence(plan, FAIL, result)
            return {**result, **refused.as_result()}
        if not self.check:
            self._evidence(plan, FAIL if plan.problems else PASS, result)
        return result

    def _evidence(self, plan, outcome, result):
        """The newest word about this node's firmware. Only a change of it is written: a second run that finds everything in place leaves no trace."""
        # what runs its wanted version, by its rule; of a component that is newer, absent or not planned it is what was read
        there = {row.component for row in plan.skipped if row.code == "already_there"}
        if result["state"] == "active":
            there |= {step.component for step in plan.steps}
        item = {
            "check": "firmware_baseline",
            "outcome": outcome,
            "value": {
                name: row["wanted"] if name in there else row["running"] for name, row in plan.components.items()
            },
            "limit": plan.baseline,
            "rule": RULE,
            "source": "bmc",
            "simulated": self.bmc.simulated,
            "detail": None
            if outcome == PASS
            else {"state": result["state"], "problems": [row.component for row in plan.problems]},
        }
        have = [row for row in self.registry.evidence(self.node) if row["check"] == item["check"]]
        if have and all(have[-1][key] == item[key] for key in ("outcome", "value", "limit")) and not result["changed"]:
            return
        written(self.registry.record_evidence, self.node, self.attempt[0], [item], self.actor)


def _steps(plan, records):
    """The steps of a plan with what became of them, for people and for programs."""
    by_number = {record["number"]: record for record in records}
    found = []
    for step in plan.steps:
        record = by_number.get(step.number, {})
        detail = record.get("detail") or {}
        found.append(
            {
                "number": step.number,
                "round": step.round,
                "component": step.component,
                "from_version": step.from_version,
                "to_version": step.to_version,
                "activation": plan.activations[step.round - 1],
                "image": step.image_name,
                "state": record.get("state", "planned"),
                "pushes": record.get("pushes", 0),
                "method": detail.get("method"),
                # a step that was taken up again still has the reason of its first end in its record
                "reason": detail.get("reason") if record.get("state") in STOPPED else None,
            }
        )
    return found


class NotTaken(BaremetalError):
    """The stage does not take this node now; nothing is wrong with it."""

    code = "not_taken"


def update_in_stage(
    endpoint, registry, node, baseline, options, *, states=("available",), actor="", check=False, **more
):
    """`update` as the stage firmware: the node is taken only when there is something to send, and given back with what came of it.

    Nodes in another state than `states` are left alone (`skipped`), but for those that a dead controller left behind, and failed ones with `retry`.
    """
    state = registry.node(node)["state"]
    taken = {}

    def begin():
        begun = written(registry.begin, node, "firmware", more.get("owner"), actor=actor, retry_failed=options.retry)
        if not begun.selected:
            raise NotTaken(begun.reason, host=str(node), thing="stage firmware")
        taken["attempt"] = (begun.attempt, begun.fencing)
        return taken["attempt"]

    if state not in {*states, "updating", *(("updating_failed",) if options.retry else ())}:
        return left_alone(f"its state is {state}")
    if state in ("updating", "updating_failed") and not check:
        # left behind: it is ours to end, also where nothing is left to send
        try:
            begin()
        except NotTaken as error:
            return left_alone(error.message)
        more["attempt"] = taken["attempt"]
    elif check:
        look = registry.begin(node, "firmware", actor=actor, retry_failed=options.retry, check=True)
        if not look.selected:
            return left_alone(look.reason)
    try:
        result = update(
            endpoint,
            registry,
            node,
            baseline,
            options,
            actor=actor,
            check=check,
            begin=(lambda: taken.get("attempt") or begin()),
            **more,
        )
    except NotTaken as error:
        return left_alone(error.message)
    except BaremetalError as error:
        result = error.with_host(str(node)).as_result()
    if "attempt" in taken:
        _give_back(registry, node, taken["attempt"], result, actor)
    return result


def left_alone(reason):
    """The result for a node that the stage does not touch."""
    return {"changed": False, "skipped": True, "state": "left_alone", "msg": reason}


def _give_back(registry, node, attempt, result, actor):
    """End the attempt. One that somebody else took over is not ours to end; one that waits or lost its BMC stays open for the next run."""
    code = (result.get("error") or {}).get("code")
    if code == "fenced_out" or code in GO_ON_CODES:
        return
    if result.get("failed"):
        written(registry.finish, node, *attempt, FAIL, actor, reason=str(result.get("msg"))[:500])
    else:
        written(registry.finish, node, *attempt, PASS, actor)


def may_want_consent(baseline, components=None):
    """Whether any plan of this baseline can have a step that wants consent: where none can, no node need be asked for that."""
    return any(
        component.can_brick and component.path == "bmc" and (not components or name in components)
        for platform in baseline.platforms.values()
        for name, component in platform.components.items()
    )


def consent_incomplete(missing, given=()):
    """The Refused for a rollout in which nobody consented for some nodes. `missing`: {node: (serial, components)}; `given`: the serials with consent."""
    nodes = list(missing)
    serials = [serial for serial, _components in missing.values()]
    components = sorted({name for _serial, names in missing.values() for name in names})
    return Refused(
        f"consent is missing for {len(nodes)} of the nodes, so nothing was sent to any node: a failed flash of "
        f"{', '.join(components)} may need hands on the server",
        host=named(nodes),
        thing="consent",
        wanted=f"the serial numbers of these servers in consent ({CONSENT_BY}): {named(serials)}",
        seen=f"consent for {len(given)} serial numbers" if given else "no consent",
        next_step="look at the plans (--check --diff), check that these are the servers that you mean, and run again with "
        "their serial numbers; or without these nodes (-l), or without these components",
        code="consent_needed",
    )


# ---- many nodes ---------------------------------------------------------------------------------------------------------------------------------
def parse_limit(text):
    """(number, is a percentage) of "4" or "10%"; InvalidInput for anything else."""
    value = str(text).strip()
    percent = value.endswith("%")
    try:
        number = float(value[:-1]) if percent else int(value)
    except ValueError:
        number = 0
    if not 0 < number <= (100 if percent else math.inf):
        raise InvalidInput(
            "such a limit makes no sense",
            thing="limit",
            wanted='a number of nodes from 1 ("4"), or a share of the group above 0 and up to 100 % ("10%")',
            seen=text,
            next_step="correct it",
        )
    return number, percent


def limit_of(text, size):
    """How many of a group of `size` nodes may be under way at once; at least one, or nothing would ever be done."""
    number, percent = parse_limit(text)
    return max(1, math.floor(size * number / 100.0)) if percent else int(number)


def group_limits(groups, text):
    """{group: how many at once} for {node: group}."""
    sizes = {}
    for group in groups.values():
        sizes[group] = sizes.get(group, 0) + 1
    return {group: limit_of(text, size) for group, size in sizes.items()}
