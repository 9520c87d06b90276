# What is written down beside the state: evidence, holds, leases, boot grants, boot events.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json
import re
import secrets
import shlex

from ..core import errors, node_columns
from ..core.outcome import OUTCOMES, gates
from ..core.plan import Change, Plan
from ..core.texts import clean
from . import audit, nodes, transitions
from . import tables as t
from .engine import CommitThenRaise, format_time, parse_time, plus

try:
    import sqlalchemy as sa
except ImportError:  # reported by open_registry
    sa = None

LEASES = ("slurm", "kubernetes", "maintenance")
DRAIN_ACTION = "drain"  # audit row, detail {"owner"}: the scheduler drains the node for the open hold of this owner
# States in which `resume` gives a node back to its scheduler. In any other a hold is released alone, and the enrolment finds the drain.
# The same as scheduler.operations.IN_SCHEDULER_STATES.
RESUMED_STATES = ("active", "enrolling")
BOOT_STEPS = (
    "power_on",
    "dhcp",
    "loader",
    "kernel",
    "ramdisk",
    "disk_chosen",
    "writing",
    "written",
    "seeded",
    "boot_order",
    "done",
    "disk_boot",
    "ssh",
    "failed",
    "late",
    "reserved",  # mark: the boot service keeps the node's DHCP reservation
    "served",  # mark: bytes that the image server sent to the node
)
_ITEM_KEYS = ("check", "outcome", "gates", "value", "unit", "limit", "rule", "source", "simulated", "detail", "time")


def _token_hash(token):
    return hashlib.sha256(str(token).encode("utf-8")).hexdigest()


def drained_for(connection, hold):
    """Does the scheduler drain the node for this open hold?"""
    statement = sa.select(t.audit.c.detail).where(
        t.audit.c.serial == hold["serial"], t.audit.c.action == DRAIN_ACTION, t.audit.c.time >= hold["since"]
    )
    return any(nodes.loads(text)["owner"] == hold["owner"] for text in connection.execute(statement).scalars())


def needs_resume(connection, row, hold):
    """Must this open hold of the node `row` be ended by `resume`, which ends its drain too? With the lease the drain went over to the enrolment."""
    leased = row["lease"] in transitions.SCHEDULER_LEASES
    return leased and row["state"] in RESUMED_STATES and drained_for(connection, hold)


def resume_command(name, owner):
    return f"ansible-playbook aicluster.baremetal.resume -l {name} -e {shlex.quote(f'owner={owner}')}"


def release_command(name, owner):
    # Quotes inside quotes are read otherwise by Ansible than by a shell; JSON is read the same by both.
    plain = re.fullmatch(r"[\w.@-]+", owner)
    options = f"owner={owner} state=absent" if plain else json.dumps({"owner": owner, "state": "absent"})
    return f"ansible {name} -m aicluster.baremetal.hold -a {shlex.quote(options)}"


class Records:
    """Mixed into Registry; `self._db` is the Database."""

    # evidence

    def record_evidence(self, node, attempt, items, actor):
        """Store items {check, outcome, value, unit, limit, rule, source, simulated, detail[, gates, time]}; returns how many. `attempt` may be None.

        `gates: false` marks a result that decides nothing (core.outcome.gates); it keeps its outcome.
        """
        rows = []
        for item in items:
            unknown = set(item) - set(_ITEM_KEYS)
            known = item.get("outcome") in OUTCOMES and item.get("gates") in (None, True, False)
            if unknown or not item.get("check") or not known:
                raise errors.InvalidInput(
                    "an evidence item cannot be read",
                    host=str(node),
                    thing="evidence",
                    wanted=f"check, outcome ({', '.join(OUTCOMES)}) and any of {', '.join(_ITEM_KEYS[2:])}; gates is true or false",
                    seen=item,
                )
            rows.append(
                {
                    "check_name": str(item["check"]),
                    "outcome": item["outcome"],
                    "gates": gates(item),
                    "value": nodes.dumps(item.get("value")),
                    "unit": item.get("unit"),
                    "limit_value": nodes.dumps(item.get("limit")),
                    "rule": item.get("rule"),
                    "source": item.get("source"),
                    "simulated": bool(item.get("simulated")),
                    "detail": nodes.dumps(item.get("detail")),
                    "time": format_time(parse_time(item["time"])) if item.get("time") else None,
                }
            )

        def work(connection):
            now = self._db.now(connection)
            row = nodes.find(connection, node, lock=True)
            if rows:
                common = {"serial": row["serial"], "attempt": attempt, "actor": str(actor)}
                connection.execute(
                    t.evidence.insert(), [{**item, **common, "time": item["time"] or now} for item in rows]
                )
                counts = {outcome: sum(item["outcome"] == outcome for item in rows) for outcome in OUTCOMES}
                detail = {"attempt": attempt, **{key: value for key, value in counts.items() if value}}
                audit.append(connection, now, actor, row["serial"], "evidence", detail)
            return len(rows)

        return self._db.write(work)

    def evidence(self, node, attempt=None, latest=True):
        """Evidence of a node in order; latest=True keeps the newest item of each check. `attempt` limits it to one attempt."""
        with self._db.read() as connection:
            serial = nodes.find(connection, node)["serial"]
            statement = sa.select(t.evidence).where(t.evidence.c.serial == serial).order_by(t.evidence.c.id)
            if attempt is not None:
                statement = statement.where(t.evidence.c.attempt == attempt)
            rows = [_item_out(row) for row in connection.execute(statement).mappings()]
        if latest:
            newest = {}
            for row in rows:
                newest.pop(row["check"], None)
                newest[row["check"]] = row
            rows = list(newest.values())
        return rows

    def newest_of(self, check):
        """{serial: newest item of this check} over all nodes that have one."""
        statement = sa.select(t.evidence).where(t.evidence.c.check_name == check).order_by(t.evidence.c.id)
        with self._db.read() as connection:
            return {row["serial"]: _item_out(row) for row in connection.execute(statement).mappings()}

    # holds

    def hold(self, node, owner, reason, exit_condition, automation=False, actor=""):
        """Place a hold, or change the text of this owner's hold; returns a Plan. One hold an owner; every owner releases only its own."""
        wanted = self._clean_hold(node, owner, reason, exit_condition, automation)

        def work(connection):
            plan, row, present = self._plan_hold(connection, node, owner, wanted, True)
            if plan.changed:
                now = self._db.now(connection)
                if present:
                    where = t.holds.c.id == present["id"]
                    connection.execute(t.holds.update().where(where).values(**wanted, actor=str(actor)))
                else:
                    connection.execute(
                        t.holds.insert().values(
                            serial=row["serial"], owner=str(owner), actor=str(actor), since=now, **wanted
                        )
                    )
                audit.append(connection, now, actor, row["serial"], "hold", {"owner": owner, **wanted})
            return plan

        return self._db.write(work)

    def plan_hold(self, node, owner, reason, exit_condition, automation=False):
        """What hold would change, as a Plan; writes nothing and refuses what hold refuses."""
        wanted = self._clean_hold(node, owner, reason, exit_condition, automation)
        with self._db.read() as connection:
            return self._plan_hold(connection, node, owner, wanted, False)[0]

    @staticmethod
    def _clean_hold(node, owner, reason, exit_condition, automation):
        wanted = {
            "reason": clean(str(reason or "")).strip(),
            "exit_condition": clean(str(exit_condition or "")).strip(),
            "automation": bool(automation),
        }
        for key in ("reason", "exit_condition"):
            if not wanted[key]:
                raise errors.InvalidInput(f"a hold needs its {key.replace('_', ' ')}", host=str(node), thing="hold")
        if not str(owner or "").strip():
            raise errors.InvalidInput("a hold needs an owner", host=str(node), thing="hold")
        return wanted

    def _plan_hold(self, connection, node, owner, wanted, lock):
        """(Plan, the node's row, this owner's open hold or None)."""
        row = nodes.find(connection, node, lock=lock)
        nodes.refuse_retired(row, "there is nothing to hold")
        present = self._open_hold(connection, row["serial"], owner)
        before = {key: present[key] for key in wanted} if present else None
        return Plan([Change(f"hold of {owner}", before, wanted)]), row, present

    def note_drain(self, node, owner, actor=""):
        """Write down that the scheduler drains the node for this owner's open hold; nothing where there is no such hold, or it is written already."""

        def work(connection):
            row = nodes.find(connection, node, lock=True)
            present = self._open_hold(connection, row["serial"], owner)
            if present and not drained_for(connection, present):
                audit.append(connection, self._db.now(connection), actor, row["serial"], DRAIN_ACTION, {"owner": owner})

        self._db.write(work)

    def release(self, node, owner, actor="", *, resumed=False, check=False):
        """End this owner's hold; returns a Plan, unchanged when there is none. Holds of other owners stay.

        Refused for a hold that goes with a drain in the scheduler, unless the caller ends that too (`resumed`): the node would be free here and drained there.
        """

        def work(connection):
            row = nodes.find(connection, node, lock=True)
            present = self._open_hold(connection, row["serial"], owner)
            plan = Plan([Change(f"hold of {owner}", present["reason"] if present else None, None)])
            if present and not resumed and needs_resume(connection, row, present):
                raise errors.Refused(
                    "this hold came with a drain in the scheduler, which would stay",
                    host=row["name"],
                    thing=f"hold of {owner}",
                    wanted="both ended together",
                    seen=present["reason"],
                    next_step=resume_command(row["name"], owner),
                    code="hold_with_drain",
                )
            if present and not check:
                now = self._db.now(connection)
                where = t.holds.c.id == present["id"]
                connection.execute(t.holds.update().where(where).values(released=now, released_by=str(actor)))
                detail = {"owner": owner, "reason": present["reason"]}
                audit.append(connection, now, actor, row["serial"], "release", detail)
            return plan

        return self._db.write(work)

    @staticmethod
    def _open_hold(connection, serial, owner):
        statement = sa.select(t.holds).where(
            t.holds.c.serial == serial, t.holds.c.owner == str(owner), t.holds.c.released.is_(None)
        )
        return connection.execute(statement).mappings().one_or_none()

    def holds(self, node=None, history=False):
        """Open holds of a node, or of all nodes, oldest first; history=True adds released ones. `drained`: the scheduler drains the node for it."""
        with self._db.read() as connection:
            statement = sa.select(t.holds, t.nodes.c.name).join(t.nodes).order_by(t.holds.c.id)
            if node is not None:
                statement = statement.where(t.holds.c.serial == nodes.find(connection, node)["serial"])
            if not history:
                statement = statement.where(t.holds.c.released.is_(None))
            rows = [dict(row) for row in connection.execute(statement).mappings()]
            for row in rows:
                row["drained"] = row["released"] is None and drained_for(connection, row)
            return rows

    # leases

    def acquire_lease(self, node, lease, actor, check=False):
        """Give the node to one owner; Conflict when another has it. Returns a Plan. With check=True nothing is written."""
        if lease not in LEASES:
            raise errors.InvalidInput(
                "there is no such lease", host=str(node), thing="lease", wanted=", ".join(LEASES), seen=lease
            )

        def decide(row):
            nodes.refuse_retired(row, "it is leased to nobody")
            if row["lease"] not in (None, lease):
                raise errors.Conflict(
                    f"the node is leased to {row['lease']}",
                    host=row["name"],
                    thing="lease",
                    wanted=lease,
                    seen=row["lease"],
                    next_step=f"drain it there and release the lease {row['lease']} first",
                )
            return lease

        return self._set_lease(node, actor, decide, check)

    def release_lease(self, node, lease, actor, check=False):
        """Take the lease back; Conflict when another owner has it. Returns a Plan, unchanged when nobody has. With check=True nothing is written.

        Whether the owner still has work there is for the caller to find out: scheduler.operations.release_lease does.
        """

        def decide(row):
            if row["lease"] not in (None, lease):
                raise errors.Conflict(
                    "the lease belongs to another",
                    host=row["name"],
                    thing="lease",
                    wanted=lease,
                    seen=row["lease"],
                    next_step=f"name the lease that the node has: {row['lease']}",
                )

        return self._set_lease(node, actor, decide, check)

    def _set_lease(self, node, actor, decide, check):
        def work(connection):
            row = nodes.find(connection, node, lock=not check)
            wanted = decide(row)
            plan = Plan([Change("lease", row["lease"], wanted)])
            if plan.changed and not check:
                now = self._db.now(connection)
                where = t.nodes.c.serial == row["serial"]
                connection.execute(t.nodes.update().where(where).values(lease=wanted, lease_since=now))
                audit.append(connection, now, actor, row["serial"], "lease", {"from": row["lease"], "to": wanted})
            return plan

        if check:
            with self._db.read() as connection:
                return work(connection)
        return self._db.write(work)

    # boot grants

    def issue_grant(self, node, attempt, fencing, mac, ttl_s, spec, actor):
        """A one-time permission to boot the deploy ramdisk; returns the token, which is stored nowhere. An older open grant of the node becomes void."""
        token = secrets.token_urlsafe(32)
        mac = node_columns.clean("provision_mac", mac, str(node))
        if mac is None or float(ttl_s) <= 0:
            raise errors.InvalidInput("a grant needs a MAC address and a lifetime", host=str(node), thing="boot grant")

        def work(connection):
            now = self._db.now(connection)
            row = nodes.find(connection, node, lock=True)
            self._current(connection, row, attempt, fencing)
            open_grants = (t.grants.c.serial == row["serial"], t.grants.c.used.is_(None), t.grants.c.voided.is_(None))
            connection.execute(t.grants.update().where(*open_grants).values(voided=now))
            grant = connection.execute(
                t.grants.insert().values(
                    token_hash=_token_hash(token),
                    serial=row["serial"],
                    attempt=attempt,
                    fencing=fencing,
                    mac=mac,
                    spec=nodes.dumps(spec),
                    issued=now,
                    expires=plus(now, float(ttl_s)),
                )
            ).inserted_primary_key[0]
            detail = {"grant": grant, "attempt": attempt, "fencing": fencing, "mac": mac, "ttl_s": ttl_s}
            audit.append(connection, now, actor, row["serial"], "grant_issued", detail)
            return token

        return self._db.write(work)

    def consume_grant(self, token, mac, actor="boot-service", grant=None):
        """Use a grant, once; returns its dict. Refused carries `code` grant_unknown, grant_used, grant_expired, grant_foreign or grant_superseded; each
        refusal is audited. `grant` (an id from pending_grant) instead of a token: for the boot question, where the node itself cannot know a token.
        """
        mac = str(mac or "").strip().lower().replace("-", ":")

        def work(connection):
            now = self._db.now(connection)
            key = t.grants.c.token_hash == _token_hash(token) if token else t.grants.c.id == grant
            found = connection.execute(sa.select(t.grants).where(key)).mappings().one_or_none()

            def refuse(code, text, row=None):
                serial = row["serial"] if row else None
                audit.append(
                    connection,
                    now,
                    actor,
                    serial,
                    "grant_refused",
                    {"code": code, "mac": mac, "grant": found and found["id"]},
                )
                error = errors.Refused(
                    text,
                    host=row["name"] if row else mac or None,
                    thing="boot grant",
                    code=code,
                    next_step="start the deploy playbook for this node: it issues a new grant",
                )
                raise CommitThenRaise(error)

            if found is None:
                refuse("grant_unknown", "no such grant was issued")
            row = nodes.find(connection, found["serial"], lock=True)
            # Read again under the node's lock: of two that ask at once, one must see the other's use.
            found = connection.execute(sa.select(t.grants).where(t.grants.c.id == found["id"])).mappings().one()
            if found["used"] is not None:
                refuse("grant_used", f"the grant was used at {found['used']}", row)
            if found["voided"] is not None:
                refuse("grant_superseded", f"the grant was replaced at {found['voided']}", row)
            if found["mac"] != mac:
                refuse("grant_foreign", f"the grant belongs to {found['mac']}", row)
            if found["expires"] <= now:
                refuse("grant_expired", f"the grant ended at {found['expires']}", row)
            if row["attempt"] != found["attempt"]:
                refuse("grant_superseded", "the grant's attempt has ended", row)
            connection.execute(t.grants.update().where(t.grants.c.id == found["id"]).values(used=now))
            detail = {"grant": found["id"], "attempt": found["attempt"], "mac": mac}
            audit.append(connection, now, actor, row["serial"], "grant_used", detail)
            return _grant_out({**found, "used": now}, row)

        return self._db.write(work)

    def pending_grant(self, mac):
        """The open grant for a MAC address that could be consumed now, or None."""
        mac = str(mac or "").strip().lower().replace("-", ":")
        with self._db.read() as connection:
            now = self._db.now(connection)
            statement = (
                sa.select(t.grants)
                .where(
                    t.grants.c.mac == mac,
                    t.grants.c.used.is_(None),
                    t.grants.c.voided.is_(None),
                    t.grants.c.expires > now,
                )
                .order_by(t.grants.c.id.desc())
            )
            for found in connection.execute(statement).mappings():
                row = nodes.find(connection, found["serial"])
                if row["attempt"] == found["attempt"]:
                    return _grant_out(found, row)
        return None

    def grant(self, grant):
        """One grant by id, used or not; `current` says whether its attempt is still the node's (what a write permit asks)."""
        with self._db.read() as connection:
            found = connection.execute(sa.select(t.grants).where(t.grants.c.id == grant)).mappings().one_or_none()
            if found is None:
                raise errors.NotFound("there is no such grant", thing="boot grant", seen=grant)
            return _grant_out(found, nodes.find(connection, found["serial"]))

    def grants(self, node):
        """All grants of a node, oldest first."""
        with self._db.read() as connection:
            row = nodes.find(connection, node)
            statement = sa.select(t.grants).where(t.grants.c.serial == row["serial"]).order_by(t.grants.c.id)
            return [_grant_out(found, row) for found in connection.execute(statement).mappings()]

    # boot events

    def boot_event(self, node, attempt, step, detail=None, source="", time=None, age_s=None):
        """Record one event of the boot timeline. `age_s`: it was so many seconds ago; a caller gives that rather than `time`, because its clock is not the
        registry's. An event of an attempt that is no longer the node's is kept under step `late` and changes nothing."""
        if step not in BOOT_STEPS:
            raise errors.InvalidInput(
                "there is no such boot step",
                host=str(node),
                thing="boot event",
                wanted=", ".join(BOOT_STEPS),
                seen=step,
            )
        moment = format_time(parse_time(time)) if time else None

        def work(connection):
            now = self._db.now(connection)
            row = nodes.find(connection, node)
            late = attempt is not None and row["attempt"] != attempt and step not in ("disk_boot", "ssh")
            connection.execute(
                t.boot_events.insert().values(
                    serial=row["serial"],
                    attempt=attempt,
                    step="late" if late else step,
                    detail=nodes.dumps({"step": step, "detail": detail} if late else detail),
                    source=str(source),
                    time=moment or (now if age_s is None else plus(now, -float(age_s))),
                    recorded=now,
                )
            )
            return "late" if late else step

        return self._db.write(work)

    def boot_events(self, node, attempt=None):
        """Boot events of a node in the order of recording: {attempt, step, detail, source, time, recorded}."""
        with self._db.read() as connection:
            serial = nodes.find(connection, node)["serial"]
            statement = sa.select(t.boot_events).where(t.boot_events.c.serial == serial).order_by(t.boot_events.c.id)
            if attempt is not None:
                statement = statement.where(t.boot_events.c.attempt == attempt)
            return [
                {
                    **{key: value for key, value in row.items() if key not in ("id", "serial")},
                    "detail": nodes.loads(row["detail"]),
                }
                for row in connection.execute(statement).mappings()
            ]


def _item_out(row):
    return {
        "check": row["check_name"],
        "outcome": row["outcome"],
        "gates": gates(row),
        "value": nodes.loads(row["value"]),
        "unit": row["unit"],
        "limit": nodes.loads(row["limit_value"]),
        "rule": row["rule"],
        "source": row["source"],
        "simulated": row["simulated"],
        "detail": nodes.loads(row["detail"]),
        "time": row["time"],
        "attempt": row["attempt"],
        "actor": row["actor"],
    }


def _grant_out(found, row):
    keys = ("id", "attempt", "fencing", "mac", "issued", "expires", "used", "voided")
    return {
        **{key: found[key] for key in keys},
        "serial": row["serial"],
        "node": row["name"],
        "spec": nodes.loads(found["spec"]) or {},
        "current": row["attempt"] == found["attempt"],
    }
