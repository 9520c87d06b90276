# Reservations follow the registry; log lines of the real programs become boot events; logs survive rotation and restarts.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import time

from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot.watcher import LogTail, Watcher
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry.engine import seconds_between

# As dnsmasq 2.90 writes them for OVMF and then iPXE.
DNSMASQ = """\
Nov 30 17:30:39 dnsmasq-dhcp[1]: 3972457319 vendor class: PXEClient:Arch:00007:UNDI:003000
Nov 30 17:30:39 dnsmasq-dhcp[1]: 3972457319 DHCPREQUEST(br0) 10.77.1.11 52:54:00:77:00:01
Nov 30 17:30:39 dnsmasq-dhcp[1]: 3972457319 DHCPACK(br0) 10.77.1.11 52:54:00:77:00:01 gpu01
Nov 30 17:30:39 dnsmasq-dhcp[1]: 3972457320 DHCPACK(br0) 10.77.1.12 52:54:00:77:00:02 gpu02
"""


def access(path, address="10.77.1.11", size=1 << 20, status=200):
    entry = {
        "time": time.time() - 5,
        "address": address,
        "method": "GET",
        "path": path,
        "status": status,
        "bytes": size,
        "complete": "OK",
        "seconds": 1.0,
    }
    return json.dumps(entry) + "\n"


def test_reservations_exist_only_while_a_node_is_deploying(lab, boot_settings):
    watcher = Watcher(lab.registry, boot_settings)
    watcher.round()
    watcher.round()
    assert os.listdir(boot_settings.reservation_dir) == ["525400770001"]
    with open(os.path.join(boot_settings.reservation_dir, "525400770001"), encoding="ascii") as handle:
        assert handle.read() == "52:54:00:77:00:01,10.77.1.11,gpu01\n"
    assert lab.steps() == ["reserved"]
    lab.registry.finish("gpu01", lab.begin.attempt, lab.begin.fencing, "pass", "test")
    watcher.round()
    assert os.listdir(boot_settings.reservation_dir) == []


def test_a_round_reads_no_facts(lab, boot_settings):
    lab.registry.save_node("S-1", "test", facts={"many": "x" * 1000})
    watcher = Watcher(lab.registry, boot_settings)
    watcher.round()
    assert [set(node) for node in watcher._nodes] == [{"serial", "name", "attempt", "provision_mac", "provision_ip"}]
    assert watcher.is_deploying("52:54:00:77:00:01") and not watcher.is_deploying("52:54:00:77:00:02")


def test_log_lines_become_events_of_the_right_node(lab, boot_settings):
    for path in (boot_settings.dnsmasq_log, boot_settings.nginx_log):
        with open(path, "w", encoding="ascii") as handle:
            handle.write("an older line\n")
    watcher = Watcher(lab.registry, boot_settings)
    with open(boot_settings.dnsmasq_log, "a", encoding="ascii") as handle:
        handle.write(DNSMASQ)
    with open(boot_settings.nginx_log, "a", encoding="ascii") as handle:
        handle.write(
            access("/images/deb/vmlinuz")
            + access("/images/deb/disk.raw")
            + access("/images/deb/disk.raw", "10.77.1.12")
        )
    watcher.round()
    events = lab.registry.boot_events("gpu01")
    assert [event["step"] for event in events] == ["reserved", "dhcp", "kernel", "served"]
    assert events[1]["detail"] == "10.77.1.11 PXEClient:Arch:00007:UNDI:003000"
    assert events[3]["detail"] == {"path": "/images/deb/disk.raw", "status": 200, "bytes": 1 << 20, "complete": True}
    assert 4.9 < seconds_between(events[3]["time"], events[3]["recorded"]) < 60  # the line is five seconds old
    assert lab.registry.boot_events("gpu02") == []


def test_tail_reads_each_line_once_over_rotation_and_restart(tmp_path):
    log, state = tmp_path / "a.log", str(tmp_path / "a.offset")
    log.write_text("old\n")
    tail = LogTail(str(log), state)
    assert tail.lines() == []
    with log.open("a") as handle:
        handle.write("one\ntw")
    assert tail.lines() == ["one"]
    with log.open("a") as handle:
        handle.write("o\n")
    assert LogTail(str(log), state).lines() == ["two"], (
        "a new process goes on where the old one stopped, whole lines only"
    )
    tail = LogTail(str(log), state)
    log.rename(tmp_path / "a.log.1")
    log.write_text("three\n")
    assert tail.lines() == ["three"]
    assert tail.lines() == []
