# The registry's one front: open_registry gives a Registry with all calls of docs/architecture.md.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from . import audit, schema
from . import tables as t
from .attempts import Attempts
from .engine import Database
from .firmware import Firmware
from .nodes import Nodes, find
from .records import Records
from .why import Why

try:
    import sqlalchemy as sa
except ImportError:  # reported by open_registry
    sa = None


class Registry(Nodes, Attempts, Records, Firmware, Why):
    """Holds no connection between calls: safe to keep across a fork, safe in threads. Close it when done, or use it in a `with`."""

    def __init__(self, database):
        self._db = database

    @property
    def url(self):
        """The URL without its password."""
        return self._db.shown

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def close(self):
        self._db.close()

    def now(self):
        """The present time of the registry's own clock. Ages of what it stored count by this one: the clocks of controllers differ."""
        with self._db.read() as connection:
            return self._db.now(connection)

    def audit(self, actor, node, action, detail=None):
        """Append one row to the audit chain; `node` may be None. Returns its number."""

        def work(connection):
            serial = find(connection, node)["serial"] if node is not None else None
            return audit.append(connection, self._db.now(connection), actor, serial, str(action), detail)

        return self._db.write(work)

    def audit_rows(self, node=None, limit=None):
        """Audit rows as dicts, oldest first; `limit` keeps the newest."""
        with self._db.read() as connection:
            statement = sa.select(t.audit).order_by(t.audit.c.seq.desc())
            if node is not None:
                statement = statement.where(t.audit.c.serial == find(connection, node)["serial"])
            if limit is not None:
                statement = statement.limit(limit)
            return [dict(row) for row in connection.execute(statement).mappings()][::-1]

    def verify_audit(self):
        """{rows, ok, first_bad, head}: see audit.verify."""
        with self._db.read() as connection:
            return audit.verify(connection)


def open_registry(url, migrate=False):
    """The Registry at `url`. With migrate=False only the schema version is looked at (one query); with migrate=True the schema is made or moved first."""
    database = Database(url)
    try:
        if migrate:
            schema.migrate(database)
        else:
            schema.check(database)
    except BaseException:
        database.close()
        raise
    return Registry(database)
