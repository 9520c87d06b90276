# The lifecycle table: complete, closed, and the one that is in the documentation.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib

from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import nodes, transitions

ROOT = pathlib.Path(__file__).resolve().parents[5]


def test_every_row_is_about_known_states_and_stands_once():
    pairs = [(row["from"], row["to"]) for row in transitions.TRANSITIONS]
    assert len(pairs) == len(set(pairs))
    assert all(transitions.is_state(state) for pair in pairs for state in pair)


def test_every_state_but_the_first_and_last_can_be_reached_and_left():
    for state in (*transitions.STATES, *transitions.FAILED_STATES):
        reached = any(row["to"] == state for row in transitions.TRANSITIONS)
        left = any(row["from"] == state for row in transitions.TRANSITIONS)
        assert reached or state == "registered", state
        assert left or state == "retired", state


def test_only_enrolment_and_a_cleared_doubt_lead_to_active():
    assert {row["from"] for row in transitions.TRANSITIONS if row["to"] == "active"} == {
        "enrolling",
        "suspect",
        "draining",
    }


def test_quarantine_is_left_only_through_servicing_or_for_good():
    assert transitions.targets("quarantined") == ["retired", "servicing"]
    assert "active" not in transitions.targets("servicing") and "accepted" not in transitions.targets("servicing")


def test_only_a_passed_burn_in_leads_to_accepted():
    rows = [row for row in transitions.TRANSITIONS if row["to"] == "accepted"]
    assert [(row["from"], row["who"]) for row in rows] == [("burn_in", "burn_in")]


def test_every_stage_has_its_rows():
    for stage, row in transitions.STAGES.items():
        for state in (row["end"], row["fail"], f"{row['working']}_failed"):
            assert transitions.find(row["working"], state)["who"] == stage
        assert transitions.stage_of(row["working"]) == stage


def test_the_documentation_holds_the_generated_tables():
    text = (ROOT / "docs" / "lifecycle.md").read_text(encoding="utf-8")
    assert transitions.as_markdown() in text, (
        "python -m ...registry.transitions prints what docs/lifecycle.md must hold"
    )


def test_every_need_is_known_and_checked_by_code():
    """Operators' rows are checked by nodes.check_transition, stages' rows by begin (test_attempts.py): nothing else may stand in `needs`."""
    operator = {need for row in transitions.TRANSITIONS if row["who"] == "operator" for need in row["needs"]}
    assert operator == set(nodes.REQUIREMENTS)
    assert {need for row in transitions.TRANSITIONS for need in row["needs"]} == set(transitions.NEEDS)


def test_what_takes_a_machine_from_its_scheduler_needs_the_lease_back_and_what_ends_it_needs_consent():
    for row in transitions.TRANSITIONS:
        if row["who"] == "operator":
            away = row["to"] in ("manageable", "servicing", "burn_in", "cleaning", "retired")
            assert ("no_lease" in row["needs"]) == away, row
            assert ("consent" in row["needs"]) == (row["to"] in ("cleaning", "retired")), row
    for stage, row in transitions.STAGES.items():
        assert ("no_lease" in row["needs"]) == (stage != "enroll")
