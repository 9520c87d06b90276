# Nodes and their parts: reading, creating, updating, the expected-servers list, bare transitions.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
import json
import re

from ..core import errors, node_columns
from ..core.plan import Change, Plan
from ..core.texts import clean, clean_all
from . import audit, transitions
from . import tables as t

try:
    import sqlalchemy as sa
except ImportError:  # reported by open_registry
    sa = None

FIRST_STATES = ("registered", "manageable")
_PART_COLUMNS = ("model", "serial", "firmware")


def dumps(value):
    """JSON text for a column; None stays NULL."""
    return (
        None if value is None else json.dumps(clean_all(value), sort_keys=True, default=lambda item: clean(str(item)))
    )


def loads(text):
    return None if text is None else json.loads(text)


def find(connection, node, lock=False):
    """The row of a node by name or serial as a dict; raises NotFound. A name means the node that carries it now, not a retired one."""
    statement = sa.select(t.nodes).where(sa.or_(t.nodes.c.serial == node, t.nodes.c.name == node))
    if lock:  # key_share: rows that only refer to the node (events, evidence) need not wait for us
        statement = statement.order_by(t.nodes.c.serial).with_for_update(key_share=True)
    rows = [dict(row) for row in connection.execute(statement).mappings()]
    if not rows:
        raise errors.NotFound(
            "the registry has no such node",
            host=str(node),
            thing="registry",
            wanted="a name or a chassis serial",
            next_step="run the discover playbook, or register it with the node module",
        )
    rows.sort(key=lambda row: (row["serial"] != node, row["state"] == "retired"))
    return rows[0]


def set_state(connection, now, row, new, actor, reason=None, attempt=None, fencing=None, columns=None):
    """Write a state that the caller has checked, with its audit row."""
    connection.execute(
        t.nodes.update().where(t.nodes.c.serial == row["serial"]).values(state=new, state_since=now, **(columns or {}))
    )
    detail = {"from": row["state"], "to": new, "reason": reason, "attempt": attempt, "fencing": fencing}
    audit.append(connection, now, actor, row["serial"], audit.STATE_ACTION, detail)


def leased_to(lease):
    """(what is wrong, what to do about it) where a scheduler has the node."""
    return (
        f"the node is leased to {lease}, which may run work on it",
        f"take it out of work and release the lease: the drain playbook with wait=true release=true, or module lease with state=released (lease {lease})",
    )


def _require_no_lease(row, new, _consent):
    if row["lease"] in transitions.SCHEDULER_LEASES:
        text, step = leased_to(row["lease"])
        raise errors.Refused(
            f"{text}: it cannot become {new}",
            host=row["name"],
            thing="lease",
            wanted="no scheduler's lease",
            seen=row["lease"],
            next_step=step,
            code="node_leased",
        )


def _require_consent(row, new, consent):
    if consent is None or str(consent).strip() != row["serial"]:
        raise errors.Refused(
            f"{new} needs consent by serial number",
            host=row["name"],
            thing="consent",
            wanted="the chassis serial of exactly this node",
            seen="no consent" if consent in (None, "") else "another text",
            next_step="read the serial from the machine, its label or the registry, and give it as consent for this node",
            code="consent_required",
        )


# What check_transition looks at for an operator's row; attempts.py checks what the rows of a stage need.
REQUIREMENTS = {"no_lease": _require_no_lease, "consent": _require_consent}


def check_transition(row, new, who=None, consent=None):
    """Raise Refused unless the table has the transition and what it needs holds; `who` limits it to rows of a stage."""
    found = transitions.find(row["state"], new)
    if not transitions.is_state(new):
        raise errors.InvalidInput("there is no such state", host=row["name"], thing="state", seen=new)
    if found is None:
        raise errors.Refused(
            f"{row['state']} cannot become {new}",
            host=row["name"],
            thing="state",
            wanted=f"one of {', '.join(transitions.targets(row['state'])) or 'nothing'}",
            seen=new,
            next_step="docs/lifecycle.md has the table of transitions",
            code="transition_not_allowed",
        )
    if found["who"] in transitions.STAGES and who != found["who"]:
        raise errors.Refused(
            f"only an attempt at stage {found['who']} may set {new}",
            host=row["name"],
            thing="state",
            seen=row["state"],
            next_step=f"run the {found['who']} playbook",
            code="transition_needs_attempt",
        )
    for need in found["needs"]:
        if need in REQUIREMENTS:
            REQUIREMENTS[need](row, new, consent)
    return found


def clean_host_key(node, key):
    """Type and base64 text of an SSH host public key, without its comment; InvalidInput for anything else."""
    words = str(key or "").split()
    if len(words) >= 2 and "\n" not in str(key).strip() and re.fullmatch(r"(ssh|ecdsa|sk)-[a-z0-9@.-]+", words[0]):
        try:
            blob = base64.b64decode(words[1] + "=" * (-len(words[1]) % 4), validate=True)
        except ValueError:
            blob = b""
        # RFC 4253, 6.6: the blob begins with the length and the name of its own type.
        if blob[:4] == len(words[0]).to_bytes(4, "big") and blob[4:].startswith(words[0].encode()):
            return " ".join(words[:2])
    raise errors.InvalidInput(
        "this is no SSH public key",
        host=str(node),
        thing="host_key",
        wanted="a line like: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA...",
        seen=(words or [""])[0][:24],  # a private key, pasted by mistake, must not be shown
        next_step="take the line from /etc/ssh/ssh_host_ed25519_key.pub of the node",
    )


def refuse_retired(row, what):
    """Nothing is planned for a machine that is gone: a task that says otherwise means another machine, or comes from an old list."""
    if row["state"] == "retired":
        raise errors.Refused(
            f"the node is retired, so {what}",
            host=row["name"],
            thing=f"serial {row['serial']}",
            wanted="a node that is not retired",
            seen="state retired",
            next_step="take the serial out of what asks for it; a server that took its place is registered under its own serial",
            code="node_retired",
        )


def _clean_parts(parts, serial):
    cleaned = {}
    for part in parts:
        part = clean_all(part)
        kind, slot = part.get("kind"), part.get("slot")
        if not kind or slot in (None, ""):
            raise errors.InvalidInput("a part needs kind and slot", host=serial, thing="parts", seen=part)
        extra = {key: value for key, value in part.items() if key not in ("kind", "slot", *_PART_COLUMNS)}
        key = (str(kind), str(slot))
        if key in cleaned:
            raise errors.InvalidInput("two parts in one slot", host=serial, thing="parts", seen=" ".join(key))
        row = {column: (None if part.get(column) in (None, "") else str(part[column])) for column in _PART_COLUMNS}
        cleaned[key] = {**row, "detail": json.loads(dumps(extra)) if extra else None}
    return cleaned


def check_own_things(connection, serial, before, after, apart=()):
    """Conflict where a thing that `after` has and `before` had not is another node's; retired nodes have nothing. `apart`: serials that the caller judges."""
    had = node_columns.own_things(before)
    wanted = {thing: value for thing, value in node_columns.own_things(after).items() if value != had.get(thing)}
    if not wanted:
        return
    either = []
    for thing in wanted:
        if thing == "place":
            either.append(sa.and_(t.nodes.c.rack == after["rack"], t.nodes.c.slot == after["slot"]))
        elif thing == "bmc_address":
            either.append(sa.func.lower(t.nodes.c.bmc_address) == str(after["bmc_address"]).lower())
        else:
            either.append(t.nodes.c[thing] == after[thing])
    statement = sa.select(t.nodes).where(sa.or_(*either), t.nodes.c.state != "retired", t.nodes.c.serial != serial)
    for other in connection.execute(statement.order_by(t.nodes.c.serial)).mappings():
        if other["serial"] in apart:
            continue
        theirs = node_columns.own_things(other)
        for thing, value in wanted.items():
            if theirs.get(thing) == value:
                column = "slot" if thing == "place" else thing
                raise errors.Conflict(
                    f"the {thing} {value} belongs to {other['name']}",
                    host=after.get("name") or serial,
                    thing=thing,
                    wanted=f"a {thing} that no other node has",
                    seen=f"{other['name']} (serial {other['serial']}, {other['state']}) has it",
                    next_step=f"correct the value, or retire {other['name']}; to swap the two, empty the {column} of "
                    f"{other['name']} first ({column}: '') and give it its new one afterwards, or list both with their new values "
                    "and run the discover playbook",
                )


def check_states(states):
    """InvalidInput for a state that no node can have: asking for it would silently find nothing."""
    unknown = [str(state) for state in states if not transitions.is_state(state)]
    if unknown:
        raise errors.InvalidInput(
            "there is no such state",
            thing="states",
            wanted="any of " + ", ".join((*transitions.STATES, *transitions.FAILED_STATES)),
            seen=", ".join(unknown),
            next_step="correct the state; docs/lifecycle.md says what each one means",
        )


class Nodes:
    """Mixed into Registry; `self._db` is the Database."""

    # reading

    def nodes(self, state=None, names=None, *, parts=False, only=None, **columns):
        """All nodes that match, sorted by name, as dicts of their columns plus `held` and `facts`; with parts=True also `parts`.

        `state`: one state or a list; `names`: names or serials; other keywords compare columns. Retired nodes come only when asked for by state or name.
        `only`: names of columns; then nothing but these, `serial` and `name` is read, for those who ask often.
        """
        unknown = (set(columns) | set(only or ())) - set(t.nodes.c.keys())
        if unknown:
            raise errors.InvalidInput("no such column", thing="nodes", seen=", ".join(sorted(unknown)))
        chosen = [t.nodes.c[column] for column in dict.fromkeys(("serial", "name", *only))] if only else [t.nodes]
        statement = sa.select(*chosen).order_by(t.nodes.c.name, t.nodes.c.serial)
        if state is not None:
            states = [state] if isinstance(state, str) else list(state)
            check_states(states)
            statement = statement.where(t.nodes.c.state.in_(states))
        elif names is None:
            statement = statement.where(t.nodes.c.state != "retired")
        for column, value in columns.items():
            statement = statement.where(t.nodes.c[column] == value)
        with self._db.read() as connection:
            rows = [dict(row) for row in connection.execute(statement).mappings()]
            if names is not None:
                # Compared here, not by IN: ten thousand names are more than a statement may carry.
                wanted = {names} if isinstance(names, str) else set(names)
                rows = [row for row in rows if row["name"] in wanted or row["serial"] in wanted]
            return rows if only else self._complete(connection, rows, parts)

    def node(self, name):
        """One node by name or serial, with its parts; raises NotFound."""
        with self._db.read() as connection:
            return self._complete(connection, [find(connection, name)], True)[0]

    @staticmethod
    def _complete(connection, rows, parts):
        few = [row["serial"] for row in rows] if len(rows) <= 100 else None

        def limited(statement, table):
            return statement if few is None else statement.where(table.c.serial.in_(few))

        open_holds = limited(sa.select(t.holds.c.serial).where(t.holds.c.released.is_(None)), t.holds)
        held = set(connection.execute(open_holds).scalars())
        by_node = {}
        if parts:
            statement = limited(sa.select(t.parts).where(t.parts.c.until.is_(None)), t.parts)
            for part in connection.execute(statement.order_by(t.parts.c.kind, t.parts.c.slot)).mappings():
                by_node.setdefault(part["serial"], []).append(_part_out(part))
        for row in rows:
            row["held"] = row["serial"] in held
            row["facts"] = loads(row["facts"]) or {}
            if parts:
                row["parts"] = by_node.get(row["serial"], [])
        return rows

    def parts(self, node, history=False):
        """The parts of a node: those present, or with history=True also those that were taken out (`until` is set)."""
        with self._db.read() as connection:
            serial = find(connection, node)["serial"]
            statement = sa.select(t.parts).where(t.parts.c.serial == serial)
            if not history:
                statement = statement.where(t.parts.c.until.is_(None))
            order = statement.order_by(t.parts.c.kind, t.parts.c.slot, t.parts.c.id)
            return [_part_out(row) for row in connection.execute(order).mappings()]

    # writing

    def plan_node(self, serial, **columns):
        """What save_node would change, as a Plan; writes nothing."""
        with self._db.read() as connection:
            return self._plan(connection, serial, columns, False)[0]

    def save_node(self, serial, actor, **columns):
        """Create or update a node; returns the Plan that was carried out. Only the columns that are given are touched.

        `state`: the state of a *new* node, registered (default) or manageable; ignored for a node that exists: its state moves by transitions.
        `parts`: what was observed now; complete for the kinds that occur in it, other kinds are left alone. `facts`: the last inventory, replaced whole.
        `apart`: serials whose MAC, addresses and place the caller itself has judged against these (discovery writes many nodes, and two may swap); every
        other node that has one of them already makes a Conflict.
        Being seen again is recorded (last_seen) and is no change.
        """

        def work(connection):
            now = self._db.now(connection)
            plan, row, values, parts = self._plan(connection, serial, columns, True)
            if row is None:
                state = columns.get("state") or "registered"
                connection.execute(
                    t.nodes.insert().values(
                        **{"maintenance": False, **values},
                        serial=str(serial),
                        state=state,
                        state_since=now,
                        fencing=0,
                        created=now,
                        last_seen=now,
                    )
                )
                self._save_parts(connection, now, str(serial), parts)
                audit.append(connection, now, actor, str(serial), "node", {"after": plan.diff()["after"]})
                audit.append(
                    connection, now, actor, str(serial), audit.STATE_ACTION, {"from": None, "to": state, "reason": None}
                )
                return plan
            connection.execute(
                t.nodes.update().where(t.nodes.c.serial == row["serial"]).values(**values, last_seen=now)
            )
            self._save_parts(connection, now, row["serial"], parts)
            if plan.changed:
                audit.append(connection, now, actor, row["serial"], "node", plan.diff())
            return plan

        return self._db.write(work)

    def _plan(self, connection, serial, columns, lock):
        """(Plan, present row or None, column values to write, part changes)."""
        columns = dict(columns)
        serial = node_columns.clean_serial(serial)
        parts, facts, state = columns.pop("parts", None), columns.pop("facts", None), columns.pop("state", None)
        apart = columns.pop("apart", ())
        unknown = set(columns) - set(t.NODE_COLUMNS)
        if unknown:
            raise errors.InvalidInput(
                f"no such column: {', '.join(sorted(unknown))}",
                host=serial,
                thing="node",
                wanted=f"{', '.join(t.NODE_COLUMNS)}, parts, facts, state",
            )
        statement = sa.select(t.nodes).where(t.nodes.c.serial == serial)
        row = (
            connection.execute(statement.with_for_update(key_share=True) if lock else statement)
            .mappings()
            .one_or_none()
        )
        row = dict(row) if row else None
        if row is not None:
            refuse_retired(row, "its record is not changed")
        values = {column: node_columns.clean(column, value, serial) for column, value in columns.items()}
        together = {**(row or {}), **values}
        node_columns.check_pair(together.get("provision_ip"), together.get("provision_prefix"), serial)
        if "name" in values and values["name"] is None:
            raise errors.InvalidInput("a node needs a name", host=serial, thing="name")
        if row is None:
            if state not in (None, *FIRST_STATES):
                raise errors.InvalidInput(
                    "a new node cannot start there", host=serial, thing="state", wanted=FIRST_STATES, seen=state
                )
            if not values.get("name"):
                raise errors.InvalidInput("a new node needs a name", host=serial, thing="name")
        if "name" in values and (row is None or row["name"] != values["name"]):
            taken = connection.execute(
                sa.select(t.nodes.c.serial).where(
                    t.nodes.c.name == values["name"], t.nodes.c.state != "retired", t.nodes.c.serial != serial
                )
            ).scalar()
            if taken:
                raise errors.Conflict(
                    f"the name {values['name']} belongs to {taken}",
                    host=serial,
                    thing="name",
                    next_step=f"retire {taken} first, or give another name",
                )
        before = row or {}
        check_own_things(connection, serial, before, together, apart)
        changes = [Change(column, before.get(column), values[column]) for column in t.NODE_COLUMNS if column in values]
        if row is None:
            changes.insert(0, Change("state", None, state or "registered"))
        part_changes = []
        if parts is not None:
            changes_of_parts, part_changes = self._plan_parts(connection, serial, _clean_parts(parts, serial))
            changes += changes_of_parts
        if facts is not None:
            stored = loads(before.get("facts")) or {}
            facts = json.loads(dumps(facts))
            values["facts"] = dumps(facts)
            for key in sorted(set(stored) | set(facts)):
                changes.append(Change(f"facts.{key}", stored.get(key), facts.get(key)))
        return Plan(changes), row, values, part_changes

    @staticmethod
    def _plan_parts(connection, serial, wanted):
        statement = sa.select(t.parts).where(t.parts.c.serial == serial, t.parts.c.until.is_(None))
        present = {(row["kind"], row["slot"]): dict(row) for row in connection.execute(statement).mappings()}
        kinds = {kind for kind, _slot in wanted}
        changes, todo = [], []
        for key in sorted({key for key in present if key[0] in kinds} | set(wanted)):
            old, new = present.get(key), wanted.get(key)
            shown = _part_out(old) if old else {}
            before = {column: shown.get(column) for column in _PART_COLUMNS} if old else None
            after = {column: new[column] for column in _PART_COLUMNS} if new else None
            change = Change(f"part {key[0]} {key[1]}", before, after)
            if change.before != change.after:
                changes.append(change)
            if not (old and new) or (shown.get("serial"), shown.get("model")) != (new["serial"], new["model"]):
                todo.append((old, key, new))  # another part: the old row ends, a new one begins
            elif shown.get("firmware") != new["firmware"] or loads(old["detail"]) != new["detail"]:
                todo.append((old, None, new))  # the same part, told more about
        return changes, todo

    @staticmethod
    def _save_parts(connection, now, serial, todo):
        for old, key, new in todo:
            if key is None:
                connection.execute(
                    t.parts.update()
                    .where(t.parts.c.id == old["id"])
                    .values(firmware=new["firmware"], detail=dumps(new["detail"]))
                )
                continue
            if old:
                connection.execute(t.parts.update().where(t.parts.c.id == old["id"]).values(until=now))
            if new:
                connection.execute(
                    t.parts.insert().values(
                        serial=serial,
                        kind=key[0],
                        slot=key[1],
                        model=new["model"],
                        part_serial=new["serial"],
                        firmware=new["firmware"],
                        detail=dumps(new["detail"]),
                        since=now,
                    )
                )

    def plan_host_key(self, node, key):
        """What pin_host_key would change, as a Plan; writes nothing. A node that is not there yet has no key."""
        text = clean_host_key(node, key)
        with self._db.read() as connection:
            try:
                row = find(connection, node)
            except errors.NotFound:
                return Plan([Change("host_key", None, text)])
            refuse_retired(row, "no key is pinned for it")
            return Plan([Change("host_key", row["host_key"], text)])

    def pin_host_key(self, node, key, actor):
        """Store the node's SSH host public key (`ssh-ed25519 AAAA...`); returns a Plan."""
        text = clean_host_key(node, key)

        def work(connection):
            row = find(connection, node, lock=True)
            refuse_retired(row, "no key is pinned for it")
            plan = Plan([Change("host_key", row["host_key"], text)])
            if plan.changed:
                now = self._db.now(connection)
                connection.execute(t.nodes.update().where(t.nodes.c.serial == row["serial"]).values(host_key=text))
                audit.append(connection, now, actor, row["serial"], "pin_host_key", plan.diff())
            return plan

        return self._db.write(work)

    def transition(
        self, node, expected, new, actor, reason=None, attempt=None, fencing=None, check=False, consent=None
    ):
        """Compare-and-swap along the transition table; Conflict when the node is not in `expected`, Refused when the table has no such row or what the
        row needs does not hold. `consent`: the node's serial, for rows that need it.

        Rows of a stage need the `attempt` and `fencing` number of the node's current attempt at that stage. A transition from outside that takes a node
        away from a running attempt ends the attempt and raises the fencing number: its owner is fenced out at its next write.
        With check=True nothing is written, and whatever would be refused is refused all the same.
        """

        def work(connection):
            now = self._db.now(connection)
            row = find(connection, node, lock=not check)
            stage = None
            if attempt is not None:
                stage = self._current(connection, row, attempt, fencing)["stage"]
            if row["state"] != expected:
                raise errors.Conflict(
                    f"the state is {row['state']} by now",
                    host=row["name"],
                    thing="state",
                    wanted=f"{expected} -> {new}",
                    seen=row["state"],
                    next_step="read the node again and decide anew",
                )
            check_transition(row, new, stage, consent)
            if check:
                return
            columns = {}
            if attempt is None and row["attempt"] is not None:
                text = f"ended from outside: {actor} set {new}" + (f" ({reason})" if reason else "")
                self._end_attempt(connection, now, row["attempt"], "fail", text)
                columns = {"attempt": None, "fencing": row["fencing"] + 1}
            set_state(connection, now, row, new, actor, reason, attempt, fencing, columns)

        if check:
            with self._db.read() as connection:
                work(connection)
        else:
            self._db.write(work)

    # the expected-servers list

    def expected(self, **columns):
        """The expected servers as dicts, sorted by serial."""
        statement = sa.select(t.expected).order_by(t.expected.c.serial)
        for column, value in columns.items():
            statement = statement.where(t.expected.c[column] == value)
        with self._db.read() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    def plan_expected(self, rows):
        """What save_expected would change, as a Plan; writes nothing."""
        wanted = self.clean_expected(rows)
        with self._db.read() as connection:
            return self._plan_expected(connection, wanted)

    def save_expected(self, rows, actor="registry"):
        """Replace the whole list; rows are dicts with `serial` and any of registry.tables.EXPECTED_COLUMNS. Returns a Plan."""
        wanted = self.clean_expected(rows)

        def work(connection):
            plan = self._plan_expected(connection, wanted)
            if plan.changed:
                connection.execute(t.expected.delete())
                if wanted:
                    connection.execute(t.expected.insert(), list(wanted.values()))
                audit.append(connection, self._db.now(connection), actor, None, "expected", plan.diff())
            return plan

        return self._db.write(work)

    @staticmethod
    def _plan_expected(connection, wanted):
        present = {row["serial"]: dict(row) for row in connection.execute(sa.select(t.expected)).mappings()}
        return Plan([Change(key, present.get(key), wanted.get(key)) for key in sorted({*present, *wanted})])

    @staticmethod
    def clean_expected(rows):
        """{serial: row with all columns}; InvalidInput names row and column."""
        wanted = {}
        for number, row in enumerate(rows, 1):
            unknown = sorted(set(row) - set(t.EXPECTED_COLUMNS))
            serial = node_columns.clean("serial", row.get("serial"), where=f"row {number}")
            if unknown or not serial:
                raise errors.InvalidInput(
                    "an expected server cannot be read",
                    thing=f"expected servers, row {number}",
                    wanted=f"serial and any of {', '.join(t.EXPECTED_COLUMNS[1:])}",
                    seen=", ".join(unknown) or "no serial",
                    next_step="correct the list of expected servers",
                )
            if serial in wanted:
                raise errors.InvalidInput(
                    "a serial is listed twice",
                    thing=f"expected servers, row {number}",
                    wanted="one row for each serial",
                    seen=serial,
                    next_step="correct the list of expected servers",
                )
            wanted[serial] = {
                column: node_columns.clean(column, row.get(column), serial, f"row {number}")
                for column in t.EXPECTED_COLUMNS
            }
            node_columns.check_pair(
                wanted[serial]["provision_ip"], wanted[serial]["provision_prefix"], serial, f"row {number}"
            )
        return wanted

    def compare_expected(self):
        """{missing, unexpected, misplaced, matched}: lists of dicts with serial and name; misplaced ones add `differences` {column: [expected, found]}."""
        found = {row["serial"]: row for row in self.nodes()}
        result = {"missing": [], "unexpected": [], "misplaced": [], "matched": []}
        wanted = {row["serial"]: row for row in self.expected()}
        for serial, row in wanted.items():
            node = found.get(serial)
            if node is None:
                result["missing"].append({key: value for key, value in row.items() if value is not None})
                continue
            differences = {
                column: [row[column], node[column]]
                for column in ("site", "rack", "slot", "role", "platform", "tenant")
                if row[column] is not None and row[column] != node[column]
            }
            entry = {"serial": serial, "name": node["name"]}
            if differences:
                result["misplaced"].append({**entry, "differences": differences})
            else:
                result["matched"].append(entry)
        for serial, node in found.items():
            if serial not in wanted:
                keys = ("serial", "name", "rack", "slot", "bmc_address")
                result["unexpected"].append({key: node[key] for key in keys if node[key] is not None})
        return result


def _part_out(row):
    part = {key: row[key] for key in ("slot", "kind", "model", "firmware", "since", "until")}
    part["serial"] = row["part_serial"]
    part.update(loads(row["detail"]) or {})
    return part
