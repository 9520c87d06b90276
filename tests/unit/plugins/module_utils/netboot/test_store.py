# Manifests from a directory and from a server: every way of being wrong is found before anything is powered.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools
import http.server
import json
import threading

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import store

MANIFEST = {"name": "deb", "sha256": "a" * 64, "size_bytes": 4096, "root_uuid": "0b5a63b1-3c2a-4a3e-8d4d-2d2a1f0c9f11"}


@pytest.fixture
def images(tmp_path):
    (tmp_path / "deb").mkdir()
    (tmp_path / "deb/manifest.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "deb/disk.raw").write_bytes(b"x" * 4096)
    for name in ("vmlinuz", "deploy.img"):
        (tmp_path / "deb" / name).write_bytes(b"x")
    return tmp_path


def test_directory(images):
    assert store.image(str(images), "deb") == MANIFEST


def test_a_truncated_image_is_found(images):
    (images / "deb/disk.raw").write_bytes(b"x" * 2048)
    with pytest.raises(errors.InvalidInput, match="wanted: 4096 bytes; seen: 2048 bytes"):
        store.image(str(images), "deb")


@pytest.mark.parametrize("missing", ["manifest.json", "disk.raw", "vmlinuz", "deploy.img"])
def test_a_missing_file_is_named(images, missing):
    (images / "deb" / missing).unlink()
    with pytest.raises(errors.NotFound, match=missing):
        store.image(str(images), "deb")


def test_server(images):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(images))
    handler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        assert store.image(url, "deb") == MANIFEST
        with pytest.raises(errors.NotFound, match="HTTP 404"):
            store.image(url, "other")
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(errors.Unreachable):
        store.image(url, "deb", timeout=2)


def test_a_relative_store_is_refused():
    with pytest.raises(errors.InvalidInput):
        store.image("images", "deb")
