# The rules of the scheduler port, without any scheduler.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import (
    DeadlineExceeded,
    FencedOut,
    InvalidInput,
    NotFound,
    Refused,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler import port


def view(drained=False, owner=None, reason="", present=True, jobs=()):
    return {
        "present": present,
        "state": "IDLE",
        "drained": drained,
        "drain_owner": owner,
        "reason": reason,
        "jobs": list(jobs),
        "busy": bool(jobs),
    }


@given(owner=st.from_regex(r"[a-z0-9][a-z0-9_.@-]{0,20}", fullmatch=True), text=st.text(max_size=400))
def test_reason_keeps_its_owner_and_fits_one_line(owner, text):
    reason = port.drain_reason(owner, text)
    assert port.split_reason(reason)[0] == owner
    assert "\n" not in reason and '"' not in reason and len(reason) <= port.REASON_LIMIT


@pytest.mark.parametrize("owner", ["", "two words", "a:b", "x" * 65, None, "user:root", "a\n"])
def test_bad_owner_is_refused(owner):
    with pytest.raises(InvalidInput):
        port.drain_reason(owner, "why")


@pytest.mark.parametrize(
    "reason", ["Low RealMemory", "", "aicluster", "aicluster:: x", "not aicluster:enroll: x", None]
)
def test_foreign_reason_has_no_owner(reason):
    assert port.split_reason(reason)[0] is None


def test_drain_of_a_free_node():
    plan = port.plan_drain(view(), "gpu01", "attempt 1", "enroll")
    assert [change.thing for change in plan.changes] == ["drained", "reason"]
    assert plan.changes[1].after == "aicluster:enroll: attempt 1"


def test_drain_again_changes_nothing():
    seen = view(True, "enroll", "aicluster:enroll: attempt 1")
    assert not port.plan_drain(seen, "gpu01", "attempt 1", "enroll").changed
    assert port.plan_drain(seen, "gpu01", "attempt 2", "enroll").changed


@pytest.mark.parametrize("owner, reason", [("user:root", "disk swap"), ("health", "aicluster:health: Xid 79")])
def test_a_drain_of_somebody_else_is_neither_overwritten_nor_undone(owner, reason):
    seen = view(True, owner, reason)
    assert not port.plan_drain(seen, "gpu01", "attempt 1", "enroll").changed
    with pytest.raises(Refused) as error:
        port.plan_resume(seen, "gpu01", "enroll")
    assert error.value.code == "foreign_drain" and reason in str(error.value)


def test_a_reason_that_did_not_arrive_is_not_reported_as_written():
    class Deaf(port.SchedulerPort):
        def observe(self, node):
            return view(True, "health", "aicluster:health: Xid 79")

        def _write_drain(self, node, reason):
            pass

    deaf = Deaf(verify_seconds=0.05, interval=0.01)
    assert not deaf.drain("gpu01", "Xid 79", "health").changed
    for options in ({"owner": "health"}, {"owner": "repair", "replaces": "health"}):
        with pytest.raises(DeadlineExceeded):
            deaf.drain("gpu01", "cable", **options)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"base": "MIXED", "flags": ["PLANNED", "POWERED_DOWN"]}, ""),
        ({"present": False}, "it does not know this node"),
        ({"base": "DOWN", "reason": "Not responding"}, "state DOWN (Not responding)"),
        ({"flags": ["COMPLETING", "NOT_RESPONDING"]}, "state IDLE+NOT_RESPONDING"),
        ({"drained": True, "drain_owner": "health", "reason": "x"}, "drained by automation 'health' (x)"),
    ],
)
def test_why_a_node_gets_no_work(changed, words):
    assert port.why_no_work({**view(), "base": "IDLE", "flags": [], **changed}) == words


def test_handover_replaces_only_the_named_owner():
    seen = view(True, "health", "aicluster:health: Xid 79")
    assert port.plan_drain(seen, "gpu01", "kept", "repair", replaces="health").changed
    assert not port.plan_drain(seen, "gpu01", "kept", "repair", replaces="enroll").changed


def test_resume_of_own_drain_and_of_a_node_in_service():
    assert port.plan_resume(view(True, "enroll", "aicluster:enroll: x"), "gpu01", "enroll").changed
    assert not port.plan_resume(view(), "gpu01", "enroll").changed


def test_absent_node():
    for call in (
        lambda: port.plan_drain(view(present=False), "gpu01", "x", "enroll"),
        lambda: port.plan_resume(view(present=False), "gpu01", "enroll"),
    ):
        with pytest.raises(NotFound):
            call()


class Stuck(port.SchedulerPort):
    """A scheduler whose writes can be made to do nothing."""

    def __init__(self, obeys, **options):
        super().__init__(verify_seconds=0.05, interval=0.01, **options)
        self.obeys, self.now, self.writes = obeys, view(), 0

    def observe(self, node):
        return self.now

    def _write_drain(self, node, reason):
        self.writes += 1
        if self.obeys:
            self.now = view(True, *[port.split_reason(reason)[0], reason])

    def _write_resume(self, node):
        self.writes += 1
        if self.obeys:
            self.now = view()


def test_a_write_that_has_no_effect_is_no_success():
    with pytest.raises(DeadlineExceeded):
        Stuck(False).drain("gpu01", "x", "enroll")


def test_check_mode_writes_nothing():
    scheduler = Stuck(True)
    assert scheduler.drain("gpu01", "x", "enroll", check=True).changed
    assert scheduler.writes == 0


def test_fence_is_checked_before_each_write_and_not_without_one():
    calls = []

    def fence():
        calls.append(1)
        raise FencedOut("newer attempt")

    scheduler = Stuck(True, before_write=fence)
    with pytest.raises(FencedOut):
        scheduler.drain("gpu01", "x", "enroll")
    assert scheduler.writes == 0 and len(calls) == 1
    assert not scheduler.resume("gpu01", "enroll").changed
    assert len(calls) == 1


def test_wait_idle_names_the_jobs():
    scheduler = Stuck(True)
    job = {"id": "7", "name": "train", "user": "alice", "state": "RUNNING"}
    scheduler.now = view(True, "enroll", "aicluster:enroll: x", jobs=[job])
    with pytest.raises(DeadlineExceeded) as error:
        scheduler.wait_idle("gpu01", 0.02)
    assert "7 of alice" in str(error.value)
