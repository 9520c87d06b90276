# Addresses from DHCP leases and from SSDP: what is valid now, what is no lease file, and that an answer cannot point at somebody else.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import socket
import threading

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import discover, sources
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

NOW = 1_790_000_000
MAC = "52:54:00:77:00:01"

DNSMASQ = f"""{NOW + 60} {MAC} 10.0.0.11 bmc1 01:{MAC}
0 52:54:00:77:00:02 10.0.0.12 * *
{NOW - 1} 52:54:00:77:00:03 10.0.0.13 gone *
duid 00:01:00:01:2c
{NOW + 60} 12345 fd00::11 bmc1 00:01
"""
ISC = """# The format of this file is documented in the dhcpd.leases(5) manual page.
authoring-byte-order little-endian;
lease 10.0.0.11 {
  starts 4 2026/01/01 10:00:00;
  ends 4 2020/01/02 10:00:00;
  binding state active;
  hardware ethernet 52:54:00:77:00:01;
}
lease 10.0.0.12 { }
lease 10.0.0.13 {
  ends never;
  binding state active;
  hardware ethernet 52:54:00:77:00:03;
  client-hostname "bmc3";
}
lease 10.0.0.14 {
  ends epoch 1790000060; # Wed
  binding state free;
}
lease 10.0.0.11 {
  ends 3 2099/01/02 10:00:00;
  binding state active;
  hardware ethernet 52:54:00:77:00:01;
}
"""
KEA = f"""address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state,user_context,pool_id
10.0.0.11,{MAC},01:52,3600,{NOW + 60},1,0,0,bmc1,0,,0
10.0.0.12,52:54:00:77:00:02,,3600,{NOW - 60},1,0,0,,0,,0
10.0.0.13,52:54:00:77:00:03,,4294967295,{NOW},1,0,0,,0,,0
10.0.0.14,52:54:00:77:00:04,,3600,{NOW + 60},1,0,0,,0,,0
10.0.0.14,52:54:00:77:00:04,,3600,{NOW + 60},1,0,0,,2,,0
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (DNSMASQ, {"10.0.0.11": MAC, "10.0.0.12": "52:54:00:77:00:02", "fd00::11": None}),
        (ISC, {"10.0.0.11": MAC, "10.0.0.13": "52:54:00:77:00:03"}),
        (KEA, {"10.0.0.11": MAC, "10.0.0.13": "52:54:00:77:00:03"}),
        ("", {}),
        ("# no lease yet\n", {}),
        (KEA.splitlines()[0], {}),
    ],
)
def test_leases(text, wanted):
    assert dict(sources.leases(text, NOW)) == wanted


@pytest.mark.parametrize("text", ["a b c\n", "{}", "serial,name\nX,y\n", "1 2 3\n", "\x00\x01"])
def test_what_is_no_lease_file(tmp_path, text):
    path = tmp_path / "leases"
    path.write_text(text)
    with pytest.raises(errors.InvalidInput) as caught:
        sources.read_leases([str(path)])
    assert caught.value.thing == str(path)


def test_files_together(tmp_path):
    for name, text in (("a", DNSMASQ), ("b", KEA)):
        (tmp_path / name).write_text(text)
    found = sources.read_leases([str(tmp_path / "a"), str(tmp_path / "b")], NOW)
    assert found == ["10.0.0.11", "10.0.0.12", "fd00::11", "10.0.0.13"]
    with pytest.raises(errors.InvalidInput, match="lease_files"):
        sources.read_leases([str(tmp_path / "c")])


ANSWER = (
    "HTTP/1.1 200 OK\r\nCACHE-CONTROL:max-age=1800\r\nST:urn:dmtf-org:service:redfish-rest:1:6\r\n"
    "USN:uuid:92384634-2938-2342-8820-489239905423::urn:dmtf-org:service:redfish-rest:1:6\r\n"
    "AL:{}\r\nEXT:\r\n\r\n"
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (ANSWER.format("https://10.0.0.11/redfish/v1/"), ("10.0.0.11", 443)),
        (ANSWER.format("https://10.0.0.11:8443/redfish/v1/"), ("10.0.0.11", 8443)),
        (ANSWER.format("https://192.0.2.1/redfish/v1/"), ("10.0.0.11", 443)),  # not where it says, but who said it
        (ANSWER.format("https://10.0.0.11:x/"), ("10.0.0.11", 443)),
        (ANSWER.format("").replace("redfish-rest", "other"), None),
        (ANSWER.format("").replace("200 OK", "404 No"), None),
        ("NOTIFY * HTTP/1.1\r\nNT: x\r\n\r\n", None),
        ("", None),
        ("\xff\xfe", None),
    ],
)
def test_answers(text, wanted):
    assert sources.read_answer(text.encode("latin-1"), "10.0.0.11") == wanted


@pytest.fixture
def answering():
    """Something that answers searches on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(0.1)
        asked, done = [], threading.Event()

        def serve():
            while not done.is_set():
                try:
                    data, sender = sock.recvfrom(4096)
                except TimeoutError:
                    continue
                asked.append(data)
                sock.sendto(ANSWER.format("https://127.0.0.1:8443/redfish/v1").encode(), sender)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield sock.getsockname(), asked
        done.set()
        thread.join()


def test_a_search(answering):
    target, asked = answering
    assert sources.ssdp(0.6, target) == [("127.0.0.1", 8443)]
    assert all(b"ST: urn:dmtf-org:service:redfish-rest:1\r\n" in data for data in asked)
    with pytest.raises(errors.InvalidInput):
        sources.ssdp(0)


class Far:
    """A scan that says what it was asked."""

    def __init__(self):
        self.ranges = None

    def ssdp(self, wait_s):
        return [("10.0.0.40", 8443), ("fd00::1", 443)]

    def scan(self, ranges, port, ipmi_port, timeout):
        self.ranges = ranges
        return {"bmcs": [], "others": [], "silent": [], "asked": len(ranges)}

    def visit(self, targets):
        return []

    rotate = visit


def test_the_stage_asks_what_was_found():
    class Secrets:
        def check(self):
            pass

    options = {
        "ranges": ["10.0.0.1"], "port": 443, "ipmi_port": 623, "scan_timeout": 1.0, "password_length": 16, "factory": [],
        "site_reference": "bmc/{serial}", "rotate": True, "approve": "all", "addresses": ["10.0.0.30", "10.0.0.1"], "ssdp_wait": 1.0,
    }  # fmt: skip
    far = Far()
    discover.Stage(options, None, Secrets(), far, "test", check=True).run([])
    assert far.ranges == ["10.0.0.1", "10.0.0.30", "10.0.0.40:8443", "[fd00::1]:443"]
