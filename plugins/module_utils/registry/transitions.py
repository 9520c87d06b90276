# The lifecycle as data: which state may follow which, who may do it and what the registry checks first; and the stages with their states and deadlines.
# docs/lifecycle.md holds the tables generated from here by `python -m ...registry.transitions` (a test keeps them equal).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import sys

# Who may do a transition. A stage row needs the number of the node's current attempt at that stage, so it happens through begin and finish only.
OPERATOR = "operator"  # a person, or automation that acts for one
DISCOVER = "discover"  # the discovery playbook: it has no attempts, it only records what it read

STATES = {
    "registered": "The registry knows the serial; nothing was verified.",
    "verifying": "The BMC is being logged in to.",
    "manageable": "The BMC answers to the site credential and the hardware was read.",
    "inspecting": "The hardware is being read again.",
    "updating": "Firmware, BIOS or RAID is being brought to the baseline.",
    "available": "Ready for an operating system.",
    "deploying": "The operating system is being written and booted.",
    "deployed": "The operating system runs and the machine is the one the registry means.",
    "configuring": "The software is being verified, and repaired where it differs.",
    "burn_in": "Ready for, or under, the load test that gates production.",
    "accepted": "The load test passed.",
    "enrolling": "The node is being joined to its scheduler.",
    "active": "In service.",
    "draining": "Takes no new work; running work ends.",
    "suspect": "Takes no new work while a doubt is looked into; running work goes on.",
    "quarantined": "Kept out of service for a reason; leaves only through servicing and a new load test.",
    "servicing": "A person or a repair workflow works on it.",
    "cleaning": "The disks are being erased.",
    "retired": "Gone for good; the record and its history stay.",
}
WORKING_STATES = (
    "verifying",
    "inspecting",
    "updating",
    "deploying",
    "configuring",
    "burn_in",
    "enrolling",
    "draining",
    "servicing",
    "cleaning",
)
FAILED_STATES = tuple(f"{state}_failed" for state in WORKING_STATES)
IN_SERVICE = "active"
SCHEDULER_LEASES = ("slurm", "kubernetes")  # who has one of these gives the node work, or believes that it may

# What the registry itself checks before a state is written. A row's `needs` names these and nothing else; what only a person or a playbook can know
# stands in its `meaning`, which promises nothing.
NEEDS = {
    "attempt": "the current attempt of the stage",
    "not_held": "not held",
    "not_in_maintenance": "not in maintenance",
    "retry_failed": "`retry_failed`",
    "no_lease": "no scheduler's lease",
    "consent": "`consent`: the node's serial",
}

# Name: start states -> working state -> end state; `fail` is where a failed attempt leaves the node; the deadline is the default, in seconds.
# silent_s: an owner on another machine cannot be looked at; after so long without a heartbeat it counts as dead. Stages that run one long call on
# the node (roles, load) are silent for all of it.
# needs: what begin checks before a new attempt. Every stage but enroll, which gives the node to its scheduler, takes the machine's work away.
_FREE = ("not_held", "not_in_maintenance")
STAGES = {
    "firmware": {
        "needs": (*_FREE, "no_lease"),
        "start": ("manageable", "available"),
        "working": "updating",
        "end": "available",
        "fail": "updating_failed",
        "deadline_s": 14400,
        "silent_s": 7200,
    },
    "deploy": {
        "needs": (*_FREE, "no_lease"),
        "start": ("available",),
        "working": "deploying",
        "end": "deployed",
        "fail": "deploying_failed",
        "deadline_s": 3600,
        "silent_s": 900,
    },
    "software": {
        "needs": (*_FREE, "no_lease"),
        "start": ("deployed",),
        "working": "configuring",
        "end": "burn_in",
        "fail": "configuring_failed",
        "deadline_s": 1800,
        "silent_s": 1800,
    },
    "burn_in": {
        "needs": (*_FREE, "no_lease"),
        "start": ("burn_in",),
        "working": "burn_in",
        "end": "accepted",
        "fail": "quarantined",
        "deadline_s": 14400,
        "silent_s": 14400,
    },
    "enroll": {
        "needs": _FREE,
        "start": ("accepted",),
        "working": "enrolling",
        "end": "active",
        "fail": "enrolling_failed",
        "deadline_s": 1800,
        "silent_s": 1800,
    },
}


def _move(state, reason):
    return f"ansible NODE -m aicluster.baremetal.node_lifecycle -a 'state=transition to_state={state} reason={reason}'"


_BURN_IN = f"{_move('burn_in', 'repaired')}, then ansible-playbook aicluster.baremetal.burn_in -l NODE"

# What a person does next with a node in a state, for every state: the playbook of the stage, or the command. `next_step` puts the name in.
NEXT_STEP = {
    "registered": "run the discover playbook",
    "verifying": "run the discover playbook: it goes on from here",
    "manageable": "run the discover playbook (or the firmware stage where a baseline is asked for)",
    "inspecting": "run the discover playbook: it goes on from here",
    "updating": "run the firmware playbook again",
    "available": "run the deploy playbook",
    "deploying": "run the deploy playbook again",
    "deployed": "run the software playbook",
    "configuring": "run the software playbook again",
    "burn_in": "run the burn_in playbook",
    "accepted": "run the enroll playbook",
    "enrolling": "run the enroll playbook again",
    "active": "none: it is in service",
    "draining": "wait for the running work to end and release the lease (the drain playbook with wait=true release=true), "
    f"then move it on: {_move('servicing', 'drained')} (or to_state=manageable); to_state=active calls the drain off",
    "suspect": f"look at the last evidence, then: {_move('active', 'cleared')}, or the same with to_state=quarantined",
    "quarantined": f"{_move('servicing', 'repair')}, repair it, then {_BURN_IN}",
    "servicing": f"finish the repair, then {_BURN_IN}",
    "cleaning": f"wait for the erase, then {_move('available', 'erased')}; when nobody erases it any more, the same with to_state=cleaning_failed",
    "retired": "none: a retired node does not come back under this record",
    # The BMC's evidence below the state says what is wrong with it; discovery moves the node on by itself once it gets in.
    "verifying_failed": "remove the cause that the check bmc_access names, then run the discover playbook again",
    "inspecting_failed": "remove the cause that the check bmc_access names, then run the discover playbook again",
    **{
        f"{row['working']}_failed": f"remove the cause, then run the {stage} playbook with -e {stage}_retry_failed=true"
        for stage, row in STAGES.items()
    },
    **{
        f"{state}_failed": f"remove the cause, then {_move(state, 'retry')}, or the same with to_state=manageable to start over"
        for state in ("draining", "servicing", "cleaning")
    },
}


# Into these states an operator's row gives the machine away from its scheduler, and in these the record or the data of the node ends.
_AWAY = ("manageable", "servicing", "burn_in", "cleaning", "retired")
_FOR_GOOD = ("cleaning", "retired")


def _rows():
    """Yield (from, to, who, meaning, needs)."""
    for old, new, who, meaning in _discover_rows():
        yield old, new, who, meaning, ()
    for stage, row in STAGES.items():
        working = row["working"]
        for start in row["start"]:
            if start != working:
                yield start, working, stage, "a new attempt begins", ("attempt", *row["needs"])
        yield working, row["end"], stage, "the attempt passed", ("attempt",)
        if row["fail"] != f"{working}_failed":
            yield working, row["fail"], stage, "the attempt failed", ("attempt",)
        yield working, f"{working}_failed", stage, "the attempt failed, or could not test", ("attempt",)
        if row["fail"] != "quarantined":
            yield working, "quarantined", stage, "the attempt failed and asks for it (`to_state`)", ("attempt",)
        yield f"{working}_failed", working, stage, "a new attempt begins", ("attempt", "retry_failed", *row["needs"])
    for old, new, meaning in _operator_rows():
        needs = ("no_lease",) if new in _AWAY else ()
        yield old, new, OPERATOR, meaning, (*needs, "consent") if new in _FOR_GOOD else needs


def _discover_rows():
    yield "registered", "verifying", DISCOVER, "a BMC address is known"
    yield "registered", "manageable", DISCOVER, "BMC login and inventory succeeded in one pass"
    yield "verifying", "manageable", DISCOVER, "BMC login with the site credential succeeded"
    yield "verifying", "verifying_failed", DISCOVER, "BMC login failed"
    yield "manageable", "inspecting", DISCOVER, ""
    yield "inspecting", "manageable", DISCOVER, "the hardware was read"
    yield "inspecting", "inspecting_failed", DISCOVER, "the hardware could not be read"
    yield "manageable", "available", DISCOVER, "no baseline is asked for, or it is met"


def _operator_rows():
    for state in WORKING_STATES:
        if not any(row["working"] == state for row in STAGES.values()):
            yield f"{state}_failed", state, "retry"
        yield f"{state}_failed", "quarantined", ""
        yield f"{state}_failed", "manageable", "the cause is removed; start over"
    yield "active", "draining", ""
    yield "active", "suspect", "a doubt with evidence"
    yield "suspect", "active", "newer evidence that clears the doubt"
    yield "suspect", "quarantined", "the doubt is confirmed"
    yield "draining", "manageable", "no work runs"
    yield "draining", "cleaning", "no work runs"
    yield "draining", "servicing", "no work runs"
    yield "draining", "active", "the drain is called off"
    yield "draining", "draining_failed", ""
    yield "quarantined", "servicing", ""
    yield "servicing", "burn_in", "the repair is done; a loaded test decides"
    yield "servicing", "manageable", "the machine must be deployed again"
    yield "servicing", "quarantined", ""
    yield "servicing", "servicing_failed", ""
    yield "deployed", "cleaning", ""
    yield "accepted", "cleaning", ""
    yield "cleaning", "available", "the disks read back erased"
    yield "cleaning", "cleaning_failed", ""
    for state in (*STATES, *FAILED_STATES):
        if state != "retired":
            yield state, "retired", ""


TRANSITIONS = tuple(dict(zip(("from", "to", "who", "meaning", "needs"), row)) for row in _rows())
_ALLOWED = {(row["from"], row["to"]): row for row in TRANSITIONS}


def find(old, new):
    """The row for a transition, or None when it is not in the table."""
    return _ALLOWED.get((old, new))


def next_step(state, name):
    """What a person does next with the node of this name."""
    return NEXT_STEP[state].replace("NODE", name)


def step_without_lease(name):
    """What a person does next with an active node whose lease was released."""
    return (
        f"to keep it: ansible {name} -m aicluster.baremetal.lease -a lease=slurm, then the resume playbook with owner=enroll and with the owner of each hold; "
        f"to go on without it: {_move('draining', 'released').replace('NODE', name)}, then the same with to_state=manageable or servicing"
    )


def targets(old):
    """Sorted names of the states that may follow `old`."""
    return sorted(new for (start, new) in _ALLOWED if start == old)


def is_state(name):
    return name in STATES or name in FAILED_STATES


def stage_of(state):
    """The stage whose working state this is, or None."""
    return next((stage for stage, row in STAGES.items() if row["working"] == state), None)


def as_markdown():
    """The tables of docs/lifecycle.md. The rows into `retired` are one line: they are the same for every state."""
    lines = ["| state | meaning |", "|---|---|"]
    lines += [f"| `{state}` | {meaning} |" for state, meaning in STATES.items()]
    lines += [
        "| `<working state>_failed` | An attempt ended without success; the reason and the last step are kept. |",
        "",
        "| stage | starts from | works in | passes to | fails to | default deadline | silence of an owner elsewhere |",
        "|---|---|---|---|---|---|---|",
    ]
    for stage, row in STAGES.items():
        start = ", ".join(f"`{state}`" for state in row["start"])
        lines.append(
            f"| {stage} | {start} | `{row['working']}` | `{row['end']}` | `{row['fail']}` | {row['deadline_s']} s | {row['silent_s']} s |"
        )
    lines += ["", "| from | to | who | meaning | what the registry checks |", "|---|---|---|---|---|"]
    rows = [row for row in TRANSITIONS if row["to"] != "retired"]
    rows += [{**row, "from": "any state"} for row in TRANSITIONS if row["to"] == "retired"][:1]
    for row in rows:
        old = row["from"] if " " in row["from"] else f"`{row['from']}`"
        checked = "; ".join(NEEDS[need] for need in row["needs"])
        lines.append(f"| {old} | `{row['to']}` | {row['who']} | {row['meaning']} | {checked} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
