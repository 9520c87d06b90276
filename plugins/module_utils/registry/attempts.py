# Attempts: begin, adopt, step, heartbeat, finish, and the fencing number that every external write checks.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from dataclasses import asdict, dataclass

from ..core import errors, process
from ..core.outcome import COULD_NOT_TEST, FAIL, PASS
from ..core.units import format_seconds
from . import audit, nodes, transitions
from . import tables as t
from .engine import CommitThenRaise, plus, seconds_between

try:
    import sqlalchemy as sa
except ImportError:  # reported by open_registry
    sa = None


@dataclass(frozen=True)
class Begin:
    """What begin decided. `attempt` and `fencing` are set when selected; `changed` is False when this owner already had the attempt."""

    selected: bool
    attempt: int = None
    fencing: int = None
    adopted: bool = False
    reason: str = ""
    changed: bool = False
    state: str = None
    last_step: str = None

    def as_dict(self):
        return asdict(self)


def owner_of(row):
    return process.Owner(row["owner_host"], row["owner_boot_id"], row["owner_pid"], row["owner_started"])


def _owner_columns(owner):
    return {f"owner_{key}": value for key, value in owner.as_dict().items()}


def attempt_out(row):
    """An attempt as given out: the owner is one dict."""
    out = {key: value for key, value in row.items() if not key.startswith("owner_")}
    out["owner"] = owner_of(row).as_dict()
    return out


def alive(row, now, stale_after=None):
    """True, False, or None (another machine, heartbeat still fresh) for the owner of an open attempt. `stale_after` overrides the stage's silence."""
    answer = process.is_alive(owner_of(row))
    if stale_after is None:
        stale_after = transitions.STAGES[row["stage"]]["silent_s"]
    if answer is None and seconds_between(row["heartbeat"], now) > stale_after:
        return False
    return answer


def stage_row(stage):
    try:
        return transitions.STAGES[stage]
    except KeyError:
        raise errors.InvalidInput(
            "there is no such stage", thing="stage", wanted=", ".join(transitions.STAGES), seen=stage
        ) from None


class Attempts:
    """Mixed into Registry; `self._db` is the Database."""

    stale_after = (
        None  # seconds without a heartbeat after which an owner on another machine counts as dead; None: the stage's
    )

    def begin(self, node, stage, owner=None, deadline_s=None, actor="", retry_failed=False, check=False):
        """Take the node for `stage`, or say why not; returns Begin. With check=True nothing is written (attempt and fencing are None for a new attempt).

        Compare-and-swap: of two controllers that begin at once one is selected. A working node whose owner is dead is adopted: the same attempt goes on
        under a higher fencing number, which shuts the dead owner's leftovers out. A second begin by the same owner gives the same numbers again.
        """
        row_of_stage = stage_row(stage)
        owner = owner or process.this_controller()
        seconds = float(row_of_stage["deadline_s"] if deadline_s is None else deadline_s)
        if seconds <= 0:
            raise errors.InvalidInput("a deadline must be later than now", thing="deadline", seen=seconds)

        def work(connection):
            now = self._db.now(connection)
            row = nodes.find(connection, node, lock=not check)
            kind, reason, open_row = self._decide(connection, now, row, stage, row_of_stage, owner, retry_failed)
            common = {"state": row["state"], "reason": reason}
            if kind == "refuse":
                return Begin(False, **common)
            if kind == "own":
                return Begin(True, open_row["id"], open_row["fencing"], last_step=open_row["last_step"], **common)
            adopted = kind == "adopt"
            last_step = open_row["last_step"] if adopted else None
            if check:
                return Begin(True, None, None, adopted, changed=True, last_step=last_step, **common)
            fencing = row["fencing"] + 1
            columns = {
                "fencing": fencing,
                "heartbeat": now,
                "deadline": plus(now, seconds),
                "deadline_s": seconds,
                "actor": str(actor),
                **_owner_columns(owner),
            }
            working = row_of_stage["working"]
            if adopted:
                attempt = open_row["id"]
                connection.execute(
                    t.attempts.update()
                    .where(t.attempts.c.id == attempt)
                    .values(adoptions=open_row["adoptions"] + 1, **columns)
                )
                connection.execute(t.nodes.update().where(t.nodes.c.serial == row["serial"]).values(fencing=fencing))
                detail = {"stage": stage, "attempt": attempt, "fencing": fencing, "reason": reason}
                audit.append(connection, now, actor, row["serial"], "adopt", detail)
            else:
                attempt = connection.execute(
                    t.attempts.insert().values(serial=row["serial"], stage=stage, started=now, adoptions=0, **columns)
                ).inserted_primary_key[0]
                if row["state"] != working:
                    nodes.check_transition(row, working, stage)
                taken = {"attempt": attempt, "fencing": fencing}
                nodes.set_state(connection, now, row, working, actor, f"begin {stage}", attempt, fencing, taken)
            common["state"] = working
            return Begin(True, attempt, fencing, adopted, changed=True, last_step=last_step, **common)

        if check:
            with self._db.read() as connection:
                return work(connection)
        return self._db.write(work)

    def _decide(self, connection, now, row, stage, row_of_stage, owner, retry_failed):
        """(kind, reason, open attempt row or None); kind: new, own, adopt, refuse."""
        state, working = row["state"], row_of_stage["working"]
        hold = (
            connection.execute(
                sa.select(t.holds)
                .where(t.holds.c.serial == row["serial"], t.holds.c.released.is_(None))
                .order_by(t.holds.c.id)
            )
            .mappings()
            .first()
        )
        if hold:
            return "refuse", f"held by {hold['owner']}: {hold['reason']}", None
        if row["maintenance"]:
            text = f": {row['maintenance_reason']}" if row["maintenance_reason"] else ""
            return "refuse", f"in maintenance{text}", None
        attempt = None
        if row["attempt"] is not None:
            statement = sa.select(t.attempts).where(t.attempts.c.id == row["attempt"], t.attempts.c.ended.is_(None))
            attempt = connection.execute(statement).mappings().one_or_none()
        if attempt is not None:
            if attempt["stage"] != stage:
                return "refuse", f"attempt {attempt['id']} at stage {attempt['stage']} is under way", None
            if owner_of(attempt) == owner:
                return "own", f"attempt {attempt['id']} is already run by this controller", attempt
            who = f"process {attempt['owner_pid']} on {attempt['owner_host']}"
            quiet = format_seconds(max(0.0, seconds_between(attempt["heartbeat"], now)))
            answer = alive(attempt, now, self.stale_after)
            if answer is False:
                return "adopt", f"attempt {attempt['id']} of {who} was left behind; last heard {quiet} ago", attempt
            sure = "which runs" if answer else f"last heard {quiet} ago"
            return "refuse", f"attempt {attempt['id']} at stage {stage} belongs to {who}, {sure}", None
        retry = retry_failed and state == f"{working}_failed"
        if retry or state == working or state in row_of_stage["start"]:
            # Only a new attempt is refused: one under way goes on whoever has the lease, half-written disks help nobody.
            if "no_lease" in row_of_stage["needs"] and row["lease"] in transitions.SCHEDULER_LEASES:
                return "refuse", "; ".join(nodes.leased_to(row["lease"])), None
            return "new", f"retry after {state}" if retry else "", None
        if state == f"{working}_failed":
            return (
                "refuse",
                f"state {state}: the last attempt failed; ask for a retry with {stage}_retry_failed=true",
                None,
            )
        return "refuse", f"state {state}; stage {stage} starts from {' or '.join(row_of_stage['start'])}", None

    def _current(self, connection, row, attempt, fencing):
        """The open attempt of a locked node row, when the numbers are its newest; raises FencedOut otherwise."""
        found = connection.execute(sa.select(t.attempts).where(t.attempts.c.id == attempt)).mappings().one_or_none()
        if found is None or found["serial"] != row["serial"]:
            raise errors.NotFound("the node has no such attempt", host=row["name"], thing="attempt", seen=attempt)
        if found["ended"] is not None or found["fencing"] != fencing or row["attempt"] != attempt:
            raise _fenced(row["name"], row["fencing"], fencing, found)
        return found

    def step(self, node, attempt, fencing, step, detail=None):
        """Record the last step and a heartbeat. A step of an old number is kept as late, and FencedOut is raised."""

        def work(connection):
            now = self._db.now(connection)
            row = nodes.find(connection, node, lock=True)
            record = {
                "attempt": attempt,
                "fencing": fencing,
                "step": str(step),
                "detail": nodes.dumps(detail),
                "time": now,
            }
            try:
                self._current(connection, row, attempt, fencing)
            except errors.FencedOut as error:
                connection.execute(t.steps.insert().values(late=True, **record))
                raise CommitThenRaise(error) from None
            connection.execute(t.steps.insert().values(late=False, **record))
            connection.execute(
                t.attempts.update()
                .where(t.attempts.c.id == attempt)
                .values(last_step=str(step), step_time=now, step_detail=nodes.dumps(detail), heartbeat=now)
            )

        self._db.write(work)

    def heartbeat(self, attempt, fencing):
        """Say that the owner of the attempt is alive; FencedOut when a newer one has it, or it has ended."""

        def work(connection):
            done = connection.execute(
                t.attempts.update()
                .where(t.attempts.c.id == attempt, t.attempts.c.fencing == fencing, t.attempts.c.ended.is_(None))
                .values(heartbeat=self._db.now(connection))
            )
            if done.rowcount != 1:
                statement = sa.select(t.attempts).where(t.attempts.c.id == attempt)
                found = connection.execute(statement).mappings().one_or_none()
                if found is None:
                    raise errors.NotFound("there is no such attempt", thing="attempt", seen=attempt)
                row = nodes.find(connection, found["serial"])
                raise _fenced(row["name"], row["fencing"], fencing, found)

        self._db.write(work)

    def check_fence(self, node, fencing):
        """Raise FencedOut unless `fencing` is the node's newest number. Call it immediately before each external write."""
        with self._db.read() as connection:
            row = nodes.find(connection, node)
        if row["fencing"] != fencing:
            raise _fenced(row["name"], row["fencing"], fencing, None)

    def finish(self, node, attempt, fencing, outcome, actor, reason=None, to_state=None):
        """End the attempt and set the state that follows; returns that state.

        `pass`: the stage's end state. `fail`: the stage's fail state, or `to_state`. `could_not_test`: never a pass and no proof of a fault either, so
        `<working>_failed`, or `to_state`. Open boot grants of the attempt become void.
        """
        if outcome not in (PASS, FAIL, COULD_NOT_TEST):
            raise errors.InvalidInput(
                "an attempt cannot end so",
                host=str(node),
                thing="outcome",
                wanted="pass, fail or could_not_test",
                seen=outcome,
            )
        if outcome == PASS and to_state:
            raise errors.InvalidInput(
                "to_state is for attempts that did not pass", host=str(node), thing="to_state", seen=to_state
            )

        def work(connection):
            now = self._db.now(connection)
            row = nodes.find(connection, node, lock=True)
            found = self._current(connection, row, attempt, fencing)
            stage = transitions.STAGES[found["stage"]]
            new = stage["end"] if outcome == PASS else to_state
            if not new:
                new = stage["fail"] if outcome == FAIL else f"{stage['working']}_failed"
            if new != stage["end"] or outcome == PASS:
                nodes.check_transition(row, new, found["stage"])
            else:
                raise errors.Refused(
                    "a failed attempt cannot lead there", host=row["name"], thing="to_state", seen=to_state
                )
            self._end_attempt(connection, now, attempt, outcome, reason)
            nodes.set_state(connection, now, row, new, actor, reason or outcome, attempt, fencing, {"attempt": None})
            return new

        return self._db.write(work)

    @staticmethod
    def _end_attempt(connection, now, attempt, outcome, reason):
        connection.execute(
            t.attempts.update()
            .where(t.attempts.c.id == attempt)
            .values(ended=now, outcome=outcome, reason=reason, heartbeat=now)
        )
        connection.execute(
            t.grants.update()
            .where(t.grants.c.attempt == attempt, t.grants.c.used.is_(None), t.grants.c.voided.is_(None))
            .values(voided=now)
        )

    # reading

    def attempts(self, node):
        """All attempts of a node, oldest first."""
        with self._db.read() as connection:
            serial = nodes.find(connection, node)["serial"]
            statement = sa.select(t.attempts).where(t.attempts.c.serial == serial).order_by(t.attempts.c.id)
            return [attempt_out(row) for row in connection.execute(statement).mappings()]

    def attempt(self, attempt):
        """One attempt by its id; `current` says whether it is under way."""
        with self._db.read() as connection:
            found = connection.execute(sa.select(t.attempts).where(t.attempts.c.id == attempt)).mappings().one_or_none()
        if found is None:
            raise errors.NotFound("there is no such attempt", thing="attempt", seen=attempt)
        return {**attempt_out(found), "current": found["ended"] is None}

    def steps(self, attempt):
        """The recorded steps of an attempt in order: {step, detail, time, fencing, late}."""
        with self._db.read() as connection:
            rows = connection.execute(
                sa.select(t.steps).where(t.steps.c.attempt == attempt).order_by(t.steps.c.id)
            ).mappings()
            return [
                {**{key: row[key] for key in ("step", "time", "fencing", "late")}, "detail": nodes.loads(row["detail"])}
                for row in rows
            ]


def _fenced(name, newest, given, attempt):
    ended = attempt is not None and attempt["ended"] is not None
    return errors.FencedOut(
        f"attempt {attempt['id']} has ended" if ended else "a newer attempt owns the node",
        host=name,
        thing="fencing number",
        wanted=newest,
        seen=given,
        next_step="stop: nothing more is written for this node by this run",
    )
