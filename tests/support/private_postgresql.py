# A PostgreSQL server of one's own for tests: unix socket only, in a temporary directory, stopped by its process id.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time


class CouldNotTest(Exception):
    """There is no PostgreSQL here."""


def binaries():
    """The directory of the newest installed server; CouldNotTest when there is none."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda path: int(path.split("/")[4]))
    if not found and shutil.which("postgres"):
        found = [shutil.which("postgres")]
    if not found:
        raise CouldNotTest("could_not_test: no PostgreSQL server is installed (Debian: postgresql)")
    return os.path.dirname(found[-1])


def _prefix(user):
    """PostgreSQL refuses to run as root."""
    if os.geteuid():
        return []
    return ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]


@contextlib.contextmanager
def server():
    """Yield `url(database)`, a function that gives the registry URL of a database in a fresh server."""
    tools = binaries()
    user = "postgres"
    if not os.geteuid():
        try:
            pwd.getpwnam(user)
        except KeyError:
            user = "nobody"
    directory = pathlib.Path(tempfile.mkdtemp(prefix="aicl-pg-"))  # short: the path of a socket has at most 107 bytes
    process = None
    try:
        if not os.geteuid():
            shutil.chown(directory, user)
        data = directory / "data"
        subprocess.run(
            [*_prefix(user), f"{tools}/initdb", "-A", "trust", "-U", "registry", "-E", "UTF8", "-D", str(data)],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd="/",
        )
        with open(directory / "log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [*_prefix(user), f"{tools}/postgres", "-D", str(data), "-c", "listen_addresses=", "-c", "fsync=off"]
                + ["-c", f"unix_socket_directories={directory}", "-c", "max_connections=60"],
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        ready = [f"{tools}/pg_isready", "-q", "-h", str(directory), "-U", "registry"]
        limit = time.monotonic() + 30
        while subprocess.run(ready, check=False).returncode:
            if process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"PostgreSQL did not start: {(directory / 'log').read_text(encoding='utf-8')}")
            time.sleep(0.1)
        yield lambda database="postgres": f"postgresql+psycopg://registry@/{database}?host={directory}"
    finally:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)  # fast shutdown
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(directory, ignore_errors=True)
