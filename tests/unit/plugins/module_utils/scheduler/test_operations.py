# Drain, resume, gate and first job against a real registry (SQLite); the scheduler is a small stand-in with the port's own rules, and once the real Slurm.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import (
    DeadlineExceeded,
    FencedOut,
    InvalidInput,
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
        self.base, self.flags = "IDLE", []

    def observe(self, node):
        if not self.up:
            raise Unreachable("the Slurm controller does not answer", host=node, code="slurm_down")
        if node == "gpu09":
            return {
                "present": False,
                "state": "ABSENT",
                "base": "ABSENT",
                "flags": [],
                "drained": False,
                "drain_owner": None,
                "reason": "",
                "jobs": [],
                "busy": False,
            }
        owner = port.split_reason(self.reason)[0] if self.reason else None
        return {
            "present": True, "state": self.base, "base": self.base, "flags": self.flags,
            "drained": bool(self.reason), "reason": self.reason or "", "jobs": self.jobs, "busy": bool(self.jobs),
            "drain_owner": (owner or "user:root") if self.reason else None,
        }  # fmt: skip

    def _write_drain(self, node, reason):
        self.writes.append(("drain", reason))
        self.reason = reason

    def _write_resume(self, node):
        self.writes.append(("resume",))
        self.reason = None
        if self.base == "DOWN" and "NOT_RESPONDING" not in self.flags:
            self.base = "IDLE"
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


def test_in_service_is_said_only_of_a_node_that_takes_work(active):
    def said(scheduler, **options):
        done = resume(active, scheduler, **options)
        assert done["in_service"] is not bool(done["kept_by"]), "kept_by says why, and is empty otherwise"
        assert done["kept_by"] == resume(active, scheduler, check=True, **options)["kept_by"], (
            "check mode says the same"
        )
        return done["kept_by"], done["blocked"]

    scheduler = Memory()
    for scheduler.base in ("IDLE", "ALLOCATED", "MIXED"):
        assert said(scheduler) == ([], False)
    for scheduler.base in ("DOWN", "UNKNOWN", "FUTURE", "ERROR"):
        assert said(scheduler) == ([f"scheduler: state {scheduler.base}"], True)
    scheduler.base = "IDLE"
    for flag in ("NOT_RESPONDING", "INVALID_REG", "FAIL", "MAINTENANCE"):
        scheduler.flags = [flag]
        assert said(scheduler) == ([f"scheduler: state IDLE+{flag}"], True)
    scheduler.flags = ["PLANNED", "POWERED_DOWN"]
    assert said(scheduler) == ([], False)
    assert said(None) == ([], False), "without a scheduler the registry decides"
    active.release_lease("gpu01", "slurm", "test")
    assert said(Memory())[0] == ["lease none, not slurm"] and said(None)[0] == ["lease none, not that of a scheduler"]
    active.acquire_lease("gpu01", "kubernetes", "test")
    assert said(Memory())[0] == ["lease kubernetes, not slurm"] and said(None)[0] == []


def test_in_service_is_not_said_of_a_node_that_the_scheduler_does_not_know(active):
    class Empty(Memory):
        def observe(self, node):
            return super().observe("gpu09")

    done = resume(active, Empty())
    assert not done["in_service"] and done["kept_by"] == ["scheduler: it does not know this node"] and done["blocked"]


@pytest.mark.parametrize("scheduler", [None, Memory()])
def test_a_hold_is_released_before_the_node_is_in_a_scheduler_but_it_is_not_in_service(registry, scheduler):
    passed(registry, "deploy")
    operations.drain(registry, None, "gpu01", "alice", "look", "test", automation=False)
    done = resume(registry, scheduler, owner="alice", automation=False)
    assert done["plan"].changed and not registry.holds("gpu01")
    assert not done["in_service"] and done["kept_by"] == ["state deployed, in which a node takes no work"]
    assert not done["blocked"], "its place in the lifecycle is nobody's doing"


@pytest.mark.parametrize(("flags", "kept"), [([], []), (["NOT_RESPONDING"], ["scheduler: state IDLE+NOT_RESPONDING"])])
def test_a_resume_that_ends_down_and_one_that_does_not(active, flags, kept):
    scheduler = Memory()
    drain(active, scheduler)
    scheduler.base, scheduler.flags = "DOWN", flags
    assert resume(active, scheduler, check=True)["kept_by"] == kept
    done = resume(active, scheduler)
    assert scheduler.reason is None and done["in_service"] is not bool(kept)
    assert done["kept_by"] == [text.replace("IDLE", scheduler.base) for text in kept]


def test_check_mode_says_who_a_drain_is_handed_over_to(active):
    scheduler = Memory()
    drain(active, scheduler)
    active.hold("gpu01", "bob", "smoke", "no smoke", False, "bob")
    predicted = resume(active, scheduler, check=True)
    done = resume(active, scheduler)
    assert predicted["kept_by"] == done["kept_by"] == ["hold of bob (smoke)"]
    assert predicted["plan"].changes == done["plan"].changes


def test_an_admins_drain_is_named_beside_a_hold(active):
    scheduler = Memory()
    scheduler.reason = "disk swap"
    active.hold("gpu01", "bob", "smoke", "no smoke", False, "bob")
    assert [text.split()[0] for text in resume(active, scheduler)["kept_by"]] == ["hold", "drained"]


@pytest.mark.parametrize("more", [{"exit_condition": "GPU 3 replaced"}, {"automation": False}, {"reason": "Xid 94"}])
def test_whatever_changes_of_a_hold_is_a_change(active, more):
    scheduler = Memory()
    drain(active, scheduler)
    predicted = drain(active, scheduler, check=True, **more)["plan"]
    rows = active.verify_audit()["rows"]
    done = drain(active, scheduler, **more)["plan"]
    assert done.changed and predicted.changes == done.changes and active.verify_audit()["rows"] == rows + 1
    again = drain(active, scheduler, **more)["plan"]
    assert not again.changed and active.verify_audit()["rows"] == rows + 1


def test_blanks_around_the_words_of_a_hold_are_no_change(active):
    scheduler = Memory()
    drain(active, scheduler, exit_condition="fan replaced")
    rows = active.verify_audit()["rows"]
    for check in (True, False):
        padded = drain(active, scheduler, reason=" Xid 79\n", exit_condition=" fan replaced ", check=check)
        assert not padded["plan"].changed and active.verify_audit()["rows"] == rows
    assert not drain(active, scheduler, exit_condition="fan replaced", check=True)["plan"].changed


@pytest.mark.parametrize("check", [True, False])
def test_drain_refuses_in_check_mode_what_it_refuses(active, check):
    scheduler = Memory()
    with pytest.raises(InvalidInput):
        drain(active, scheduler, reason="  ", check=check)
    active.release_lease("gpu01", "slurm", "test")
    active.transition("gpu01", "active", "retired", "test", "sold", consent="S1")
    with pytest.raises(Refused) as error:
        drain(active, scheduler, check=check)
    assert error.value.code == "node_retired" and not scheduler.writes


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
    registry.transition("gpu01", "accepted", "cleaning", "test", consent="S1")
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
    registry.transition("gpu01", "accepted", "cleaning", "test", consent="S1")
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


def test_planned_hardware_gives_the_lines_that_the_run_will_give(registry):
    passed(registry, "deploy", "software", "burn_in")
    planned = operations.node_entries(registry, planned={"gpu01": HARDWARE})
    assert [entry["name"] for entry in planned[0]] == ["gpu01"]
    registry.acquire_lease("gpu01", "slurm", "test")
    registry.record_evidence(
        "gpu01", None, [{"check": "slurm_hardware", "outcome": "pass", "detail": HARDWARE}], "test"
    )
    assert operations.node_entries(registry) == planned


def test_a_retired_node_leaves_slurm_conf_unless_another_has_its_name(active):
    active.record_evidence("gpu01", None, [{"check": "slurm_hardware", "outcome": "pass", "detail": HARDWARE}], "test")
    assert [entry["name"] for entry in operations.node_entries(active)[0]] == ["gpu01"]
    active.release_lease("gpu01", "slurm", "test")
    active.transition("gpu01", "active", "retired", "test", "sold", consent="S1")
    assert operations.node_entries(active) == ([], ["gpu01", "gpu02", "gpu09"], [])
    active.save_node("S3", "test", name="gpu01", state="manageable", provision_ip="10.0.0.3")
    active.transition("gpu01", "manageable", "available", "test")
    passed(active, "deploy", "software", "burn_in")
    active.acquire_lease("gpu01", "slurm", "test")
    active.record_evidence("gpu01", None, [{"check": "slurm_hardware", "outcome": "pass", "detail": HARDWARE}], "test")
    (entry,), remove, _unknown = operations.node_entries(active)
    assert "NodeAddr=10.0.0.3" in entry["line"] and remove == ["gpu02", "gpu09"]


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


@pytest.mark.root
def test_real_slurm_gives_a_lease_back_once_no_work_runs(registry, slurm):
    registry.acquire_lease("gpu01", "slurm", "test")
    scheduler = SlurmPort(slurm.run, interval=0.1)
    try:
        with pytest.raises(Refused, match="not drained"):
            give_back(registry, scheduler, owner="alice")
        assert slurm.run(["sbatch", "-w", "gpu01", "-o", "/dev/null", "--wrap", "sleep 60"])[0] == 0
        slurm.wait("a running job", lambda: scheduler.observe("gpu01")["jobs"])
        operations.drain(registry, scheduler, "gpu01", "alice", "new image", "test")
        (job,) = scheduler.observe("gpu01")["jobs"]
        with pytest.raises(Refused, match=f"job {job['id']} of"):
            give_back(registry, scheduler, owner="alice")
        slurm.run(["scancel", str(job["id"])])
        scheduler.wait_idle("gpu01", 20)
        assert give_back(registry, scheduler, owner="alice")["scheduler"]["drain_owner"] == "enroll"
        assert registry.node("gpu01")["lease"] is None
    finally:
        slurm.run(["scontrol", "update", "nodename=gpu01", "state=resume"])


def give_back(registry, scheduler, node="gpu01", **options):
    return operations.release_lease(registry, scheduler, node, "slurm", "test", **options)


def test_a_lease_is_released_only_when_the_scheduler_shows_no_work(active):
    scheduler = Memory()
    for jobs, reason, seen in (
        ([], None, "not drained"),
        ([{"id": 7, "user": "eve", "name": "x", "state": "RUNNING"}], "aicluster:health: x", "job 7 of eve"),
    ):
        scheduler.jobs, scheduler.reason = jobs, reason
        for check in (True, False):
            with pytest.raises(Refused, match=f"{seen}.*next: .*drain playbook") as error:
                give_back(active, scheduler, check=check)
            assert error.value.code == "work_may_run"
    scheduler.up = False
    with pytest.raises(Unreachable):
        give_back(active, scheduler)
    assert active.node("gpu01")["lease"] == "slurm" and scheduler.writes == []
    scheduler.up, scheduler.jobs = True, []
    assert give_back(active, scheduler, check=True)["plan"].changed and active.node("gpu01")["lease"] == "slurm"
    assert give_back(active, scheduler)["plan"].changed and active.node("gpu01")["lease"] is None
    assert scheduler.writes == []  # nobody's drain was asked for
    assert not give_back(active, scheduler)["plan"].changed


def test_the_drain_of_a_released_node_goes_over_to_the_enrolment(active):
    scheduler = Memory()
    drain(active, scheduler, "alice", wait_s=1.0)
    assert give_back(active, scheduler, owner="alice", check=True)["plan"].changed
    assert scheduler.reason.startswith("aicluster:alice:")
    assert give_back(active, scheduler, owner="alice")["scheduler"]["drain_owner"] == "enroll"
    # What an enrolment does later: its own drain is there, and it may undo it.
    active.release("gpu01", "alice", "test")
    active.acquire_lease("gpu01", "slurm", "test")
    drain(active, scheduler, "enroll", record=False)
    assert resume(active, scheduler, "enroll")["in_service"] and scheduler.reason is None


def test_a_drain_of_somebody_else_stays_when_the_lease_is_released(active):
    scheduler = Memory()
    scheduler.reason = "broken fan"
    assert give_back(active, scheduler, owner="alice")["plan"].changed and scheduler.reason == "broken fan"


def test_a_kill_between_handing_over_and_releasing_loses_nothing(active, monkeypatch):
    scheduler = Memory()
    drain(active, scheduler, "alice")

    def killed(*_arguments, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(active, "release_lease", killed)
        give_back(active, scheduler, owner="alice")
    drain(active, scheduler, "alice")
    assert give_back(active, scheduler, owner="alice")["plan"].changed
    assert scheduler.reason.startswith("aicluster:enroll:") and active.node("gpu01")["lease"] is None


def test_a_lease_of_a_scheduler_that_is_not_asked_needs_consent(active):
    for consent in (None, "", "gpu01", "S2"):
        with pytest.raises(Refused) as error:
            give_back(active, None, consent=consent)
        assert error.value.code == "consent_required" and "S1" not in str(error.value)
    assert give_back(active, None, consent="S1")["plan"].changed and active.node("gpu01")["lease"] is None


def test_a_lease_of_a_node_that_the_scheduler_does_not_know_is_released(registry):
    registry.acquire_lease("gpu09", "slurm", "test")
    assert give_back(registry, Memory(), "gpu09")["plan"].changed
