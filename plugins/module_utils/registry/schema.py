# The schema's version: checked with one query when the registry is opened, moved by Alembic only when asked to.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib

from ..core import errors
from .tables import SCHEMA_VERSION

try:
    import sqlalchemy as sa
except ImportError:  # reported by open_registry
    sa = None

MIGRATIONS = pathlib.Path(__file__).resolve().parent / "migrations"
# With an inventory of its own: the one that shows the nodes cannot be read before the registry has its schema.
MIGRATE_COMMAND = "ansible-playbook -i localhost, aicluster.baremetal.registry"
_POSTGRESQL_LOCK = 0x61696C75  # any constant: two controllers that migrate at once wait for each other


def present_version(database):
    """The schema version of the database, or None for an empty one."""
    if not database.exists():
        return None
    try:
        with database.read() as connection:
            return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    except errors.Unreachable as error:
        if "no such table" in str(error.seen):
            return None
        raise
    except sa.exc.ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) == "42P01":  # undefined_table
            return None
        raise


def check(database):
    """Raise unless the database has exactly the schema of this collection."""
    seen = present_version(database)
    if seen != SCHEMA_VERSION:
        newer = seen is not None and seen > SCHEMA_VERSION
        shown = f"at schema {seen}" if seen else "empty"
        raise errors.Unsupported(
            f"the registry is {shown}, this collection wants schema {SCHEMA_VERSION}",
            thing=f"registry {database.shown}",
            next_step="use a newer collection"
            if newer
            else f"with AICLUSTER_REGISTRY set to its URL, run: {MIGRATE_COMMAND}",
            code="schema_mismatch",
        )


def migrate(database):
    """Bring the schema to SCHEMA_VERSION in one transaction; returns (before, after). Safe to run from two controllers at once."""
    before = present_version(database)
    if before == SCHEMA_VERSION:
        return before, before
    if before is not None and before > SCHEMA_VERSION:
        check(database)
    try:
        from alembic.config import Config
        from alembic.runtime.environment import EnvironmentContext
        from alembic.script import ScriptDirectory
    except ImportError as error:
        raise errors.Unsupported(
            f"the Python library alembic cannot be imported ({error})",
            thing="registry",
            next_step="install the collection's requirements.txt into the Python that runs ansible-playbook",
        ) from error
    if database.sqlite:
        _prepare_file(database)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)

    def work(connection):
        if not database.sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_POSTGRESQL_LOCK})")
        with EnvironmentContext(
            config, script, fn=lambda revision, _context: script._upgrade_revs("head", revision)
        ) as env:
            env.configure(connection=connection, target_metadata=None, transactional_ddl=True)
            env.run_migrations()

    database.write(work)
    check(database)
    return before, SCHEMA_VERSION


def _prepare_file(database):
    """Make the SQLite file private to its owner before anything is in it, and switch it to WAL (kept in the file)."""
    if not os.path.isdir(os.path.dirname(database.path)):
        raise errors.NotFound(
            "the directory of the registry file does not exist",
            thing=f"registry {database.shown}",
            wanted=os.path.dirname(database.path),
            next_step="make the directory, mode 0700, or correct the registry URL",
        )
    try:
        os.close(os.open(database.path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise errors.Refused(
            f"the registry file cannot be made: {error.strerror}", thing=f"registry {database.shown}"
        ) from error
    raw = database.engine.raw_connection()
    try:
        raw.driver_connection.execute("PRAGMA journal_mode = WAL")
    finally:
        raw.close()
