# Reservations follow the registry; log lines of the real programs become boot events; logs survive rotation and restarts.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import watcher
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
    service = Watcher(lab.registry, boot_settings)
    service.round()
    service.round()
    assert os.listdir(boot_settings.reservation_dir) == ["525400770001"]
    with open(os.path.join(boot_settings.reservation_dir, "525400770001"), encoding="ascii") as handle:
        assert handle.read() == "52:54:00:77:00:01,10.77.1.11,gpu01\n"
    assert lab.steps() == ["reserved"]
    lab.registry.finish("gpu01", lab.begin.attempt, lab.begin.fencing, "pass", "test")
    service.round()
    assert os.listdir(boot_settings.reservation_dir) == []


def test_a_round_reads_no_facts(lab, boot_settings):
    lab.registry.save_node("S-1", "test", facts={"many": "x" * 1000})
    service = Watcher(lab.registry, boot_settings)
    service.round()
    assert [set(node) for node in service._nodes] == [{"serial", "name", "attempt", "provision_mac", "provision_ip"}]
    assert service.is_deploying("52:54:00:77:00:01") and not service.is_deploying("52:54:00:77:00:02")


def test_log_lines_become_events_of_the_right_node(lab, boot_settings):
    for path in (boot_settings.dnsmasq_log, boot_settings.nginx_log):
        with open(path, "w", encoding="ascii") as handle:
            handle.write("an older line\n")
    service = Watcher(lab.registry, boot_settings)
    with open(boot_settings.dnsmasq_log, "a", encoding="ascii") as handle:
        handle.write(DNSMASQ)
    with open(boot_settings.nginx_log, "a", encoding="ascii") as handle:
        handle.write(
            access("/images/deb/vmlinuz")
            + access("/images/deb/disk.raw")
            + access("/images/deb/disk.raw", "10.77.1.12")
        )
    service.round()
    events = lab.registry.boot_events("gpu01")
    assert [event["step"] for event in events] == ["reserved", "dhcp", "kernel", "served"]
    assert events[1]["detail"] == "10.77.1.11 PXEClient:Arch:00007:UNDI:003000"
    assert events[3]["detail"] == {"path": "/images/deb/disk.raw", "status": 200, "bytes": 1 << 20, "complete": True}
    assert 4.9 < seconds_between(events[3]["time"], events[3]["recorded"]) < 60  # the line is five seconds old
    assert lab.registry.boot_events("gpu02") == []


class Away:
    """A registry whose boot_event fails for the first `times` calls of `step`, before or after it was recorded."""

    def __init__(self, registry, step, times, error, after=False):
        self._registry, self._step, self._times, self._error, self._after = registry, step, times, error, after

    def __getattr__(self, name):
        return getattr(self._registry, name)

    def boot_event(self, node, attempt, step, *more, **named):
        failing = step == self._step and self._times > 0
        if failing and not self._after:
            self._times -= 1
            raise self._error
        self._registry.boot_event(node, attempt, step, *more, **named)
        if failing:
            self._times -= 1
            raise self._error


def write_logs(boot_settings):
    with open(boot_settings.dnsmasq_log, "a", encoding="ascii") as handle:
        handle.write(DNSMASQ)
    with open(boot_settings.nginx_log, "a", encoding="ascii") as handle:
        handle.write(access("/images/deb/vmlinuz") + access("/images/deb/disk.raw"))


@pytest.mark.parametrize("step", ["dhcp", "kernel", "served"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_registry_that_is_away_loses_no_event(lab, boot_settings, step, after, restarted):
    """The place in the log moves on when the event is recorded; the same line given twice is one event."""
    away = Away(lab.registry, step, 2, errors.Unreachable("the registry database cannot be used"), after)
    service = Watcher(away, boot_settings)
    service.round()
    write_logs(boot_settings)
    for _n in range(2):
        try:
            service.round()
        except errors.Unreachable:
            if restarted:
                service = Watcher(away, boot_settings)
    service.round()
    service.round()
    found = [event for event in lab.registry.boot_events("gpu01") if event["step"] != "reserved"]
    assert [event["step"] for event in found] == ["dhcp", "kernel", "served"]
    if not restarted:
        assert found[0]["detail"] == "10.77.1.11 PXEClient:Arch:00007:UNDI:003000"


def test_killed_between_an_event_and_the_place_in_the_log(lab, boot_settings, monkeypatch):
    with monkeypatch.context() as patched:
        service = Watcher(lab.registry, boot_settings)
        service.round()
        write_logs(boot_settings)
        patched.setattr(LogTail, "_save", lambda self: None)  # as if killed before it
        service.round()
    assert lab.steps() == ["reserved", "dhcp", "kernel", "served"]
    again = Watcher(lab.registry, boot_settings)
    again.round()
    with open(boot_settings.nginx_log, "a", encoding="ascii") as handle:
        handle.write(access("/images/deb/disk.raw"))
    again.round()  # what is asked for once more is a new event
    assert [step for step in lab.steps() if step != "reserved"] == ["dhcp", "kernel", "served", "served"]


def test_a_line_that_the_registry_refuses_does_not_keep_the_others_back(lab, boot_settings):
    away = Away(lab.registry, "kernel", 99, ValueError("a character that this database does not take"))
    service = Watcher(away, boot_settings)
    service.round()
    write_logs(boot_settings)
    service.round()
    assert lab.steps() == ["reserved", "dhcp", "served"]


def taken(tail):
    found = []
    tail.each(lambda line, again: found.append(line))
    return found


def test_tail_reads_each_line_once_over_rotation_and_restart(tmp_path):
    log, state = tmp_path / "a.log", str(tmp_path / "a.offset")
    log.write_text("old\n")
    tail = LogTail(str(log), state)
    assert taken(tail) == []
    with log.open("a") as handle:
        handle.write("one\ntw")
    assert taken(tail) == ["one"]
    with log.open("a") as handle:
        handle.write("o\n")
    assert taken(LogTail(str(log), state)) == ["two"], (
        "a new process goes on where the old one stopped, whole lines only"
    )
    tail = LogTail(str(log), state)
    log.rename(tmp_path / "a.log.1")
    log.write_text("three\n")
    assert taken(tail) == ["three"]
    assert taken(tail) == []


def test_tail_takes_the_rest_of_a_file_that_was_rotated_away(tmp_path):
    log, state = tmp_path / "a.log", str(tmp_path / "a.offset")
    log.write_text("old\n")
    tail = LogTail(str(log), state)
    taken(tail)
    with log.open("a") as handle:
        handle.write("one\ntwo\n")
    seen = []

    def take(line, again):
        if line == "two" and not again:
            raise errors.Unreachable("away")
        seen.append((line, again))

    with pytest.raises(errors.Unreachable):
        tail.each(take)
    log.rename(tmp_path / "a.log.1")
    log.write_text("three\n")
    tail.each(take)
    assert seen == [("one", False), ("two", True), ("three", False)]
    assert taken(LogTail(str(log), state)) == []


def test_tail_passes_over_what_is_no_line(tmp_path, monkeypatch):
    """A file that was cut by its writer begins with megabytes of nothing."""
    monkeypatch.setattr(watcher, "MOST_BYTES", 64)
    log = tmp_path / "a.log"
    log.write_bytes(b"")
    tail = LogTail(str(log), str(tmp_path / "a.offset"))
    log.write_bytes(bytes(200) + b"\none\n")
    found = []
    for _n in range(6):
        found += taken(tail)
    assert found[-1] == "one"
