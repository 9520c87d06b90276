# Drain and resume of a node in the registry and in its scheduler together; the gate of the enrolment; the first job.
#
# The registry and the scheduler port are passed in as objects. Each operation can be repeated after a kill at any line: the intention is in the
# registry before the scheduler is touched, and what is there already is left alone.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ..core.deadline import Deadline
from ..core.errors import DeadlineExceeded, NotFound, Refused
from ..core.outcome import FAIL, NOT_APPLICABLE, PASS, gates, set_aside
from ..core.plan import Change, Plan
from .config import node_lines
from .port import check_owner, drained_by, why_no_work

IN_SCHEDULER_STATES = ("active", "enrolling")  # lifecycle states whose nodes may take work


def owner_word(owner):
    """A hold's owner as the one word that can stand in a drain reason."""
    return re.sub(r"[^A-Za-z0-9_.@-]", "_", str(owner))[:64] or "unknown"


def _hold_of(holds, owner):
    return next((hold for hold in holds if hold["owner"] == owner), None)


def _note_drain(registry, node, heir, actor):
    """The heir's hold now has a drain. An owner of several words cannot call resume: his hold is released by `hold`, the drain under its word."""
    if owner_word(heir) == heir:
        registry.note_drain(node, heir, actor)


def _view(scheduler, node):
    return (
        scheduler.observe(node)
        if scheduler
        else {"present": False, "drained": False, "drain_owner": None, "reason": "", "jobs": [], "state": None}
    )


def drain(
    registry,
    scheduler,
    node,
    owner,
    reason,
    actor,
    *,
    automation=True,
    exit_condition="",
    record=True,
    wait_s=None,
    each=None,
    check=False,
):
    """Take a node out of work; returns {plan, scheduler, notes}. Running jobs go on; with `wait_s` it returns when the last one has ended.

    record: also place a hold in the registry (False for a drain that belongs to an attempt, whose state says why the node takes no work).
    """
    check_owner(owner)
    changes, notes = [], []
    if record:
        own = _hold_of(registry.holds(node), owner)
        if own and not own["automation"] and automation:
            notes.append(f"the hold '{owner}' was placed by a person and stays as it is")
        else:
            text = (reason, (exit_condition or "").strip() or f"resume by {owner}", automation)
            held = registry.plan_hold(node, owner, *text) if check else registry.hold(node, owner, *text, actor)
            changes += held.changes
    view = _view(scheduler, node)
    if view["present"]:
        if record and not check and (not view["drained"] or view["drain_owner"] == owner):
            registry.note_drain(node, owner, actor)
        changes += scheduler.drain(node, reason, owner, check=check).changes
        if view["drained"] and view["drain_owner"] != owner:
            notes.append(f"already drained by {drained_by(view)}; that drain was left as it is")
        if wait_s is not None and not check:
            view = scheduler.wait_idle(node, wait_s, each)
        elif changes and not check:
            view = scheduler.observe(node)
    elif scheduler:
        notes.append("the scheduler does not know this node: only the registry was told")
    return {"plan": Plan(changes), "scheduler": view, "notes": notes}


def _reasons_to_stay(row, holds, owner):
    """[(owner, text)] of everything but `owner` that keeps the node out of work according to the registry."""
    found = [(hold["owner"], hold["reason"]) for hold in holds if hold["owner"] != owner]
    if row.get("maintenance"):
        found.append(("maintenance", row.get("maintenance_reason") or "maintenance"))
    return found


def _outside(row, lease, scheduler):
    """Why the registry has the node in no scheduler, as a list of words; empty for a node that is in one."""
    if row["state"] not in IN_SCHEDULER_STATES:
        return [f"state {row['state']}, in which a node takes no work"]
    # Where no scheduler is asked, any scheduler's lease will do.
    fits = row["lease"] == lease if scheduler else row["lease"] not in (None, "maintenance")
    return [] if fits else [f"lease {row['lease'] or 'none'}, not {lease if scheduler else 'that of a scheduler'}"]


def _settle(scheduler, node):
    """Give a node that was just resumed a moment: right after the write Slurm may still show it as DOWN or not responding."""
    limit = Deadline(scheduler.verify_seconds, f"{node} takes work", host=node)

    def probe():
        reason = why_no_work(scheduler.observe(node))
        return not reason, reason

    try:
        limit.wait(probe, scheduler.interval)
    except DeadlineExceeded:
        pass  # the caller looks again and says why


def resume(registry, scheduler, node, owner, actor, *, automation=True, lease="slurm", check=False):
    """Undo the drain and the hold of `owner`; returns {plan, scheduler, in_service, kept_by, blocked, notes}.

    Nobody else's hold or drain is touched: while there is one the node stays drained (the drain's reason is handed over to the one who still wants it)
    and `kept_by` says who. A person's hold is never released by automation.
    in_service: nothing is in `kept_by`, the registry has the node in a scheduler, and the scheduler shows it as one that takes work. blocked: something
    other than the node's place in the lifecycle keeps it out. Without a scheduler only the registry is asked.
    """
    check_owner(owner)
    row, holds = registry.node(node), registry.holds(node)
    own = _hold_of(holds, owner)
    if own and not own["automation"] and automation:
        raise Refused(
            "a person placed this hold; automation does not release it",
            host=node,
            thing=f"hold {owner}",
            seen=own["reason"],
            next_step=f"ask {own.get('actor') or owner}, or release it as a person (option automation: false)",
            code="human_hold",
        )
    view = _view(scheduler, node)
    others = _reasons_to_stay(row, holds, owner)
    ours = view["drained"] and view["drain_owner"] == owner
    if scheduler and ours and not others:
        if row["state"] not in IN_SCHEDULER_STATES:
            raise Refused(
                "a node in this state takes no work",
                host=node,
                thing="resume",
                wanted=" or ".join(IN_SCHEDULER_STATES),
                seen=row["state"],
                next_step="bring it back through its stages (playbook why says which)",
                code="state_takes_no_work",
            )
        if row.get("lease") != lease:
            raise Refused(
                "the node belongs to somebody else",
                host=node,
                thing="lease",
                wanted=lease,
                seen=row.get("lease") or "none",
                next_step="run the enroll playbook, or move the node from its owner first",
                code="lease_foreign",
            )
    changes, notes = [], []
    if own:
        changes.append(Change(f"hold of {owner}", own["reason"], None))
        if not check:
            registry.release(node, owner, actor, resumed=True)
    if ours and others:
        heir, text = others[0]
        if not check:
            _note_drain(registry, node, heir, actor)
        changes += scheduler.drain(node, text, owner_word(heir), check=check, replaces=owner).changes
    elif ours:
        changes += scheduler.resume(node, owner, check=check).changes
        if not check:
            # Somebody may have placed a hold between our look at the registry and the write: his word counts.
            late = _reasons_to_stay(registry.node(node), registry.holds(node), owner)
            if late:
                _note_drain(registry, node, late[0][0], actor)
                scheduler.drain(node, late[0][1], owner_word(late[0][0]))
                others = late
            else:
                _settle(scheduler, node)
    if not check and changes:
        row, view = registry.node(node), _view(scheduler, node)
    after = view
    if check and ours:
        # What the run would find: a resume ends a drain and the DOWN below it, and nothing else; a drain that is handed over is its heir's.
        after = {**view, "drained": bool(others), "drain_owner": owner_word(others[0][0]) if others else None}
        if not others:
            after.update(base="IDLE" if view["base"] == "DOWN" else view["base"], reason="")
    kept = [f"hold of {name} ({text})" for name, text in others]
    if after["drained"] and after["drain_owner"] not in [owner_word(name) for name, _text in others]:
        kept.append(f"drained by {drained_by(after)}")
    outside = _outside(row, lease, scheduler)
    if scheduler and not after["drained"] and not outside:
        reason = why_no_work(after)
        kept += [f"scheduler: {reason}"] if reason else []
    return {
        "plan": Plan(changes),
        "scheduler": view,
        "in_service": not kept and not outside,
        "kept_by": kept + outside,
        "blocked": bool(kept),
        "notes": notes,
    }


LEASE_HEIR = "enroll"  # takes over the drain of a node whose lease was released: only an enrolment lets it work again


def release_lease(registry, scheduler, node, lease, actor, *, owner=None, consent=None, check=False):
    """Take a scheduler's lease back once it shows that no work runs; returns {plan, scheduler}.

    The node must be drained and idle, or unknown to the scheduler. The drain of `owner` is handed over to the enrolment, which is what brings the node
    back into the scheduler. `scheduler` None (there is no port, or it is gone for good): a person answers for it with the node's serial as `consent`.
    """
    row = registry.node(node)
    view = _view(None, node)
    if row["lease"] == lease and scheduler is None and (consent is None or str(consent).strip() != row["serial"]):
        raise Refused(
            "nobody was asked whether work still runs on the node",
            host=node,
            thing=f"lease {lease}",
            wanted="consent: the chassis serial of exactly this node",
            seen="no consent" if consent in (None, "") else "another text",
            next_step="make sure that no work runs there, then give the serial as consent for this node",
            code="consent_required",
        )
    changes = []
    if row["lease"] == lease and scheduler is not None:
        view = _require_no_work(scheduler, node, lease)
        if owner and view["drain_owner"] == owner:
            text = f"lease released after a drain by {owner}"
            changes += scheduler.drain(node, text, LEASE_HEIR, check=check, replaces=owner).changes
            view = view if check else _require_no_work(scheduler, node, lease)
    changes += registry.release_lease(node, lease, actor, check=check).changes
    return {"plan": Plan(changes), "scheduler": view}


def _require_no_work(scheduler, node, lease):
    view = scheduler.observe(node)
    if view["present"] and (not view["drained"] or view["busy"]):
        jobs = ", ".join(f"job {job['id']} of {job['user']}" for job in view["jobs"])
        raise Refused(
            "work runs on the node, or may begin there",
            host=node,
            thing=f"lease {lease}",
            wanted="a node that is drained and idle, or unknown to the scheduler",
            seen=f"state {view['state']}"
            + (f", {jobs}" if jobs else "")
            + ("" if view["drained"] else ", not drained"),
            next_step="run the drain playbook for it with wait=true release=true",
            code="work_may_run",
        )
    return view


def burn_in_gate(registry, node):
    """Whether the node's burn-in lets it into a scheduler: {passed, outcome, stale, reason, attempt, time, simulated, items}. Reads only.

    It must be the newest load test, passed, with its results on record, and nothing may have been written to the node since: a deployment or a
    software attempt that began later means that another software was tested than the one that would be put to work.
    Results that do not gate decide nothing; the reason says how many of them failed or could not be tested, also where the gate is open.

    `outcome`: how the newest burn-in attempt ended, None without one or before its end. `stale`: the node was written to since. `items`: its results.
    """
    attempts = registry.attempts(node)
    tests = [attempt for attempt in attempts if attempt["stage"] == "burn_in"]
    gate = {"passed": False, "outcome": None, "stale": False, "attempt": None, "time": None, "simulated": False}
    if not tests:
        return {**gate, "reason": "no burn-in is on record", "items": []}
    last = tests[-1]
    later = [
        attempt for attempt in attempts if attempt["id"] > last["id"] and attempt["stage"] in ("deploy", "software")
    ]
    items = registry.evidence(node, attempt=last["id"])
    bad = [item for item in items if gates(item) and item["outcome"] not in (PASS, NOT_APPLICABLE)]
    if last["outcome"] != PASS:
        reason = f"the last burn-in (attempt {last['id']}) ended with {last['outcome'] or 'no outcome yet'}"
    elif later:
        reason = f"stage {later[-1]['stage']} (attempt {later[-1]['id']}) wrote to the node after its burn-in (attempt {last['id']})"
    elif bad:
        reason = f"burn-in attempt {last['id']}: {', '.join(item['check'] + ' ' + item['outcome'] for item in bad)}"
    elif not any(gates(item) and item["outcome"] == PASS for item in items):
        reason = f"burn-in attempt {last['id']} has no results on record"
    else:
        gate["passed"], reason = True, set_aside(items)
    gate.update(outcome=last["outcome"], stale=bool(later), attempt=last["id"], time=last["ended"])
    gate["simulated"] = any(item["simulated"] for item in items)
    return {**gate, "reason": reason, "items": items}


def require_burn_in(registry, node):
    """The passed gate; Refused with the reason otherwise."""
    gate = burn_in_gate(registry, node)
    if not gate["passed"]:
        raise Refused(
            "the node may not take work",
            host=node,
            thing="burn-in",
            wanted="the newest burn-in passed, on the software that is installed now",
            seen=gate["reason"],
            next_step="run the burn_in playbook for this node, then enroll again",
            code="burn_in_missing",
        )
    return gate


JOB_CHECK = "slurm_first_job"
HARDWARE_CHECK = "slurm_hardware"


def recorded(registry, node, check, attempt=None):
    """The newest passed evidence item of a check (of one attempt), or None."""
    found = [
        item for item in registry.evidence(node, attempt=attempt) if item["check"] == check and item["outcome"] == PASS
    ]
    return found[-1] if found else None


def first_job(
    registry,
    scheduler,
    node,
    attempt,
    command,
    actor,
    *,
    gres="",
    expect="",
    seconds=120.0,
    simulated=False,
    check=False,
):
    """Run one job on exactly this node and record what it printed; returns {plan, ran, output}. A job that is on record is not run again."""
    present = recorded(registry, node, JOB_CHECK, attempt)
    if present:
        return {"plan": Plan(), "ran": False, "output": present["value"] or ""}
    plan = Plan([Change("first job", None, " ".join(command))])
    if check:
        return {"plan": plan, "ran": False, "output": ""}
    rc, out, err = scheduler.run_job(node, command, f"aicluster-enroll-{attempt}", gres=gres, seconds=seconds)
    output = out.strip()
    passed = rc == 0 and (not expect or expect in output)
    said = output if rc == 0 else (err.strip().splitlines() or [f"exit status {rc}"])[-1]
    item = {
        "check": JOB_CHECK,
        "outcome": PASS if passed else FAIL,
        "value": said[:2000],
        "limit": expect or None,
        "rule": "exit status 0 and the expected text",
        "source": "srun",
        "simulated": simulated,
        "detail": {"command": " ".join(command), "gres": gres, "exit_status": rc},
    }
    registry.record_evidence(node, attempt, [item], actor)
    if not passed:
        raise Refused(
            "the first job did not do what it should",
            host=node,
            thing="first job",
            wanted=f"exit status 0{', ' + expect if expect else ''}",
            seen=f"exit status {rc}: {said[:300]}",
            code="first_job_failed",
            next_step=f"look at slurmd's log on {node} (journalctl -u slurmd) and run the same srun by hand; the enroll playbook drains the node again",
        )
    return {"plan": plan, "ran": True, "output": output}


def node_entries(registry, *, lease="slurm", memory_percent=97, planned=None):
    """What the registry says should stand in slurm.conf: ([{name, line, gres}], [names that must not be there], [names without hardware on record]).

    A node belongs to Slurm as long as it has Slurm's lease, also while it is drained, failed or under repair: taking the line away would end its jobs.
    `planned`: {name: hardware} of nodes that a run would have given the lease by now and put on record; for check mode, which does neither.
    """
    entries, unknown, planned = [], [], planned or {}
    living = registry.nodes()
    # A retired node may have left its name to the server that took its place.
    gone = {row["name"] for row in registry.nodes(state="retired", only=("state",))}
    remove = sorted(gone - {row["name"] for row in living})
    for row in living:
        seen = planned.get(row["name"])
        if row["lease"] != lease and not seen:
            # Between acceptance and enrolment another controller may just now give the node its lease: such a line is never ours to remove.
            if row["state"] not in ("accepted", "enrolling", "enrolling_failed", "active"):
                remove.append(row["name"])
            continue
        if not seen:
            item = recorded(registry, row["name"], HARDWARE_CHECK)
            if item is None:
                unknown.append(row["name"])
                continue
            seen = item["detail"]
        line, gres = node_lines(
            row["name"],
            row["provision_ip"] or row["ansible_host"] or row["name"],
            seen,
            seen["gpus"],
            seen["gpu_type"],
            memory_percent,
        )
        entries.append({"name": row["name"], "line": line, "gres": gres})
    return entries, remove, unknown


def wait_registered(scheduler, node, seconds, each=None):
    """Wait until slurmd of the node has reported to the controller; Refused when Slurm finds less there than slurm.conf promises."""
    limit = Deadline(
        seconds,
        f"slurmd of {node} known to the Slurm controller",
        host=node,
        next_step=f"journalctl -u slurmd on {node}; same munge key and time on both? TCP between node and controller open both ways?",
    )

    def probe():
        view = scheduler.observe(node)
        if not view["present"]:
            raise NotFound(
                "Slurm does not know this node",
                host=node,
                thing="slurm.conf",
                next_step="run the enroll playbook again",
            )
        if view["invalid"]:
            raise Refused(
                "Slurm found less hardware than slurm.conf promises",
                host=node,
                thing="node registration",
                seen=view["reason"] or view["state"],
                next_step="compare `slurmd -C` on the node with its line in slurm.conf; enroll again to record the present hardware",
                code="registration_invalid",
            )
        # Our drain of a node that was down took the place of "Not responding", without which Slurm leaves it DOWN although it answers; resume ends that.
        up = view["base"] not in ("DOWN", "UNKNOWN") or (view["base"] == "DOWN" and view["drained"])
        return view["registered"] and view["responding"] and up, view

    return limit.wait(probe, scheduler.interval, lambda view: f"state {view['state']}", each)
