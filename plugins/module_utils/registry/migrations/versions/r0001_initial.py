# Schema 0001: all tables of the first release. Frozen: a later change of tables.py is a new file here, never an edit of this one.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

try:
    import sqlalchemy as sa
    from alembic import op
except ImportError:  # the controller has both; ansible-test imports every file without third-party libraries
    sa = op = None

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _columns(**kinds):
    """`name="t!"` etc.: t text, i integer, I big integer, f float, b boolean; `!` not null, `*` primary key, `u` unique."""
    types = {"t": sa.Text, "i": sa.Integer, "I": sa.BigInteger, "f": sa.Float, "b": sa.Boolean}
    made = []
    for name, kind in kinds.items():
        flags = kind[1:]
        made.append(sa.Column(name, types[kind[0]](), primary_key="*" in flags, nullable=not set(flags) & set("!*")))
        if "a" in flags:  # numbered by us, not by the database
            made[-1] = sa.Column(name, types[kind[0]](), primary_key=True, autoincrement=False)
    made += [sa.UniqueConstraint(name) for name, kind in kinds.items() if "u" in kind[1:]]
    return made


def _of(column, table):
    return sa.ForeignKeyConstraint([column], [table])


def _unique_where(name, table, columns, where):
    op.create_index(name, table, columns, unique=True, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def upgrade():
    op.create_table(
        "nodes",
        *_columns(
            serial="t*",
            name="t!",
            uuid="t",
            site="t",
            rack="t",
            slot="t",
            tenant="t",
            platform="t",
            role="t",
            state="t!",
            state_since="t!",
            attempt="i",
            fencing="i!",
            lease="t",
            lease_since="t",
            maintenance="b!",
            maintenance_reason="t",
            bmc_address="t",
            bmc_port="i",
            bmc_protocol="t",
            bmc_credential="t",
            bmc_fingerprint="t",
            provision_mac="t",
            provision_ip="t",
            provision_prefix="i",
            ansible_host="t",
            host_key="t",
            facts="t",
            created="t!",
            last_seen="t!",
        ),
    )
    _unique_where("nodes_name", "nodes", ["name"], "state <> 'retired'")
    op.create_index("nodes_state", "nodes", ["state"])
    op.create_index("nodes_provision_mac", "nodes", ["provision_mac"])
    op.create_table(
        "parts",
        *_columns(
            id="i*",
            serial="t!",
            kind="t!",
            slot="t!",
            model="t",
            part_serial="t",
            firmware="t",
            detail="t",
            since="t!",
            until="t",
        ),
        _of("serial", "nodes.serial"),
    )
    _unique_where("parts_present", "parts", ["serial", "kind", "slot"], "until IS NULL")
    op.create_table(
        "attempts",
        *_columns(
            id="i*",
            serial="t!",
            stage="t!",
            fencing="i!",
            started="t!",
            deadline="t!",
            deadline_s="f!",
            heartbeat="t!",
            ended="t",
            outcome="t",
            reason="t",
            last_step="t",
            step_time="t",
            step_detail="t",
            actor="t!",
            adoptions="i!",
            owner_host="t!",
            owner_boot_id="t!",
            owner_pid="i!",
            owner_started="I!",
        ),
        _of("serial", "nodes.serial"),
    )
    op.create_index("attempts_serial", "attempts", ["serial", "id"])
    _unique_where("attempts_open", "attempts", ["serial"], "ended IS NULL")
    op.create_table(
        "steps",
        *_columns(id="i*", attempt="i!", fencing="i!", step="t!", detail="t", time="t!", late="b!"),
        _of("attempt", "attempts.id"),
    )
    op.create_index("steps_attempt", "steps", ["attempt", "id"])
    op.create_table(
        "evidence",
        *_columns(
            id="i*",
            serial="t!",
            attempt="i",
            check_name="t!",
            outcome="t!",
            value="t",
            unit="t",
            limit_value="t",
            rule="t",
            source="t",
            simulated="b!",
            detail="t",
            time="t!",
            actor="t!",
        ),
        _of("serial", "nodes.serial"),
        _of("attempt", "attempts.id"),
    )
    op.create_index("evidence_serial", "evidence", ["serial", "check_name", "id"])
    op.create_index("evidence_attempt", "evidence", ["attempt"])
    op.create_table(
        "holds",
        *_columns(
            id="i*",
            serial="t!",
            owner="t!",
            reason="t!",
            exit_condition="t!",
            automation="b!",
            actor="t!",
            since="t!",
            released="t",
            released_by="t",
        ),
        _of("serial", "nodes.serial"),
    )
    _unique_where("holds_open", "holds", ["serial", "owner"], "released IS NULL")
    op.create_table(
        "grants",
        *_columns(
            id="i*",
            token_hash="t!u",
            serial="t!",
            attempt="i!",
            fencing="i!",
            mac="t!",
            spec="t",
            issued="t!",
            expires="t!",
            used="t",
            voided="t",
        ),
        _of("serial", "nodes.serial"),
        _of("attempt", "attempts.id"),
    )
    op.create_index("grants_mac", "grants", ["mac"])
    op.create_index("grants_attempt", "grants", ["attempt"])
    op.create_table(
        "boot_events",
        *_columns(
            id="i*",
            serial="t!",
            attempt="i",
            step="t!",
            detail="t",
            source="t!",
            time="t!",
            recorded="t!",
        ),
        _of("serial", "nodes.serial"),
        _of("attempt", "attempts.id"),
    )
    op.create_index("boot_events_serial", "boot_events", ["serial", "attempt", "id"])
    op.create_table(
        "expected",
        *_columns(serial="t*", name="t", site="t", rack="t", slot="t", role="t", platform="t", tenant="t"),
    )
    op.create_table(
        "audit",
        *_columns(
            seq="i*a",
            time="t!",
            actor="t!",
            serial="t",
            action="t!",
            detail="t!",
            previous_hash="t!",
            hash="t!",
        ),
    )
    op.create_index("audit_serial", "audit", ["serial", "seq"])
    op.create_table("audit_head", *_columns(id="i*a", seq="i!", hash="t!"))
    op.bulk_insert(
        sa.table("audit_head", sa.column("id"), sa.column("seq"), sa.column("hash")),
        [{"id": 1, "seq": 0, "hash": "0" * 64}],
    )


def downgrade():
    raise RuntimeError("schema 0001 is the first; drop the database instead")
