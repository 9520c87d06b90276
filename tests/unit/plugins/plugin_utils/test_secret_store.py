# The secret store: private, atomic, and silent about what is in it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import multiprocessing
import stat

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.secret_store import SecretStore

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
    with pytest.raises(errors.InvalidInput) as seen:
        SecretStore(path).get("a")
    assert "hunter2" not in str(seen.value)


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
