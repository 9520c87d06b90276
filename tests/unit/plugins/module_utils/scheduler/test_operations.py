# Drain, resume, gate and first job against a real registry (SQLite); the scheduler is a small stand-in with the port's own rules, and once the real Slurm.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import (
    DeadlineExceeded,
    FencedOut,
    NotFound,
    Refused,
    Unreachable,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler import operations, port
from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler.slurm import SlurmPort

pytest.importorskip("sqlalchemy")
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry, records


class Memory(port.SchedulerPort):
    """A scheduler of one node in memory. `by` is set to whoever drained it outside."""

    def __init__(self, **options):
        super().__init__(verify_seconds=0.5, interval=0.01, **options)
        self.reason, self.jobs, self.writes, self.up, self.runs, self.answer = (
            None,
            [],
            [],
            True,
            [],
            (0, "gpu01\n", ""),
        )
        self.after_resume = None

    def observe(self, node):
        if not self.up:
            raise Unreachable("the Slurm controller does not answer", host=node, code="slurm_down")
        if node == "gpu09":
            return {
                "present": False,
                "state": "ABSENT",
                "drained": False,
                "drain_owner": None,
                "reason": "",
                "jobs": [],
                "busy": False,
            }
        owner = port.split_reason(self.reason)[0] if self.reason else None
        return {
            "present": True, "state": "IDLE", "drained": bool(self.reason), "reason": self.reason or "", "jobs": self.jobs, "busy": bool(self.jobs),
            "drain_owner": (owner or "user:root") if self.reason else None,
        }  # fmt: skip

    def _write_drain(self, node, reason):
        self.writes.append(("drain", reason))
        self.reason = reason

    def _write_resume(self, node):
        self.writes.append(("resume",))
        self.reason = None
        if self.after_resume:
            self.after_resume()

    def run_job(self, node, command, name, gres="", seconds=1.0):
        self.runs.append((node, tuple(command), name, gres))
        return self.answer


@pytest.fixture
def registry(tmp_path):
    with open_registry(f"sqlite:///{tmp_path}/registry.db", migrate=True) as opened:
        opened.save_node("S1", "test", name="gpu01", state="manageable", provision_ip="10.0.0.1")
        opened.save_node("S2", "test", name="gpu02", state="manageable", provision_ip="10.0.0.2")
        opened.save_node("S9", "test", name="gpu09", state="manageable")
        opened.transition("gpu01", "manageable", "available", "test")
        yield opened


def passed(registry, *stages, outcome="pass", items=({"check": "gpu_count", "outcome": "pass"},)):
    for stage in stages:
        begun = registry.begin("gpu01", stage, actor="test")
        assert begun.selected, begun.reason
        if stage == "burn_in":
            registry.record_evidence("gpu01", begun.attempt, list(items), "test")
        registry.finish("gpu01", begun.attempt, begun.fencing, outcome, "test")


@pytest.fixture
def active(registry):
    passed(registry, "deploy", "software", "burn_in")
    registry.acquire_lease("gpu01", "slurm", "test")
    passed(registry, "enroll")
    return registry


def drain(registry, scheduler, owner="health", **options):
    return operations.drain(registry, scheduler, "gpu01", owner, options.pop("reason", "Xid 79"), "test", **options)


def resume(registry, scheduler, owner="health", **options):
    return operations.resume(registry, scheduler, "gpu01", owner, "test", **options)


def test_drain_and_resume_and_both_again(active):
    scheduler = Memory()
    assert drain(active, scheduler)["plan"].changed
    assert [hold["owner"] for hold in active.holds("gpu01")] == [
        "health"
    ] and scheduler.reason == "aicluster:health: Xid 79"
    assert not drain(active, scheduler)["plan"].changed
    done = resume(active, scheduler)
    assert done["plan"].changed and done["in_service"] and not done["kept_by"]
    assert active.holds("gpu01") == [] and scheduler.reason is None
    done = resume(active, scheduler)
    assert not done["plan"].changed and done["in_service"] and len(scheduler.writes) == 2


def test_check_mode_touches_nothing(active):
    scheduler = Memory()
    rows = active.verify_audit()["rows"]
    assert drain(active, scheduler, check=True)["plan"].changed
    assert active.holds("gpu01") == [] and scheduler.writes == []
    drain(active, scheduler)
    done = resume(active, scheduler, check=True)
    assert done["plan"].changed and done["in_service"] and scheduler.reason
    assert active.verify_audit()["rows"] == rows + 2  # the hold, and that a drain goes with it


def test_a_hold_with_a_drain_is_ended_by_resume_alone(active):
    assert records.RESUMED_STATES == operations.IN_SCHEDULER_STATES
    scheduler = Memory()
    drain(active, scheduler, owner="alice", automation=False, exit_condition="RAM is checked")
    assert active.holds("gpu01")[0]["drained"]
    command = "ansible-playbook aicluster.baremetal.resume -l gpu01 -e owner=alice"
    assert command in active.why("gpu01")[0]["next_step"]
    for check in (True, False):
        with pytest.raises(Refused) as error:
            active.release("gpu01", "alice", "alice", check=check)
        assert error.value.code == "hold_with_drain" and error.value.next_step == command
    assert scheduler.reason and active.holds("gpu01")
    assert resume(active, scheduler, owner="alice", automation=False)["in_service"] and not active.why("gpu01")


def test_a_hold_that_inherits_a_drain_is_ended_by_resume(active):
    scheduler = Memory()
    drain(active, scheduler)
    active.hold("gpu01", "bob", "smoke", "no smoke", False, "bob")
    assert "hold -a 'owner=bob state=absent'" in active.why("gpu01")[1]["next_step"]
    resume(active, scheduler)
    assert scheduler.reason == "aicluster:bob: smoke" and "resume -l gpu01" in active.why("gpu01")[0]["next_step"]
    with pytest.raises(Refused):
        active.release("gpu01", "bob", "bob")
    assert resume(active, scheduler, owner="bob", automation=False)["in_service"]
    # A new hold of the same owner has nothing to do with the drain that ended.
    active.hold("gpu01", "bob", "smoke", "no smoke", False, "bob")
    assert active.release("gpu01", "bob", "bob").changed


def test_a_hold_alone_is_released_where_resume_is_refused_or_nothing_is_drained(active):
    scheduler = Memory()
    operations.drain(active, None, "gpu01", "carol", "fan", "test")
    assert active.release("gpu01", "carol", "carol").changed
    drain(active, scheduler, owner="alice", automation=False)
    active.transition("gpu01", "active", "suspect", "test")
    assert active.release("gpu01", "alice", "alice").changed


def test_a_human_hold_is_not_released_by_automation(active):
    scheduler = Memory()
    drain(active, scheduler, owner="alice", automation=False, reason="replace GPU 3")
    with pytest.raises(Refused) as error:
        resume(active, scheduler, owner="alice")
    assert error.value.code == "human_hold" and scheduler.reason
    # Nor is it turned into one of automation.
    assert "placed by a person" in drain(active, scheduler, owner="alice")["notes"][0]
    assert active.holds("gpu01")[0]["automation"] is False
    assert resume(active, scheduler, owner="alice", automation=False)["in_service"]


def test_a_human_hold_outlasts_the_drain_of_automation(active):
    scheduler = Memory()
    drain(active, scheduler)
    active.hold("gpu01", "Alice Smith", "replace GPU 3", "GPU replaced", False, "alice")
    done = resume(active, scheduler)
    assert not done["in_service"] and "Alice Smith" in done["kept_by"][0]
    assert scheduler.reason == "aicluster:Alice_Smith: replace GPU 3"
    done = resume(active, scheduler)
    assert not done["in_service"] and not done["plan"].changed, "the second run has nothing of its own to undo"


def test_two_automations_hand_over(active):
    scheduler = Memory()
    drain(active, scheduler)
    drain(active, scheduler, owner="repair", reason="cable")
    assert scheduler.reason.startswith("aicluster:health:")
    assert not resume(active, scheduler)["in_service"]
    assert scheduler.reason == "aicluster:repair: cable"
    assert resume(active, scheduler, owner="repair")["in_service"] and scheduler.reason is None


def test_an_admins_drain_is_never_undone(active):
    scheduler = Memory()
    scheduler.reason = "disk swap"
    done = drain(active, scheduler)
    assert scheduler.reason == "disk swap" and "disk swap" in done["notes"][0]
    done = resume(active, scheduler)
    assert not done["in_service"] and scheduler.reason == "disk swap" and scheduler.writes == []
    assert "outside" in done["kept_by"][0] and active.holds("gpu01") == []


def test_maintenance_keeps_the_node_out(active):
    scheduler = Memory()
    drain(active, scheduler)
    active.save_node("S1", "test", maintenance=True, maintenance_reason="firmware day")
    assert not resume(active, scheduler)["in_service"] and scheduler.reason == "aicluster:maintenance: firmware day"


def test_a_hold_placed_while_resuming_wins(active):
    scheduler = Memory()
    drain(active, scheduler)
    scheduler.after_resume = lambda: active.hold("gpu01", "bob", "smoke", "no smoke", False, "bob")
    done = resume(active, scheduler)
    assert not done["in_service"] and scheduler.reason == "aicluster:bob: smoke"


def test_resume_needs_state_and_lease(active):
    scheduler = Memory()
    drain(active, scheduler)
    active.transition("gpu01", "active", "suspect", "test")
    with pytest.raises(Refused) as error:
        resume(active, scheduler)
    assert error.value.code == "state_takes_no_work" and active.holds("gpu01"), "nothing is released when it is refused"
    active.transition("gpu01", "suspect", "active", "test")
    active.release_lease("gpu01", "slurm", "test")
    with pytest.raises(Refused) as error:
        resume(active, scheduler)
    assert error.value.code == "lease_foreign" and scheduler.reason


def test_scheduler_down_keeps_the_intention_and_the_next_run_finishes(active):
    scheduler = Memory()
    scheduler.up = False
    with pytest.raises(Unreachable):
        drain(active, scheduler)
    assert active.holds("gpu01")
    scheduler.up = True
    assert drain(active, scheduler)["plan"].changed and scheduler.reason


def test_wait_and_its_deadline(active):
    scheduler = Memory()
    scheduler.jobs = [{"id": "7", "user": "bob", "state": "RUNNING", "name": "x"}]
    with pytest.raises(DeadlineExceeded) as error:
        drain(active, scheduler, wait_s=0.05)
    assert "7 of bob" in str(error.value) and scheduler.reason
    beats = []
    assert (
        drain(active, scheduler, wait_s=5, each=lambda: (beats.append(1), scheduler.jobs.clear()))["scheduler"][
            "drained"
        ]
        and beats
    )


def test_node_that_the_scheduler_does_not_know(registry):
    done = operations.drain(registry, Memory(), "gpu09", "health", "x", "test")
    assert done["plan"].changed and "only the registry" in done["notes"][0]
    assert operations.drain(registry, None, "gpu02", "health", "x", "test")["plan"].changed


def test_gate(registry):
    def gate():
        return operations.burn_in_gate(registry, "gpu01")

    assert "no burn-in" in gate()["reason"]
    passed(registry, "deploy", "software", "burn_in")
    assert gate()["passed"] and not gate()["simulated"]
    registry.transition("gpu01", "accepted", "cleaning", "test")
    registry.transition("gpu01", "cleaning", "available", "test")
    passed(registry, "deploy")
    assert not gate()["passed"] and "deploy" in gate()["reason"]
    passed(registry, "software")
    with pytest.raises(Refused) as error:
        operations.require_burn_in(registry, "gpu01")
    assert error.value.code == "burn_in_missing" and "software" in str(error.value)


@pytest.mark.parametrize(
    "items",
    [
        [],
        [{"check": "gpu_count", "outcome": "could_not_test"}, {"check": "cpu", "outcome": "pass"}],
        [{"check": "x", "outcome": "not_applicable"}],
        [{"check": "x", "outcome": "could_not_test", "gates": False}],
    ],
)
def test_gate_stays_closed_without_results(registry, items):
    passed(registry, "deploy", "software", "burn_in", items=items)
    assert not operations.burn_in_gate(registry, "gpu01")["passed"]


def test_gate_says_what_does_not_gate(registry):
    aside = {"check": "network", "outcome": "could_not_test", "gates": False}
    passed(registry, "deploy", "software", "burn_in", items=[{"check": "cpu", "outcome": "pass"}, aside])
    gate = operations.burn_in_gate(registry, "gpu01")
    assert gate["passed"] and gate["reason"] == "1 check that does not gate could not be tested: network"
    [kept] = [item for item in gate["items"] if item["check"] == "network"]
    assert (kept["outcome"], kept["gates"]) == ("could_not_test", False)


def test_gate_says_how_the_newest_burn_in_ended(registry):
    def gate():
        found = operations.burn_in_gate(registry, "gpu01")
        return found["outcome"], found["stale"]

    assert gate() == (None, False)
    passed(registry, "deploy", "software", "burn_in")
    assert gate() == ("pass", False)
    registry.transition("gpu01", "accepted", "cleaning", "test")
    registry.transition("gpu01", "cleaning", "available", "test")
    passed(registry, "deploy")
    assert gate() == ("pass", True)


def test_gate_after_a_failed_burn_in(registry):
    passed(registry, "deploy", "software")
    passed(registry, "burn_in", outcome="fail")
    assert "fail" in operations.burn_in_gate(registry, "gpu01")["reason"]


def test_first_job_once(registry):
    passed(registry, "deploy", "software", "burn_in")
    attempt = registry.begin("gpu01", "enroll", actor="test").attempt
    scheduler = Memory()

    def job(**options):
        return operations.first_job(
            registry, scheduler, "gpu01", attempt, ["hostname"], "test", gres="gpu:8", expect="gpu01", **options
        )

    assert job(check=True)["plan"].changed and not scheduler.runs
    done = job(simulated=True)
    assert done["ran"] and done["output"] == "gpu01"
    assert not job()["ran"] and len(scheduler.runs) == 1
    (item,) = registry.evidence("gpu01", attempt=attempt)
    assert (item["check"], item["outcome"], item["value"], item["simulated"]) == (
        "slurm_first_job",
        "pass",
        "gpu01",
        True,
    )


@pytest.mark.parametrize("answer", [(1, "", "srun: error: Unable to create step"), (0, "other\n", ""), (124, "", "")])
def test_first_job_that_fails_is_recorded_as_failed_and_runs_again(registry, answer):
    passed(registry, "deploy", "software", "burn_in")
    attempt = registry.begin("gpu01", "enroll", actor="test").attempt
    scheduler = Memory()
    scheduler.answer = answer
    for count in (1, 2):
        with pytest.raises(Refused):
            operations.first_job(registry, scheduler, "gpu01", attempt, ["hostname"], "test", expect="gpu01")
        assert len(scheduler.runs) == count
    assert registry.evidence("gpu01", attempt=attempt)[-1]["outcome"] == "fail"


HARDWARE = {
    "name": "gpu01", "cpus": 2, "boards": 1, "sockets": 1, "cores": 2, "threads": 1, "real_memory_mib": 1000, "gpus": 8, "gpu_type": "h100",
}  # fmt: skip


def test_entries_follow_the_lease(registry):
    assert operations.node_entries(registry) == ([], ["gpu01", "gpu02", "gpu09"], [])
    passed(registry, "deploy", "software", "burn_in")
    # Accepted: another controller may be about to give it the lease, so it is not ours to remove.
    assert operations.node_entries(registry) == ([], ["gpu02", "gpu09"], [])
    registry.acquire_lease("gpu01", "slurm", "test")
    assert operations.node_entries(registry)[2] == ["gpu01"]
    registry.record_evidence(
        "gpu01", None, [{"check": "slurm_hardware", "outcome": "pass", "detail": HARDWARE}], "test"
    )
    (entry,), remove, unknown = operations.node_entries(registry)
    assert (
        "NodeAddr=10.0.0.1" in entry["line"]
        and entry["gres"].endswith("[0-7]")
        and remove == ["gpu02", "gpu09"]
        and not unknown
    )


def test_registration(active):
    class Late(Memory):
        views = []

        def observe(self, node):
            return self.views.pop(0) if len(self.views) > 1 else self.views[0]

    base = {
        "present": True,
        "drained": False,
        "invalid": False,
        "registered": False,
        "responding": False,
        "base": "UNKNOWN",
        "state": "UNKNOWN",
        "reason": "",
    }
    scheduler = Late()
    scheduler.views = [base, {**base, "registered": True, "responding": True, "base": "IDLE", "state": "IDLE+DRAIN"}]
    assert operations.wait_registered(scheduler, "gpu01", 5)["base"] == "IDLE"
    down = {**base, "registered": True, "base": "DOWN", "state": "DOWN+DRAIN", "drained": True}
    scheduler.views = [{**down, "responding": False}, {**down, "responding": True}]
    assert operations.wait_registered(scheduler, "gpu01", 5)["responding"]
    scheduler.views = [{**base, "invalid": True, "reason": "Low RealMemory"}]
    with pytest.raises(Refused) as error:
        operations.wait_registered(scheduler, "gpu01", 5)
    assert error.value.code == "registration_invalid" and "Low RealMemory" in str(error.value)
    scheduler.views = [{**base, "present": False}]
    with pytest.raises(NotFound):
        operations.wait_registered(scheduler, "gpu01", 5)
    scheduler.views = [base]
    with pytest.raises(DeadlineExceeded):
        operations.wait_registered(scheduler, "gpu01", 0.03)


@pytest.mark.root
def test_real_slurm_from_drain_to_first_job(registry, slurm):
    passed(registry, "deploy", "software", "burn_in")
    registry.acquire_lease("gpu01", "slurm", "test")
    begun = registry.begin("gpu01", "enroll", actor="test")
    fenced = SlurmPort(slurm.run, interval=0.1, before_write=lambda: registry.check_fence("gpu01", begun.fencing))
    try:
        operations.drain(registry, fenced, "gpu01", "enroll", "attempt 1", "test", record=False)
        assert operations.wait_registered(fenced, "gpu01", 10)["drained"] and not registry.holds("gpu01")
        operations.require_burn_in(registry, "gpu01")
        assert operations.resume(registry, fenced, "gpu01", "enroll", "test")["in_service"]
        done = operations.first_job(
            registry,
            fenced,
            "gpu01",
            begun.attempt,
            ["sh", "-c", "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"],
            "test",
            gres="gpu:8",
            seconds=30,
        )
        assert done["output"] == "gpu01 0,1,2,3,4,5,6,7"
        # Another controller takes the node over: the old run may no longer write to Slurm.
        registry.finish("gpu01", begun.attempt, begun.fencing, "fail", "test")
        registry.begin("gpu01", "enroll", actor="test", retry_failed=True)
        with pytest.raises(FencedOut):
            operations.drain(registry, fenced, "gpu01", "enroll", "late", "test", record=False)
        assert not fenced.observe("gpu01")["drained"]
    finally:
        slurm.run(["scontrol", "update", "nodename=gpu01", "state=resume"])
