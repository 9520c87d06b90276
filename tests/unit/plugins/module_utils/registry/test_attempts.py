# Attempts: who gets a node, adoption, fencing; with real processes where a race or a death is the point.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors, process
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry, transitions

ME = "tester@here"
ELSEWHERE = process.Owner("another-machine", "another-boot", 1, 1)
UNIT = pathlib.Path(__file__).resolve().parents[3]

# What a child process runs: sys.argv is url, and its standard input decides when it goes.
CHILD = f"""
import json, sys, time
sys.path.insert(0, {str(UNIT)!r})
import conftest
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import process, errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry
registry = open_registry(sys.argv[1])
owner = process.identify(__import__("os").getpid())
"""


def child(url, body):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD + body, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def children():
    started = []
    yield started
    for one in started:
        if one.poll() is None:
            one.kill()
        one.wait()
        one.stdin.close()
        one.stdout.close()


def test_begin_takes_an_available_node_and_moves_its_state(registry, available):
    available()
    begin = registry.begin("gpu01", "deploy", actor=ME)
    assert (begin.selected, begin.adopted, begin.changed) == (True, False, True)
    node = registry.node("gpu01")
    assert (node["state"], node["attempt"], node["fencing"]) == ("deploying", begin.attempt, begin.fencing)
    attempt = registry.attempt(begin.attempt)
    assert (attempt["stage"], attempt["current"], attempt["deadline_s"]) == ("deploy", True, 3600)


def test_check_says_the_same_and_writes_nothing(registry, available):
    available()
    rows = registry.verify_audit()["rows"]
    begin = registry.begin("gpu01", "deploy", actor=ME, check=True)
    assert (begin.selected, begin.changed, begin.attempt) == (True, True, None)
    assert registry.node("gpu01")["state"] == "available"
    assert registry.verify_audit()["rows"] == rows


def test_the_same_owner_gets_the_same_numbers_again(registry, available):
    available()
    first = registry.begin("gpu01", "deploy", actor=ME)
    again = registry.begin("gpu01", "deploy", actor=ME)
    assert (again.selected, again.changed) == (True, False)
    assert (again.attempt, again.fencing) == (first.attempt, first.fencing)


@pytest.mark.parametrize(("state", "words"), [("manageable", "stage deploy starts from available")])
def test_a_node_in_another_state_is_not_selected(registry, state, words):
    registry.save_node("S1", ME, name="gpu01", state=state)
    begin = registry.begin("gpu01", "deploy", actor=ME)
    assert not begin.selected
    assert words in begin.reason


def test_a_held_node_is_refused_until_released(registry, available):
    available()
    registry.hold("gpu01", "alice", "fan noise", "fan replaced", False, ME)
    begin = registry.begin("gpu01", "deploy", actor=ME)
    assert not begin.selected
    assert "alice" in begin.reason and "fan noise" in begin.reason
    registry.release("gpu01", "alice", ME)
    assert registry.begin("gpu01", "deploy", actor=ME).selected


def test_a_node_in_maintenance_is_refused(registry, available):
    serial = available()
    registry.save_node(serial, ME, maintenance=True, maintenance_reason="rack move")
    begin = registry.begin("gpu01", "deploy", actor=ME)
    assert not begin.selected
    assert "rack move" in begin.reason


def test_unknown_stage_names_the_stages(registry, available):
    available()
    with pytest.raises(errors.InvalidInput, match="deploy"):
        registry.begin("gpu01", "deplyo", actor=ME)


def test_the_whole_path_to_active(registry, available):
    available()
    for stage, state in (
        ("deploy", "deployed"),
        ("software", "burn_in"),
        ("burn_in", "accepted"),
        ("enroll", "active"),
    ):
        begin = registry.begin("gpu01", stage, actor=ME)
        assert begin.selected, begin.reason
        assert registry.finish("gpu01", begin.attempt, begin.fencing, "pass", ME) == state
        assert registry.node("gpu01")["state"] == state
    assert registry.node("gpu01")["fencing"] == 4
    assert registry.verify_audit()["ok"]


def test_burn_in_is_one_attempt_at_a_time(registry, burning_in):
    burning_in()
    registry_of_other = registry.begin("gpu01", "burn_in", owner=ELSEWHERE, actor=ME)
    assert not registry_of_other.selected


@pytest.mark.parametrize(
    ("outcome", "to_state", "state"),
    [
        ("fail", None, "quarantined"),
        ("could_not_test", None, "burn_in_failed"),
        ("could_not_test", "quarantined", "quarantined"),
    ],
)
def test_a_burn_in_that_did_not_pass(registry, burning_in, outcome, to_state, state):
    begin = burning_in()
    assert registry.finish("gpu01", begin.attempt, begin.fencing, outcome, ME, "gpu3", to_state) == state
    assert not registry.begin("gpu01", "enroll", actor=ME).selected


def test_a_failed_attempt_cannot_lead_to_the_end_state(registry, burning_in):
    begin = burning_in()
    with pytest.raises(errors.Refused):
        registry.finish("gpu01", begin.attempt, begin.fencing, "fail", ME, to_state="accepted")
    with pytest.raises(errors.Refused):
        registry.finish("gpu01", begin.attempt, begin.fencing, "fail", ME, to_state="active")
    assert registry.node("gpu01")["state"] == "burn_in"


def test_not_applicable_is_no_way_to_end_an_attempt(registry, available):
    available()
    begin = registry.begin("gpu01", "deploy", actor=ME)
    with pytest.raises(errors.InvalidInput):
        registry.finish("gpu01", begin.attempt, begin.fencing, "not_applicable", ME)


def test_a_failed_node_is_retried_only_when_asked_for(registry, available):
    available()
    begin = registry.begin("gpu01", "deploy", actor=ME)
    assert registry.finish("gpu01", begin.attempt, begin.fencing, "fail", ME, "disk too small") == "deploying_failed"
    assert not registry.begin("gpu01", "deploy", actor=ME).selected
    again = registry.begin("gpu01", "deploy", actor=ME, retry_failed=True)
    assert again.selected and again.attempt != begin.attempt and again.fencing > begin.fencing


def test_an_owner_elsewhere_is_adopted_only_after_silence(registry, available):
    available()
    first = registry.begin("gpu01", "deploy", owner=ELSEWHERE, actor=ME)
    refused = registry.begin("gpu01", "deploy", actor=ME)
    assert not refused.selected
    assert "another-machine" in refused.reason
    registry.stale_after = -1
    adopted = registry.begin("gpu01", "deploy", actor=ME)
    assert (adopted.selected, adopted.adopted, adopted.attempt) == (True, True, first.attempt)
    assert adopted.fencing == first.fencing + 1


@pytest.mark.parametrize(
    ("stage", "quiet_s", "adopted"), [("deploy", 1000, True), ("burn_in", 1000, False), ("burn_in", 15000, True)]
)
def test_how_long_an_owner_elsewhere_may_be_silent_depends_on_the_stage(
    registry, burning_in, available, sql, stage, quiet_s, adopted
):
    burning_in()
    available("gpu02")
    node = "gpu01" if stage == "burn_in" else "gpu02"
    registry.begin("gpu02", "deploy", owner=ELSEWHERE, actor=ME)
    long_ago = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=quiet_s)).isoformat()
    sql(
        "UPDATE attempts SET owner_host = 'another-machine', owner_boot_id = 'x', heartbeat = :long_ago",
        long_ago=long_ago,
    )
    assert registry.begin(node, stage, actor=ME).adopted is adopted


def test_an_old_number_is_fenced_out_everywhere_and_its_step_is_kept(registry, available):
    available()
    old = registry.begin("gpu01", "deploy", owner=ELSEWHERE, actor=ME)
    registry.step("gpu01", old.attempt, old.fencing, "power_on")
    registry.stale_after = -1
    new = registry.begin("gpu01", "deploy", actor=ME)
    assert new.last_step == "power_on"
    state = registry.node("gpu01")
    for call in (
        lambda: registry.check_fence("gpu01", old.fencing),
        lambda: registry.heartbeat(old.attempt, old.fencing),
        lambda: registry.step("gpu01", old.attempt, old.fencing, "late step"),
        lambda: registry.finish("gpu01", old.attempt, old.fencing, "pass", ME),
        lambda: registry.issue_grant("gpu01", old.attempt, old.fencing, "52:54:00:00:00:01", 60, {}, ME),
        lambda: registry.transition("gpu01", "deploying", "deployed", ME, attempt=old.attempt, fencing=old.fencing),
    ):
        with pytest.raises(errors.FencedOut):
            call()
    assert registry.node("gpu01") == state
    registry.check_fence("gpu01", new.fencing)
    registry.heartbeat(new.attempt, new.fencing)
    assert [(step["step"], step["late"]) for step in registry.steps(new.attempt)] == [
        ("power_on", False),
        ("late step", True),
    ]
    assert registry.attempt(new.attempt)["last_step"] == "power_on"


def test_an_ended_attempt_takes_no_more_steps(registry, available):
    available()
    begin = registry.begin("gpu01", "deploy", actor=ME)
    registry.finish("gpu01", begin.attempt, begin.fencing, "pass", ME)
    with pytest.raises(errors.FencedOut, match="has ended"):
        registry.step("gpu01", begin.attempt, begin.fencing, "more")
    with pytest.raises(errors.FencedOut, match="has ended"):
        registry.heartbeat(begin.attempt, begin.fencing)


def test_a_transition_from_outside_fences_the_owner_out(registry, available):
    available()
    begin = registry.begin("gpu01", "deploy", actor=ME)
    registry.transition("gpu01", "deploying", "retired", "boss@here", "sold", consent="S-gpu01")
    with pytest.raises(errors.FencedOut):
        registry.check_fence(registry.nodes(state="retired")[0]["serial"], begin.fencing)
    attempt = registry.attempt(begin.attempt)
    assert attempt["outcome"] == "fail" and "boss@here" in attempt["reason"]


def test_two_processes_that_race_share_the_nodes_out(registry, available, url, children):
    names = [f"gpu{number:02d}" for number in range(1, 13)]
    for name in names:
        available(name)
    body = f"""
print("ready", flush=True)
sys.stdin.readline()
won = {{}}
for name in {names!r}:
    begin = registry.begin(name, "deploy", owner=owner, actor="child@here")
    if begin.selected:
        won[name] = [begin.attempt, begin.fencing]
print(json.dumps(won), flush=True)
"""
    body += "sys.stdin.readline()\n"  # the winner stays alive: a dead one would be adopted
    racers = [child(url, body) for _number in range(3)]
    children += racers
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [json.loads(racer.stdout.readline()) for racer in racers]
    assert sorted(name for one in won for name in one) == names  # each exactly once
    assert {name: registry.node(name)["attempt"] for name in names} == {
        name: numbers[0] for one in won for name, numbers in one.items()
    }
    assert all(registry.node(name)["fencing"] == 1 for name in names)
    assert registry.verify_audit()["ok"]


def test_a_killed_owner_is_adopted_and_a_living_one_is_not(registry, available, url, children):
    available()
    body = """
begin = registry.begin("gpu01", "deploy", owner=owner, actor="child@here")
registry.step("gpu01", begin.attempt, begin.fencing, "writing")
print(json.dumps([begin.attempt, begin.fencing]), flush=True)
sys.stdin.readline()
"""
    one = child(url, body)
    children.append(one)
    attempt, fencing = json.loads(one.stdout.readline())
    refused = registry.begin("gpu01", "deploy", actor=ME)
    assert not refused.selected
    assert f"process {one.pid}" in refused.reason
    one.send_signal(signal.SIGKILL)
    one.wait()
    adopted = registry.begin("gpu01", "deploy", actor=ME)
    assert (adopted.selected, adopted.adopted) == (True, True)
    assert (adopted.attempt, adopted.fencing, adopted.last_step) == (attempt, fencing + 1, "writing")
    assert "adopt" in [row["action"] for row in registry.audit_rows("gpu01")]


def test_of_many_adopters_one_wins(registry, available, url, children):
    available()
    dead = process.Owner(process.this_controller().host, process.this_controller().boot_id, 2**22 - 1, 1)
    registry.begin("gpu01", "deploy", owner=dead, actor=ME)
    body = """
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(registry.begin("gpu01", "deploy", owner=owner, actor="child@here").as_dict()), flush=True)
sys.stdin.readline()
"""
    racers = [child(url, body) for _number in range(3)]
    children += racers
    for racer in racers:
        racer.stdout.readline()
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    answers = [json.loads(racer.stdout.readline()) for racer in racers]
    assert [answer["selected"] for answer in answers].count(True) == 1
    assert registry.node("gpu01")["fencing"] == 2


def test_the_database_refuses_a_second_open_attempt(registry, available, sql):
    serial = available()
    registry.begin("gpu01", "deploy", actor=ME)
    columns = "serial, stage, fencing, started, deadline, deadline_s, heartbeat, actor, adoptions, owner_host, owner_boot_id, owner_pid, owner_started"
    with pytest.raises(Exception, match=r"(?i)unique"):
        sql(f"INSERT INTO attempts ({columns}) VALUES (:s, 'deploy', 9, '', '', 1, '', '', 0, '', '', 1, 1)", s=serial)


def test_a_registry_survives_a_fork(url, available):
    """Ansible's workers are forks: no connection may be shared with the parent."""
    available()
    with open_registry(url) as opened:
        opened.node("gpu01")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if opened.begin("gpu01", "deploy", actor="fork@here").selected else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert opened.node("gpu01")["state"] == "deploying"


def test_many_writers_at_once_neither_deadlock_nor_break_the_chain(registry, available, url, children):
    names = ["gpu01", "gpu02", "gpu03"]
    for name in names:
        available(name)
    body = f"""
import random
rolls = random.Random(owner.pid)
mac = "52:54:00:00:00:01"
print("ready", flush=True)
sys.stdin.readline()
for turn in range(12):
    name = rolls.choice({names!r})
    try:
        begin = registry.begin(name, "deploy", owner=owner, actor="child@here", retry_failed=True)
        registry.hold(name, f"child{{owner.pid}}", "test", "test is over", True, "child@here")
        registry.release(name, f"child{{owner.pid}}", "child@here")
        registry.boot_event(name, begin.attempt, "kernel", turn, "child")
        registry.record_evidence(name, begin.attempt, [{{"check": "c", "outcome": "pass"}}] * 5, "child@here")
        if begin.selected:
            registry.step(name, begin.attempt, begin.fencing, f"turn {{turn}}")
            token = registry.issue_grant(name, begin.attempt, begin.fencing, mac, 60, {{}}, "child@here")
            registry.consume_grant(token, mac)
            registry.heartbeat(begin.attempt, begin.fencing)
            registry.finish(name, begin.attempt, begin.fencing, "fail", "child@here", "again")
    except errors.FencedOut:
        pass
print("done", flush=True)
"""
    writers = [child(url, body) for _number in range(3)]
    children += writers
    for writer in writers:
        writer.stdout.readline()
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.stdout.readline() for writer in writers] == ["done\n"] * 3
    verified = registry.verify_audit()
    assert verified["ok"], verified
    assert {node["state"] for node in registry.nodes()} <= {"available", "deploying_failed"}
    assert registry.holds() == []


@pytest.mark.parametrize("lease", ["slurm", "kubernetes"])
@pytest.mark.parametrize(("stage", "row"), list(transitions.STAGES.items()))
def test_no_new_attempt_takes_a_node_from_its_scheduler(registry, available, sql, stage, row, lease):
    available()
    for state in {*row["start"], row["working"], f"{row['working']}_failed"}:
        sql("UPDATE nodes SET state = :state, lease = :lease", state=state, lease=lease)
        for check in (True, False) if "no_lease" in row["needs"] else (True,):
            begin = registry.begin("gpu01", stage, actor=ME, retry_failed=True, check=check)
            assert begin.selected == (stage == "enroll"), (state, begin)
            if not begin.selected:
                assert f"leased to {lease}" in begin.reason and "drain playbook" in begin.reason
        assert registry.node("gpu01")["state"] == state
        sql("UPDATE nodes SET lease = 'maintenance'")
        assert registry.begin("gpu01", stage, actor=ME, retry_failed=True, check=True).selected


def test_an_attempt_under_way_goes_on_whoever_has_the_lease(registry, available, sql):
    available()
    first = registry.begin("gpu01", "deploy", actor=ME)
    sql("UPDATE nodes SET lease = 'slurm'")
    assert registry.begin("gpu01", "deploy", actor=ME).attempt == first.attempt
    me = process.this_controller()
    sql("UPDATE attempts SET owner_pid = :pid, owner_started = 1", pid=2**22 - 1)
    assert registry.begin("gpu01", "deploy", owner=me, actor=ME).adopted
