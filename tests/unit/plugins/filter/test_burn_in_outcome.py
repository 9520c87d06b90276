# Several burn-in results become one.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.filter.burn_in_outcome import burn_in_outcome


def result(outcome, reason=None, simulated=False):
    return {"outcome": outcome, "reason": reason, "simulated": simulated}


@pytest.mark.parametrize(
    ("results", "outcome", "reason"),
    [
        ([result("pass"), result("pass")], "pass", ""),
        ([result("pass"), result("not_applicable", "no check applied")], "pass", ""),
        ([result("fail", "a"), result("could_not_test", "b")], "fail", "a"),
        ([result("fail", "a"), result("fail", "b")], "fail", "a | b"),
        ([result("pass"), result("could_not_test", "b")], "could_not_test", "b"),
        ([result("not_applicable", "c")], "could_not_test", "c"),
        ([{"outcome": "could_not_test", "different": ["not installed"]}] * 2, "could_not_test", "not installed"),
        ([{}], "could_not_test", ""),
        ([], "could_not_test", ""),
    ],
)
def test_outcomes(results, outcome, reason):
    found = burn_in_outcome(results)
    assert (found["outcome"], found["reason"]) == (outcome, reason)


def test_a_pass_says_what_was_not_tested():
    aside = {"check": "network", "outcome": "could_not_test", "gates": False}
    net = {"outcome": "not_applicable", "reason": "x", "items": [aside]}
    assert burn_in_outcome([result("pass"), net]) == {
        "outcome": "pass",
        "reason": "1 check that does not gate could not be tested: network",
        "simulated": False,
    }


def test_simulated_is_kept():
    assert burn_in_outcome([result("pass"), result("pass", simulated=True)])["simulated"] is True
