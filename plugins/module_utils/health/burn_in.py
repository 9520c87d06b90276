# The burn-in of one node: runs the plan's checks one after the other and says whether the node passed, and if not, why.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import fcntl
import os

from ..core import outcome as outcomes
from ..core.deadline import Deadline
from . import inventory
from .gpu_suite import check_gpus
from .host_checks import check_clock, check_disk, check_hardware, check_kernel, check_network, check_stress
from .plan import CHECKS, read_plan

LOCK = "/run/aicluster-node-check.lock"


def settle(items, plan):
    """The items as they go into the evidence: each keeps its outcome, and one that the plan does not gate on says `gates: false` and why.

    So what was not tested is never read as tested, and what does not keep the node out is not taken for a reason."""
    settled = []
    for found in items:
        options = dict(CHECKS[found["check"]]._asdict(), **plan["checks"].get(found["check"], {}))
        word = None
        if options["advisory"] and found["outcome"] in (outcomes.FAIL, outcomes.COULD_NOT_TEST):
            word = "advisory"
        elif not options["required"] and found["outcome"] == outcomes.COULD_NOT_TEST:
            word = "optional"
        if word:
            found = dict(found, gates=False, detail=f"{word} in this plan; {found['detail'] or found['check']}")
        settled.append(found)
    return settled


def summarise(items):
    """(outcome, reason) of settled items: any fault fails the node, anything untested keeps it from passing, and so does a run that tested nothing.

    Items that do not gate decide nothing; the reason of a pass counts those that failed or could not be tested (None where there are none)."""
    order = list(CHECKS)
    items = sorted(items, key=lambda entry: order.index(entry["check"]))
    aside = outcomes.set_aside(items)
    whole, items = items, [found for found in items if outcomes.gates(found)]
    faults = [found for found in items if found["outcome"] == outcomes.FAIL]
    untested = [found for found in items if found["outcome"] == outcomes.COULD_NOT_TEST]
    if faults:
        # one sentence per part, whatever checks found it: what is wrong, then by which rules
        parts = {}
        for found in faults:
            for part, phrase in found.get("faults") or [("", found["detail"] or found["check"])]:
                entry = parts.setdefault(part, {"phrases": [], "rules": [], "simulated": False})
                if phrase not in entry["phrases"]:
                    entry["phrases"].append(phrase)
                if found["rule"] not in entry["rules"]:
                    entry["rules"].append(found["rule"])
                entry["simulated"] = entry["simulated"] or found["simulated"]
        sentences = []
        for part, entry in parts.items():
            words = ", ".join(entry["phrases"])
            rules = f"rule{'s' if len(entry['rules']) > 1 else ''} {', '.join(entry['rules'])}"
            sentences.append(
                f"{part}{': ' if part else ''}{words}; {rules}{' (simulated)' if entry['simulated'] else ''}"
            )
        return outcomes.FAIL, " | ".join(sentences)
    if untested or not whole:
        causes = {}  # one missing tool stops many checks: say it once
        for found in untested:
            causes.setdefault(found["detail"], []).append(found["check"])
        words = "; ".join(f"{', '.join(checks)}: {detail}" for detail, checks in causes.items())
        return outcomes.COULD_NOT_TEST, f"could not test {words}" if words else "nothing was tested"
    if not any(found["outcome"] == outcomes.PASS for found in items):
        return outcomes.NOT_APPLICABLE, aside or "no check applied to this node"
    return outcomes.PASS, aside or None


def _lock(system, plan):
    """One burn-in at a time on a node: a run whose controller died may still be at work, and two of them would spoil each other's figures."""
    handle = os.open(LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    deadline = Deadline(
        plan["lock_wait_s"], "the end of another burn-in on this node", next_step="wait for it, or stop it"
    )
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            if deadline.expired():
                os.close(handle)
                raise deadline.exceeded("another burn-in holds the lock")
            system.sleep(0.5)


def burn_in(system, plan):
    """Run the plan; {outcome, reason, items, window, simulated, container}.

    Raises InvalidInput for a bad plan and DeadlineExceeded where another run on this node does not end."""
    arrived = system.now()
    plan = read_plan(plan)
    handle = _lock(system, plan)
    try:
        since, started = system.uptime(), system.now()
        seen = inventory.inventory(system)
        items = []
        if "hardware" in plan["groups"]:
            items += check_hardware(plan, seen)
        if "clock" in plan["groups"]:
            items += check_clock(plan, system, arrived)
        if "stress" in plan["groups"]:
            items += check_stress(plan, system)
        if "disk" in plan["groups"]:
            items += check_disk(plan, system)
        if "network" in plan["groups"]:
            items += check_network(plan, system)
        # after the load: what it provoked is then in the GPUs' counters and in the kernel's log
        text = system.kernel_log() if {"gpu", "kernel"} & set(plan["groups"]) else None
        if "gpu" in plan["groups"]:
            items += check_gpus(plan, system, text, seen)
        if "kernel" in plan["groups"]:
            items += check_kernel(plan, system, text, since, seen)
    finally:
        os.close(handle)
    items = settle(items, plan)
    outcome, reason = summarise(items)
    for found in items:
        found.pop("faults", None)
    return {
        "suite": "burn-in",
        "outcome": outcome,
        "reason": reason,
        "items": items,
        "window": {"start": round(started, 3), "end": round(system.now(), 3)},
        "simulated": any(found["simulated"] for found in items),
        "container": seen["container"],
    }
