# Schema 0003: firmware plans and their steps. Frozen, as every file here.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

try:
    import sqlalchemy as sa
    from alembic import op
except ImportError:  # the controller has both; ansible-test imports every file without third-party libraries
    sa = op = None

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade():
    text, integer = sa.Text, sa.Integer
    op.create_table(
        "firmware_plans",
        sa.Column("id", integer(), primary_key=True),
        sa.Column("serial", text(), nullable=False),
        sa.Column("baseline", text(), nullable=False),
        sa.Column("digest", text(), nullable=False),
        sa.Column("plan", text(), nullable=False),
        sa.Column("state", text(), nullable=False),
        sa.Column("reason", text()),
        sa.Column("claim", integer(), nullable=False),
        sa.Column("health", text()),
        sa.Column("actor", text(), nullable=False),
        sa.Column("created", text(), nullable=False),
        sa.Column("changed", text(), nullable=False),
        sa.Column("ended", text()),
        sa.Column("owner_host", text(), nullable=False),
        sa.Column("owner_boot_id", text(), nullable=False),
        sa.Column("owner_pid", integer(), nullable=False),
        sa.Column("owner_started", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["serial"], ["nodes.serial"]),
    )
    op.create_index("firmware_plans_serial", "firmware_plans", ["serial", "id"])
    op.create_index(
        "firmware_plans_open",
        "firmware_plans",
        ["serial"],
        unique=True,
        sqlite_where=sa.text("ended IS NULL"),
        postgresql_where=sa.text("ended IS NULL"),
    )
    op.create_table(
        "firmware_steps",
        sa.Column("id", integer(), primary_key=True),
        sa.Column("plan", integer(), nullable=False),
        sa.Column("number", integer(), nullable=False),
        sa.Column("component", text(), nullable=False),
        sa.Column("from_version", text()),
        sa.Column("to_version", text(), nullable=False),
        sa.Column("state", text(), nullable=False),
        sa.Column("pushes", integer(), nullable=False),
        sa.Column("resets", integer(), nullable=False),
        sa.Column("detail", text()),
        sa.Column("changed", text(), nullable=False),
        sa.ForeignKeyConstraint(["plan"], ["firmware_plans.id"]),
    )
    op.create_index("firmware_steps_plan", "firmware_steps", ["plan", "number"], unique=True)


def downgrade():
    raise RuntimeError("a registry does not go back: restore the database from before the migration")
