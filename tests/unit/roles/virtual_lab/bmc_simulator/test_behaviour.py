# The table of behaviour switches: normal forms, refusals, changes that are all or nothing.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib

import pytest

from bmc_simulator.behaviour import SWITCHES, Behaviour, BehaviourError, as_markdown, check_value

DOCUMENT = pathlib.Path(__file__).resolve().parents[5] / "docs" / "lab-bmc.md"


def test_every_default_is_a_valid_value():
    for name, switch in SWITCHES.items():
        assert check_value(name, switch.default) == switch.default, name


@pytest.mark.parametrize(
    "name, given, kept",
    [
        ("two_systems", True, "hgx_first"),
        ("two_systems", False, "no"),
        ("unreachable", True, "refuse"),
        (
            "accept_and_do_nothing",
            True,
            ["power", "boot", "bios", "account", "media", "update", "volume", "settings", "certificate"],
        ),
        ("accept_and_do_nothing", "power", ["power"]),
        ("answer_lost_after_post", True, -1),
    ],
)
def test_short_forms(name, given, kept):
    assert check_value(name, given) == kept


@pytest.mark.parametrize(
    "name, given, complaint",
    [
        ("unknown", 1, "unknown behaviour"),
        ("paging", -1, "negative"),
        ("paging", 1.5, "whole number"),
        ("weak_etag", 1, "true or false"),
        ("reset_types", ["Explode"], "does not take 'Explode'"),
        ("boot_mode", "sometimes", "choices"),
        ("faults", [{"verb": "GET"}], "wants faults with the keys"),
    ],
)
def test_refusals_name_the_switch(name, given, complaint):
    with pytest.raises(BehaviourError, match=complaint) as error:
        check_value(name, given)
    assert name in str(error.value)


def test_one_wrong_value_changes_nothing():
    behaviour = Behaviour({"paging": 5})
    with pytest.raises(BehaviourError):
        behaviour.set({"paging": 7, "delay_s": "long"})
    assert behaviour.paging == 5
    behaviour.set({"paging": 7})
    behaviour.reset()
    assert behaviour.paging == 5


def test_two_nodes_do_not_share_a_default():
    one, two = Behaviour(), Behaviour()
    one.reset_types.append("x")
    assert two.reset_types[-1] != "x"


def test_the_documented_table_is_the_table():
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = lines.index("| switch | takes | default | meaning |") + 2
    assert lines[start : start + len(SWITCHES)] == as_markdown()
    assert not lines[start + len(SWITCHES)].startswith("|")


def test_the_table_says_what_each_switch_takes():
    rows = {row.split("`")[1]: row for row in as_markdown()}
    assert (
        "list of power, boot, bios, account, media, update, volume, settings, certificate (true: all of them)"
        in rows["accept_and_do_nothing"]
    )
    assert "| seconds, 0 or more |" in rows["power_lag_s"] and "| number, whole, 0 or more |" in rows["busy_every_n"]
    for name, switch in SWITCHES.items():
        assert all(choice in rows[name] for choice in switch.choices), name
