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
