# The secret store: private, atomic, and silent about what is in it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import multiprocessing
import stat
import time

import pytest
import yaml

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.secret_store import SecretStore, login_of

SECRET = {"username": "admin", "password": "hunter2"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "secrets.yml"


def test_what_is_put_comes_back_and_the_file_is_private(path):
    store = SecretStore(path)
    assert store.put("site/gpu01", SECRET)
    assert not store.put("site/gpu01", SECRET)
    assert SecretStore(path).get("site/gpu01") == SECRET
    assert store.has("site/gpu01") and not store.has("site/gpu02")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert store.remove("site/gpu01")
    assert not store.remove("site/gpu01")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_can_read_is_refused(path, mode):
    SecretStore(path).put("a", SECRET)
    path.chmod(mode)
    for call in (lambda: SecretStore(path).get("a"), lambda: SecretStore(path).put("b", SECRET)):
        with pytest.raises(errors.Refused, match="chmod 600") as seen:
            call()
        assert "hunter2" not in str(seen.value)


@pytest.mark.parametrize("text", ["a: [1, 2", "- hunter2", "a: hunter2"])
def test_a_file_of_another_shape_is_refused_without_quoting_it(path, text):
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(errors.InvalidInput, match="secrets.yml.*wanted: .*seen: .*next: ") as seen:
        SecretStore(path).get("a")
    assert "hunter2" not in str(seen.value)


def test_a_file_that_is_no_text(path):
    path.touch(0o600)
    path.write_bytes(b"a: {password: \xff}")
    with pytest.raises(errors.InvalidInput, match="next: "):
        SecretStore(path).get("a")


def test_a_store_that_cannot_be_read_is_never_an_empty_one(path):
    store = SecretStore(path)
    for call in (store.check, lambda: store.has("a"), lambda: store.get("a")):
        with pytest.raises(errors.NotFound, match="secrets.yml.*next: make it") as seen:
            call()
        assert seen.value.code == "secret_store_missing"
    path.mkdir(0o700)
    for call in (store.check, lambda: store.has("a"), lambda: store.get("a")):
        with pytest.raises(errors.Refused, match="secrets.yml.*seen: Is a directory; next: ") as seen:
            call()
        assert seen.value.code == "secret_store_unreadable"


COMMENTED = """\
# Site FRA-1. Changed by hand on 2026-01-31, ask Ida.
factory: {username: admin, password: "p#1"}  # of the delivery

# rack r1
bmc/S1:  # was swapped
  password: 'old'
  username: admin
  # rotate in May

# rack r2
bmc/S2:
    username: admin
    password: two
"""


def test_comments_order_and_style_of_other_entries_stay(path):
    path.touch(0o600)
    path.write_text(COMMENTED)
    store = SecretStore(path)
    store.add("bmc/S3", {"username": "admin", "password": "three"})
    assert path.read_text() == COMMENTED + "bmc/S3:\n  password: three\n  username: admin\n"
    store.put("bmc/S1", {"username": "admin", "password": "new"})
    text = path.read_text()
    assert [line for line in COMMENTED.splitlines() if line.startswith("#")] == [
        line for line in text.splitlines() if line.startswith("#")
    ]
    assert "  # of the delivery" in text and "  # rotate in May" in text and "password: new" in text
    assert "old" not in text and '{username: admin, password: "p#1"}' in text
    assert store.remove("bmc/S2") and "# rack r2" in path.read_text()
    assert store.get("factory")["password"] == "p#1" and not store.has("bmc/S2")


@pytest.mark.parametrize(
    "text",
    [
        "# note\n{a: {username: x, password: y}, b: {username: x}}\n",
        "# note\na: &same {username: x, password: y}\nb: *same\n",
        "# note\n",
        "# note\na:\n  username: x\n  password: |\n    y\n    z\n12: {username: n}",
        "# note\n---\na: {username: x}\n...\n",
    ],
)
@pytest.mark.parametrize("reference", ["a", "b", "c", "12"])
def test_whatever_the_file_looks_like_no_entry_and_no_note_at_its_head_is_lost(path, text, reference):
    path.touch(0o600)
    path.write_text(text)
    before = {str(key): value for key, value in (yaml.safe_load(text) or {}).items()}
    SecretStore(path).put(reference, SECRET)
    assert SecretStore(path)._read() == {**before, reference: SECRET}
    assert path.read_text().startswith("# note\n")
    SecretStore(path).remove(reference)
    assert SecretStore(path)._read() == {key: value for key, value in before.items() if key != reference}


def test_a_missing_reference_names_itself_and_nothing_else(path):
    SecretStore(path).put("other", SECRET)
    with pytest.raises(errors.NotFound, match="site/gpu01") as seen:
        SecretStore(path).get("site/gpu01")
    assert "other" not in str(seen.value)


def test_a_missing_file_is_named(path):
    with pytest.raises(errors.NotFound, match="secrets.yml"):
        SecretStore(path).get("a")


def _put(path, worker):
    for number in range(10):
        SecretStore(path).put(f"{worker}/{number}", SECRET)


def test_writers_at_the_same_time_lose_nothing(path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_put, args=(path, worker)) for worker in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    store = SecretStore(path)
    assert all(store.has(f"{worker}/{number}") for worker in range(3) for number in range(10))
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["secrets.yml", "secrets.yml.lock"]


def test_many_references_are_read_at_once_and_a_missing_one_is_its_own_error(tmp_path, monkeypatch):
    path = tmp_path / "secrets.yml"
    path.write_text("a: {username: u, password: p}\n")
    path.chmod(0o600)
    store = SecretStore(path)
    reads = []
    original = store._read
    monkeypatch.setattr(store, "_read", lambda *args, **kwargs: reads.append(1) or original(*args, **kwargs))
    found = store.get_many(["a", "b"])
    assert found["a"] == {"username": "u", "password": "p"} and len(reads) == 1
    assert found["b"].code == "secret_not_found" and found["b"].wanted == "b"


def test_a_store_that_cannot_be_written_says_so_and_loses_nothing(path):
    SecretStore(path).put("a", SECRET)
    lock = path.parent / "secrets.yml.lock"
    lock.unlink()
    lock.mkdir()
    with pytest.raises(errors.Refused, match="secrets.yml.*cannot be written.*next: ") as seen:
        SecretStore(path).put("b", SECRET)
    assert seen.value.code == "secret_store_unwritable" and SecretStore(path).get("a") == SECRET


def test_a_link_stays_a_link(path, tmp_path):
    real = tmp_path / "vault" / "real.yml"
    real.parent.mkdir(0o700)
    SecretStore(real).put("a", SECRET)
    path.symlink_to(real)
    SecretStore(path).put("b", SECRET)
    assert path.is_symlink() and SecretStore(real).has("b")


@pytest.mark.parametrize(
    ("entry", "needed", "words"),
    [
        ({"username": "admin", "passwd": "hunter22"}, ("username", "password"), ["no password", "passwd, username"]),
        ({"user": "admin", "password": "hunter22"}, ("username", "password"), ["no username", "password, user"]),
        ({}, ("username", "password"), ["no username and no password", "(none)"]),
        ({"username": "admin", "password": True}, ("password",), ["no password", "password is a bool"]),
        ({"username": "admin", "password": None}, ("password",), ["no password"]),
    ],
)
def test_an_entry_that_is_no_account(entry, needed, words):
    with pytest.raises(errors.InvalidInput) as caught:
        login_of(entry, "fleet", needed, "/etc/secrets.yml")
    text = str(caught.value)
    assert all(word in text for word in words) and "fleet in /etc/secrets.yml" in text and "hunter22" not in text


def test_accounts():
    assert login_of({"username": "admin", "password": 12345}, "x") == ("admin", "12345")
    assert login_of({"username": "", "password": ""}, "x") == ("", "")  # IPMI knows such accounts
    assert login_of({"password": "new"}, "x", ("password",)) == ("", "new")


def test_thousands_of_entries_are_read_in_no_time(path):
    """Each worker of each task reads the store: with the parser in Python 3,000 entries take more than two seconds of CPU time."""
    if not yaml.__with_libyaml__:
        pytest.skip("this PyYAML has no libyaml")
    lines = "".join(f"bmc/SN{number:05d}:\n  password: p{number}\n  username: admin\n" for number in range(3000))
    path.write_text(lines, encoding="utf-8")
    path.chmod(0o600)
    began = time.process_time()
    assert SecretStore(path).get("bmc/SN02999") == {"username": "admin", "password": "p2999"}
    assert time.process_time() - began < 1
