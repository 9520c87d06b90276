# The scheduler port: what drain and resume mean for every scheduler, and the rules that protect other people's drains.
#
# A drain of ours carries its owner in the reason ("aicluster:<owner>: <text>"). Whatever does not, belongs to somebody else and is never undone here.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ..core.deadline import Deadline
from ..core.errors import InvalidInput, NotFound, Refused
from ..core.plan import Change, Plan

PREFIX = "aicluster:"
_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_REASON = re.compile(r"^aicluster:([A-Za-z0-9][A-Za-z0-9_.@-]{0,63}): ?(.*)$", re.DOTALL)
REASON_LIMIT = 200  # characters; longer ones are cut so that the tools that show reasons in columns stay readable


def check_owner(owner):
    """The owner word as it may stand in a reason; InvalidInput otherwise (a colon or a space would make the reason unreadable later)."""
    if not isinstance(owner, str) or not _OWNER.fullmatch(owner):
        raise InvalidInput(
            "not a valid drain owner",
            thing="owner",
            wanted="letters, digits, '_', '.', '@', '-', at most 64, starting with a letter or digit",
            seen=repr(owner),
            next_step="give one word such as enroll, health or a user name",
        )
    return owner


def drain_reason(owner, text):
    """The reason that is written to the scheduler: one line, no double quotes, the owner in front."""
    line = " ".join(str(text).replace('"', "'").split())
    return f"{PREFIX}{check_owner(owner)}: {line}"[:REASON_LIMIT].rstrip()


def split_reason(reason):
    """(owner, text): owner is None when the reason was not written by us."""
    match = _REASON.match(reason or "")
    return (match.group(1), match.group(2)) if match else (None, reason or "")


def drained_by(view):
    """In words, who holds the drain that `view` (from observe) shows."""
    if view["drain_owner"] and not view["drain_owner"].startswith("user:"):
        return f"automation '{view['drain_owner']}' ({view['reason']})"
    who = (view["drain_owner"] or "user:unknown").split(":", 1)[1]
    return f"{who}, outside of this collection ({view['reason'] or 'no reason given'})"


# Base states in which a scheduler gives a node work, and flags with which it gives none all the same. A drain is looked at apart, by its owner.
WORKING_BASES = ("IDLE", "ALLOCATED", "MIXED")
_NO_WORK_FLAGS = ("FAIL", "INVALID_REG", "MAINTENANCE", "NOT_RESPONDING", "POWERING_DOWN", "REBOOT_ISSUED")


def why_no_work(view):
    """Why the node that `view` shows would get no work, in words; "" for one that gets it. Pure."""
    if not view["present"]:
        return "it does not know this node"
    reason = f" ({view['reason']})" if view["reason"] else ""
    if view["drained"]:
        return f"drained by {drained_by(view)}"
    flags = [flag for flag in view["flags"] if flag in _NO_WORK_FLAGS]
    if view["base"] not in WORKING_BASES or flags:
        return f"state {'+'.join([view['base'], *flags])}{reason}"
    return ""


def plan_drain(view, node, reason, owner, replaces=None):
    """What to change so that `node` is drained. Pure.

    A drain that is already there stays as it is, whoever set it: writing our reason over it would make it ours, and a later resume would undo
    what an admin wanted. Only the same owner's reason is refreshed, or the one of `replaces` (another automation handing over its drain).
    """
    wanted = drain_reason(owner, reason)
    if not view["present"]:
        raise NotFound(
            "the scheduler does not know this node",
            host=node,
            thing="drain",
            next_step="enrol it first, or check that its name in the scheduler is its name in the registry",
        )
    if not view["drained"]:
        return Plan([Change("drained", False, True), Change("reason", view["reason"] or None, wanted)])
    if view["drain_owner"] in (owner, replaces):
        return Plan([Change("reason", view["reason"], wanted)])
    return Plan()


def plan_resume(view, node, owner):
    """What to change so that `node` takes work again; Refused when the drain is not `owner`'s. Pure."""
    check_owner(owner)
    if not view["present"]:
        raise NotFound("the scheduler does not know this node", host=node, thing="resume", next_step="enrol it first")
    if not view["drained"]:
        return Plan()
    if view["drain_owner"] != owner:
        raise Refused(
            "the node was drained by somebody else and stays drained",
            host=node,
            thing="resume",
            wanted=f"a drain of '{owner}'",
            seen=drained_by(view),
            next_step="ask whoever drained it to resume it; automation resumes only its own drains",
            code="foreign_drain",
        )
    return Plan([Change("drained", True, False), Change("reason", view["reason"], None)])


class SchedulerPort:
    """One scheduler. Subclasses give `observe`, `_write_drain` and `_write_resume`; the rules are here, once.

    `before_write` is called immediately before each write (the fencing check of an attempt); what it raises stops the write.
    """

    def __init__(self, before_write=None, verify_seconds=30.0, interval=1.0):
        self.before_write, self.verify_seconds, self.interval = before_write, verify_seconds, interval

    def observe(self, node):
        """{present, state, base, flags, drained, drain_owner, reason, jobs, ...} of one node.

        `base` and `flags` are words as Slurm has them (see WORKING_BASES); `state` is both in one.
        `drain_owner` is None (not drained), the owner word of a drain of ours, or "user:<name>" for anybody else's;
        `jobs` is a list of {id, name, user, state} that use the node.
        """
        raise NotImplementedError

    def _write_drain(self, node, reason):
        raise NotImplementedError

    def _write_resume(self, node):
        raise NotImplementedError

    def drain(self, node, reason, owner, check=False, replaces=None):
        """Drain `node`; returns the Plan, after the drain was read back. Running jobs go on."""
        before = self.observe(node)
        plan = plan_drain(before, node, reason, owner, replaces)
        if plan and not check:
            self._guard()
            self._write_drain(node, drain_reason(owner, reason))
            # Where only the reason was written, the drain itself proves nothing. Another reason than ours is that of somebody who came right after us.
            told = before["reason"] if before["drained"] else None
            self._verify(node, "drained", lambda view: view["drained"] and view["reason"] != told)
        return plan

    def resume(self, node, owner, check=False):
        """Undo the drain of `owner`; returns the Plan, after it was read back. Raises Refused for anybody else's drain."""
        plan = plan_resume(self.observe(node), node, owner)
        if plan and not check:
            self._guard()
            self._write_resume(node)
            self._verify(node, "resumed", lambda view: not view["drained"])
        return plan

    def idle(self, node):
        """True when no job uses the node any more (also when the scheduler does not know it)."""
        view = self.observe(node)
        return not view["present"] or not view["busy"]

    def wait_idle(self, node, seconds, each=None):
        """Wait until the node is drained and idle; DeadlineExceeded names the jobs that were left."""
        limit = Deadline(
            seconds,
            f"no job on {node}",
            host=node,
            next_step="wait longer (option deadline), or ask the owners of these jobs; the drain stays in place",
        )

        def probe():
            view = self.observe(node)
            return (not view["present"] or (view["drained"] and not view["busy"])), view

        def describe(view):
            if not view["drained"]:
                return "the drain was undone by somebody else"
            jobs = ", ".join(f"{job['id']} of {job['user']} ({job['state']})" for job in view["jobs"])
            return f"jobs {jobs}" if jobs else f"state {view['state']}"

        return limit.wait(probe, self.interval, describe, each)

    def _guard(self):
        if self.before_write:
            self.before_write()

    def _verify(self, node, word, good):
        limit = Deadline(
            self.verify_seconds,
            f"{node} {word} in the scheduler",
            host=node,
            next_step="look at the scheduler controller's log",
        )

        def probe():
            view = self.observe(node)
            return good(view), view

        return limit.wait(
            probe, self.interval, lambda view: f"state {view['state']}, reason {view['reason'] or 'none'}"
        )
