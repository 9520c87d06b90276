# The BMC work of the discover stage for thousands of BMCs: the same visits and rotations, run by the fleet's engine.
#
# What the engine adds to threads: nothing hangs (a BMC that does not end at its deadline is cut off and given up), an interrupted run deletes its
# sessions, a line says how far it is, and requests go over the fleet's carrier, which costs a fifth of the CPU time.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools

from ..bmc import discover
from ..bmc.wire import Wire
from .engine import GRACE_S, Engine, Job, Watch
from .pace import IPMI_AT_ONCE, Pacer
from .progress import Progress

# Seconds for one BMC: for each credential that is tried, and on top of them.
TRY_S = 120.0
MORE_S = 180.0


class Here(discover.Here):
    """discover.Here over the engine. `tell` writes the line of progress, every `interval` seconds."""

    def __init__(self, concurrency=200, tell=None, interval=10.0, grace_s=GRACE_S, limit_s=None):
        super().__init__(concurrency)
        self._tell, self._interval, self._grace_s, self._limit_s = tell, interval, grace_s, limit_s

    def _each(self, work, targets):
        watch, answers = Watch(), {}
        carrier = functools.partial(Wire, watch=watch)
        jobs, places = [], []
        for target in targets:
            place = f"{target['address']} port {target['port']}"
            places.append(place)
            limit = self._limit_s or TRY_S * len(target.get("candidates") or [None]) + MORE_S
            over_ipmi = target["protocol"] == "ipmi" or target.get("also_ipmi")
            jobs.append(Job(place, target, key=place, groups=[(0, "ipmi")] if over_ipmi else (), limit=limit))

        def call(job, _seconds, _before_write):
            answer = discover.guarded(work, {**job.params, "transport": carrier})
            return {"answer": answer, "failed": "error" in answer, "error": answer.get("error")}

        def told(place, result):
            if "answer" not in result:  # the engine's own word: stuck, stopped
                result["answer"] = {"error": {**result["error"], "text": result["msg"]}}
            answers[place] = result["answer"]

        Engine(
            call,
            concurrency=self.concurrency,
            pacers=[Pacer(IPMI_AT_ONCE, 0)],
            progress=Progress(
                f"discover ({work.__name__})", len(jobs), self._interval if self._tell else 0, self._tell
            ),
            watch=watch,
            grace_s=self._grace_s,
        ).run(jobs, told)
        return [answers[place] for place in places]
