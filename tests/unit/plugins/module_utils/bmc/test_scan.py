# Finding BMCs: ranges, what is a BMC and what is not, silence.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import http.server
import pathlib
import socket
import ssl
import threading
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import scan
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors


@pytest.mark.parametrize(
    ("ranges", "wanted"),
    [
        (["10.0.0.0/30"], ["10.0.0.1", "10.0.0.2"]),
        (["10.0.0.7/32"], ["10.0.0.7"]),
        (["10.0.0.5-10.0.0.7"], ["10.0.0.5", "10.0.0.6", "10.0.0.7"]),
        (["10.0.0.5-7", "10.0.0.6"], ["10.0.0.5", "10.0.0.6", "10.0.0.7"]),
        (["fd00::1", "[fd00::2]"], ["fd00::1", "fd00::2"]),
        (["fd00::/126"], ["fd00::1", "fd00::2", "fd00::3"]),
    ],
)
def test_ranges(ranges, wanted):
    assert scan.parse_ranges(ranges) == [(address, 443) for address in wanted]


def test_a_port_may_follow():
    assert scan.parse_ranges(["127.0.0.1:8443", "[fd00::2]:8443"]) == [("127.0.0.1", 8443), ("fd00::2", 8443)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0.0.300",
        "10.0.0.9-10.0.0.1",
        "10.0.0.0/8",
        "hostname",
        "10.0.0.1-",
        "::/64",
        "0.0.0.0-255.255.255.255",
        "10.0.0.0/24:99999",
        "10.0.0.1:0",
    ],
)
def test_ranges_that_cannot_be(text):
    began = time.monotonic()
    with pytest.raises(errors.InvalidInput, match="next: .*discover_ranges"):
        scan.parse_ranges([text])
    assert time.monotonic() - began < 2


@pytest.fixture
def web(simulator):
    """A TLS web server that is no BMC, with a certificate of its own."""
    directory = pathlib.Path(simulator.config["dir"]).parent
    files = [(path, path.read_bytes()) for path in directory.rglob("*") if path.is_file()]
    found = [path for path, content in files if b"PRIVATE KEY" in content]
    both = [path for path, content in files if b"PRIVATE KEY" in content and b"BEGIN CERTIFICATE" in content]
    certificate = [*both, *(path for path, content in files if b"BEGIN CERTIFICATE" in content)][0]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, found[0])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def test_a_bmc_is_told_from_a_web_server_and_from_silence(bmc, web):
    there = bmc["gpu01"]
    before = len(bmc.requests("gpu01", sessions=True))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        found = scan.scan(
            [f"127.0.0.1:{there.port}", f"127.0.0.1:{web}", f"127.0.0.1:{closed.getsockname()[1]}"], ipmi_port=0
        )
    assert [entry["port"] for entry in found["bmcs"]] == [there.port]
    assert found["bmcs"][0]["fingerprint"] == there.fingerprint.replace(":", "").lower()
    assert found["bmcs"][0]["protocols"] == ["redfish"]
    assert {entry["port"]: bool(entry.get("server")) for entry in found["others"]}[web] is True
    assert len(found["others"]) == 2 and found["asked"] == 3
    assert len(bmc.requests("gpu01", sessions=True)) == before


@pytest.mark.parametrize(
    "behaviour", [{"busy_every_n": 2}, {"html_504_every_n": 2}, {"broken_json_every_n": 2}, {"redirect_slash": True}]
)
def test_a_busy_bmc_is_a_bmc(bmc, behaviour):
    there = bmc["gpu01"]
    bmc.set_behaviour("gpu01", **behaviour)
    for _turn in range(2):  # whichever request it is that the BMC has no time for
        assert scan.probe("127.0.0.1", there.port)["kind"] == "redfish"


def test_an_answer_that_never_ends_does_not_hold_up_the_scan(bmc, monkeypatch):
    """A byte now and then keeps every single read within its time."""
    monkeypatch.setattr(scan, "ANSWER_S", 1.0)

    class Dripping:
        def gettimeout(self):
            return 5.0

        def settimeout(self, seconds):
            assert 0 < seconds <= 5.0

        def sendall(self, data):
            pass

        def getpeercert(self, binary_form):
            return b"certificate"

        def recv_into(self, buffer):
            time.sleep(0.05)
            buffer[0] = ord("H")
            return 1

    began = time.monotonic()
    found = scan._ask_root(Dripping(), "127.0.0.1", {"kind": "other"})
    assert found["kind"] == "other" and "does not end" in found["reason"]
    assert time.monotonic() - began < 5


def test_an_answer_that_nobody_thought_of_is_another_host(bmc, monkeypatch):
    there, real = bmc["gpu01"], scan.probe

    def odd(address, port, timeout):
        if port == 9:
            raise RecursionError("maximum recursion depth exceeded")
        return real(address, port, timeout)

    monkeypatch.setattr(scan, "probe", odd)
    found = scan.scan([f"127.0.0.1:{there.port}", "127.0.0.1:9"], ipmi_port=0)
    assert [entry["port"] for entry in found["bmcs"]] == [there.port]
    assert "RecursionError" in found["others"][0]["reason"]


def test_an_address_that_answers_ipmi_is_one_bmc_however_many_ports_were_asked(monkeypatch):
    monkeypatch.setattr(scan, "probe", lambda address, port, timeout: {"kind": "silent", "reason": "no answer"})
    monkeypatch.setattr(scan, "ipmi_presence", lambda addresses, port: set(addresses))
    found = scan.scan(["127.0.0.1:8", "127.0.0.1:9", "127.0.0.2:9"])
    assert [entry["address"] for entry in found["bmcs"]] == ["127.0.0.1", "127.0.0.2"]


def test_something_that_takes_connections_and_says_nothing_is_no_bmc():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        began = time.monotonic()
        answer = scan.probe("127.0.0.1", silent.getsockname()[1], 0.5)
    assert answer["kind"] == "other" and "no TLS" in answer["reason"]
    assert time.monotonic() - began < 15


def test_silent_addresses_cost_one_timeout_together():
    """192.0.2.0/24 is reserved for documentation (RFC 5737): nobody answers, or the kernel says at once that there is no route."""
    began = time.monotonic()
    found = scan.scan(["192.0.2.1-120"], timeout=0.5, ipmi_port=0)
    assert not found["bmcs"] and len(found["silent"]) + len(found["others"]) == 120
    assert time.monotonic() - began < 8
