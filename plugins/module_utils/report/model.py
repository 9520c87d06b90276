# Turns what the registry holds into what the report shows: pure functions, no I/O, nothing that depends on when it is called.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
from collections import Counter

from ..core import outcome as outcomes
from ..core.units import format_count, format_seconds, format_size, format_time

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
ACTIVE = "active"  # the one state of a node in service; whether it is, `why` says
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


def tone(state, in_service):
    """The class of a state: `good` in service, `work` on its way or active and kept out, `bad` failed or quarantined, `idle` otherwise."""
    if in_service:
        return "good"
    if state.endswith("_failed") or state in ("quarantined", "suspect"):
        return "bad"
    return "work" if state in WORKING or state == ACTIVE else "idle"


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
    """Evidence rows ready to show, failures first, and the overall outcome of those that gate (None when there is no evidence)."""
    order = {outcomes.FAIL: 0, outcomes.COULD_NOT_TEST: 1, outcomes.PASS: 2, outcomes.NOT_APPLICABLE: 3}
    rows = [
        {
            "check": item.get("check") or item.get("name") or "",
            "outcome": item["outcome"],
            "gates": outcomes.gates(item),
            "value": "" if item.get("value") is None else format_count(_number(item["value"]), item.get("unit")),
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
    # What does not gate stands below what does, and above what passed.
    rows.sort(key=lambda row: (order[row["outcome"]] + (0 if row["gates"] else 0.5), row["check"]))
    # What is in place is worth one line, not a page: kind:name is how the checks of installed files, packages and services are named.
    plain = [row for row in rows if row["outcome"] == outcomes.PASS and ":" in row["check"]]
    shown = [row for row in rows if row not in plain]
    return {
        "shown": shown,
        "in_place": plain,
        "rows": rows,
        "overall": outcomes.combine_items(rows) if rows else None,
        "aside": outcomes.set_aside(rows),
        "not_counted": sum(not row["gates"] and order[row["outcome"]] < order[outcomes.PASS] for row in rows),
        "simulated": any(r["simulated"] for r in rows),
    }


def burn_in(gate):
    """The newest burn-in attempt as shown, from the gate of the enroll stage (scheduler.operations.burn_in_gate).

    `word`: how it ended, "under way" or "not run"; `mark`: its class, that of a pass only where the gate is open.
    """
    word = "not run" if gate["attempt"] is None else gate["outcome"] or "under way"
    notes = []
    if gate["stale"]:
        notes.append("The node was written to since, so this says nothing of what runs on it now.")
    if gate["outcome"] in (None, outcomes.FAIL, outcomes.COULD_NOT_TEST):
        mark = {"not run": "idle", "under way": "work"}.get(word, word)
    else:
        mark = outcomes.PASS if gate["passed"] else "work"
        notes += [f"{gate['reason'][:1].upper()}{gate['reason'][1:]}."] if gate["reason"] else []
    return {
        "word": word.replace("_", " ") if word not in outcomes.OUTCOMES else word,
        "mark": "idle" if gate["stale"] else mark,
        "stale": gate["stale"],
        "attempt": gate["attempt"],
        "time": format_time(gate["time"]),
        "notes": notes,
        "checks": checks(gate["items"]),
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


def build(nodes, events, evidence, why, attempts, holds, gates, audit, title="Cluster report", firmware=None):
    """The whole page model.

    nodes: registry node dicts. events, evidence, why, attempts, holds: dicts from serial to a list, `why` for every node, because an empty one means that it
    is in service. gates: dict from serial to the result of `burn_in_gate`. audit: the result of `verify_audit` plus `last_time`.
    firmware: dict from serial to what `firmware_left` says; what `why` says already is not said twice.
    """
    rows = []
    for node in sorted(nodes, key=lambda n: (n["name"] or n["serial"], n["serial"])):
        name, serial = node["name"] or node["serial"], node["serial"]
        latest = max((e.get("attempt") or 0 for e in events.get(serial, [])), default=None)
        in_service = not why[serial]
        test = burn_in(gates[serial])
        # The newest burn-in is shown by itself; what an older one found is history.
        burn_ins = {attempt["id"] for attempt in attempts.get(serial, []) if attempt["stage"] == "burn_in"}
        others = checks([item for item in evidence.get(serial, []) if item.get("attempt") not in burn_ins])
        rows.append(
            {
                "name": name,
                "anchor": name if node["state"] != "retired" else serial,  # the server in its place has its name
                "serial": node["serial"],
                "place": " / ".join(str(node[k]) for k in ("site", "rack", "slot") if node.get(k)),
                "role": node.get("role") or "",
                "state": node["state"],
                "tone": tone(node["state"], in_service),
                "in_service": in_service,
                "kept_out": not in_service and _kept_out(node, holds.get(serial)),
                "lease": node.get("lease") or "none",
                "hardware": hardware(node.get("facts")),
                "why": why[serial],
                "timeline": timeline([e for e in events.get(serial, []) if (e.get("attempt") or 0) == latest]),
                "burn_in": test,
                "checks": others,
                "attempts": [
                    {**each, "started": format_time(each.get("started"))} for each in attempts.get(serial, [])
                ],
                "holds": holds.get(serial, []),
                "firmware": [
                    entry
                    for entry in (firmware or {}).get(serial, [])
                    if entry["text"] not in [reason["text"] for reason in why[serial]]
                ],
            }
        )
    return {
        "title": title,
        "as_of": format_time(audit.get("last_time")),
        "nodes": rows,
        "states": sorted(Counter(row["state"] for row in rows).items()),
        "in_service": sum(row["in_service"] for row in rows),
        "out_of_service": [row for row in rows if row["kept_out"]],
        "on_the_way": sum(not (row["in_service"] or row["kept_out"] or row["state"] == "retired") for row in rows),
        "stages": stage_times([attempt for each in attempts.values() for attempt in each]),
        "audit": audit,
        "simulated": any(row["checks"]["simulated"] or row["burn_in"]["checks"]["simulated"] for row in rows),
    }


def _kept_out(node, holds):
    """Whether somebody has to do something before this node, which is not in service, gets on; one that is on its way or waits for its stage is not meant."""
    if node["state"] == "retired":
        return False
    held = bool(holds) or bool(node.get("maintenance"))
    return held or node["state"] == ACTIVE or tone(node["state"], False) == "bad"
