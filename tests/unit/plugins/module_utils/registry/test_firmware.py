# Firmware plans in the registry: one open plan a node, one owner of it, and every step by compare and swap.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import dataclasses
import threading

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors, process
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import firmware


def plan(*components):
    return {
        "platform": "p",
        "baseline": "b",
        "digest": "d",
        "steps": [
            {"number": number, "component": name, "from_version": "1", "to_version": "2"}
            for number, name in enumerate(components, 1)
        ],
    }


@pytest.fixture
def node(registry):
    registry.save_node("S1", "test", name="gpu01")
    return "gpu01"


@pytest.fixture
def dead():
    """An owner that certainly is no more: a pid of this boot with another start time."""
    me = process.this_controller()
    return dataclasses.replace(me, started=me.started + 1)


def test_save_and_read(registry, node):
    assert registry.firmware_plan(node) is None
    saved = registry.save_firmware_plan(node, plan("bmc", "bios"), "me", health={"bmc": "OK"})
    found = registry.firmware_plan("S1")
    assert found == saved
    assert (found["state"], found["claim"], found["serial"], found["health"]) == ("open", 1, "S1", {"bmc": "OK"})
    assert found["plan"] == plan("bmc", "bios")
    assert [(step["number"], step["component"], step["state"], step["pushes"]) for step in found["steps"]] == [
        (1, "bmc", "planned", 0),
        (2, "bios", "planned", 0),
    ]
    assert registry.audit_rows(node)[-1]["action"] == "firmware_plan"


def test_steps_by_compare_and_swap(registry, node):
    saved = registry.save_firmware_plan(node, plan("bmc"), "me")
    move = registry.set_firmware_step
    move(saved["id"], 1, 1, "planned", "pushing", {"method": "multipart", "tasks_before": ["/1"]}, pushed=True)
    move(saved["id"], 1, 1, "pushing", "writing", {"task": "/2", "tasks_before": None})
    step = registry.firmware_plan(node)["steps"][0]
    assert (step["state"], step["pushes"], step["detail"]) == ("writing", 1, {"method": "multipart", "task": "/2"})
    with pytest.raises(errors.Conflict) as caught:
        move(saved["id"], 1, 1, "planned", "pushing")
    assert (caught.value.wanted, caught.value.seen) == ("planned", "writing")
    with pytest.raises(errors.InvalidInput):
        move(saved["id"], 1, 1, "writing", "flashed")
    assert [row["action"] for row in registry.audit_rows(node)][-1] == "firmware_pushing"
    assert registry.verify_audit()["ok"]


def test_an_owner_that_lives_is_not_disturbed(registry, node):
    saved = registry.save_firmware_plan(node, plan("bmc"), "me", owner=process.identify(1))
    with pytest.raises(errors.Conflict) as caught:
        registry.claim_firmware_plan(node, "other")
    assert caught.value.code == "plan_claimed"
    with pytest.raises(errors.Conflict):
        registry.claim_firmware_plan(node, "other", check=True)
    registry.check_firmware_claim(saved["id"], 1)


def test_a_dead_owner_is_fenced_out(registry, node, dead):
    saved = registry.save_firmware_plan(node, plan("bmc"), "me", owner=dead)
    claimed = registry.claim_firmware_plan(node, "other")
    assert (claimed["id"], claimed["claim"]) == (saved["id"], 2)
    for late in (
        lambda: registry.check_firmware_claim(saved["id"], 1),
        lambda: registry.set_firmware_step(saved["id"], 1, 1, "planned", "pushing"),
        lambda: registry.end_firmware_plan(saved["id"], 1, "done"),
    ):
        with pytest.raises(errors.FencedOut):
            late()
    registry.check_firmware_claim(saved["id"], 2)
    assert registry.firmware_plan(node)["steps"][0]["state"] == "planned"


def test_two_claim_at_once_and_only_the_last_goes_on(registry, node, dead):
    registry.save_firmware_plan(node, plan("bmc"), "me", owner=dead)
    claims = []
    threads = [
        threading.Thread(target=lambda: claims.append(registry.claim_firmware_plan(node, "x")["claim"]))
        for _n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claims) == [2, 3, 4, 5]  # the same owner may claim again; each claim shuts the one before out
    number = registry.firmware_plan(node)["id"]
    for claim in (2, 3, 4):
        with pytest.raises(errors.FencedOut):
            registry.check_firmware_claim(number, claim)


def test_a_new_plan_waits_for_what_is_in_flight(registry, node):
    saved = registry.save_firmware_plan(node, plan("bmc"), "me")
    registry.set_firmware_step(saved["id"], 1, 1, "planned", "pushing")
    with pytest.raises(errors.Conflict) as caught:
        registry.save_firmware_plan(node, plan("bios"), "me")
    assert caught.value.code == "plan_in_flight"
    registry.set_firmware_step(saved["id"], 1, 1, "pushing", "unknown")
    with pytest.raises(errors.Conflict, match="unknown"):
        registry.save_firmware_plan(node, plan("bios"), "me")
    registry.set_firmware_step(saved["id"], 1, 1, "unknown", "active")
    newer = registry.save_firmware_plan(node, plan("bios"), "me")
    assert [(row["id"], row["state"]) for row in registry.firmware_plans(node)] == [
        (saved["id"], "superseded"),
        (newer["id"], "open"),
    ]


def test_parked_stays_until_a_person_says_retry(registry, node):
    saved = registry.save_firmware_plan(node, plan("bmc", "bios", "cpld"), "me")
    for number, state in ((1, "active"), (2, "failed"), (3, "unknown")):
        registry.set_firmware_step(saved["id"], 1, number, "planned", state)
    registry.end_firmware_plan(saved["id"], 1, "parked", "bios failed")
    [left] = registry.firmware_left(node)
    assert left["code"] == "firmware_parked" and "bios failed" in left["text"] and left["next_step"]
    again = registry.claim_firmware_plan(node, "other")
    assert (again["state"], again["reason"], again["claim"]) == ("parked", "bios failed", 1)
    before = (registry.firmware_plan(node), len(registry.audit_rows(node)))
    foretold = registry.claim_firmware_plan(node, "other", retry=True, check=True)
    assert registry.claim_firmware_plan(node, "other", check=True) == again
    assert (registry.firmware_plan(node), len(registry.audit_rows(node))) == before
    taken = registry.claim_firmware_plan(node, "other", retry=True)
    assert foretold["steps"] == [
        {**step, "changed": old["changed"]} for step, old in zip(taken["steps"], again["steps"])
    ]
    assert (taken["state"], taken["claim"]) == ("open", 2)
    assert [step["state"] for step in taken["steps"]] == ["active", "planned", "pushing"]


def test_done_is_over(registry, node):
    saved = registry.save_firmware_plan(node, plan("bmc"), "me")
    registry.end_firmware_plan(saved["id"], 1, "done")
    assert registry.firmware_plan(node) is None
    assert registry.claim_firmware_plan(node, "me") is None
    with pytest.raises(errors.FencedOut):
        registry.check_firmware_claim(saved["id"], 1)


def test_stage_firmware(registry, node):
    registry.save_node("S2", "test", name="gpu02", state="manageable")
    begun = registry.begin("gpu02", "firmware", actor="me")
    assert begun.selected and registry.node("gpu02")["state"] == "updating"
    assert registry.finish("gpu02", begun.attempt, begun.fencing, "pass", "me") == "available"
    again = registry.begin("gpu02", "firmware", actor="me")
    assert again.selected
    assert registry.finish("gpu02", again.attempt, again.fencing, "fail", "me") == "updating_failed"


def test_every_state_has_a_meaning():
    assert set(firmware.IN_FLIGHT) < set(firmware.STEP_STATES)
