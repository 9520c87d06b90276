# A credential that was refused is not tried until the BMC locks it; and no BMC gets more than two requests at a time.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import threading
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect, guard, operations
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import TransportError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from .conftest import endpoint

HERE = Endpoint("192.0.2.1", username="admin", password="very-secret-1", name="gpu01")


def files():
    place = pathlib.Path(guard.directory())
    return [path for path in place.iterdir() if path.name != "key"] if place.exists() else []


def test_two_refusals_and_then_nothing_is_sent(bmc):
    wrong = endpoint(bmc, password="not-the-one")
    for _unused in range(guard.MOST_REFUSALS):
        with pytest.raises(errors.AuthenticationFailed) as caught:
            operations.power(wrong, "on")
        assert caught.value.code == "authentication_failed"
    for login in (False, True):
        with connect(wrong) as client, pytest.raises(errors.AuthenticationFailed) as caught:
            if login:
                client.login()
            client.system()
        assert (
            caught.value.code == "lockout_guard" and caught.value.next_step and "not-the-one" not in str(caught.value)
        )
        assert [status for unused, unused2, status in client.sent].count(401) == 0
    assert not operations.can_log_in(wrong, wrong.username, wrong.password)
    # another password is tried at once, and so is the right one
    assert operations.can_log_in(wrong, wrong.username, bmc["gpu01"].password)


def test_it_expires_and_is_forgotten_when_it_works():
    guard.check(HERE)
    guard.refused(HERE)
    assert guard.check(HERE) == 1
    guard.refused(HERE)
    with pytest.raises(errors.AuthenticationFailed):
        guard.check(HERE)
    assert guard.check(HERE.with_account("admin", "another")) == 0
    old = time.time() - guard.EXPIRES_S - 1
    os.utime(files()[0], (old, old))
    assert guard.check(HERE) == 0
    guard.refused(HERE)
    assert guard.check(HERE) == 1  # the old ones do not count any more
    guard.forget(HERE)
    assert guard.check(HERE) == 0


def test_what_lies_on_the_disk_says_nothing():
    guard.refused(HERE)
    place = pathlib.Path(guard.directory())
    assert place.stat().st_mode & 0o777 == 0o700
    for path in place.iterdir():
        assert path.stat().st_mode & 0o077 == 0 or path.name != "key"
        assert b"secret" not in path.read_bytes() and "admin" not in path.name and "secret" not in path.name


def test_a_directory_of_somebody_else_is_not_believed(tmp_path, monkeypatch):
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    monkeypatch.setenv(guard.ENVIRONMENT, str(place))
    guard.refused(HERE)
    guard.refused(HERE)
    assert guard.check(HERE) == 0 and not list(place.iterdir())
    monkeypatch.setenv(guard.ENVIRONMENT, "off")
    guard.refused(HERE)
    assert guard.check(HERE) == 0


def test_a_working_login_is_forgotten_by_the_client(bmc, there):
    guard.refused(there)
    with connect(there) as client:
        client.system()
    assert guard.check(there) == 0 and not files()


def test_at_most_two_requests_at_one_bmc():
    turns, most, lock, now = guard.InFlight(), [], threading.Lock(), [0]

    def work():
        with turns.one(HERE, 5):
            with lock:
                now[0] += 1
                most.append(now[0])
            time.sleep(0.05)
            with lock:
                now[0] -= 1

    threads = [threading.Thread(target=work) for unused in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 2 and not turns._counts
    with turns.one(HERE, 1), turns.one(HERE, 1), pytest.raises(TransportError) as caught, turns.one(HERE, 0.1):
        pass
    assert not caught.value.sent
    with turns.one(HERE, 1), turns.one(Endpoint("192.0.2.2"), 1):
        pass


def test_the_client_waits_for_its_turn(bmc, there):
    bmc.set_behaviour("gpu01", delay_s=0.2)
    clients, threads = [connect(there) for unused in range(5)], []
    seen = []

    def work(client):
        client.root()
        with guard.IN_FLIGHT._changed:
            seen.append(guard.IN_FLIGHT._counts.get((there.address, there.port), 0))

    for client in clients:
        threads.append(threading.Thread(target=work, args=(client,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()
    assert max(seen) <= 2


def test_the_key_is_read_once_and_again_when_the_directory_is_another(monkeypatch):
    guard.refused(HERE)
    assert guard.check(HERE) == 1
    read = []
    real = open
    monkeypatch.setattr(
        "builtins.open", lambda path, *more, **options: (read.append(str(path)), real(path, *more, **options))[1]
    )
    assert guard.check(HERE) == 1
    assert not [path for path in read if path.endswith("/key")]
    place = pathlib.Path(guard.directory())
    for path in place.iterdir():
        path.unlink()
    place.rmdir()
    assert guard.check(HERE) == 0
    guard.refused(HERE)
    assert len(files()) == 1 and guard.check(HERE) == 1


def test_a_link_is_no_place(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("AICLUSTER_BMC_GUARD", str(tmp_path / "link"))
    guard.refused(HERE)
    assert guard.check(HERE) == 0 and not list((tmp_path / "elsewhere").iterdir())
