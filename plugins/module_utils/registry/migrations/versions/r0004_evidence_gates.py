# Schema 0004: evidence says whether it gates. Frozen, as every file here.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

try:
    import sqlalchemy as sa
    from alembic import op
except ImportError:  # the controller has both; ansible-test imports every file without third-party libraries
    sa = op = None

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade():
    op.add_column("evidence", sa.Column("gates", sa.Boolean()))


def downgrade():
    raise RuntimeError("a registry does not go back: restore the database from before the migration")
