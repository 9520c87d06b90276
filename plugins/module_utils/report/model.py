# Turns what the registry holds into what the report shows: pure functions, no I/O, nothing that depends on when it is called.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
from collections import Counter

from ..core import outcome as outcomes
from ..core.units import format_seconds, format_size

# Boot steps in the order of a deployment, with the words a person uses (docs/architecture.md).
STEPS = {
    "power_on": "power on",
    "dhcp": "DHCP",
    "loader": "loader (iPXE)",
    "kernel": "kernel",
    "ramdisk": "ramdisk",
    "disk_chosen": "disk chosen",
    "writing": "writing the image",
    "written": "image written and verified",
    "seeded": "seed written",
    "boot_order": "boot order fixed",
    "done": "ramdisk done, reboot",
    "disk_boot": "boot from disk",
    "ssh": "SSH answers",
    "failed": "failed",
}
IN_SERVICE = {"active"}
WORKING = {
    "verifying",
    "inspecting",
    "updating",
    "deploying",
    "configuring",
    "burn_in",
    "enrolling",
    "draining",
    "cleaning",
    "servicing",
}


def when(text):
    """A registry time (ISO 8601, UTC, with or without Z) as an aware datetime, None for nothing."""
    if not text:
        return None
    if isinstance(text, datetime.datetime):
        return text if text.tzinfo else text.replace(tzinfo=datetime.timezone.utc)
    value = datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    return value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)


def tone(state):
    """The class of a state: `good` in service, `work` on its way, `bad` failed or quarantined, `idle` otherwise."""
    if state in IN_SERVICE:
        return "good"
    if state.endswith("_failed") or state in ("quarantined", "suspect"):
        return "bad"
    return "work" if state in WORKING else "idle"


def timeline(events):
    """Boot events of one attempt -> rows `{step, text, at, seconds, start_share, width_share, bad}` and the whole time.

    `seconds` is the time until the next row, that is how long the step took; shares are of the whole, 0 to 1.
    """
    rows = sorted((e for e in events if e.get("step") in STEPS), key=lambda e: when(e["time"]))
    if not rows:
        return {"rows": [], "total": None}
    begin, end = when(rows[0]["time"]), when(rows[-1]["time"])
    whole = max((end - begin).total_seconds(), 0.001)
    shown = []
    for position, event in enumerate(rows):
        at = when(event["time"])
        until = when(rows[position + 1]["time"]) if position + 1 < len(rows) else at
        shown.append(
            {
                "step": event["step"],
                "text": STEPS[event["step"]],
                "detail": _words(event.get("detail")),
                "source": event.get("source") or "",
                "at": f"{(at - begin).total_seconds():.1f}",
                "seconds": f"{(until - at).total_seconds():.1f}",
                "start_share": (at - begin).total_seconds() / whole,
                "width_share": (until - at).total_seconds() / whole,
                "bad": event["step"] == "failed",
            }
        )
    return {"rows": shown, "total": f"{whole:.1f}"}


def _words(detail):
    if detail in (None, "", {}, []):
        return ""
    if isinstance(detail, dict):
        return ", ".join(f"{key}: {value}" for key, value in sorted(detail.items()))
    return str(detail)


def hardware(facts):
    """One line of what discovery saw: processors, memory, GPUs, disks; empty when nothing is known."""
    if not facts:
        return ""
    parts = []
    processors = facts.get("processors") or []
    if processors:
        model = processors[0].get("model") or "processor"
        parts.append(f"{len(processors)} x {model}")
    memory = sum(m.get("size_bytes") or 0 for m in facts.get("memory") or [])
    if memory:
        parts.append(f"{format_size(memory)} memory")
    gpus = Counter(g.get("model") or "GPU" for g in facts.get("gpus") or [])
    parts.extend(f"{count} x {model}" for model, count in sorted(gpus.items()))
    drives = facts.get("drives") or []
    if drives:
        parts.append(f"{len(drives)} drive{'s' if len(drives) > 1 else ''}")
    return ", ".join(parts)


def checks(evidence):
    """Evidence rows ready to show, failures first, and the overall outcome (None when there is no evidence)."""
    order = {outcomes.FAIL: 0, outcomes.COULD_NOT_TEST: 1, outcomes.PASS: 2, outcomes.NOT_APPLICABLE: 3}
    rows = [
        {
            "check": item.get("check") or item.get("name") or "",
            "outcome": item["outcome"],
            "value": "" if item.get("value") is None else f"{_number(item['value'])} {item.get('unit') or ''}".strip(),
            "number": isinstance(item.get("value"), (int, float)),
            "limit": "" if item.get("limit") is None else str(item["limit"]),
            "rule": item.get("rule") or "",
            "source": item.get("source") or "",
            "detail": _words(item.get("detail")),
            "simulated": bool(item.get("simulated")),
            "time": str(item.get("time") or ""),
        }
        for item in evidence
        if item.get("outcome") in order
    ]
    rows.sort(key=lambda row: (order[row["outcome"]], row["check"]))
    # What is in place is worth one line, not a page: kind:name is how the checks of installed files, packages and services are named.
    plain = [row for row in rows if row["outcome"] == outcomes.PASS and ":" in row["check"]]
    shown = [row for row in rows if row not in plain]
    return {
        "shown": shown,
        "in_place": plain,
        "rows": rows,
        "overall": outcomes.combine(r["outcome"] for r in rows) if rows else None,
        "simulated": any(r["simulated"] for r in rows),
    }


def _number(value):
    if isinstance(value, dict):
        return _words(value)
    return f"{value:.4g}" if isinstance(value, float) else value


def stage_times(attempts):
    """Finished attempts -> `{stage: (number, longest seconds)}` in the order in which stages started."""
    times = {}
    for attempt in sorted(attempts, key=lambda a: str(a.get("started"))):
        if attempt.get("started") and attempt.get("ended"):
            took = (when(attempt["ended"]) - when(attempt["started"])).total_seconds()
            count, longest = times.get(attempt["stage"], (0, 0.0))
            times[attempt["stage"]] = (count + 1, max(longest, took))
    return [
        {"stage": stage, "attempts": count, "longest": format_seconds(longest)}
        for stage, (count, longest) in times.items()
    ]


def build(nodes, events, evidence, why, attempts, holds, audit, title="Cluster report"):
    """The whole page model.

    nodes: registry node dicts. events, evidence, why, attempts, holds: dicts from node name to a list. audit: the result of `verify_audit` plus `last_time`.
    """
    rows = []
    for node in sorted(nodes, key=lambda n: n["name"] or n["serial"]):
        name = node["name"] or node["serial"]
        latest = max((e.get("attempt") or 0 for e in events.get(name, [])), default=None)
        rows.append(
            {
                "name": name,
                "serial": node["serial"],
                "place": " / ".join(str(node[k]) for k in ("site", "rack", "slot") if node.get(k)),
                "role": node.get("role") or "",
                "state": node["state"],
                "tone": tone(node["state"]),
                "lease": node.get("lease") or "none",
                "hardware": hardware(node.get("facts")),
                "why": why.get(name, []),
                "timeline": timeline([e for e in events.get(name, []) if (e.get("attempt") or 0) == latest]),
                "checks": checks(evidence.get(name, [])),
                "attempts": attempts.get(name, []),
                "holds": holds.get(name, []),
            }
        )
    return {
        "title": title,
        "as_of": audit.get("last_time") or "",
        "nodes": rows,
        "states": sorted(Counter(row["state"] for row in rows).items()),
        "in_service": sum(row["tone"] == "good" for row in rows),
        "out_of_service": [row for row in rows if row["tone"] == "bad" or row["holds"]],
        "stages": stage_times([attempt for each in attempts.values() for attempt in each]),
        "audit": audit,
        "simulated": any(row["checks"]["simulated"] for row in rows),
    }
