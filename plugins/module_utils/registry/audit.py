# The audit chain: every row holds the hash of the row before it, so a changed, removed or inserted row is found and named.
#
# The chain cannot show that its *newest* rows were cut off together with the head row; who needs that keeps the head hash elsewhere (registry_info
# returns it).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json

from ..core.redact import redact
from ..core.texts import clean, clean_all
from . import tables

try:
    import sqlalchemy as sa
except ImportError:  # reported by open_registry
    sa = None

FIRST = "0" * 64
NEXT_STEP = (
    "keep a copy of the database as it is, find out who can write to it beside the collection, and restore a backup whose chain is whole "
    "(playbook registry verifies it)"
)
STATE_ACTION = "state"  # detail: {"from", "to", "reason", "attempt", "fencing"}


def row_hash(row):
    """SHA-256 over the row's canonical JSON, the hash of the row before it included."""
    fields = [row[key] for key in ("seq", "time", "actor", "serial", "action", "detail", "previous_hash")]
    return hashlib.sha256(json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode("ascii")).hexdigest()


def append(connection, now, actor, serial, action, detail):
    """Add one row inside the caller's transaction. Call it after the caller's own row locks: one lock order, no deadlocks."""
    head = connection.execute(sa.select(tables.audit_head).with_for_update(key_share=True)).mappings().one()
    row = {
        "seq": head["seq"] + 1,
        "time": now,
        # Cleaned before the hash is taken: it must fit what is stored.
        "actor": clean(str(actor)),
        "serial": serial,
        "action": clean(action),
        "detail": json.dumps(redact(clean_all(detail or {})), sort_keys=True, default=lambda item: clean(str(item))),
        "previous_hash": head["hash"],
    }
    row["hash"] = row_hash(row)
    connection.execute(tables.audit.insert().values(**row))
    connection.execute(tables.audit_head.update().values(seq=row["seq"], hash=row["hash"]))
    return row["seq"]


def verify(connection):
    """Walk the whole chain; returns {rows, ok, first_bad, head}. `first_bad` is None or {seq, problem, time, actor, serial, action, next_step}.

    Beside the hashes it compares each node's present state with the last audited one: a state changed behind the registry's back is found too.
    """
    head = connection.execute(sa.select(tables.audit_head)).mappings().one_or_none()
    result = {"rows": 0, "ok": True, "first_bad": None, "head": head["hash"] if head else None}

    def bad(problem, row=None, **extra):
        # All rows that are there, not only those before the bad one.
        result["rows"] = connection.execute(sa.select(sa.func.count()).select_from(tables.audit)).scalar()
        result["ok"] = False
        row = dict(row or {})
        result["first_bad"] = {
            "problem": problem,
            **{key: row.get(key) for key in ("seq", "time", "actor", "serial", "action")},
            "next_step": NEXT_STEP,
            **extra,
        }
        return result

    previous, states = FIRST, {}
    statement = sa.select(tables.audit).order_by(tables.audit.c.seq).execution_options(yield_per=1000)
    for row in connection.execute(statement).mappings():
        expected_seq = result["rows"] + 1
        if row["seq"] != expected_seq:
            return bad(f"row {expected_seq} is missing", seq=expected_seq)
        if row["hash"] != row_hash(row):
            return bad(f"row {row['seq']} was changed: its hash does not fit its content", row)
        if row["previous_hash"] != previous:
            return bad(f"row {row['seq']} does not follow the row before it", row)
        if row["action"] == STATE_ACTION:
            states[row["serial"]] = (json.loads(row["detail"])["to"], row)
        previous = row["hash"]
        result["rows"] += 1
    if head is None or (head["seq"], head["hash"]) != (result["rows"], previous):
        return bad(
            f"the chain ends at row {result['rows']}, its head row says {head['seq'] if head else 'nothing'}",
            seq=result["rows"] + 1,
        )
    for node in connection.execute(sa.select(tables.nodes.c.serial, tables.nodes.c.state)).mappings():
        state, row = states.get(node["serial"], (None, None))
        if state != node["state"]:
            return bad(
                f"node {node['serial']} is in state {node['state']}, the last audited state is {state}",
                row,
                serial=node["serial"],
            )
    return result
