# Waiting by deadline: every wait names the thing awaited, its limit and what was last seen.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time

from .errors import DeadlineExceeded
from .units import format_seconds


class Deadline:
    """`seconds` from now for `thing` ("gpu01 powered on"). One operation passes one Deadline down to all its parts."""

    def __init__(self, seconds, thing, host=None, next_step=None, clock=time.monotonic, sleep=time.sleep):
        self.seconds, self.thing, self.host, self.next_step = float(seconds), thing, host, next_step
        self._clock, self._sleep = clock, sleep
        self._end = clock() + self.seconds

    def remaining(self):
        """Seconds left, never negative."""
        return max(0.0, self._end - self._clock())

    def expired(self):
        return self.remaining() <= 0

    def exceeded(self, seen=None):
        """The error to raise (not raised here)."""
        return DeadlineExceeded(
            f"not reached within {format_seconds(self.seconds)}",
            host=self.host,
            thing=self.thing,
            wanted=self.thing,
            seen="nothing" if seen is None else seen,
            next_step=self.next_step,
        )

    def check(self, seen=None):
        """Raise DeadlineExceeded when the time is over."""
        if self.expired():
            raise self.exceeded(seen)

    def wait(self, probe, interval=1.0, describe=str, each=None):
        """Call `probe` until it returns (True, value); returns the value.

        `probe` returns (done, seen); `describe` turns the last `seen` into words; `each` is called after every round (a heartbeat).
        The probe is called once more after the last sleep, so that a thing that comes at the last moment is not missed.
        """
        while True:
            done, seen = probe()
            if done:
                return seen
            if each:
                each()
            if self.expired():
                raise self.exceeded(describe(seen))
            self._sleep(min(interval, max(0.01, self.remaining())))
