# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import socket
import urllib.error
import urllib.request

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.images import Local
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.serve import ImageServer


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "a b.bin"
    path.write_bytes(bytes(range(256)) * 5000)
    return Local(str(path), 256 * 5000, "x")


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as answer:
        return answer.status, dict(answer.headers), answer.read()


def test_only_what_was_published(image):
    with ImageServer("127.0.0.1") as server:
        url = server.publish(image)
        assert url == server.publish(image) and url.endswith("/a_b.bin")
        status, headers, body = get(url)
        assert (status, len(body), headers["Content-Length"]) == (200, image.size, str(image.size))
        status, headers, body = get(url, Range="bytes=1000-")
        assert (status, len(body)) == (206, image.size - 1000)
        assert headers["Content-Range"] == f"bytes 1000-{image.size - 1}/{image.size}"
        for other in ("/", "/a_b.bin", "/../../etc/passwd", url.rsplit("/", 1)[0].split("/", 3)[3]):
            with pytest.raises(urllib.error.HTTPError) as caught:
                get(url.split("/", 3)[0] + "//" + url.split("/")[2] + "/" + other.lstrip("/"))
            assert caught.value.code == 404
    with pytest.raises(OSError):
        get(url)


def test_ipv6(image):
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        with ImageServer("::1") as server:
            assert get(server.publish(image))[0] == 200
    except InvalidInput:
        pytest.skip("no IPv6 loopback")


def test_an_address_that_is_not_ours(image):
    with ImageServer("192.0.2.1") as server, pytest.raises(InvalidInput, match="image_server 192.0.2.1"):
        server.publish(image)
