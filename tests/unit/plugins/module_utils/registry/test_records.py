# Evidence, holds, leases, boot grants, boot events.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import threading

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry

ME = "tester@here"
MAC = "52:54:00:77:00:01"


@pytest.fixture
def deploying(registry, available):
    available()
    return registry.begin("gpu01", "deploy", actor=ME)


def issue(registry, begin, ttl_s=60, mac=MAC):
    return registry.issue_grant("gpu01", begin.attempt, begin.fencing, mac, ttl_s, {"image": "debian"}, ME)


def refused(call):
    with pytest.raises(errors.Refused) as seen:
        call()
    return seen.value.code


# evidence


def test_evidence_comes_back_as_it_was_given(registry, available):
    available()
    item = {
        "check": "memory.bandwidth",
        "outcome": "fail",
        "gates": False,
        "value": 12.5,
        "unit": "GB/s",
        "limit": {"min": 20},
        "rule": "bandwidth.1",
        "source": "stream",
        "simulated": True,
        "detail": {"socket": 0},
        "time": "2026-01-31T12:00:00Z",
    }
    assert registry.record_evidence("gpu01", None, [item], ME) == 1
    [seen] = registry.evidence("gpu01")
    assert {key: seen[key] for key in item if key != "time"} == {key: item[key] for key in item if key != "time"}
    assert seen["time"] == "2026-01-31T12:00:00.000000Z"


def test_evidence_of_before_the_column_gates(registry, available, sql):
    available()
    registry.record_evidence("gpu01", None, [{"check": "a", "outcome": "could_not_test"}], ME)
    sql("UPDATE evidence SET gates = NULL")
    assert registry.evidence("gpu01")[0]["gates"] is True


def test_the_latest_result_of_each_check_counts(registry, deploying):
    registry.record_evidence("gpu01", None, [{"check": "a", "outcome": "fail"}, {"check": "b", "outcome": "pass"}], ME)
    registry.record_evidence("gpu01", deploying.attempt, [{"check": "a", "outcome": "pass"}], ME)
    assert {item["check"]: item["outcome"] for item in registry.evidence("gpu01")} == {"a": "pass", "b": "pass"}
    assert len(registry.evidence("gpu01", latest=False)) == 3
    assert [item["check"] for item in registry.evidence("gpu01", attempt=deploying.attempt)] == ["a"]


@pytest.mark.parametrize(
    "item",
    [
        {"check": "a"},
        {"check": "a", "outcome": "ok"},
        {"outcome": "pass"},
        {"check": "a", "outcome": "pass", "x": 1},
        {"check": "a", "outcome": "pass", "gates": "no"},
    ],
)
def test_an_item_that_cannot_be_read_stores_none(registry, available, item):
    available()
    with pytest.raises(errors.InvalidInput):
        registry.record_evidence("gpu01", None, [{"check": "b", "outcome": "pass"}, item], ME)
    assert registry.evidence("gpu01") == []


# holds


def test_every_owner_releases_only_its_own_hold(registry, available):
    available()
    assert registry.hold("gpu01", "alice", "fan", "fan replaced", False, ME).changed
    assert not registry.hold("gpu01", "alice", "fan", "fan replaced", False, ME).changed
    assert registry.hold("gpu01", "health", "ecc", "retested", True, ME).changed
    assert not registry.release("gpu01", "bob", ME).changed
    assert registry.release("gpu01", "health", ME).changed
    assert not registry.release("gpu01", "health", ME).changed
    [left] = registry.holds("gpu01")
    assert (left["owner"], left["automation"], left["name"]) == ("alice", False, "gpu01")
    assert registry.node("gpu01")["held"]
    assert len(registry.holds("gpu01", history=True)) == 2
    assert len(registry.holds()) == 1


@pytest.mark.parametrize("missing", ["owner", "reason", "exit_condition"])
def test_a_hold_needs_all_its_words(registry, available, missing):
    available()
    words = {"owner": "alice", "reason": "fan", "exit_condition": "fan replaced", missing: " "}
    with pytest.raises(errors.InvalidInput):
        registry.hold("gpu01", automation=False, actor=ME, **words)
    with pytest.raises(errors.InvalidInput):
        registry.plan_hold("gpu01", automation=False, **words)


def test_a_planned_hold_is_the_one_that_is_placed(registry, available):
    available()
    rows = registry.verify_audit()["rows"]
    for words in (("fan", "fan replaced"), (" fan ", "fan replaced\n"), ("fan", "two fans replaced")):
        planned = registry.plan_hold("gpu01", "alice", *words)
        assert registry.verify_audit()["rows"] == rows, "nothing is written"
        assert registry.hold("gpu01", "alice", *words, actor=ME).changes == planned.changes
        rows = registry.verify_audit()["rows"]
    registry.transition("gpu01", "available", "retired", ME, "sold", consent="S-gpu01")
    with pytest.raises(errors.Refused, match="nothing to hold"):
        registry.plan_hold("gpu01", "alice", "fan", "fan replaced")


# leases


def test_a_lease_has_one_owner(registry, available):
    available()
    assert registry.acquire_lease("gpu01", "slurm", ME).changed
    assert not registry.acquire_lease("gpu01", "slurm", ME).changed
    with pytest.raises(errors.Conflict, match="slurm"):
        registry.acquire_lease("gpu01", "kubernetes", ME)
    with pytest.raises(errors.Conflict):
        registry.release_lease("gpu01", "kubernetes", ME)
    assert registry.release_lease("gpu01", "slurm", ME).changed
    assert not registry.release_lease("gpu01", "slurm", ME).changed
    with pytest.raises(errors.InvalidInput):
        registry.acquire_lease("gpu01", "nomad", ME)


# boot grants


def test_a_grant_is_used_once(registry, deploying, sql):
    token = issue(registry, deploying)
    pending = registry.pending_grant(MAC.upper())
    assert (pending["node"], pending["attempt"], pending["spec"]) == ("gpu01", deploying.attempt, {"image": "debian"})
    assert token not in str(sql("SELECT * FROM grants"))
    used = registry.consume_grant(token, MAC)
    assert used["id"] == pending["id"] and used["current"]
    assert registry.pending_grant(MAC) is None
    assert refused(lambda: registry.consume_grant(token, MAC)) == "grant_used"


def test_a_grant_can_be_consumed_by_the_id_of_the_pending_one(registry, deploying):
    issue(registry, deploying)
    grant = registry.pending_grant(MAC)["id"]
    assert registry.consume_grant(None, MAC, grant=grant)["id"] == grant
    assert refused(lambda: registry.consume_grant(None, MAC, grant=grant)) == "grant_used"


def test_refusals_have_their_codes_and_are_audited(registry, deploying):
    rows = registry.verify_audit()["rows"]
    assert refused(lambda: registry.consume_grant("nonsense", MAC)) == "grant_unknown"
    assert refused(lambda: registry.consume_grant(None, MAC)) == "grant_unknown"
    token = issue(registry, deploying)
    assert refused(lambda: registry.consume_grant(token, "52:54:00:77:00:99")) == "grant_foreign"
    newer = issue(registry, deploying)
    assert refused(lambda: registry.consume_grant(token, MAC)) == "grant_superseded"
    registry.consume_grant(newer, MAC)
    actions = [row["action"] for row in registry.audit_rows()][rows:]
    assert actions == ["grant_refused"] * 2 + ["grant_issued", "grant_refused"] * 2 + ["grant_used"] or actions == [
        "grant_refused",
        "grant_refused",
        "grant_issued",
        "grant_refused",
        "grant_issued",
        "grant_refused",
        "grant_used",
    ]


def test_an_expired_grant(registry, deploying, sql):
    token = issue(registry, deploying)
    sql("UPDATE grants SET expires = '2020-01-01T00:00:00.000000Z'")
    assert registry.pending_grant(MAC) is None
    assert refused(lambda: registry.consume_grant(token, MAC)) == "grant_expired"


def test_the_end_of_the_attempt_ends_its_grants(registry, deploying):
    token = issue(registry, deploying)
    registry.finish("gpu01", deploying.attempt, deploying.fencing, "fail", ME, "never called back")
    assert registry.pending_grant(MAC) is None
    assert refused(lambda: registry.consume_grant(token, MAC)) == "grant_superseded"
    assert not registry.grants("gpu01")[0]["current"]


def test_a_grant_needs_a_running_attempt(registry, deploying):
    with pytest.raises(errors.FencedOut):
        registry.issue_grant("gpu01", deploying.attempt, deploying.fencing + 1, MAC, 60, {}, ME)
    with pytest.raises(errors.InvalidInput):
        issue(registry, deploying, mac="52:54")
    with pytest.raises(errors.InvalidInput):
        issue(registry, deploying, ttl_s=0)


def test_of_many_that_ask_at_once_one_gets_the_grant(registry, deploying, url):
    token, answers = issue(registry, deploying), []

    def ask():
        with open_registry(url) as own:
            try:
                answers.append(own.consume_grant(token, MAC)["id"])
            except errors.Refused as refusal:
                answers.append(refusal.code)

    threads = [threading.Thread(target=ask) for _number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, answers)) == sorted(["1"] + ["grant_used"] * 5)


# boot events


def test_the_boot_timeline(registry, deploying):
    registry.boot_event("gpu01", deploying.attempt, "dhcp", {"ip": "10.0.0.1"}, "dnsmasq", time="2026-01-31T12:00:00Z")
    registry.boot_event("gpu01", deploying.attempt, "kernel", None, "ramdisk")
    events = registry.boot_events("gpu01", deploying.attempt)
    assert [(event["step"], event["source"]) for event in events] == [("dhcp", "dnsmasq"), ("kernel", "ramdisk")]
    assert events[0]["detail"] == {"ip": "10.0.0.1"}
    assert events[0]["time"] == "2026-01-31T12:00:00.000000Z"
    with pytest.raises(errors.InvalidInput):
        registry.boot_event("gpu01", deploying.attempt, "lunch", None, "ramdisk")


def test_an_event_of_an_attempt_that_is_over_is_kept_as_late(registry, deploying):
    registry.finish("gpu01", deploying.attempt, deploying.fencing, "fail", ME)
    assert registry.boot_event("gpu01", deploying.attempt, "writing", "10 %", "ramdisk") == "late"
    [event] = registry.boot_events("gpu01")
    assert (event["step"], event["detail"]) == ("late", {"step": "writing", "detail": "10 %"})
