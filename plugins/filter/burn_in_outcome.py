# Filter: the results of a node's burn-in calls become one outcome and one reason.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import outcome as outcomes


def burn_in_outcome(results):
    """{outcome, reason, simulated} over several results of node_check: a fault in any of them fails the node, an untested one keeps it from passing.

    The reason of a pass says what failed or could not be tested among the checks that do not gate; empty where there is nothing."""
    words = [str(result.get("outcome") or outcomes.COULD_NOT_TEST) for result in results]
    outcome = outcomes.combine(words)
    reasons = []
    for result, word in zip(results, words):
        # a node without node-check says in `different` what is missing
        said = result.get("reason") or "; ".join(str(line) for line in result.get("different") or [])
        if word == outcome and said and str(said) not in reasons:
            reasons.append(str(said))
    return {
        "outcome": outcomes.COULD_NOT_TEST if outcome == outcomes.NOT_APPLICABLE else outcome,
        "reason": " | ".join(reasons)
        if outcome != outcomes.PASS
        else outcomes.set_aside(item for result in results for item in result.get("items") or []),
        "simulated": any(bool(result.get("simulated")) for result in results),
    }


class FilterModule:
    """Filters of this file."""

    def filters(self):
        return {"burn_in_outcome": burn_in_outcome}
