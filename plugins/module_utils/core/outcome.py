# The four outcomes of a check. `could_not_test` is never a pass, nowhere.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

PASS = "pass"
FAIL = "fail"
NOT_APPLICABLE = "not_applicable"
COULD_NOT_TEST = "could_not_test"
OUTCOMES = (PASS, FAIL, NOT_APPLICABLE, COULD_NOT_TEST)

_BADNESS = {NOT_APPLICABLE: 0, PASS: 1, COULD_NOT_TEST: 2, FAIL: 3}


def combine(outcomes):
    """The worst of several outcomes: fail, then could_not_test, then pass, then not_applicable. Nothing tested at all is could_not_test."""
    outcomes = list(outcomes)
    for outcome in outcomes:
        if outcome not in _BADNESS:
            raise ValueError(f"unknown outcome {outcome!r}: one of {', '.join(OUTCOMES)}")
    return max(outcomes, key=_BADNESS.__getitem__) if outcomes else COULD_NOT_TEST


def gates(item):
    """Whether an evidence item counts in a decision. A check that is optional or advisory keeps its outcome and says `gates: false` beside it."""
    return item.get("gates") is not False


def combine_items(items):
    """`combine` over the outcomes of the items that gate."""
    return combine(item.get("outcome") for item in items if gates(item))


def set_aside(items):
    """What does not gate and was no pass, as words: "1 check that does not gate could not be tested: network"; empty where there is none."""
    items, found = list(items), []
    for outcome, words in ((FAIL, "failed"), (COULD_NOT_TEST, "could not be tested")):
        names = [item["check"] for item in items if item["outcome"] == outcome and not gates(item)]
        if names:
            what = "1 check that does not gate" if len(names) == 1 else f"{len(names)} checks that do not gate"
            found.append(f"{what} {words}: {', '.join(names)}")
    return "; ".join(found)
