# Why is this node not in service: the first thing first, in words.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import process
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import transitions

ME = "tester@here"
DEAD = process.Owner(process.this_controller().host, process.this_controller().boot_id, 2**22 - 1, 1)


def codes(registry):
    entries = registry.why("gpu01")
    assert [entry["order"] for entry in entries] == list(range(1, len(entries) + 1))
    return [entry["code"] for entry in entries]


def test_a_node_in_service_has_no_reason(registry, burning_in):
    begin = burning_in()
    registry.finish("gpu01", begin.attempt, begin.fencing, "pass", ME)
    begin = registry.begin("gpu01", "enroll", actor=ME)
    registry.finish("gpu01", begin.attempt, begin.fencing, "pass", ME)
    assert codes(registry) == ["no_lease"]
    registry.acquire_lease("gpu01", "slurm", ME)
    assert registry.why("gpu01") == []


def test_a_waiting_node_names_the_playbook(registry, available):
    available()
    [entry] = registry.why("gpu01")
    assert entry["code"] == "state_available"
    assert "deploy playbook" in entry["next_step"]


def test_people_come_before_machines(registry, available):
    serial = available()
    registry.begin("gpu01", "deploy", actor=ME)
    registry.hold("gpu01", "alice", "fan noise", "fan 3 is replaced", False, "alice@desk")
    registry.save_node(serial, ME, maintenance=True, maintenance_reason="rack move")
    assert codes(registry) == ["maintenance", "hold", "attempt_under_way"]
    texts = [entry["text"] for entry in registry.why("gpu01")]
    assert "rack move" in texts[0]
    assert "alice" in texts[1] and "fan noise" in texts[1] and "fan 3 is replaced" in texts[1]


def test_an_attempt_under_way_late_and_left_behind(registry, available):
    available()
    begin = registry.begin("gpu01", "deploy", actor=ME)
    registry.step("gpu01", begin.attempt, begin.fencing, "writing")
    [entry] = registry.why("gpu01")
    assert entry["code"] == "attempt_under_way"
    assert "last step: writing" in entry["text"] and "deploy" in entry["text"]
    registry.finish("gpu01", begin.attempt, begin.fencing, "fail", ME)
    registry.begin("gpu01", "deploy", actor=ME, retry_failed=True, deadline_s=0.000001)
    assert codes(registry) == ["attempt_late"]


def test_an_attempt_whose_controller_is_gone(registry, available):
    available()
    registry.begin("gpu01", "deploy", owner=DEAD, actor=ME)
    [entry] = registry.why("gpu01")
    assert entry["code"] == "attempt_orphaned"
    assert "takes the attempt over" in entry["next_step"]


def test_quarantine_names_the_failing_evidence_and_marks_simulated_instruments(registry, burning_in):
    begin = burning_in()
    items = [
        {"check": "cpu", "outcome": "pass"},
        {"check": "gpu3.ecc", "outcome": "fail", "value": 2, "unit": "errors", "limit": 0, "simulated": True},
        {"check": "rdma", "outcome": "could_not_test", "detail": "no such device"},
        {"check": "fan", "outcome": "fail"},
    ]
    registry.record_evidence("gpu01", begin.attempt, items, ME)
    registry.record_evidence("gpu01", begin.attempt, [{"check": "fan", "outcome": "pass"}], ME)
    registry.finish("gpu01", begin.attempt, begin.fencing, "fail", ME, "gpu3 has ECC errors")
    assert codes(registry) == ["quarantined", "evidence_fail", "evidence_could_not_test"]
    first, ecc, rdma = registry.why("gpu01")
    assert "gpu3 has ECC errors" in first["text"] and "servicing" in first["next_step"]
    assert "gpu3.ecc" in ecc["text"] and "2 errors" in ecc["text"] and "simulated" in ecc["text"]
    assert "no such device" in rdma["text"]


def test_a_failed_deploy_names_reason_and_last_step(registry, available):
    available()
    begin = registry.begin("gpu01", "deploy", actor=ME)
    registry.step("gpu01", begin.attempt, begin.fencing, "disk_chosen")
    registry.finish("gpu01", begin.attempt, begin.fencing, "fail", ME, "the disk is too small")
    [entry] = registry.why("gpu01")
    assert entry["code"] == "deploying_failed"
    assert "the disk is too small" in entry["text"] and "disk_chosen" in entry["text"]
    assert "retry_failed" in entry["next_step"]


def test_a_retired_node_has_one_reason(registry, available):
    available()
    registry.hold("gpu01", "alice", "x", "y", False, ME)
    registry.transition("gpu01", "available", "retired", ME, consent="S-gpu01")
    assert [entry["code"] for entry in registry.why("S-gpu01")] == ["retired"]


@pytest.mark.parametrize("state", ["registered", "manageable"])
def test_first_states(registry, state):
    registry.save_node("S1", ME, name="gpu01", state=state)
    assert codes(registry) == [f"state_{state}"]


def test_what_does_not_gate_is_said_last_and_as_such(registry, burning_in):
    begin = burning_in()
    items = [
        {"check": "gpu_persistence", "outcome": "fail", "gates": False},
        {"check": "network", "outcome": "could_not_test", "gates": False, "detail": "no peer"},
        {"check": "gpu_ecc", "outcome": "fail"},
    ]
    registry.record_evidence("gpu01", begin.attempt, items, ME)
    registry.finish("gpu01", begin.attempt, begin.fencing, "fail", ME, "ECC")
    assert codes(registry) == ["quarantined", "evidence_fail", "evidence_not_gating", "evidence_not_gating"]
    assert registry.why("gpu01")[3]["text"] == "network: could not test; no peer; does not gate."


def test_a_suspect_node_shows_the_doubt(registry, burning_in):
    begin = burning_in()
    registry.finish("gpu01", begin.attempt, begin.fencing, "pass", ME)
    begin = registry.begin("gpu01", "enroll", actor=ME)
    registry.finish("gpu01", begin.attempt, begin.fencing, "pass", ME)
    registry.record_evidence("gpu01", None, [{"check": "xid", "outcome": "fail", "value": 79}], ME)
    registry.transition("gpu01", "active", "suspect", ME, "Xid 79")
    assert codes(registry) == ["state_suspect", "evidence_fail"]


def access(registry, outcome, text, step=None):
    item = {"check": "bmc_access", "outcome": outcome, "value": text, "detail": {"next_step": step} if step else None}
    registry.record_evidence("gpu01", None, [item], ME)


def test_a_step_that_moves_a_node_names_a_command_that_the_table_allows():
    for state, step in transitions.NEXT_STEP.items():
        moves = re.findall(r"to_state=(\w+)", step)
        assert moves or not re.search(r"\bmove\b|\bset it\b", step), state
        at = state
        for new in moves:
            # either alternatives out of this state, or one after the other
            assert transitions.find(state, new) or transitions.find(at, new), (state, new)
            at = new
    step = transitions.next_step("quarantined", "gpu02")
    assert "ansible gpu02 -m aicluster.baremetal.node_lifecycle -a 'state=transition to_state=servicing" in step
    assert step.endswith("ansible-playbook aicluster.baremetal.burn_in -l gpu02")


def test_what_is_written_down_has_times_instead_of_ages(registry, available, burning_in):
    begin = burning_in()
    now = registry.audit_rows(limit=1)[-1]["time"]
    started = registry.attempt(begin.attempt)["started"][:19].replace("T", " ")
    text = registry.why("gpu01", now=now)[0]["text"]
    assert f"under way since {started} UTC" in text and "its deadline is 20" in text and "are left" not in text
    assert "under way for " in registry.why("gpu01")[0]["text"]
    registry.finish("gpu01", begin.attempt, begin.fencing, "fail", ME, "ECC")
    now = registry.audit_rows(limit=1)[-1]["time"]
    assert f"quarantined since {now[:19].replace('T', ' ')} UTC: attempt" in registry.why("gpu01", now=now)[0]["text"]
    assert "quarantined for " in registry.why("gpu01")[0]["text"]
    available("gpu02")
    assert "available since 20" in registry.why("gpu02", now=now)[0]["text"]


def test_every_state_has_a_next_step():
    assert set(transitions.NEXT_STEP) == {*transitions.STATES, *transitions.FAILED_STATES}


def test_a_failed_login_shows_the_newest_reason_and_what_to_do(registry):
    registry.save_node("S1", ME, name="gpu01")
    registry.transition("gpu01", "registered", "verifying", ME)
    registry.transition("gpu01", "verifying", "verifying_failed", ME, "no answer")
    access(registry, "fail", "no answer", "check the cable")
    access(registry, "fail", "it refused the password", "correct the entry")
    first, second = registry.why("gpu01")
    assert first["code"] == "verifying_failed" and "run the discover playbook" in first["next_step"]
    assert (
        "refused the password" in second["text"] and second["next_step"] == "correct the entry; then run discover again"
    )
    assert "no answer" not in first["text"] + second["text"] and "next_step" not in second["text"]


def test_a_lost_bmc_is_shown_in_every_state_that_is_not_in_service(registry, available, burning_in):
    begin = burning_in()
    access(registry, "fail", "no answer", "check the cable")
    assert codes(registry) == ["attempt_under_way", "evidence_fail"]
    registry.finish("gpu01", begin.attempt, begin.fencing, "pass", ME)
    assert codes(registry) == ["state_accepted", "evidence_fail"]
    begin = registry.begin("gpu01", "enroll", actor=ME)
    registry.finish("gpu01", begin.attempt, begin.fencing, "pass", ME)
    assert codes(registry) == ["no_lease", "evidence_fail"]
    registry.acquire_lease("gpu01", "slurm", ME)
    assert registry.why("gpu01") == []  # it is in service, whatever its BMC does


def test_where_the_next_stage_needs_the_bmc_a_lost_one_comes_first(registry, available):
    available()
    access(registry, "fail", "no answer", "check the cable")
    assert codes(registry) == ["evidence_fail", "state_available"]
    access(registry, "pass", "logged in")
    assert codes(registry) == ["state_available"]
    assert registry.newest_of("bmc_access")["S-gpu01"]["outcome"] == "pass"


def test_a_failed_state_that_no_attempt_led_to_names_no_attempt(registry, available):
    available()
    begin = registry.begin("gpu01", "deploy", actor=ME)
    registry.finish("gpu01", begin.attempt, begin.fencing, "fail", ME, "the disk is too small")
    registry.transition("gpu01", "deploying_failed", "quarantined", ME, "smoke")
    [entry] = registry.why("gpu01")
    assert "disk is too small" not in entry["text"] and f"set by {ME}: smoke" in entry["text"]


def test_a_node_that_its_scheduler_still_has_is_taken_by_no_stage(registry, available):
    available()
    registry.acquire_lease("gpu01", "slurm", ME)
    first, state = registry.why("gpu01")
    assert first["code"] == "leased" and "slurm" in first["text"] and "release" in first["next_step"]
    assert state["code"] == "state_available"
