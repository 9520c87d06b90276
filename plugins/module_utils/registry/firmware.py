# Firmware plans: what is to be flashed on a node, and how far each image is. Written before and after every push, so that a dead controller's rest is known.
#
# One open plan a node. Who works on it holds its `claim`, a number that grows with every taking over; each change names it, so that a controller that was
# thought dead cannot write over its successor's record. The order of states of a step is in STEP_STATES.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core import errors, process
from ..core.units import format_seconds
from . import audit, nodes
from . import tables as t
from .engine import seconds_between

try:
    import sqlalchemy as sa
except ImportError:  # reported by open_registry
    sa = None

STEP_STATES = {
    "planned": "Nothing was sent.",
    "pushing": "The image is about to be sent, or was sent and nobody wrote down the answer.",
    "writing": "The BMC took the image and works on it (its task is known).",
    "staged": "The image is written and waits for the reset of its round.",
    "activating": "The reset of its round is about to be sent, or was sent.",
    "awaiting_activation": "The reset must be done by somebody else (mains power, a sibling that is not ready).",
    "active": "The component was read back with the wanted version.",
    "failed": "The BMC said no, or the version is the old one after the reset.",
    "unknown": "Nobody can tell whether the image arrived; a person has to look.",
}
# open: not all steps are active yet. The others have ended, but parked ones can be taken up again.
PLAN_STATES = ("open", "parked", "done", "superseded")
# steps that go on only when somebody has done something
STOPPED = ("failed", "unknown", "awaiting_activation")
# steps that make their plan a parked one: nothing of it goes on before a person says so
PARKING = ("failed", "unknown")
IN_FLIGHT = ("pushing", "writing", "staged", "activating", "awaiting_activation")
# What a person's word (retry) makes of steps that park their plan: what failed is done again, what nobody knows is looked at again.
RETRIED = {"failed": "planned", "unknown": "pushing"}
SILENT_S = 3600.0


class Firmware:
    """Mixed into Registry; `self._db` is the Database."""

    def firmware_plan(self, node):
        """The open or parked plan of a node with its steps, or None."""
        with self._db.read() as connection:
            row = nodes.find(connection, node)
            found = self._open_plan(connection, row["serial"])
            return self._plan_out(connection, found) if found else None

    def firmware_plans(self, node):
        """All plans of a node with their steps, oldest first."""
        with self._db.read() as connection:
            serial = nodes.find(connection, node)["serial"]
            statement = sa.select(t.firmware_plans).where(t.firmware_plans.c.serial == serial)
            rows = connection.execute(statement.order_by(t.firmware_plans.c.id)).mappings()
            return [self._plan_out(connection, row) for row in rows]

    def save_firmware_plan(self, node, plan, actor, owner=None, health=None):
        """Store a plan (FirmwarePlan.as_dict) as the node's open one, claimed by `owner`; returns it. An older open plan must have nothing in flight."""
        owner = owner or process.this_controller()

        def work(connection):
            now = self._db.now(connection)
            row = nodes.find(connection, node, lock=True)
            older = self._open_plan(connection, row["serial"])
            if older:
                busy = [
                    step
                    for step in self._steps(connection, older["id"])
                    if step["state"] in IN_FLIGHT or step["state"] == "unknown"
                ]
                if busy:
                    raise errors.Conflict(
                        "an older firmware plan has images under way",
                        host=row["name"],
                        thing=f"firmware plan {older['id']}",
                        seen=", ".join(f"{step['component']} {step['state']}" for step in busy),
                        next_step="let it end first: run the firmware playbook again",
                        code="plan_in_flight",
                    )
                self._end(connection, now, older["id"], "superseded", "a newer plan took its place")
            number = connection.execute(
                t.firmware_plans.insert().values(
                    serial=row["serial"],
                    baseline=plan["baseline"],
                    digest=plan["digest"],
                    plan=nodes.dumps(plan),
                    state="open",
                    claim=1,
                    health=nodes.dumps(health),
                    actor=str(actor),
                    created=now,
                    changed=now,
                    **_owner_columns(owner),
                )
            ).inserted_primary_key[0]
            for step in plan["steps"]:
                connection.execute(
                    t.firmware_steps.insert().values(
                        plan=number,
                        number=step["number"],
                        component=step["component"],
                        from_version=step["from_version"],
                        to_version=step["to_version"],
                        state="planned",
                        pushes=0,
                        resets=0,
                        changed=now,
                    )
                )
            detail = {
                "plan": number,
                "baseline": plan["baseline"],
                "steps": [
                    f"{step['component']} {step['from_version']} -> {step['to_version']}" for step in plan["steps"]
                ],
            }
            audit.append(connection, now, actor, row["serial"], "firmware_plan", detail)
            return self._plan_out(connection, self._plan_row(connection, number))

        return self._db.write(work)

    def claim_firmware_plan(self, node, actor, owner=None, retry=False, check=False):
        """Take up the node's open plan: its dict with a new `claim`. None where there is none; Conflict while its owner lives.

        A parked plan is taken up only with `retry`: then its steps become what `retried` says. A plan with such a step is parked, also when its controller
        died before it wrote that down. With `check` nothing is written: the dict is what a real claim would give, but for the number of the claim.
        """
        owner = owner or process.this_controller()

        def work(connection):
            now = self._db.now(connection)
            row = nodes.find(connection, node, lock=not check)
            found = self._open_plan(connection, row["serial"])
            if found is None:
                return None
            before = process.Owner(
                found["owner_host"], found["owner_boot_id"], found["owner_pid"], found["owner_started"]
            )
            if found["state"] == "open" and before != owner:
                quiet = seconds_between(found["changed"], now)
                living = process.is_alive(before)
                if living or (living is None and quiet < SILENT_S):
                    raise errors.Conflict(
                        "another controller works on the firmware of this node",
                        host=row["name"],
                        thing=f"firmware plan {found['id']}",
                        seen=f"process {before.pid} on {before.host}, last heard {format_seconds(max(0.0, quiet))} ago",
                        next_step="wait for it to end",
                        code="plan_claimed",
                    )
            parked = found["state"] == "parked"
            plan = as_parked(self._plan_out(connection, found))
            taken = retried(plan) if retry else plan
            if check:
                return taken
            if taken["state"] == "parked":
                if not parked:
                    self._end(connection, now, found["id"], "parked", plan["reason"])
                return self._plan_out(connection, self._plan_row(connection, found["id"]))
            for old, new in zip(plan["steps"], taken["steps"]):
                if old["state"] != new["state"]:
                    connection.execute(
                        t.firmware_steps.update()
                        .where(t.firmware_steps.c.plan == found["id"], t.firmware_steps.c.number == old["number"])
                        .values(state=new["state"], changed=now)
                    )
            connection.execute(
                t.firmware_plans.update()
                .where(t.firmware_plans.c.id == found["id"])
                .values(claim=found["claim"] + 1, state="open", reason=None, changed=now, **_owner_columns(owner))
            )
            if before != owner or parked:
                audit.append(connection, now, actor, row["serial"], "firmware_taken_up", {"plan": found["id"]})
            return self._plan_out(connection, self._plan_row(connection, found["id"]))

        if check:
            with self._db.read() as connection:
                return work(connection)
        return self._db.write(work)

    def check_firmware_claim(self, plan, claim):
        """Raise FencedOut unless `claim` is the plan's newest and it is open. Call it immediately before each write to the BMC."""
        with self._db.read() as connection:
            self._claimed(connection, plan, claim)

    def set_firmware_step(self, plan, claim, number, expected, new, detail=None, pushed=False, reset=False, actor=None):
        """Move one step from the state `expected` to `new` (compare and swap); keys of `detail` are added to what is stored, None removes one.

        `pushed`, `reset`: count one. What goes to the world (pushing, activating) and what ends a step is in the audit chain too.
        """
        if new not in STEP_STATES:
            raise errors.InvalidInput(
                "there is no such state of a firmware step", thing="state", wanted=", ".join(STEP_STATES), seen=new
            )

        def work(connection):
            now = self._db.now(connection)
            row = self._claimed(connection, plan, claim, lock=True)
            statement = sa.select(t.firmware_steps).where(
                t.firmware_steps.c.plan == plan, t.firmware_steps.c.number == number
            )
            step = connection.execute(statement).mappings().one()
            if step["state"] != expected:
                raise errors.Conflict(
                    "the firmware step is in another state",
                    host=row["serial"],
                    thing=f"firmware plan {plan}, step {number}",
                    wanted=expected,
                    seen=step["state"],
                )
            stored = {**(nodes.loads(step["detail"]) or {}), **(detail or {})}
            stored = {key: value for key, value in stored.items() if value is not None}
            connection.execute(
                t.firmware_steps.update()
                .where(t.firmware_steps.c.id == step["id"])
                .values(
                    state=new,
                    detail=nodes.dumps(stored),
                    changed=now,
                    pushes=step["pushes"] + bool(pushed),
                    resets=step["resets"] + bool(reset),
                )
            )
            connection.execute(t.firmware_plans.update().where(t.firmware_plans.c.id == plan).values(changed=now))
            if new != expected and new in ("pushing", "activating", "active", "failed", "unknown"):
                words = {
                    "plan": plan,
                    "step": number,
                    "component": step["component"],
                    "version": step["to_version"],
                    "from": expected,
                }
                audit.append(connection, now, actor or row["actor"], row["serial"], f"firmware_{new}", words)
            return {**dict(step), "state": new, "detail": stored}

        return self._db.write(work)

    def end_firmware_plan(self, plan, claim, state, reason=None):
        """`done` or `superseded` ends the plan; `parked` keeps it as the node's, to be taken up again by a person's word; `open` only notes the reason."""

        def work(connection):
            now = self._db.now(connection)
            self._claimed(connection, plan, claim, lock=True)
            self._end(connection, now, plan, state, reason)

        return self._db.write(work)

    # inside

    @staticmethod
    def _open_plan(connection, serial):
        statement = sa.select(t.firmware_plans).where(
            t.firmware_plans.c.serial == serial, t.firmware_plans.c.ended.is_(None)
        )
        return connection.execute(statement).mappings().one_or_none()

    @staticmethod
    def _plan_row(connection, plan, lock=False):
        statement = sa.select(t.firmware_plans).where(t.firmware_plans.c.id == plan)
        if lock:
            statement = statement.with_for_update()
        found = connection.execute(statement).mappings().one_or_none()
        if found is None:
            raise errors.NotFound("there is no such firmware plan", thing="firmware plan", seen=plan)
        return found

    def _claimed(self, connection, plan, claim, lock=False):
        found = self._plan_row(connection, plan, lock)
        if found["ended"] is not None or found["claim"] != claim:
            raise errors.FencedOut(
                "the firmware plan has ended" if found["ended"] else "another controller took the firmware plan over",
                host=found["serial"],
                thing=f"firmware plan {plan}",
                wanted=found["claim"],
                seen=claim,
                next_step="stop: nothing more is written for this node by this run",
            )
        return found

    @staticmethod
    def _end(connection, now, plan, state, reason):
        if state not in PLAN_STATES:
            raise errors.InvalidInput(
                "there is no such state of a firmware plan", thing="state", wanted=", ".join(PLAN_STATES), seen=state
            )
        ended = now if state in ("done", "superseded") else None
        connection.execute(
            t.firmware_plans.update()
            .where(t.firmware_plans.c.id == plan)
            .values(state=state, reason=reason, ended=ended, changed=now)
        )

    @staticmethod
    def _steps(connection, plan):
        statement = sa.select(t.firmware_steps).where(t.firmware_steps.c.plan == plan)
        return [
            {
                **{key: value for key, value in row.items() if key not in ("id", "plan")},
                "detail": nodes.loads(row["detail"]) or {},
            }
            for row in connection.execute(statement.order_by(t.firmware_steps.c.number)).mappings()
        ]

    def _plan_out(self, connection, row):
        """A plan as given out: its columns without the owner, `plan` and `health` as dicts, `steps` in order with state, detail and counts."""
        out = {key: value for key, value in row.items() if not key.startswith("owner_")}
        out["plan"], out["health"] = nodes.loads(row["plan"]), nodes.loads(row["health"])
        out["steps"] = self._steps(connection, row["id"])
        return out


def as_parked(plan):
    """A plan (as given out) with the state `parked` where one of its steps makes it that, also when its controller died before it wrote that down."""
    reason = None if plan["state"] == "parked" else parking_reason(plan["steps"])
    return {**plan, "state": "parked", "reason": reason} if reason else plan


def retried(plan):
    """A parked plan as it is taken up at a person's word; any other as it is. The one definition of it, for the real run and for check mode."""
    if plan["state"] != "parked":
        return plan
    steps = [{**step, "state": RETRIED.get(step["state"], step["state"])} for step in plan["steps"]]
    return {**plan, "state": "open", "reason": None, "steps": steps}


def parking_reason(steps):
    """Why a plan with these steps waits for a person, or None."""
    for step in steps:
        if step["state"] in PARKING:
            detail = step["detail"] or {}
            return f"{step['component']} {step['from_version']} -> {step['to_version']}: {detail.get('reason') or step['state']}"
    return None


def next_step_of(steps):
    """What a person is to do, of the first step that stopped and says it; None where none does."""
    details = [step["detail"] or {} for step in steps if step["state"] in STOPPED]
    return next((detail["next_step"] for detail in details if detail.get("next_step")), None)


def _owner_columns(owner):
    return {f"owner_{key}": value for key, value in owner.as_dict().items()}
