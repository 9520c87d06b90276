# Filter: what a failed task says, as the reason that a person reads at the node later.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

_KEPT = 600


def failure_reason(result, host, stage, task=None):
    """One sentence from the result of a failed task. What names its host already is left as it is; the rest gets host, stage, task and next step."""
    found = result or {}
    for item in found.get("results") or []:
        if isinstance(item, dict) and item.get("failed"):
            found = item
            break
    said = str(found.get("msg") or "").strip()
    if said.startswith(f"{host}: ") and (found.get("error") or "next: " in said):
        return said
    words = [" ".join(said.split())[:_KEPT]] if said else []
    for key in ("module_stderr", "stderr"):
        last = str(found.get(key) or "").strip().splitlines()[-1:]
        if last and last[0] not in said:
            words.append(last[0].strip()[:_KEPT])
            break
    named = f"task '{task}' failed: " if task else ""
    if said.startswith(f"{host}: "):
        words[0] = words[0][len(f"{host}: ") :]
    return (
        f"{host}: {stage}: {named}{': '.join(words) or 'without a message'}; "
        f"next: remove the cause, then run the stage again with {stage}_retry_failed=true"
    )


class FilterModule:
    """Filters of this file."""

    def filters(self):
        return {"failure_reason": failure_reason}
