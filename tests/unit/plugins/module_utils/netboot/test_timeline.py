# The boot timeline: what is overdue, where a dead run goes on, and the readers on real log lines.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import timeline

LIMITS = timeline.limits({"dhcp": 120, "written": 600})


def events(*pairs):
    return [
        {"step": step, "time": f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z", "detail": None}
        for step, second in pairs
    ]


def at(second):
    return timeline.seconds_of("2026-01-01T00:00:00Z") + second


def test_overdue_names_the_step_that_did_not_come():
    progress = timeline.Progress(events(("reserved", 0), ("power_on", 1)))
    assert progress.overdue(at(121), LIMITS) is None
    assert progress.overdue(at(122), LIMITS) == ("dhcp", 120)
    assert timeline.missing_words("dhcp")[0] == "no DHCP request"


def test_a_second_boot_of_the_attempt_starts_anew():
    rows = events(("power_on", 0), ("dhcp", 5), ("loader", 6), ("failed", 9), ("power_on", 20), ("dhcp", 25))
    progress = timeline.Progress(rows)
    assert progress.step == "dhcp" and progress.failure is None


def test_a_step_that_was_not_seen_counts_as_passed_when_a_later_one_was():
    progress = timeline.Progress(events(("power_on", 0), ("loader", 6), ("writing", 9)))
    assert progress.reached("ramdisk") and progress.next_step() == "written"


@pytest.mark.parametrize(
    "rows,now,wanted",
    [
        ([], 0, "boot"),
        ([("power_on", 0)], 1, "boot"),
        ([("power_on", 0), ("dhcp", 4)], 5, "boot"),
        ([("power_on", 0), ("dhcp", 4), ("loader", 6)], 10, "wait"),
        ([("power_on", 0), ("loader", 6), ("writing", 20)], 100, "wait"),
        ([("power_on", 0), ("loader", 6), ("writing", 20)], 700, "boot"),
        ([("power_on", 0), ("loader", 6), ("writing", 20), ("failed", 25)], 30, "boot"),
        ([("power_on", 0), ("loader", 6), ("done", 60)], 2000, "ssh"),
        ([("power_on", 0), ("loader", 6), ("done", 60), ("disk_boot", 70), ("ssh", 80)], 90, "ssh"),
    ],
)
def test_where_a_dead_run_goes_on(rows, now, wanted):
    assert timeline.resume_point(events(*rows), at(now), LIMITS)[0] == wanted


def test_limits_are_checked():
    with pytest.raises(InvalidInput):
        timeline.limits({"no_such_step": 1})
    with pytest.raises(InvalidInput):
        timeline.limits({"dhcp": 0})


# dnsmasq 2.90 with log-dhcp: OVMF's firmware, then iPXE.
LOG = """\
Nov 30 17:30:36 dnsmasq-dhcp[9]: 3972457319 vendor class: PXEClient:Arch:00007:UNDI:003000
Nov 30 17:30:36 dnsmasq-dhcp[9]: 3972457319 DHCPDISCOVER(br0) 52:54:00:77:00:01
Nov 30 17:30:36 dnsmasq-dhcp[9]: 3972457319 DHCPOFFER(br0) 10.99.1.11 52:54:00:77:00:01
Nov 30 17:30:39 dnsmasq-dhcp[9]: 3972457319 DHCPACK(br0) 10.99.1.11 52:54:00:77:00:01 gpu01
Nov 30 17:30:39 dnsmasq-tftp[9]: error 8 User aborted the transfer received from 10.99.1.11
Nov 30 17:30:39 dnsmasq-tftp[9]: sent /srv/tftp/snponly.efi to 10.99.1.11
Nov 30 17:30:45 dnsmasq-dhcp[9]: 4154129685 vendor class: PXEClient:Arch:00007:UNDI:003010
Nov 30 17:30:45 dnsmasq-dhcp[9]: 4154129685 user class: iPXE
Nov 30 17:30:45 dnsmasq-dhcp[9]: 4154129685 DHCPACK(br0) 10.99.1.11 52:54:00:77:00:01 gpu01
something else
"""


def test_dnsmasq_log():
    reader = timeline.DnsmasqReader()
    found = [entry for entry in map(reader.feed, LOG.splitlines()) if entry]
    assert [(entry["kind"], entry["detail"]) for entry in found] == [
        ("dhcp", "10.99.1.11 PXEClient:Arch:00007:UNDI:003000"),
        ("tftp", "snponly.efi"),
        ("dhcp", "10.99.1.11 PXEClient:Arch:00007:UNDI:003010 iPXE"),
    ]
    assert found[0]["mac"] == "52:54:00:77:00:01"


def test_a_foreign_line_in_the_access_log_is_no_entry():
    assert timeline.read_nginx("10.0.0.1 - - [x] GET /") is None
    assert timeline.read_nginx('{"time": "x"}') is None
