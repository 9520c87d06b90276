# The report's model: ordering, shares, the simulated mark, and no dependence on the moment of the call.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.report import model

T = "2026-11-30T10:00:{:02d}Z"


def event(step, second, attempt=1, **more):
    return {
        "step": step,
        "time": T.format(second),
        "attempt": attempt,
        "detail": None,
        "source": "boot-service",
        **more,
    }


def test_timeline_orders_and_shares():
    line = model.timeline([event("ssh", 50), event("power_on", 0), event("dhcp", 10), event("unknown-thing", 11)])
    assert [row["step"] for row in line["rows"]] == ["power_on", "dhcp", "ssh"]
    assert line["total"] == "50.0"
    assert line["rows"][1]["start_share"] == 0.2 and line["rows"][1]["width_share"] == 0.8
    assert [row["seconds"] for row in line["rows"]] == ["10.0", "40.0", "0.0"]


def test_empty_timeline():
    assert model.timeline([]) == {"rows": [], "total": None}


def test_checks_put_failures_first_and_say_simulated():
    shown = model.checks(
        [
            {"check": "cpu", "outcome": "pass", "value": 1234.5678, "unit": "bogo ops/s"},
            {"check": "gpu3_ecc", "outcome": "fail", "value": 1, "unit": "errors", "limit": 0, "simulated": True},
        ]
    )
    assert [row["check"] for row in shown["rows"]] == ["gpu3_ecc", "cpu"]
    assert shown["overall"] == "fail" and shown["simulated"]
    assert shown["rows"][1]["value"] == "1235 bogo ops/s" and not shown["rows"][1]["simulated"]


def test_versions_are_shown_as_words():
    shown = model.checks([{"check": "firmware_baseline", "outcome": "pass", "value": {"bmc": "2.1", "bios": "1.7"}}])
    assert shown["rows"][0]["value"] == "bios: 1.7, bmc: 2.1" and not shown["rows"][0]["number"]


def test_no_evidence_is_no_outcome():
    assert model.checks([])["overall"] is None


def test_build_sorts_nodes_and_takes_the_latest_attempt(build):
    page = build()
    assert [node["name"] for node in page["nodes"]] == ["gpu01", "gpu02"]
    assert [row["step"] for row in page["nodes"][0]["timeline"]["rows"]] == ["power_on", "ssh"]
    assert page["in_service"] == 1 and [node["name"] for node in page["out_of_service"]] == ["gpu02"]
    assert page["stages"] == [{"stage": "deploy", "attempts": 1, "longest": "30 s"}]
    assert page == build()


def test_in_service_is_what_why_says(build):
    held = [{"code": "hold", "text": "It is held.", "next_step": None}]
    page = build(why={"S1": held, "S2": held}, holds={"S1": [{"owner": "alice", "reason": "x"}]})
    assert page["in_service"] == 0 and [node["name"] for node in page["out_of_service"]] == ["gpu01", "gpu02"]
    assert page["nodes"][0]["tone"] == "work"
    no_lease = build(why={"S1": [{"code": "no_lease", "text": "x", "next_step": None}], "S2": held})
    assert no_lease["in_service"] == 0 and len(no_lease["out_of_service"]) == 2
    waits = [{"code": "state_deployed", "text": "x", "next_step": None}]
    new = build(nodes=[{"name": "gpu03", "serial": "S1", "state": "deployed"}], why={"S1": waits})
    assert (new["in_service"], new["out_of_service"], new["on_the_way"]) == (0, [], 1)


def test_a_retired_node_and_the_one_in_its_place_are_told_apart(build, gate):
    nodes = [
        {"name": "gpu01", "serial": "S1", "state": "retired"},
        {"name": "gpu01", "serial": "S9", "state": "active"},
    ]
    gone = [{"code": "retired", "text": "gpu01 is retired.", "next_step": None}]
    page = build(nodes=nodes, why={"S1": gone, "S9": []}, gates={"S1": gate(), "S9": gate("pass", 9)})
    assert [(row["anchor"], row["burn_in"]["word"]) for row in page["nodes"]] == [("S1", "not run"), ("gpu01", "pass")]
    assert (page["in_service"], page["out_of_service"], page["on_the_way"]) == (1, [], 0)


def test_only_an_open_gate_looks_like_a_pass(gate):
    def shown(*given, **more):
        found = model.burn_in(gate(*given, **more))
        return found["word"], found["mark"]

    assert shown() == ("not run", "idle")
    assert shown(None, 4) == ("under way", "work")
    assert shown("pass", 4) == ("pass", "pass")
    assert shown("pass", 4, passed=False, reason="burn-in attempt 4 has no results on record") == ("pass", "work")
    assert shown("pass", 4, stale=True) == ("pass", "idle")
    assert shown("fail", 4) == ("fail", "fail") and shown("could_not_test", 4) == ("could_not_test", "could_not_test")


def test_what_an_older_burn_in_found_is_not_among_the_other_checks(build):
    attempts = {"S1": [{"id": 3, "stage": "burn_in"}, {"id": 7, "stage": "burn_in"}]}
    evidence = {"S1": [{"check": "gpu_ecc", "outcome": "fail", "attempt": 3}, {"check": "hand", "outcome": "pass"}]}
    page = build(attempts=attempts, evidence=evidence)
    assert [row["check"] for row in page["nodes"][0]["checks"]["rows"]] == ["hand"]


def test_facts_in_one_line():
    facts = {
        "processors": [{"model": "Xeon"}, {"model": "Xeon"}],
        "memory": [{"size_bytes": 2**30}],
        "gpus": [{"model": "H100"}] * 8,
        "drives": [{}],
    }
    assert model.hardware(facts) == "2 x Xeon, 1.0 GiB memory, 8 x H100, 1 drive"
    assert model.hardware(None) == ""


def test_what_is_in_place_is_kept_apart():
    shown = model.checks(
        [
            {"check": "file:/etc/a", "outcome": "pass"},
            {"check": "file:/etc/b", "outcome": "fail"},
            {"check": "gpu_ecc", "outcome": "pass"},
        ]
    )
    assert [row["check"] for row in shown["in_place"]] == ["file:/etc/a"]
    assert [row["check"] for row in shown["shown"]] == ["file:/etc/b", "gpu_ecc"]
    assert len(shown["rows"]) == 3
