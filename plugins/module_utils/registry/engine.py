# How the registry talks to its database: one short transaction at a time, the same meaning on SQLite and PostgreSQL.
#
# No connection outlives a call (NullPool), because ansible-playbook forks its workers: a connection used on both sides of a fork is a broken one.
# Writes take their lock first (SQLite: BEGIN IMMEDIATE; PostgreSQL: row locks, with retries where the database asks for one).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import datetime
import os
import random
import re
import time

from ..core import errors

try:
    import sqlalchemy as sa
    from sqlalchemy.dialects import postgresql as _postgresql  # noqa: F401  imported before forking: one time, not one per worker
    from sqlalchemy.dialects import sqlite as _sqlite  # noqa: F401

    SQLALCHEMY_ERROR = None
except ImportError as error:
    sa = None
    SQLALCHEMY_ERROR = str(error)

BUSY_TIMEOUT_S = 30
_RETRY_FOR_S = 30
# serialization_failure, deadlock_detected, unique_violation: somebody wrote the same row first, and the next try sees it and decides anew.
_RETRY_SQLSTATES = ("40001", "40P01", "23505")
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


class CommitThenRaise(Exception):
    """Raised inside a write: what was written stays, then `error` is raised (a refusal that must itself be on record)."""

    def __init__(self, error):
        super().__init__(str(error))
        self.error = error


def parse_time(text):
    """A stored or border time (`...Z`, with or without fraction) as an aware datetime; InvalidInput for anything else."""
    try:
        moment = datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError as error:
        raise errors.InvalidInput(f"{text!r} is no ISO 8601 time", wanted="for example 2026-01-31T12:00:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)


def format_time(moment):
    return moment.astimezone(datetime.timezone.utc).strftime(TIME_FORMAT)


def plus(text, seconds):
    """The stored time `seconds` after `text`."""
    return format_time(parse_time(text) + datetime.timedelta(seconds=seconds))


def seconds_between(early, late):
    return (parse_time(late) - parse_time(early)).total_seconds()


class Database:
    """`url` as given by the user; use `read()` for queries and `write(work)` for changes."""

    def __init__(self, url):
        if sa is None:
            raise errors.Unsupported(
                f"the Python library SQLAlchemy cannot be imported ({SQLALCHEMY_ERROR})",
                thing="registry",
                next_step="install the collection's requirements.txt into the Python that runs ansible-playbook",
            )
        text = re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", str(url or "").strip())
        try:
            self.url = sa.make_url(text)
            kind, _plus, driver = self.url.drivername.partition("+")
        except (sa.exc.ArgumentError, ValueError) as error:  # ValueError: a port that is no number
            # The URL is not shown: what cannot be read cannot be freed of its password.
            raise errors.InvalidInput(
                "the registry URL cannot be read", thing="registry", wanted=_WANTED, next_step=_CORRECT
            ) from error
        if driver and driver != _DRIVERS.get(kind, driver):
            raise errors.InvalidInput(
                "unknown database driver",
                thing="registry",
                wanted=_WANTED,
                seen=self.url.drivername,
                next_step=_CORRECT,
            )
        if kind not in _DRIVERS:
            raise errors.InvalidInput(
                "unknown kind of database", thing="registry", wanted=_WANTED, seen=kind, next_step=_CORRECT
            )
        self.sqlite = kind == "sqlite"
        self.shown = self.url.render_as_string(hide_password=True)
        self.path = self.url.database if self.sqlite else None
        if self.sqlite and (not self.path or not os.path.isabs(self.path)):
            raise errors.InvalidInput(
                "a SQLite registry needs an absolute path",
                thing="registry",
                wanted=_WANTED,
                seen=self.shown,
                next_step=_CORRECT,
            )
        arguments = {"timeout": BUSY_TIMEOUT_S} if self.sqlite else {"connect_timeout": 10}
        if not self.sqlite:
            arguments["application_name"] = "aicluster"
        try:
            self.engine = sa.create_engine(self.url, poolclass=sa.pool.NullPool, connect_args=arguments)
        except ImportError as error:
            raise errors.Unsupported(
                f"the database driver cannot be imported ({error})",
                thing="registry",
                next_step="install the collection's requirements.txt into the Python that runs ansible-playbook",
            ) from error
        if self.sqlite:
            sa.event.listen(self.engine, "connect", _prepare_sqlite)
        sa.event.listen(self.engine, "begin", self._begin)

    def _begin(self, connection):
        if self.sqlite:
            writes = connection.get_execution_options().get("aicluster_write")
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    def exists(self):
        """False only where a SQLite file is surely not there: opening it would make an empty one."""
        return not self.sqlite or os.path.exists(self.path)

    @contextlib.contextmanager
    def read(self):
        """One consistent snapshot."""
        options = {} if self.sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._named_errors(), self.engine.connect() as connection:
            connection = connection.execution_options(**options)
            with connection.begin():
                yield connection

    def write(self, work):
        """Run `work(connection)` in one write transaction and return its result; it may run again after a deadlock, so it must have no other effects."""
        give_up = time.monotonic() + _RETRY_FOR_S
        pause = 0.01
        while True:
            try:
                with self._named_errors(), self.engine.connect() as connection:
                    connection = connection.execution_options(aicluster_write=True)
                    with connection.begin() as transaction:
                        try:
                            return work(connection)
                        except CommitThenRaise as verdict:
                            transaction.commit()
                            raise verdict.error from None
            except _Retry as again:
                if time.monotonic() > give_up:
                    raise errors.Conflict(
                        f"the database asked for {_RETRY_FOR_S} s to try again",
                        thing="registry",
                        seen=str(again),
                        next_step="look for long transactions of other programs in this database",
                    ) from again
                time.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(0.5, pause * 2)

    @contextlib.contextmanager
    def _named_errors(self):
        """Turn the driver's errors into ours; the password of the URL is in none of them."""
        try:
            yield
        except sa.exc.DBAPIError as error:
            text = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
            if getattr(error.orig, "sqlstate", None) in _RETRY_SQLSTATES or "UNIQUE constraint failed" in text:
                raise _Retry(text) from error
            if "database is locked" in text:
                raise errors.Conflict(
                    f"another program kept the database locked for {BUSY_TIMEOUT_S} s",
                    thing=f"registry {self.shown}",
                    next_step="find it with `fuser` on the file, or use PostgreSQL for many controllers",
                ) from error
            if isinstance(error, sa.exc.OperationalError) or "not a database" in text:
                raise errors.Unreachable(
                    "the registry database cannot be used",
                    thing=f"registry {self.shown}",
                    seen=text,
                    next_step="check that it runs, that the path is writable, and the registry URL",
                ) from error
            if isinstance(error, (sa.exc.DataError, sa.exc.InterfaceError)) or "binding parameter" in text:
                raise errors.InvalidInput(
                    "the registry database does not take a value",
                    thing=f"registry {self.shown}",
                    wanted="texts, and numbers of the size that the column has",
                    seen=text,
                    next_step="correct the value; where a BMC or a program gave it, please report this text",
                    code="value_refused",
                ) from error
            raise

    def now(self, connection):
        """The present time as stored. On PostgreSQL it is the server's: controllers with different clocks must agree on ages and expiry."""
        if self.sqlite:
            return format_time(datetime.datetime.now(datetime.timezone.utc))
        return connection.exec_driver_sql(
            """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
        ).scalar_one()

    def close(self):
        self.engine.dispose()


_DRIVERS = {"sqlite": "pysqlite", "postgresql": "psycopg"}
_CORRECT = (
    "correct aicluster_registry (variable, AICLUSTER_REGISTRY, or registry in section [aicluster] of ansible.cfg)"
)
_WANTED = "sqlite:////absolute/path.db or postgresql+psycopg://user@host/database"


class _Retry(Exception):
    """The database rolled the transaction back and asks for another try."""


def _prepare_sqlite(connection, _record):
    # The driver's own transaction control starts transactions late and unlocked; Database._begin does it instead.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
    cursor.execute("PRAGMA foreign_keys = ON")
    # WAL with FULL: a commit is on disk when it returns. A fencing number that a power cut takes back would be given out twice.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()
