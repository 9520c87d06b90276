# Filter: which nodes a stage does not take, by reason, in few lines also for thousands of nodes.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

MOST_NAMED = 20


def left_alone(begun):
    """["3 nodes are left alone: state in_service: gpu01, ..."] for {host: result of node_lifecycle state=begin}, the most frequent reason first."""
    reasons = {}
    for host, result in begun.items():
        if not result.get("failed") and result.get("selected") is False:
            reasons.setdefault(str(result.get("reason") or "no reason is known"), []).append(str(host))
    lines = []
    for reason, hosts in sorted(reasons.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        more = f" and {len(hosts) - MOST_NAMED} more" if len(hosts) > MOST_NAMED else ""
        words = "1 node is" if len(hosts) == 1 else f"{len(hosts)} nodes are"
        lines.append(f"{words} left alone: {reason}: {', '.join(hosts[:MOST_NAMED])}{more}")
    if len(lines) > MOST_NAMED:
        lines[MOST_NAMED:] = [f"and {len(lines) - MOST_NAMED} more reasons"]
    return lines


class FilterModule:
    """Filters of this file."""

    def filters(self):
        return {"left_alone": left_alone}
