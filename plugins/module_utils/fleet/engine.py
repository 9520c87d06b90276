# The fan-out itself: jobs on worker threads, one thread (the caller's) that decides what starts next. Knows nothing of BMCs but that a job has a connection.
#
# Threads and not asyncio: the client blocks, and asyncio gained nothing when both were measured. All decisions (pacing, breaker, deadlines) are made in
# the caller's thread between two events, so there are no locks. Every job is told exactly once, whatever happens to its thread.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import logging
import os
import queue
import signal
import threading
import time
from collections import deque

from ..core.errors import BaremetalError
from ..core.units import format_seconds
from .breaker import Breaker
from .progress import Progress

LOG = logging.getLogger(__name__)
TICK_S = 0.5
# So many begin; the others follow as long as this process leaves a core idle. On one that is busy, more threads only wait for each other and take memory:
# 200 at once cost a tenth more CPU time for each BMC that answers at once than 16 do.
FIRST = 16
GROW_S = 0.1
BUSY = 0.7
# How long after its own deadline a job may take to notice; then its connections are cut, and after as long again it is given up.
GRACE_S = 15.0
# Seconds that work under way gets to delete its sessions when the run is interrupted.
LEAVE_S = 10.0


class Stopped(BaremetalError):
    """The run was stopped while this was under way."""

    code = "stopped"


class NotTried(BaremetalError):
    """The run was stopped before this node's turn: nothing was sent."""

    code = "not_tried"


class Job:
    """One operation on one BMC.

    `key`: which BMC; jobs with the same key run one after the other. `groups`: pairs (number of the pacer, name of the group). `fence` is called before
    each write. `credential`: a name for the credential, for the breaker. `limit`: the operation's own deadline in seconds. `params` is for the caller.
    """

    __slots__ = (
        "cut_at",
        "credential",
        "due",
        "fence",
        "given_up",
        "groups",
        "host",
        "key",
        "limit",
        "params",
        "told",
        "wires",
    )

    def __init__(self, host, params=None, *, key=None, groups=(), fence=None, credential=None, limit=300.0):
        self.host, self.params, self.key, self.groups = host, params, key, tuple(groups)
        self.fence, self.credential, self.limit = fence, credential, float(limit)
        self.wires, self.due, self.cut_at, self.told = [], None, None, False
        self.given_up = False


class Watch:
    """Which connections belong to which job, so that a job can be cut off. Given to bmc.wire.Wire."""

    def __init__(self):
        self._local = threading.local()
        self.stopping = False

    def enter(self, job):
        self._local.job = job

    def leave(self):
        self._local.job = None

    def opened(self, wire):
        job = getattr(self._local, "job", None)
        if job is not None:
            job.wires.append(wire)

    def closed(self, wire):
        job = getattr(self._local, "job", None)
        if job is not None and wire in job.wires:
            job.wires.remove(wire)

    def check(self, method, path=""):
        """Called before each request. Once the job is cut only its sessions may still be deleted."""
        job = getattr(self._local, "job", None)
        if (self.stopping or (job is not None and job.cut_at is not None)) and not (
            method == "DELETE" and "/Sessions/" in path
        ):
            raise Stopped(
                "the run was stopped before this was done",
                host=job.host if job else None,
                thing=f"{method} {path}",
                next_step="run again: the present state is read first",
            )

    @staticmethod
    def cut(job):
        for wire in list(job.wires):
            wire.cut()


class Engine:
    """`call(job, seconds, before_write)` does one job within `seconds` and returns its result, a dict (`failed` and `error` as BaremetalError.as_result).

    It calls `before_write()` before each write, and `before_write(paced=False)` before one that draws no power and so does not count for the pacers.

    `deadline_s` bounds the whole run. `canary`: so many jobs run first, and the rest only when the breaker has nothing against it.
    """

    def __init__(
        self,
        call,
        *,
        concurrency=200,
        pacers=(),
        breaker=None,
        progress=None,
        deadline_s=None,
        canary=0,
        watch=None,
        grace_s=GRACE_S,
        clock=time.monotonic,
    ):
        self._call, self._concurrency, self._pacers = call, max(1, int(concurrency)), list(pacers)
        self._breaker = breaker
        self._progress = progress
        self._deadline_s, self._canary, self._grace_s, self._clock = deadline_s, int(canary), grace_s, clock
        self.watch = watch or Watch()
        self._todo, self._events = queue.SimpleQueue(), queue.SimpleQueue()
        self._lanes, self._later, self._running = {}, {}, {}
        self._threads = self._count = 0
        self._at_once = min(FIRST, self._concurrency)
        self._grown = None
        self._end = self._why_stopped = None
        self.most_running = 0

    # ---- the caller's thread --------------------------------------------------------------------------------------------------------------
    def run(self, jobs, told):
        """Run all jobs; `told(host, result)` is called here for each of them, once, in the order in which they end."""
        jobs = list(jobs)
        self._told = told
        self._breaker = self._breaker or Breaker(len(jobs))
        self._progress = self._progress or Progress("run", len(jobs), 0, print)
        if self._deadline_s is not None:
            self._end = self._clock() + self._deadline_s
        old = self._guard_signals()
        try:
            first = jobs[: self._canary] if 0 < self._canary < len(jobs) else jobs
            self._wave(first)
            rest = jobs[len(first) :]
            if rest:
                self._breaker.check(len(first), "nodes tried first")
                self._wave(rest)
        except BaseException as error:
            for number in old:
                signal.signal(number, signal.SIG_IGN)
            self._leave()
            self._restore_signals(old)
            if isinstance(error, _Interrupted):
                os.kill(os.getpid(), error.number)  # now to whom it was meant for; most do not come back from there
            raise
        finally:
            for _unused in range(self._threads):
                self._todo.put(None)
            self._restore_signals(old)

    def _wave(self, jobs):
        self._count = len(jobs)
        self._grown = (self._clock(), time.process_time())
        seen = set()
        for job in jobs:
            if job.key is not None and job.key in seen:
                self._later.setdefault(job.key, deque()).append(job)
            else:
                seen.add(job.key)
                self._lanes.setdefault(job.groups, deque()).append(job)
        next_look = 0.0
        while self._count:
            now = self._clock()
            wait = self._dispatch(now)
            if self._count:
                self._hear(min(wait, TICK_S))
            if now >= next_look:
                next_look = now + TICK_S
                self._look(now)
                self._progress.tick()

    def _dispatch(self, now):
        """Start what may start; returns the seconds after which there may be more to start."""
        reason = self._breaker.reason or self._why_stopped
        if reason is None and self._end is not None and now >= self._end:
            reason = self._why_stopped = f"the {format_seconds(self._deadline_s)} for the whole run are over"
        if reason is not None:
            self._drop_all(reason)
            return TICK_S
        wait = TICK_S
        if self._lanes and self._at_once < self._concurrency:
            self._grow(now)
        blocked = 0
        while self._lanes and len(self._running) < self._at_once and blocked < len(self._lanes):
            groups, lane = next(iter(self._lanes.items()))
            times = [self._pacers[number].free_at((number, name), now) for number, name in groups]
            if any(time_ is None or time_ > now for time_ in times):
                if None not in times:
                    wait = min(wait, max(times) - now)
                blocked += 1
                self._lanes[groups] = self._lanes.pop(groups)  # to the end: the next lane has its turn
                continue
            blocked = 0
            job = lane.popleft()
            del self._lanes[groups]
            if lane:
                self._lanes[groups] = lane
            bad = self._breaker.bad_credentials.get(job.credential)
            if bad:
                self._finish(job, self._not_tried(job, bad), tried=False)
                continue
            self._start(job, now)
        if self._lanes and self._at_once < self._concurrency:
            wait = min(wait, GROW_S)
        return max(0.01, wait)

    def _grow(self, now):
        """Allow twice as many at once, unless this process is busy with those that there are."""
        since, before = self._grown
        if now - since >= GROW_S:
            spent = time.process_time()
            if spent - before < BUSY * (now - since):
                self._at_once = min(self._concurrency, 2 * self._at_once)
            self._grown = (now, spent)

    def _start(self, job, now):
        for number, name in job.groups:
            self._pacers[number].start((number, name), job)
        seconds = job.limit if self._end is None else max(1.0, min(job.limit, self._end - now))
        job.due = now + seconds + self._grace_s
        self._running[id(job)] = job
        self.most_running = max(self.most_running, len(self._running))
        if self._threads < len(self._running):
            self._threads += 1
            threading.Thread(target=self._work, name=f"fleet-{self._threads}", daemon=True).start()
        self._todo.put((job, seconds))

    def _hear(self, wait):
        """Wait for an event and handle all that are there."""
        try:
            what, job, value = self._events.get(timeout=wait)
            while True:
                if what == "wrote":
                    for number, name in job.groups:
                        self._pacers[number].wrote((number, name), job, value)
                else:
                    self._ended(job, value)
                what, job, value = self._events.get_nowait()
        except queue.Empty:
            return

    def _ended(self, job, result):
        if job.told:
            return  # it was given up, and has ended after all
        self._running.pop(id(job), None)
        for number, name in job.groups:
            self._pacers[number].end((number, name), job)
        self._finish(job, result)

    def _finish(self, job, result, tried=True):
        job.told = True
        job.params = job.fence = None  # of thousands of jobs that are done nothing should stay
        self._count -= 1
        failed = bool(result.get("failed"))
        code = (result.get("error") or {}).get("code")
        if tried:
            self._breaker.told(failed, code, job.credential)
        self._progress.told(failed, code == "unreachable")
        self._next_of(job)
        self._told(job.host, result)

    def _next_of(self, job):
        later = self._later.get(job.key) if job.key is not None else None
        if later:
            following = later.popleft()
            self._lanes.setdefault(following.groups, deque()).appendleft(following)
        elif later is not None:
            del self._later[job.key]

    def _not_tried(self, job, reason):
        return NotTried(
            "not tried, the run was stopped",
            host=job.host,
            thing="fleet",
            seen=reason,
            next_step="find out why, then run again",
        ).as_result()

    def _drop_all(self, reason):
        while self._lanes:
            _groups, lane = self._lanes.popitem()
            for job in lane:
                self._finish(job, self._not_tried(job, reason), tried=False)

    def _look(self, now):
        """Cut what is over its time, and give up what does not even notice that."""
        for job in list(self._running.values()):
            if job.cut_at is None and now > job.due:
                job.cut_at = now
                self.watch.cut(job)
            elif job.cut_at is not None and now > job.cut_at + self._grace_s:
                self._threads -= 1  # that thread may never come back
                job.given_up = True
                error = Stopped(
                    "the work with this BMC did not end at its deadline and was given up",
                    host=job.host,
                    wanted=f"an end within {format_seconds(job.limit)}",
                    next_step="look at the BMC by hand",
                    code="stuck",
                )
                self._ended(job, error.as_result())

    # ---- being stopped ------------------------------------------------------------------------------------------------------------------------
    def _leave(self):
        """The run is interrupted: nothing new; what is under way ends at its next request and deletes its sessions."""
        self.watch.stopping = True
        for job in list(self._running.values()):
            self.watch.cut(job)
        end = time.monotonic() + LEAVE_S
        while self._running and time.monotonic() < end:
            try:
                what, job, _value = self._events.get(timeout=0.2)
            except queue.Empty:
                continue
            if what == "ended":
                self._running.pop(id(job), None)

    @staticmethod
    def _guard_signals():
        """While the run is on, signals that end the process first let it give back its sessions. {number: the handler before}."""
        old = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                old[number] = signal.signal(number, _interrupted)
        return old

    @staticmethod
    def _restore_signals(old):
        for number, handler in old.items():
            signal.signal(number, handler)

    # ---- the workers --------------------------------------------------------------------------------------------------------------------------
    def _work(self):
        while True:
            item = self._todo.get()
            if item is None:
                return
            job, seconds = item
            self.watch.enter(job)
            try:
                result = self._call(job, seconds, lambda paced=True, job=job: self._before_write(job, paced))
            except BaremetalError as error:
                result = error.with_host(job.host).as_result()
            except Exception as error:  # one node's surprise must not end the run for all the others
                LOG.exception("%s: unexpected", job.host)
                result = BaremetalError(
                    f"an unexpected error ({type(error).__name__}: {error})",
                    host=job.host,
                    next_step="this is a fault of the collection: report it",
                    code="unexpected",
                ).as_result()
            finally:
                self.watch.leave()
            self._events.put(("ended", job, result))
            if job.given_up:  # and not `told`: a short job is told before this line is reached
                return  # another thread has taken this one's place

    def _before_write(self, job, paced=True):
        self.watch.check("a write")
        if job.fence is not None:
            job.fence()
        if paced and job.groups:
            self._events.put(("wrote", job, self._clock()))


class _Interrupted(BaseException):
    def __init__(self, number):
        super().__init__(number)
        self.number = number


def _interrupted(number, frame):
    raise _Interrupted(number)
