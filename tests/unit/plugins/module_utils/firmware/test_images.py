# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools
import hashlib
import http.server
import os
import threading

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import (
    InvalidInput,
    NotFound,
    Refused,
    Unreachable,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import images as subject


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "bmc.bin"
    path.write_bytes(os.urandom(3 << 20))
    return {
        "path": str(path),
        "url": None,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "size_bytes": 3 << 20,
    }


def test_a_file_is_held_to_its_checksum(image):
    found = subject.Store().get(image)
    assert (found.path, found.size, found.name, found.url) == (image["path"], 3 << 20, "bmc.bin", None)


def test_it_is_read_once_until_it_changes(image, monkeypatch):
    store, reads = subject.Store(), []
    monkeypatch.setattr(subject, "digest_of", lambda path: (reads.append(path), image["sha256"])[1])
    store.get(image)
    store.get(image)
    assert len(reads) == 1
    os.utime(image["path"], (1, 1))
    store.get(image)
    assert len(reads) == 2


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"sha256": "0" * 64}, Refused, "SHA-256 0000"),
        ({"size_bytes": 5}, Refused, "5 bytes"),
        ({"path": "/nowhere/x.bin"}, NotFound, "correct image.path"),
    ],
)
def test_another_file_is_refused(image, change, error, words):
    with pytest.raises(error, match=words):
        subject.Store().get({**image, **change})


def test_an_empty_file_is_refused(tmp_path):
    path = tmp_path / "x"
    path.touch()
    with pytest.raises(Refused, match="empty"):
        subject.Store().get({"path": str(path), "sha256": hashlib.sha256(b"").hexdigest()})


@pytest.fixture
def web(image):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=os.path.dirname(image["path"]))
    handler.log_message = None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_address_is_fetched_into_the_cache(image, web, tmp_path):
    store = subject.Store(str(tmp_path / "cache"))
    wanted = {**image, "path": None, "url": f"{web}/bmc.bin"}
    found = store.get(wanted)
    assert found.url == wanted["url"] and found.size == 3 << 20
    assert os.listdir(tmp_path / "cache") == [os.path.basename(found.path)]
    assert store.get(wanted, fetch=False).path is None
    with pytest.raises(Refused, match="SHA-256"):
        store.get({**wanted, "sha256": "1" * 64})
    with pytest.raises(Unreachable, match="cannot be fetched"):
        store.get({**wanted, "url": f"{web}/none.bin", "sha256": "2" * 64})
    assert not [name for name in os.listdir(tmp_path / "cache") if name.startswith(".")]


def test_an_address_without_a_cache(image):
    with pytest.raises(InvalidInput, match="image_cache"):
        subject.Store().get({**image, "path": None, "url": "http://images/bmc.bin"})
