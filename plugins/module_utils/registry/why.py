# Why is this node not in service: one ordered list of plain sentences from what the registry knows.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core.outcome import COULD_NOT_TEST, FAIL, gates
from ..core.units import format_count, format_seconds, format_time
from . import audit, nodes, transitions
from . import tables as t
from .attempts import alive, owner_of
from .engine import seconds_between
from .firmware import STOPPED, Firmware, next_step_of
from .records import needs_resume, release_command, resume_command

try:
    import sqlalchemy as sa
except ImportError:  # reported by open_registry
    sa = None


# The check by which discovery tells whether the BMC lets it in: of use in every state, because every stage up to the first boot needs the BMC.
ACCESS_CHECK = "bmc_access"
# States in which somebody may have begun an update by hand (bmc_firmware); the reason why it stopped is shown beside the state.
PARKED_BESIDE = ("registered", "manageable", "available", "servicing")
# States whose next stage cannot even begin without the BMC: there a lost BMC is what keeps the node out, before the state itself.
NEEDS_BMC = ("registered", "verifying", "manageable", "inspecting", "updating", "available")


def sentence_of_evidence(item):
    """One evidence row of the table as words: check, what was seen, what was allowed, and whether an instrument was simulated."""
    value, limit = nodes.loads(item["value"]), nodes.loads(item["limit_value"])
    detail = nodes.loads(item["detail"])
    words = [f"{item['check_name']}: {item['outcome'].replace('_', ' ')}"]
    if value is not None:
        words.append(f"seen {format_count(value, item['unit'])}")
    if limit is not None:
        words.append(f"allowed {format_count(limit, item['unit'])}")
    if isinstance(detail, str):
        words.append(detail)
    elif isinstance(detail, dict) and detail:
        words.append(", ".join(f"{key} {value}" for key, value in sorted(detail.items()) if key != "next_step"))
    if not gates(item):
        words.append("does not gate")
    words = [word for word in words if word]
    return "; ".join(words) + (" (simulated instrument)" if item["simulated"] else "")


NEEDS_NO_LEASE = {
    state for stage in transitions.STAGES.values() if "no_lease" in stage["needs"] for state in stage["start"]
}


class Why:
    """Mixed into Registry; `self._db` is the Database."""

    def why(self, node, now=None):
        """[{order, code, text, since, next_step}]: what keeps the node out of service, the first thing first; empty when it is in service.

        Order: what ends everything (retired), what people decided (maintenance, holds), what went wrong (failed or quarantined, with the last failing
        evidence), a BMC that lets nobody in where the next stage needs it, what is under way or waits (state, attempt, deadline), what is missing though the
        state is active (lease), and a lost BMC where only later work needs it.
        `now` (a registry time) is for what is written down and read later: the answer as of then, with points in time instead of ages. A report of one state
        of the registry stays the same however late it is written.
        """
        with self._db.read() as connection:
            written = now is not None
            now = now or self._db.now(connection)
            row = nodes.find(connection, node)
            entries = []

            def add(code, text, since=None, next_step=None):
                entries.append(
                    {"order": len(entries) + 1, "code": code, "text": text, "since": since, "next_step": next_step}
                )

            state, since = row["state"], row["state_since"]
            age = (
                f"since {format_time(since)}"
                if written
                else f"for {format_seconds(max(0.0, seconds_between(since, now)))}"
            )
            if state == "retired":
                add("retired", f"{row['name']} is retired.", since, transitions.next_step("retired", row["name"]))
                return entries
            if row["maintenance"]:
                end = f"ansible {row['name']} -m aicluster.baremetal.node -a 'serial={row['serial']} maintenance=false'"
                text = f": {row['maintenance_reason']}" if row["maintenance_reason"] else ""
                add("maintenance", f"It is in maintenance{text}.", None, end)
            statement = (
                sa.select(t.holds)
                .where(t.holds.c.serial == row["serial"], t.holds.c.released.is_(None))
                .order_by(t.holds.c.id)
            )
            for hold in connection.execute(statement).mappings():
                kind = "automation" if hold["automation"] else "a person"
                release = resume_command if needs_resume(connection, row, hold) else release_command
                add(
                    "hold",
                    f"It is held by {hold['owner']} ({kind}, {hold['actor']}): {hold['reason']}; until {hold['exit_condition']}.",
                    hold["since"],
                    f"when that holds: {release(row['name'], hold['owner'])}",
                )
            last = (
                connection.execute(
                    sa.select(t.attempts)
                    .where(t.attempts.c.serial == row["serial"])
                    .order_by(t.attempts.c.id.desc())
                    .limit(1)
                )
                .mappings()
                .one_or_none()
            )
            if state in transitions.FAILED_STATES or state == "quarantined":
                self._add_failure(connection, add, row, last, age)
                self._add_firmware(connection, add, row)
                self._add_evidence(connection, add, row["serial"])
                return entries
            if state in NEEDS_BMC:
                self._add_evidence(connection, add, row["serial"], ACCESS_CHECK)
            if last is not None and last["ended"] is None and last["id"] == row["attempt"]:
                # what it waits for is more to the point than that its controller is gone
                if last["stage"] == "firmware":
                    self._add_firmware(connection, add, row)
                self._add_under_way(add, row, last, now, written)
            elif state != transitions.IN_SERVICE:
                if row["lease"] in transitions.SCHEDULER_LEASES and state in NEEDS_NO_LEASE:
                    text, step = nodes.leased_to(row["lease"])
                    add("leased", f"No stage takes it: {text}.", row["lease_since"], step)
                meaning = transitions.STATES.get(state, "")
                add(
                    f"state_{state}",
                    f"It has been {state} {age}. {meaning}",
                    since,
                    transitions.next_step(state, row["name"]),
                )
            elif row["lease"] not in transitions.SCHEDULER_LEASES:
                whom = f"leased to {row['lease']}" if row["lease"] else "leased to nobody"
                add(
                    "no_lease",
                    f"It is active, but {whom}, so no scheduler gives it work.",
                    row["lease_since"] or since,
                    transitions.step_without_lease(row["name"]),
                )
            if state in PARKED_BESIDE:
                self._add_firmware(connection, add, row)
            if state in ("suspect", "servicing"):
                self._add_evidence(connection, add, row["serial"])
            elif state not in NEEDS_BMC and entries:
                self._add_evidence(connection, add, row["serial"], ACCESS_CHECK)
            return entries

    def firmware_left(self, node):
        """[{code, text, since, next_step}]: an update of the node that stopped and was not taken up again, also where it keeps nobody out of service."""
        entries = []

        def add(code, text, since=None, next_step=None):
            entries.append({"code": code, "text": text, "since": since, "next_step": next_step})

        with self._db.read() as connection:
            self._add_firmware(connection, add, nodes.find(connection, node))
        return entries

    @staticmethod
    def _add_failure(connection, add, row, last, age):
        state = row["state"]
        text = f"It has been {state} {age}"
        # One transaction ends an attempt and sets the state that follows: the same time. Any other attempt is not what led here.
        if last is not None and last["ended"] == row["state_since"]:
            text += f": attempt {last['id']} at stage {last['stage']} ended with: {last['reason'] or last['outcome']}"
            if last["last_step"]:
                text += f" (last step: {last['last_step']})"
        elif state not in ("verifying_failed", "inspecting_failed"):  # there the evidence says it, and stays up to date
            statement = (
                sa.select(t.audit.c.detail, t.audit.c.actor)
                .where(t.audit.c.serial == row["serial"], t.audit.c.action == audit.STATE_ACTION)
                .order_by(t.audit.c.seq.desc())
                .limit(1)
            )
            found = connection.execute(statement).mappings().one_or_none()
            reason = (nodes.loads(found["detail"]) or {}).get("reason") if found else None
            if reason:
                text += f": set by {found['actor']}: {reason}"
        add(state, text + ".", row["state_since"], transitions.next_step(state, row["name"]))

    @staticmethod
    def _add_firmware(connection, add, row):
        """A firmware update that stopped: at which step, why, and what is to be done. It may have been begun outside of the stage (bmc_firmware)."""
        statement = sa.select(t.firmware_plans).where(
            t.firmware_plans.c.serial == row["serial"],
            t.firmware_plans.c.ended.is_(None),
            t.firmware_plans.c.reason.is_not(None),
        )
        plan = connection.execute(statement).mappings().one_or_none()
        if plan is None:
            return
        records = Firmware._steps(connection, plan["id"])
        stopped = [step for step in records if step["state"] in STOPPED]
        done = sum(step["state"] == "active" for step in records)
        parked = plan["state"] == "parked"
        where = f", {stopped[0]['component']} is {stopped[0]['state'].replace('_', ' ')}" if stopped else ""
        add(
            "firmware_parked" if parked else "firmware_waits",
            f"Firmware plan {plan['id']} (baseline {plan['baseline']}) stopped after {done} of {len(records)} images{where}: {plan['reason']}.",
            plan["changed"],
            next_step_of(records)
            or (
                "remove the cause, then run the firmware playbook with firmware_retry_failed=true"
                if parked
                else "run the firmware playbook again: it goes on where it stopped"
            ),
        )

    @staticmethod
    def _add_evidence(connection, add, serial, check=None):
        # The newest result of each check is what counts: a fault that a later run cleared keeps nobody out.
        statement = sa.select(t.evidence).where(t.evidence.c.serial == serial).order_by(t.evidence.c.id)
        if check is not None:
            statement = statement.where(t.evidence.c.check_name == check)
        newest = {}
        for item in connection.execute(statement).mappings():
            newest.pop(item["check_name"], None)
            newest[item["check_name"]] = item
        # What does not gate keeps nobody out; it is said last, because it was no pass either.
        for outcome, gating in ((FAIL, True), (COULD_NOT_TEST, True), (FAIL, False), (COULD_NOT_TEST, False)):
            for item in newest.values():
                if item["outcome"] == outcome and gates(item) == gating:
                    detail = nodes.loads(item["detail"])
                    step = detail.get("next_step") if isinstance(detail, dict) else None
                    if item["check_name"] == ACCESS_CHECK and "discover again" not in str(step):
                        # The repair alone takes nothing back: only discovery sees that the BMC lets it in again.
                        step = f"{step}; then run discover again" if step else "run discover again"
                    code = f"evidence_{outcome}" if gating else "evidence_not_gating"
                    add(code, f"{sentence_of_evidence(item)}.", item["time"], step)

    def _add_under_way(self, add, row, last, now, written):
        age = format_seconds(max(0.0, seconds_between(last["started"], now)))
        age = f"since {format_time(last['started'])}" if written else f"for {age}"
        left = seconds_between(now, last["deadline"])
        owner = owner_of(last)
        text = f"Attempt {last['id']} at stage {last['stage']} has been under way {age}"
        text += f", last step: {last['last_step'] or 'none yet'}"
        who = f"process {owner.pid} on {owner.host}"
        if alive(last, now, self.stale_after) is False:
            add(
                "attempt_orphaned",
                f"{text}; its controller ({who}) is gone.",
                last["heartbeat"],
                f"run the {last['stage']} playbook again: it takes the attempt over",
            )
        elif left < 0:
            add(
                "attempt_late",
                f"{text}; its deadline was {format_time(last['deadline'])}."
                if written
                else f"{text}; it is {format_seconds(-left)} past its deadline of {format_seconds(last['deadline_s'])}.",
                last["started"],
                f"look at {who}; when it hangs, end it and run the {last['stage']} playbook again",
            )
        else:
            add(
                "attempt_under_way",
                f"{text}; its deadline is {format_time(last['deadline'])}."
                if written
                else f"{text}; {format_seconds(left)} of {format_seconds(last['deadline_s'])} are left.",
                last["started"],
                f"wait; {who} works on it",
            )
