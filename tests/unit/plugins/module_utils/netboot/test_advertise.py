# Router solicitations: answered for a node that is being deployed, not for others; the answer configures nothing.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import advertise

MAC = "52:54:00:77:00:01"
SOLICITATION = bytes([133, 0, 0, 0, 0, 0, 0, 0])
SERVER = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("advertise", sys.argv[1])
advertise = importlib.util.module_from_spec(spec)
spec.loader.exec_module(advertise)
advertise.Advertiser("here", lambda mac: mac == sys.argv[2])
print("ready", flush=True)
time.sleep(60)
"""


def test_source_mac():
    option = bytes([1, 1]) + bytes.fromhex(MAC.replace(":", ""))
    assert advertise.source_mac(SOLICITATION + option) == MAC
    assert advertise.source_mac(SOLICITATION + bytes([5, 1, 0, 0, 0, 0, 0, 0]) + option) == MAC
    assert advertise.source_mac(SOLICITATION) is None
    assert advertise.source_mac(SOLICITATION + bytes([1, 0]) + bytes(6)) is None, (
        "an option of length 0 ends the parsing"
    )
    assert advertise.source_mac(b"\x86" + bytes(20)) is None


def test_the_answer_configures_nothing():
    packet = advertise.advertisement()
    assert packet[0] == 134 and len(packet) == 16, "no option: no prefix, no name server"
    assert packet[5] == 0 and packet[6:8] == b"\0\0", "no DHCPv6 flags, router lifetime 0"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="could_not_test: needs root")
@pytest.mark.parametrize("known,answered", [(MAC, True), ("52:54:00:77:00:99", False)])
def test_the_kernel_of_a_node_gets_the_answer(known, answered):
    here, there = f"aica{os.getpid()}a", f"aica{os.getpid()}b"
    server = None

    def run(*argv):
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    try:
        for name in (here, there):
            run("ip", "netns", "add", name)
            run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
        run("ip", "-n", here, "link", "add", "here", "type", "veth", "peer", "name", "there", "netns", there)
        run("ip", "-n", there, "link", "set", "there", "address", MAC)
        run("ip", "-n", here, "link", "set", "here", "up")
        argv = ["ip", "netns", "exec", here, sys.executable, "-c", SERVER, advertise.__file__, known]
        server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert server.stdout.readline() == "ready\n"
        run("ip", "-n", there, "link", "set", "there", "up")
        end, seen = time.monotonic() + 6, 0
        while time.monotonic() < end and not (seen and answered):
            lines = run("ip", "netns", "exec", there, "cat", "/proc/net/snmp6").splitlines()
            seen = next(int(line.split()[1]) for line in lines if line.startswith("Icmp6InRouterAdvertisements"))
            time.sleep(0.2)
        assert (seen > 0) is answered
        assert "scope global" not in run("ip", "-n", there, "-6", "addr")
    finally:
        if server:
            server.kill()
            server.wait()
        for name in (here, there):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
