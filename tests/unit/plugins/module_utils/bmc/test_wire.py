# The thin transport: certificates are checked on every connection, nothing is sent twice, odd answers are read, and the client works on it as on the other.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import dataclasses
import gzip
import http.server
import io
import socket
import threading
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect, operations
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import TransportError
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.wire import Broken, Wire, _open, read_reply

from .conftest import endpoint

SYSTEM = "/redfish/v1/Systems/1"


@pytest.fixture
def thin(there):
    return dataclasses.replace(there, transport=Wire)


def failed(endpoint, **changes):
    wire = Wire(dataclasses.replace(endpoint, **changes))
    try:
        with pytest.raises(TransportError) as caught:
            wire.exchange("GET", "/redfish/v1/", timeout=(2, 2))
        return caught.value
    finally:
        wire.close()


def test_operations_work_on_it(bmc, thin):
    assert operations.power(thin, "on", interval=0.05).after == {"power": "on"}
    assert operations.power(thin, "off", interval=0.05).changed
    assert not operations.power(thin, "off", interval=0.05).changed
    found = operations.info(thin)
    assert found["system"]["serial"] == "LAB-test-0001" and found["processors"]
    assert bmc.state("gpu01")["sessions"] == 0, "the session of the inventory is deleted"


def test_one_connection_is_kept_and_its_certificate_is_checked(bmc, thin):
    wire = Wire(thin)
    try:
        first = wire.exchange("GET", "/redfish/v1/")
        assert (
            first.status_code == 200 and first.json()["RedfishVersion"] and first.headers.get("odata-version") == "4.0"
        )
        kept = wire._socket
        assert wire.exchange("GET", "/redfish/v1/").status_code == 200 and wire._socket is kept
        assert wire.exchange("GET", "https://192.0.2.77/redfish/v1/").status_code == 200, (
            "only the path of a link counts"
        )
    finally:
        wire.close()
    assert failed(thin, fingerprint="0" * 64).code == "certificate_changed"
    refused = failed(thin, fingerprint=None, tls="verify")
    assert refused.code == "certificate_not_trusted" and "self-signed" in refused.reason.replace(
        "self signed", "self-signed"
    )
    assert not failed(thin, fingerprint="0" * 64).sent


def test_a_lost_answer_is_one_post(bmc, thin):
    before = len(bmc.requests("gpu01"))
    bmc.set_behaviour("gpu01", answer_lost_after_post=-1)
    wire = Wire(thin)
    try:
        wire.exchange("GET", "/redfish/v1/")  # also not when the connection was a kept one
        with pytest.raises(TransportError) as caught:
            wire.exchange(
                "POST",
                f"{SYSTEM}/Actions/ComputerSystem.Reset",
                {"ResetType": "Nmi"},
                _basic(thin),
            )
        assert caught.value.sent
    finally:
        wire.close()
    assert len(bmc.requests("gpu01")) - before == 1


def test_nobody_there(thin):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found = failed(thin, port=taken.getsockname()[1])
        assert not found.sent and "refused" in found.reason.lower()
        taken.listen()
        begun = time.monotonic()
        found = failed(thin, port=taken.getsockname()[1])
        assert "handshake" in found.reason and time.monotonic() - begun < 4


def test_it_can_be_cut_by_another_thread(bmc, thin):
    bmc.set_behaviour("gpu01", delay_s=10)
    with connect(thin) as client:
        wire = client._connector
        timer = threading.Timer(0.5, wire.cut)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(TransportError):
            wire.exchange("GET", "/redfish/v1/", timeout=(2, 8))
        assert time.monotonic() - begun < 3


def _basic(endpoint):
    import base64

    pair = base64.b64encode(f"{endpoint.username}:{endpoint.password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


# ---- odd servers --------------------------------------------------------------------------------------------------------------------------
class _Odd(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list = []

    def do_GET(self):
        self.seen.append((self.path, dict(self.headers)))
        self.close_connection = False
        if self.path == "/silent-close":
            body = b"{}"
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True  # without saying so
        elif self.path.startswith("/chunked"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b'5\r\n{"a":\r\n3\r\n 1}\r\n0\r\n\r\n')
        elif self.path == "/gzip":
            body = gzip.compress(b'{"b": 2}')
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif self.path == "/half":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"{")
            self.close_connection = True

    def log_message(self, *unused):
        pass


@pytest.fixture
def odd():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Odd)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wire = Wire(Endpoint("127.0.0.1", server.server_address[1], scheme="http", username="u", password="p"))
    _Odd.seen.clear()
    yield wire
    wire.close()
    server.shutdown()
    server.server_close()


def test_shapes_of_answers(odd):
    assert odd.exchange("GET", "/chunked").json() == {"a": 1}
    assert odd.exchange("GET", "/gzip", headers={"Accept-Encoding": ""}).json() == {"b": 2}
    assert "Accept-Encoding" not in _Odd.seen[-1][1] and _Odd.seen[0][1]["Accept-Encoding"] == "identity"
    with pytest.raises(TransportError) as caught:
        odd.exchange("GET", "/half")
    assert caught.value.sent


class Trickle(io.RawIOBase):
    """What comes in pieces of a few bytes, as from a slow BMC."""

    def __init__(self, text, piece):
        self._rest, self._piece = text, piece

    def readable(self):
        return True

    def readinto(self, buffer):
        part, self._rest = self._rest[: self._piece], self._rest[self._piece :]
        buffer[: len(part)] = part
        return len(part)


def read(text, method="GET"):
    """The same answer, whether it comes at once or in pieces."""
    found = []
    for piece in (8192, 3):
        try:
            found.append(read_reply(io.BufferedReader(Trickle(text, piece)), method))
        except Broken as error:
            found.append(error)
    whole, pieces = found
    if isinstance(whole, Broken):
        assert isinstance(pieces, Broken) and pieces.empty == whole.empty
        raise whole
    assert (pieces.status_code, pieces.headers, pieces.content, pieces.last) == (
        whole.status_code,
        whole.headers,
        whole.content,
        whole.last,
    )
    return whole


def test_header_fields_in_every_form():
    text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 401 \r\nX-Auth-Token:abc\r\nWarning: one\r\n  two\r\nwarning: three\r\nContent-Length: 2\r\n\r\n{}"
    reply = read(text)
    assert reply.status_code == 401 and reply.json() == {} and not reply.last
    assert reply.headers.get("x-auth-token") == reply.headers["X-AUTH-TOKEN"] == "abc"
    assert (
        reply.headers.get("Warning") == "one two, three" and "Warning" in reply.headers and "ETag" not in reply.headers
    )


@pytest.mark.parametrize(
    "text, method, body, last",
    [
        (b"HTTP/1.1 200 OK\n\nto the end", "GET", b"to the end", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "GET", b"x", True),
        # lines that end in LF alone, all or some of them, and a body with what ends a usual header
        (b"HTTP/1.1 200 OK\nContent-Length: 8\n\na\r\n\r\nbcd", "GET", b"a\r\n\r\nbcd", False),
        (b"HTTP/1.1 200 OK\nContent-Length: 8\n\r\na\r\n\r\nbcd", "GET", b"a\r\n\r\nbcd", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\na\r\n\r\nbcd", "GET", b"a\r\n\r\nbcd", False),
        (b"HTTP/1.1 200 OK\r\nServer: x\nContent-Length: 1\r\n\r\nx", "GET", b"x", False),
        (b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx", "GET", b"x", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "POST", b"", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HEAD", b"", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx", "GET", b"x", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n0\r\nT: x\r\n\r\n", "GET", b"ab", False),
    ],
)
def test_bodies_in_every_form(text, method, body, last):
    reply = read(text, method)
    assert (reply.content, reply.last) == (body, last)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 20",
        b"HTTP/1.1 200 OK\r\nA: b",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
def test_what_is_no_answer_is_said_so(text):
    with pytest.raises(Broken) as caught:
        read(text)
    assert caught.value.empty == (text == b"")


def test_a_header_value_stays_one_line_and_a_target_one_word(odd):
    odd.exchange("GET", "/chunked?x=a b", headers={"If-Match": 'a"\r\nX-Evil: 1'})
    path, headers = _Odd.seen[-1]
    assert path == "/chunked?x=a%20b" and "X-Evil" not in headers


def test_a_read_on_a_connection_that_was_closed_meanwhile_is_sent_on_a_new_one(odd):
    for _unused in range(3):
        assert odd.exchange("GET", "/silent-close").json() == {}
        time.sleep(0.1)
    assert len(_Odd.seen) == 3


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_it_connects_to_numbers_and_names(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind(("::1" if ":" in address else "127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        raw = _open(address, port, 2.0)
        assert raw.getpeername()[1] == port and raw.gettimeout() == 2.0
        raw.close()
    with pytest.raises(OSError):
        _open(address, port, 2.0)


def test_a_bmc_that_cuts_kept_connections_gets_its_writes_on_new_ones(fresh):
    """Otherwise each write would be lost without anybody knowing whether it arrived."""
    bmc, thin = fresh, endpoint(fresh, transport=Wire)
    bmc.set_behaviour("gpu01", reset_reused=True)
    assert operations.power(thin, "on", interval=0.05).changed
    assert not operations.bios(thin, {"SriovGlobalEnable": "Disabled"}).warnings[1:]
    assert operations.power(thin, "off", interval=0.05).after == {"power": "off"}
    wire = Wire(thin)
    try:
        for _unused in range(2):
            wire.exchange("GET", "/redfish/v1/")
        before = bmc.stats("gpu01")["requests"]
        for _unused in range(3):
            assert wire.exchange("GET", "/redfish/v1/").status_code == 200
        assert bmc.stats("gpu01")["requests"] - before == 3
    finally:
        wire.close()
