# The registry's tables. The schema itself is made by the migrations; a test compares the two.
#
# Times are text, UTC, ISO 8601 with microseconds and `Z`: both databases then store, order and hash them alike. Structured values are JSON text for
# the same reason. Keys survive repair: a node is its chassis serial, a part its kind and slot.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core.texts import clean

try:
    import sqlalchemy as sa
except ImportError:  # reported by open_registry; ansible-test imports every file without third-party libraries
    sa = None

SCHEMA_VERSION = "0004"  # the newest revision in migrations/versions

# Columns of a node that save_node may set; the order is the order in diffs.
NODE_COLUMNS = (
    "name",
    "uuid",
    "site",
    "rack",
    "slot",
    "tenant",
    "platform",
    "role",
    "bmc_address",
    "bmc_port",
    "bmc_protocol",
    "bmc_credential",
    "bmc_fingerprint",
    "provision_mac",
    "provision_ip",
    "provision_prefix",
    "ansible_host",
    "maintenance",
    "maintenance_reason",
)
EXPECTED_COLUMNS = (
    "serial",
    "name",
    "site",
    "rack",
    "slot",
    "role",
    "platform",
    "tenant",
    "bmc_address",
    "bmc_protocol",
    "provision_mac",
    "provision_ip",
    "provision_prefix",
    "ansible_host",
)

if sa is not None:
    metadata = sa.MetaData()

    class CleanText(sa.types.TypeDecorator):
        """Text without what only one of the databases takes: BMCs, logs and programs give NULs and broken characters."""

        impl = sa.Text
        cache_ok = True

        def process_bind_param(self, value, dialect):
            return clean(value) if isinstance(value, str) else value

    _text, _int = CleanText, sa.Integer

    def _table(name, *columns):
        return sa.Table(name, metadata, *columns)

    def _node_key(**kwargs):
        return sa.Column("serial", _text, sa.ForeignKey("nodes.serial"), **kwargs)

    nodes = _table(
        "nodes",
        sa.Column("serial", _text, primary_key=True),
        sa.Column("name", _text, nullable=False),
        sa.Column("uuid", _text),
        sa.Column("site", _text),
        sa.Column("rack", _text),
        sa.Column("slot", _text),
        sa.Column("tenant", _text),
        sa.Column("platform", _text),
        sa.Column("role", _text),
        sa.Column("state", _text, nullable=False),
        sa.Column("state_since", _text, nullable=False),
        sa.Column("attempt", _int),
        sa.Column("fencing", _int, nullable=False),
        sa.Column("lease", _text),
        sa.Column("lease_since", _text),
        sa.Column("maintenance", sa.Boolean, nullable=False),
        sa.Column("maintenance_reason", _text),
        sa.Column("bmc_address", _text),
        sa.Column("bmc_port", _int),
        sa.Column("bmc_protocol", _text),
        sa.Column("bmc_credential", _text),
        sa.Column("bmc_fingerprint", _text),
        sa.Column("provision_mac", _text),
        sa.Column("provision_ip", _text),
        sa.Column("provision_prefix", _int),
        sa.Column("ansible_host", _text),
        sa.Column("host_key", _text),
        sa.Column("facts", _text),
        sa.Column("created", _text, nullable=False),
        sa.Column("last_seen", _text, nullable=False),
        # A retired node keeps its record and gives its name to the server that takes its place.
        sa.Index(
            "nodes_name",
            "name",
            unique=True,
            sqlite_where=sa.text("state <> 'retired'"),
            postgresql_where=sa.text("state <> 'retired'"),
        ),
        sa.Index("nodes_state", "state"),
        sa.Index("nodes_provision_mac", "provision_mac"),
    )
    parts = _table(
        "parts",
        sa.Column("id", _int, primary_key=True),
        _node_key(nullable=False),
        sa.Column("kind", _text, nullable=False),
        sa.Column("slot", _text, nullable=False),
        sa.Column("model", _text),
        sa.Column("part_serial", _text),
        sa.Column("firmware", _text),
        sa.Column("detail", _text),
        sa.Column("since", _text, nullable=False),
        sa.Column("until", _text),
        sa.Index(
            "parts_present",
            "serial",
            "kind",
            "slot",
            unique=True,
            sqlite_where=sa.text("until IS NULL"),
            postgresql_where=sa.text("until IS NULL"),
        ),
    )
    attempts = _table(
        "attempts",
        sa.Column("id", _int, primary_key=True),
        _node_key(nullable=False),
        sa.Column("stage", _text, nullable=False),
        sa.Column("fencing", _int, nullable=False),
        sa.Column("started", _text, nullable=False),
        sa.Column("deadline", _text, nullable=False),
        sa.Column("deadline_s", sa.Float, nullable=False),
        sa.Column("heartbeat", _text, nullable=False),
        sa.Column("ended", _text),
        sa.Column("outcome", _text),
        sa.Column("reason", _text),
        sa.Column("last_step", _text),
        sa.Column("step_time", _text),
        sa.Column("step_detail", _text),
        sa.Column("actor", _text, nullable=False),
        sa.Column("adoptions", _int, nullable=False),
        sa.Column("owner_host", _text, nullable=False),
        sa.Column("owner_boot_id", _text, nullable=False),
        sa.Column("owner_pid", _int, nullable=False),
        sa.Column("owner_started", sa.BigInteger, nullable=False),
        sa.Index("attempts_serial", "serial", "id"),
        # The database itself refuses a second open attempt, whatever the code does.
        sa.Index(
            "attempts_open",
            "serial",
            unique=True,
            sqlite_where=sa.text("ended IS NULL"),
            postgresql_where=sa.text("ended IS NULL"),
        ),
    )
    steps = _table(
        "steps",
        sa.Column("id", _int, primary_key=True),
        sa.Column("attempt", _int, sa.ForeignKey("attempts.id"), nullable=False),
        sa.Column("fencing", _int, nullable=False),
        sa.Column("step", _text, nullable=False),
        sa.Column("detail", _text),
        sa.Column("time", _text, nullable=False),
        sa.Column("late", sa.Boolean, nullable=False),
        sa.Index("steps_attempt", "attempt", "id"),
    )
    evidence = _table(
        "evidence",
        sa.Column("id", _int, primary_key=True),
        _node_key(nullable=False),
        sa.Column("attempt", _int, sa.ForeignKey("attempts.id")),
        sa.Column("check_name", _text, nullable=False),
        sa.Column("outcome", _text, nullable=False),
        sa.Column("gates", sa.Boolean),  # null counts as true: rows of before schema 0004
        sa.Column("value", _text),
        sa.Column("unit", _text),
        sa.Column("limit_value", _text),
        sa.Column("rule", _text),
        sa.Column("source", _text),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.Column("detail", _text),
        sa.Column("time", _text, nullable=False),
        sa.Column("actor", _text, nullable=False),
        sa.Index("evidence_serial", "serial", "check_name", "id"),
        sa.Index("evidence_attempt", "attempt"),
    )
    holds = _table(
        "holds",
        sa.Column("id", _int, primary_key=True),
        _node_key(nullable=False),
        sa.Column("owner", _text, nullable=False),
        sa.Column("reason", _text, nullable=False),
        sa.Column("exit_condition", _text, nullable=False),
        sa.Column("automation", sa.Boolean, nullable=False),
        sa.Column("actor", _text, nullable=False),
        sa.Column("since", _text, nullable=False),
        sa.Column("released", _text),
        sa.Column("released_by", _text),
        sa.Index(
            "holds_open",
            "serial",
            "owner",
            unique=True,
            sqlite_where=sa.text("released IS NULL"),
            postgresql_where=sa.text("released IS NULL"),
        ),
    )
    grants = _table(
        "grants",
        sa.Column("id", _int, primary_key=True),
        sa.Column("token_hash", _text, nullable=False, unique=True),
        _node_key(nullable=False),
        sa.Column("attempt", _int, sa.ForeignKey("attempts.id"), nullable=False),
        sa.Column("fencing", _int, nullable=False),
        sa.Column("mac", _text, nullable=False),
        sa.Column("spec", _text),
        sa.Column("issued", _text, nullable=False),
        sa.Column("expires", _text, nullable=False),
        sa.Column("used", _text),
        sa.Column("voided", _text),
        sa.Index("grants_mac", "mac"),
        sa.Index("grants_attempt", "attempt"),
    )
    boot_events = _table(
        "boot_events",
        sa.Column("id", _int, primary_key=True),
        _node_key(nullable=False),
        sa.Column("attempt", _int, sa.ForeignKey("attempts.id")),
        sa.Column("step", _text, nullable=False),
        sa.Column("detail", _text),
        sa.Column("source", _text, nullable=False),
        sa.Column("time", _text, nullable=False),
        sa.Column("recorded", _text, nullable=False),
        sa.Index("boot_events_serial", "serial", "attempt", "id"),
    )
    expected = _table(
        "expected",
        sa.Column("serial", _text, primary_key=True),
        sa.Column("name", _text),
        sa.Column("site", _text),
        sa.Column("rack", _text),
        sa.Column("slot", _text),
        sa.Column("role", _text),
        sa.Column("platform", _text),
        sa.Column("tenant", _text),
        sa.Column("bmc_address", _text),
        sa.Column("bmc_protocol", _text),
        sa.Column("provision_mac", _text),
        sa.Column("provision_ip", _text),
        sa.Column("provision_prefix", _int),
        sa.Column("ansible_host", _text),
    )
    audit = _table(
        "audit",
        sa.Column("seq", _int, primary_key=True, autoincrement=False),
        sa.Column("time", _text, nullable=False),
        sa.Column("actor", _text, nullable=False),
        sa.Column("serial", _text),
        sa.Column("action", _text, nullable=False),
        sa.Column("detail", _text, nullable=False),
        sa.Column("previous_hash", _text, nullable=False),
        sa.Column("hash", _text, nullable=False),
        sa.Index("audit_serial", "serial", "seq"),
    )
    # One row: the end of the chain. Locking it makes concurrent appends wait for each other, so the chain cannot fork.
    audit_head = _table(
        "audit_head",
        sa.Column("id", _int, primary_key=True, autoincrement=False),
        sa.Column("seq", _int, nullable=False),
        sa.Column("hash", _text, nullable=False),
    )
    # What is to be flashed, and how far it is: see registry/firmware.py.
    firmware_plans = _table(
        "firmware_plans",
        sa.Column("id", _int, primary_key=True),
        _node_key(nullable=False),
        sa.Column("baseline", _text, nullable=False),
        sa.Column("digest", _text, nullable=False),
        sa.Column("plan", _text, nullable=False),
        sa.Column("state", _text, nullable=False),
        sa.Column("reason", _text),
        sa.Column("claim", _int, nullable=False),
        sa.Column("health", _text),
        sa.Column("actor", _text, nullable=False),
        sa.Column("created", _text, nullable=False),
        sa.Column("changed", _text, nullable=False),
        sa.Column("ended", _text),
        sa.Column("owner_host", _text, nullable=False),
        sa.Column("owner_boot_id", _text, nullable=False),
        sa.Column("owner_pid", _int, nullable=False),
        sa.Column("owner_started", sa.BigInteger, nullable=False),
        sa.Index("firmware_plans_serial", "serial", "id"),
        # As with attempts: the database itself refuses a second open plan.
        sa.Index(
            "firmware_plans_open",
            "serial",
            unique=True,
            sqlite_where=sa.text("ended IS NULL"),
            postgresql_where=sa.text("ended IS NULL"),
        ),
    )
    firmware_steps = _table(
        "firmware_steps",
        sa.Column("id", _int, primary_key=True),
        sa.Column("plan", _int, sa.ForeignKey("firmware_plans.id"), nullable=False),
        sa.Column("number", _int, nullable=False),
        sa.Column("component", _text, nullable=False),
        sa.Column("from_version", _text),
        sa.Column("to_version", _text, nullable=False),
        sa.Column("state", _text, nullable=False),
        sa.Column("pushes", _int, nullable=False),
        sa.Column("resets", _int, nullable=False),
        sa.Column("detail", _text),
        sa.Column("changed", _text, nullable=False),
        sa.Index("firmware_steps_plan", "plan", "number", unique=True),
    )
