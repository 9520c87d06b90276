# The database layer: URLs, errors without secrets, locks, retries, times.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import threading
import time

import pytest
import sqlalchemy as sa

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import engine, open_registry, tables

ME = "tester@here"


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://x/y", "sqlite://", "sqlite:///relative.db", None])
def test_a_wrong_url_is_explained(url):
    with pytest.raises(errors.InvalidInput, match="sqlite:////absolute"):
        open_registry(url)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:hunter2@x/y",
        "oracle+cx://u:hunter2@x/y",
        "foo://u:hunter2@x/y",
        "postgresql+foo://u:hunter2@x/y",
        "postgresql+asyncpg://u:hunter2@x/y",
        "postgresql://u:hunter2@host:port/y",
        "sqlite+aiosqlite:////tmp/x.db",
        "sqlite:///relative.db",
    ],
)
def test_a_wrong_url_says_what_to_do_and_shows_no_password(url):
    with pytest.raises(errors.InvalidInput, match="wanted: .*next: correct aicluster_registry") as seen:
        open_registry(url)
    assert "hunter2" not in str(seen.value)


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path):
    with pytest.raises(errors.Unreachable) as seen:
        open_registry(f"postgresql://registry:hunter2@/x?host={tmp_path}")
    assert "hunter2" not in str(seen.value)
    assert "registry" in str(seen.value)


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "registry.db"
    path.write_text("this is text, and long enough to be read as a database header would be" * 20)
    with pytest.raises(errors.BaremetalError):
        open_registry(f"sqlite:///{path}")


def test_the_shown_url_hides_the_password():
    assert "hunter2" not in engine.Database("postgresql://a:hunter2@host/db").shown


def test_a_refusal_that_must_stay_on_record_is_committed(registry):
    def work(connection):
        connection.execute(tables.expected.insert().values(serial="S1"))
        raise engine.CommitThenRaise(errors.Refused("no"))

    with pytest.raises(errors.Refused):
        registry._db.write(work)
    assert [row["serial"] for row in registry.expected()] == ["S1"]


def test_any_other_exception_rolls_back(registry):
    def work(connection):
        connection.execute(tables.expected.insert().values(serial="S1"))
        raise errors.Refused("no")

    with pytest.raises(errors.Refused):
        registry._db.write(work)
    assert registry.expected() == []


def test_a_locked_sqlite_file_is_explained(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_S", 0.2)
    url = f"sqlite:///{tmp_path}/registry.db"
    with open_registry(url, migrate=True) as registry, open_registry(url) as other:
        with registry._db.engine.connect() as connection:
            connection = connection.execution_options(aicluster_write=True)
            with connection.begin():
                with pytest.raises(errors.Conflict, match="locked"):
                    other.save_node("S1", ME, name="gpu01")
                assert other.nodes() == []  # readers are not held up


@pytest.mark.parametrize("backend", [pytest.param("postgresql", marks=pytest.mark.postgresql)])
def test_a_deadlock_is_tried_again(registry):
    """Two writers that lock two nodes in opposite order: PostgreSQL ends one, and it runs again."""
    for name in ("gpu01", "gpu02"):
        registry.save_node(f"S-{name}", ME, name=name)
    meet, runs = threading.Barrier(2, timeout=20), []

    def lock(first, second):
        def work(connection):
            runs.append(first)
            for serial in (first, second):
                statement = sa.select(tables.nodes.c.serial).where(tables.nodes.c.serial == serial).with_for_update()
                connection.execute(statement).all()
                if serial == first and runs.count(first) == 1:
                    meet.wait()

        registry._db.write(work)

    pairs = (("S-gpu01", "S-gpu02"), ("S-gpu02", "S-gpu01"))
    threads = [threading.Thread(target=lock, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(runs) == 3  # both, and one of them a second time


def test_times_are_text_that_sorts(registry):
    with registry._db.read() as connection:
        first = registry._db.now(connection)
        time.sleep(0.002)
        second = registry._db.now(connection)
    assert first < second
    assert len(first) == 27 and first.endswith("Z")
    assert engine.seconds_between(first, engine.plus(first, 90)) == 90
    assert abs(engine.parse_time(first).timestamp() - time.time()) < 60
    with pytest.raises(errors.InvalidInput):
        engine.parse_time("yesterday")


def test_the_registry_tells_its_own_time(registry):
    assert abs(engine.parse_time(registry.now()).timestamp() - time.time()) < 60
