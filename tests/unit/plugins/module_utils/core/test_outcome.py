# could_not_test is never a pass.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import itertools

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import outcome


@pytest.mark.parametrize("pair", list(itertools.product(outcome.OUTCOMES, repeat=2)))
def test_pass_only_without_fail_and_without_could_not_test(pair):
    if outcome.combine(pair) == outcome.PASS:
        assert outcome.PASS in pair
        assert not {outcome.FAIL, outcome.COULD_NOT_TEST} & set(pair)
    assert outcome.combine(pair) == outcome.combine(reversed(pair))


def test_nothing_tested_is_not_a_pass():
    assert outcome.combine([]) == outcome.COULD_NOT_TEST


def test_what_does_not_gate_decides_nothing_and_is_said():
    aside = {"check": "network", "outcome": "could_not_test", "gates": False}
    passed = {"check": "cpu", "outcome": "pass", "gates": True}
    assert outcome.combine_items([passed, aside]) == outcome.PASS
    assert outcome.combine_items([aside]) == outcome.COULD_NOT_TEST
    assert outcome.combine_items([passed, {**aside, "gates": None}]) == outcome.COULD_NOT_TEST
    assert outcome.set_aside([passed, aside]) == "1 check that does not gate could not be tested: network"
    assert outcome.set_aside([passed]) == ""


def test_unknown_outcome_is_refused():
    with pytest.raises(ValueError, match="unknown outcome"):
        outcome.combine(["ok"])
