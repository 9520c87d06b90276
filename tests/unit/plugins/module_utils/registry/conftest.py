# Every test of the registry that takes `url` or `registry` runs on SQLite and on PostgreSQL.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import itertools
import pathlib
import sys

import pytest
import sqlalchemy as sa

from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "support"))
import private_postgresql

_number = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql():
    """`url(database)` of a private server with an empty, migrated database `template`."""
    try:
        with private_postgresql.server() as url:
            _create(url, "model")
            open_registry(url("model"), migrate=True).close()
            yield url
    except private_postgresql.CouldNotTest as reason:
        pytest.skip(str(reason))


def _create(url, name, template=None):
    engine = sa.create_engine(url("postgres"), isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
    engine.dispose()


@pytest.fixture(scope="session")
def sqlite_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "registry.db"
    open_registry(f"sqlite:///{path}", migrate=True).close()
    return path


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def backend(request):
    return request.param


@pytest.fixture
def empty_url(backend, tmp_path, request):
    """URL of a database without a schema."""
    if backend == "sqlite":
        return f"sqlite:///{tmp_path}/registry.db"
    url = request.getfixturevalue("postgresql")
    name = f"empty{next(_number)}"
    _create(url, name)
    return url(name)


@pytest.fixture
def url(backend, tmp_path, request):
    """URL of a migrated, empty registry."""
    if backend == "sqlite":
        path = tmp_path / "registry.db"
        path.write_bytes(request.getfixturevalue("sqlite_model").read_bytes())
        return f"sqlite:///{path}"
    server = request.getfixturevalue("postgresql")
    name = f"registry{next(_number)}"
    _create(server, name, "model")
    return server(name)


@pytest.fixture
def registry(url):
    with open_registry(url) as opened:
        yield opened


@pytest.fixture
def sql(registry):
    """Run SQL behind the registry's back."""

    def run(statement, **values):
        with registry._db.engine.connect() as connection, connection.begin():
            result = connection.execute(sa.text(statement), values)
            return result.all() if result.returns_rows else result.rowcount

    return run


@pytest.fixture
def available(registry):
    """`available(name)` makes a node that waits for deployment; returns its serial."""

    def make(name="gpu01"):
        serial = f"S-{name}"
        registry.save_node(serial, "tester@here", name=name, rack="r1", state="manageable")
        registry.transition(name, "manageable", "available", "tester@here")
        return serial

    return make


@pytest.fixture
def burning_in(registry, available):
    """`burning_in()` brings gpu01 to its burn-in and begins it; returns Begin."""

    def make():
        available()
        for stage in ("deploy", "software"):
            begin = registry.begin("gpu01", stage, actor="tester@here")
            registry.finish("gpu01", begin.attempt, begin.fencing, "pass", "tester@here")
        return registry.begin("gpu01", "burn_in", actor="tester@here")

    return make
