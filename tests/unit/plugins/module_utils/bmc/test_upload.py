# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import email
import email.policy
import json
import socket
import struct
import threading

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import upload
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import TransportError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.deadline import Deadline


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "fw.bin"
    path.write_bytes(bytes(range(256)) * 4096)  # 1 MiB
    return path


@pytest.mark.parametrize("size", [1, 1000, upload.BLOCK, 10 * upload.BLOCK, -1, None])
def test_body_is_what_it_says_and_small_in_memory(image, size):
    body = upload.Body(image, b"head", b"tail")
    found, largest = b"", 0
    if size == 1:
        image.write_bytes(b"abc")
        body = upload.Body(image, b"head", b"tail")
    while block := body.read(size):
        found += block
        largest = max(largest, len(block))
    assert found == b"head" + image.read_bytes() + b"tail" and len(body) == len(found)
    assert largest <= upload.BLOCK
    body.close()


@pytest.mark.parametrize("tail", [b"", b"tail"])
def test_before_last_is_called_once_before_the_last_byte_is_given_out(image, tail):
    given, calls = [], []
    body = upload.Body(image, b"head", tail, before_last=lambda: calls.append(sum(map(len, given))))
    for block in body:
        given.append(block)
    assert body.read() == b""
    assert len(calls) == 1 and calls[0] < len(body) == sum(map(len, given))
    assert calls[0] == sum(map(len, given[:-1]))
    body.close()


def test_a_body_is_not_whole_until_the_end(image):
    body = upload.Body(image)
    body.read(1000)
    assert not body.whole
    body.close()


def test_multipart_is_the_form_of_the_standard(image):
    content_type, body = upload.multipart(
        str(image), 'we"ird\r\nname.bin', {"Targets": ["/redfish/v1/x"]}, {"OemParameters": {"a": 1}}
    )
    text = b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + b"".join(body)
    body.close()
    message = email.message_from_bytes(text, policy=email.policy.HTTP)
    parts = list(message.iter_parts())
    assert [part.get_param("name", header="content-disposition") for part in parts] == [
        "UpdateParameters",
        "OemParameters",
        "UpdateFile",
    ]
    assert [part.get_content_type() for part in parts] == [
        "application/json",
        "application/json",
        "application/octet-stream",
    ]
    assert json.loads(parts[0].get_payload()) == {"Targets": ["/redfish/v1/x"]}
    assert parts[2].get_filename() == "weirdname.bin"
    assert parts[2].get_payload(decode=True) == image.read_bytes()


class Server:
    """One connection of TCP on loopback, which reads `take` bytes and then does as it is told."""

    def __init__(self, take, then):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port, self._take, self._then = self._listener.getsockname()[1], take, then
        self.got = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        peer, _address = self._listener.accept()
        with peer:
            while self._take is None or self.got < self._take:
                block = peer.recv(65536)
                if not block:
                    return
                self.got += len(block)
            self._then(peer)

    def close(self):
        self._listener.close()
        self._thread.join(5)


def reset(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def refuse(peer):
    peer.sendall(b"HTTP/1.1 413 Too large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    peer.shutdown(socket.SHUT_WR)
    peer.settimeout(2)
    try:
        while peer.recv(65536):
            pass
    except OSError:
        pass


@pytest.mark.parametrize("size", [600_000, 4 << 20])
@pytest.mark.parametrize("take", [1, 10_000, 150_000])
def test_a_connection_that_breaks_before_the_end_never_counts_as_sent(tmp_path, size, take):
    """Also where the rest fits into our own kernel's buffers (megabytes): what the BMC's side did not acknowledge was not sent."""
    path = tmp_path / "small.bin"
    path.write_bytes(bytes(size))
    server, calls = Server(min(take, size // 2), reset), []
    endpoint = Endpoint(address="127.0.0.1", port=server.port, scheme="http")
    body = upload.Body(path, before_last=lambda: calls.append(1))
    try:
        with pytest.raises(TransportError):
            upload._exchange(endpoint, "/x", {}, body, Deadline(20, "x"))
        assert not body.whole and not calls
    finally:
        body.close()
        server.close()


def test_an_early_refusal_is_read(tmp_path):
    path = tmp_path / "large.bin"
    path.write_bytes(bytes(32 << 20))
    server = Server(1000, refuse)
    body = upload.Body(path)
    try:
        endpoint = Endpoint(address="127.0.0.1", port=server.port, scheme="http")
        assert upload._exchange(endpoint, "/x", {}, body, Deadline(20, "x")).status_code == 413
        assert not body.whole
    finally:
        body.close()
        server.close()
