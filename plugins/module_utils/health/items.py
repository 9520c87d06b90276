# The result shape of every check: one dict per item, the same on the node, in the registry and in the report.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core import outcome as outcomes


def item(
    check,
    outcome,
    *,
    value=None,
    unit=None,
    limit=None,
    rule=None,
    source=None,
    simulated=False,
    detail=None,
    faults=None,
):
    """One result. `check`: stable name; `value`, `unit`, `limit`: what was measured and what it was held against; `rule`: name and version of the rule;
    `source`: the command or file that was read; `simulated`: the value comes from the lab's instruments; `detail`: a plain sentence.
    `faults`: pairs (part, phrase) for the summary of a run; the runner takes them off before the item leaves the node."""
    if outcome not in outcomes.OUTCOMES:
        raise ValueError(f"unknown outcome {outcome!r}")
    found = {
        "check": check,
        "outcome": outcome,
        "value": value,
        "unit": unit,
        "limit": limit,
        "rule": rule,
        "source": source,
        "simulated": bool(simulated),
        "detail": detail,
    }
    if faults:
        found["faults"] = list(faults)
    return found


def passed(check, **parts):
    return item(check, outcomes.PASS, **parts)


def failed(check, **parts):
    return item(check, outcomes.FAIL, **parts)


def could_not_test(check, detail, **parts):
    return item(check, outcomes.COULD_NOT_TEST, detail=detail, **parts)


def not_applicable(check, detail, **parts):
    return item(check, outcomes.NOT_APPLICABLE, detail=detail, **parts)


def judged(check, good, **parts):
    """pass or fail by a condition."""
    return item(check, outcomes.PASS if good else outcomes.FAIL, **parts)
