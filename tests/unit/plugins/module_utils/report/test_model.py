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
