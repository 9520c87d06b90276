# Schema 0002: the expected-servers list keeps all of its columns, so that a run without the file is a run with it. Frozen, as every file here.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

try:
    import sqlalchemy as sa
    from alembic import op
except ImportError:  # the controller has both; ansible-test imports every file without third-party libraries
    sa = op = None

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade():
    for name in ("bmc_address", "bmc_protocol", "provision_mac", "provision_ip"):
        op.add_column("expected", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("expected", sa.Column("provision_prefix", sa.Integer(), nullable=True))
    op.add_column("expected", sa.Column("ansible_host", sa.Text(), nullable=True))


def downgrade():
    raise RuntimeError("a registry does not go back: restore the database from before the migration")
