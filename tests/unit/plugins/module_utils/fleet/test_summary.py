# The summary: every host in exactly one list, and a survivor beside those that are to fail.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import summary


def bad(code):
    return {"failed": True, "msg": f"it is {code}", "error": {"code": code}}


RESULTS = {
    "a": {"changed": True},
    "b": bad("unreachable"),
    "c": bad("refused"),
    "d": bad("not_tried"),
    "e": {"changed": False},
}


def test_every_host_is_in_one_list():
    found = summary.summarise(["f", "c", "b", "a", "d", "e"], RESULTS, ["f"], 2.5)
    assert found["failed_hosts"] == ["c"] and found["unreachable_hosts"] == ["b"] and found["not_tried_hosts"] == ["d"]
    assert found["skipped_hosts"] == ["f"] and found["changed_hosts"] == ["a"] and found["changed"] is True
    assert found["counts"] == {
        "hosts": 6,
        "selected": 5,
        "ok": 2,
        "changed": 1,
        "failed": 1,
        "unreachable": 1,
        "not_tried": 1,
        "skipped": 1,
    }
    assert found["reasons"]["b"] == "it is unreachable"
    assert found["failing"] == ["c", "b", "d", "a"], "those that fail, in order, and one that does not"
    assert found["msg"] == "2 of 5 nodes ok (1 changed), 1 failed, 1 unreachable, 1 not tried, 1 skipped, in 2.5 s"


def test_nobody_failed():
    found = summary.summarise(["a"], {"a": {"changed": False}})
    assert found["failing"] == [] and found["changed"] is False


def test_a_skipped_host_survives_where_all_others_failed():
    assert summary.summarise(["b", "s"], {"b": bad("x")}, ["s"])["failing"] == ["b", "s"]
    assert summary.summarise(["b"], {"b": bad("x")})["failing"] == ["b"]


def test_one_diff_with_the_host_in_each_line():
    results = {"a": {"diff": {"before": 'power: "off"\n', "after": 'power: "on"\n'}}, "b": {}}
    found = summary.joined_diff(results)
    assert found == {"before": 'a power: "off"\n', "after": 'a power: "on"\n'}
    assert "diff" not in results["a"]


def test_equal_parts_of_results_are_one_object():
    shared = summary.Shared()
    one, other = (shared({"bmc": {"vendor": "x"}, "before": {"power": power}, "msg": "m"}) for power in ("on", "off"))
    assert one["bmc"] is other["bmc"] and one["before"] == {"power": "on"} and other["before"] == {"power": "off"}
