# Reservations on a real dnsmasq in namespaces of the test: an unknown MAC gets no answer, a reserved one its address, a removed one nothing again.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import dnsmasq, reservations

MAC = "52:54:00:77:00:01"
# A DHCP client that only discovers: prints the offered address and boot file, or "none".
CLIENT = """
import socket, struct, sys
mac, arch = bytes.fromhex(sys.argv[1].replace(":", "")), int(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"there")
s.bind(("", 68))
s.settimeout(2)
head = struct.pack("!BBBBIHHIIII16s64s128s", 1, 1, 6, 0, 7, 0, 0x8000, 0, 0, 0, 0, mac, b"", b"") + bytes([99, 130, 83, 99])
vendor = b"PXEClient:Arch:%05d" % arch
options = bytes([53, 1, 1, 55, 4, 1, 66, 67, 60, 93, 2]) + struct.pack("!H", arch) + bytes([60, len(vendor)]) + vendor + b"\\xff"
s.sendto(head + options, ("255.255.255.255", 67))
try:
    data = s.recv(2000)
except TimeoutError:
    print("none")
    raise SystemExit
at, file = 240, data[108:236].split(b"\\0")[0]
while data[at] != 255:
    if data[at] == 67:
        file = data[at + 2 : at + 2 + data[at + 1]].rstrip(b"\\0")
    at += 2 + data[at + 1] if data[at] else 1
print(socket.inet_ntoa(data[16:20]), file.decode())
"""


def test_file_names_and_plan():
    node = {"name": "gpu01", "provision_mac": MAC, "provision_ip": "10.77.1.11"}
    wanted = reservations.wanted([node, {"name": "x", "provision_mac": None, "provision_ip": "10.77.1.12"}])
    assert wanted == {"525400770001": f"{MAC},10.77.1.11,gpu01\n"}
    assert not reservations.plan(wanted, wanted)
    assert reservations.plan({**wanted, "525400770002": "old"}, wanted).changes[0].after is None


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "README").write_text("by hand")
    (tmp_path / "525400770009").write_text("old")
    observed = reservations.observe(str(tmp_path))
    assert list(observed) == ["525400770009"]
    assert reservations.apply(str(tmp_path), reservations.plan(observed, {}), str(tmp_path)) is True
    assert os.listdir(tmp_path) == ["README"]


def test_no_signal_goes_to_another_program(tmp_path):
    pid_file = tmp_path / "pid"
    assert reservations.tell_dnsmasq(str(pid_file)) is False
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        pid_file.write_text(f"{sleeper.pid}\n")
        assert reservations.tell_dnsmasq(str(pid_file)) is False
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.fixture
def network(tmp_path):
    """Two namespaces joined by a veth pair, dnsmasq in the first; yields (directory, pid file, ask)."""
    here, there = f"aict{os.getpid()}a", f"aict{os.getpid()}b"

    def run(*argv):
        subprocess.run(argv, check=True, capture_output=True)

    server = None
    try:
        for name in (here, there):
            run("ip", "netns", "add", name)
        run("ip", "-n", here, "link", "add", "here", "type", "veth", "peer", "name", "there", "netns", there)
        run("ip", "-n", here, "addr", "add", "10.77.1.1/24", "dev", "here")
        run("ip", "-n", here, "link", "set", "here", "up")
        run("ip", "-n", there, "link", "set", "there", "up")
        # Without an address nothing may be sent; the client's own source is not looked at.
        run("ip", "-n", there, "addr", "add", "10.77.1.250/24", "dev", "there")
        hosts = tmp_path / "hosts"
        hosts.mkdir()
        text = dnsmasq.render(
            "here",
            "10.77.1.1",
            "10.77.1.0/24",
            str(tmp_path),
            str(hosts),
            str(tmp_path / "leases"),
            str(tmp_path / "pid"),
            str(tmp_path / "log"),
            "http://10.77.1.1:8000/boot.ipxe",
            "http://10.77.1.1:8080/loader/snponly.efi",
        )
        (tmp_path / "conf").write_text(text)
        server = subprocess.Popen(
            ["ip", "netns", "exec", here, "dnsmasq", "--keep-in-foreground", "-C", str(tmp_path / "conf")]
        )
        for _turn in range(100):
            if (tmp_path / "pid").exists():
                break
            time.sleep(0.05)

        def ask(arch=7):
            argv = ["ip", "netns", "exec", there, sys.executable, "-c", CLIENT, MAC, str(arch)]
            return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20).stdout.split()

        yield tmp_path, ask
    finally:
        if server:
            server.terminate()
            server.wait(timeout=10)
        for name in (here, there):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("dnsmasq"), reason="could_not_test: needs root and dnsmasq")
def test_dnsmasq_follows_the_reservations(network):
    base, ask = network
    hosts, scratch = str(base / "hosts"), str(base)
    node = {"name": "gpu01", "provision_mac": MAC, "provision_ip": "10.77.1.11"}
    assert ask() == ["none"]
    added = reservations.plan(reservations.observe(hosts), reservations.wanted([node]))
    assert reservations.apply(hosts, added, scratch) is False
    time.sleep(0.3)
    assert ask() == ["10.77.1.11", "snponly.efi"]
    assert ask(16) == ["10.77.1.11", "http://10.77.1.1:8080/loader/snponly.efi"]
    removed = reservations.plan(reservations.observe(hosts), {})
    assert reservations.apply(hosts, removed, scratch) is True
    assert reservations.tell_dnsmasq(str(base / "pid"))
    time.sleep(0.3)
    assert ask() == ["none"]
