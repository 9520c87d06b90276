# Schema: made by Alembic, equal to tables.py, checked with one query, refused when it is another.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import (
    SCHEMA_VERSION,
    engine,
    open_registry,
    schema,
    tables,
)


def test_an_empty_database_is_refused_with_the_command_that_makes_it(empty_url):
    with pytest.raises(errors.Unsupported, match=r"wants schema .* run: .*registry$") as seen:
        open_registry(empty_url)
    assert seen.value.code == "schema_mismatch"


def test_looking_makes_no_file(tmp_path):
    with pytest.raises(errors.Unsupported):
        open_registry(f"sqlite:///{tmp_path}/registry.db")
    assert list(tmp_path.iterdir()) == []


def test_migrating_twice_is_migrating_once(empty_url):
    open_registry(empty_url, migrate=True).close()
    with open_registry(empty_url, migrate=True) as registry:
        assert schema.migrate(registry._db) == (SCHEMA_VERSION, SCHEMA_VERSION)
        assert registry.verify_audit() == {"rows": 0, "ok": True, "first_bad": None, "head": "0" * 64}


def _at(url, revision):
    """Make the schema of an older release."""
    database = engine.Database(url)
    if database.sqlite:
        schema._prepare_file(database)
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    script = ScriptDirectory.from_config(config)

    def work(connection):
        with EnvironmentContext(
            config, script, fn=lambda present, _context: script._upgrade_revs(revision, present)
        ) as context:
            context.configure(connection=connection, transactional_ddl=True)
            context.run_migrations()

    database.write(work)
    return database


def test_a_registry_of_the_first_release_is_moved_with_all_it_holds(empty_url):
    database = _at(empty_url, "0001")
    database.write(
        lambda connection: connection.exec_driver_sql(
            "INSERT INTO expected (serial, name, rack) VALUES ('S1', 'n1', 'r1')"
        )
    )
    database.close()
    with pytest.raises(errors.Unsupported, match="at schema 0001"):
        open_registry(empty_url)
    with open_registry(empty_url, migrate=True) as registry:
        [row] = registry.expected()
        assert (row["name"], row["rack"], row["bmc_address"]) == ("n1", "r1", None)
        assert registry.save_expected([{**row, "bmc_address": "10.0.0.1"}], "test").changed
        assert registry.verify_audit()["ok"]


def test_two_controllers_migrate_at_once(empty_url):
    failures = []

    def migrate():
        try:
            open_registry(empty_url, migrate=True).close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=migrate) for _number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    open_registry(empty_url).close()


@pytest.mark.parametrize(("version", "words"), [("0000", "run: "), ("9999", "newer collection")])
def test_another_version_is_refused(registry, sql, url, version, words):
    sql("UPDATE alembic_version SET version_num = :version", version=version)
    with pytest.raises(errors.Unsupported, match=words):
        open_registry(url)


def test_the_migrations_give_the_tables_of_the_code(registry):
    with registry._db.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, tables.metadata) == []
        found = sa.inspect(connection)
        for table in tables.metadata.sorted_tables:
            columns = {column["name"]: column["nullable"] for column in found.get_columns(table.name)}
            assert columns == {column.name: column.nullable for column in table.columns}
            indexes = {index["name"]: bool(index["unique"]) for index in found.get_indexes(table.name)}
            assert indexes.items() >= {index.name: bool(index.unique) for index in table.indexes}.items()


def test_the_newest_migration_is_the_version_of_the_code():
    assert ScriptDirectory(str(schema.MIGRATIONS)).get_heads() == [SCHEMA_VERSION]


def test_opening_neither_imports_alembic_nor_asks_more_than_one_query(url):
    unit = os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 3))
    code = f"""
import sys
sys.path.insert(0, {unit!r})
import conftest, sqlalchemy
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import engine, open_registry
asked = []
make = engine.Database.__init__
def watched(self, url):
    make(self, url)
    sqlalchemy.event.listen(self.engine, "before_cursor_execute", lambda c, cursor, statement, *rest: asked.append(statement))
engine.Database.__init__ = watched
open_registry(sys.argv[1])
print([statement for statement in asked if not statement.startswith(("BEGIN", "PRAGMA"))])
print("alembic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=True)
    # The first connection of an engine also asks PostgreSQL for its version and settings.
    asked, imported = done.stdout.strip().splitlines()
    assert asked.count("alembic_version") == 1
    assert imported == "False"


def test_the_sqlite_file_is_private_and_in_wal_mode(tmp_path):
    path = tmp_path / "registry.db"
    with open_registry(f"sqlite:///{path}", migrate=True) as registry:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with registry._db.read() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 30000
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(errors.NotFound, match="nowhere"):
        open_registry(f"sqlite:///{tmp_path}/nowhere/registry.db", migrate=True)
