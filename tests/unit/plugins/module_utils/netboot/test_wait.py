# Waiting for a boot over a real registry: clear ends for each way in which a boot goes wrong.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import timeline, wait
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry.engine import plus, seconds_between


def go(lab, until="done", **limits):
    allowed = timeline.limits({"dhcp": 0.3, "loader": 0.3, **limits})
    return wait.for_step(lab.registry, "gpu01", lab.begin.attempt, lab.begin.fencing, until, allowed, poll_s=0.02)


def note(lab, *steps, detail=None):
    for step in steps:
        lab.registry.boot_event("gpu01", lab.begin.attempt, step, detail, "test")


def test_a_boot_that_is_done(lab):
    note(lab, "power_on", "dhcp", "loader", "ramdisk", "done")
    assert go(lab).step == "done"
    assert lab.registry.attempt(lab.begin.attempt)["last_step"] == "boot:done"


def test_a_node_that_never_calls(lab):
    note(lab, "power_on")
    with pytest.raises(errors.DeadlineExceeded) as caught:
        go(lab)
    assert caught.value.code == "boot_no_dhcp"
    assert str(caught.value).startswith("gpu01: boot: no DHCP request within") and "after power_on" in str(caught.value)


def test_a_failure_that_the_ramdisk_reports_ends_the_wait_at_once(lab):
    note(lab, "power_on", "dhcp", "loader", "ramdisk")
    note(lab, "failed", detail="no disk fits: wanted at least 4 GiB")
    with pytest.raises(errors.BaremetalError, match="no disk fits") as caught:
        go(lab, dhcp=3600, loader=3600)
    assert caught.value.code == "boot_failed"


def test_a_newer_attempt_ends_the_wait(lab):
    note(lab, "power_on")
    lab.registry.finish("gpu01", lab.begin.attempt, lab.begin.fencing, "fail", "test", reason="x")
    with pytest.raises(errors.FencedOut):
        go(lab, dhcp=3600)


def test_the_reservation_proves_the_boot_service(lab):
    with pytest.raises(errors.DeadlineExceeded, match="no DHCP reservation"):
        wait.for_reservation(lab.registry, "gpu01", lab.begin.attempt, lab.begin.fencing, seconds=0.1, poll_s=0.02)
    note(lab, "reserved")
    wait.for_reservation(lab.registry, "gpu01", lab.begin.attempt, lab.begin.fencing, seconds=0.1, poll_s=0.02)


@pytest.fixture(params=[-3600, 3600])
def other_clock(request, lab, monkeypatch):
    """The registry's clock (a database server's) is an hour off this machine's."""
    database = lab.registry._db
    now = type(database).now
    monkeypatch.setattr(database, "now", lambda connection: plus(now(database, connection), request.param))


def test_limits_count_by_the_registrys_clock_alone(lab, other_clock):
    note(lab, "power_on")
    rounds = []

    def sleep(_seconds):
        rounds.append(1)
        note(lab, *(["dhcp", "loader", "ramdisk", "done"] if len(rounds) == 2 else []))

    allowed = timeline.limits({"dhcp": 60})
    found = wait.for_step(lab.registry, "gpu01", lab.begin.attempt, lab.begin.fencing, "done", allowed, 0.02, sleep)
    assert found.step == "done" and len(rounds) == 2


def test_what_is_overdue_is_overdue_whatever_the_clocks(lab, other_clock):
    note(lab, "power_on")
    rounds = []

    def sleep(seconds):
        rounds.append(1)
        assert len(rounds) < 200, "the wait does not end"
        time.sleep(seconds)

    allowed = timeline.limits({"dhcp": 0.2})
    with pytest.raises(errors.DeadlineExceeded):
        wait.for_step(lab.registry, "gpu01", lab.begin.attempt, lab.begin.fencing, "done", allowed, 0.02, sleep)


def test_a_log_line_of_another_machine_does_not_move_the_limits(lab):
    """The time that a line of the web server's log carries is for the timeline; the age counts from when the registry heard of it."""
    note(lab, "power_on", "dhcp", "loader")
    lab.registry.boot_event("gpu01", lab.begin.attempt, "kernel", None, "nginx", time="2020-01-01T00:00:00Z")
    progress = timeline.Progress(lab.registry.boot_events("gpu01", lab.begin.attempt))
    assert progress.step == "kernel"
    assert progress.overdue(timeline.seconds_of(lab.registry.now()), timeline.limits({"ramdisk": 60})) is None


def test_an_event_of_some_seconds_ago(lab):
    lab.registry.boot_event("gpu01", lab.begin.attempt, "disk_boot", None, "ssh", age_s=90)
    [event] = lab.registry.boot_events("gpu01", lab.begin.attempt)
    assert seconds_between(event["time"], event["recorded"]) == 90
