# The one line that says how far a fan-out is.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time

from ..core.units import format_seconds


class Progress:
    """Writes a line at most every `interval` seconds (0: never) through `write`."""

    def __init__(self, name, total, interval, write, clock=time.monotonic):
        self.name, self.total, self.interval = name, total, interval
        self._write, self._clock = write, clock
        self._start = self._last = clock()
        self.done = self.failed = self.unreachable = 0
        self._recent = [(self._start, 0)]

    def told(self, failed, unreachable):
        self.done += 1
        self.failed += bool(failed and not unreachable)
        self.unreachable += bool(unreachable)

    def tick(self):
        """Called often; writes when it is time."""
        now = self._clock()
        if self.interval and now - self._last >= self.interval and self.done < self.total:
            self._last = now
            self._recent = [*self._recent[-3:], (now, self.done)]
            self._write(self.line(now))

    def line(self, now=None):
        now = self._clock() if now is None else now
        text = f"fleet {self.name}: {self.done} of {self.total} ({100 * self.done // max(1, self.total)} %)"
        if self.failed:
            text += f", {self.failed} failed"
        if self.unreachable:
            text += f", {self.unreachable} unreachable"
        # The pace of the last few lines: what was quick at first (nodes that need nothing) says little about the rest.
        then, before = self._recent[0]
        pace = (self.done - before) / (now - then) if now > then else 0
        if pace > 0:
            text += f", {pace:.3g} a second, about {format_seconds((self.total - self.done) / pace)} left"
        return text


class Alive(Progress):
    """The line of progress, and beside it a call of `beat` every `beat_s` seconds."""

    def __init__(self, beat, beat_s, *line):
        super().__init__(*line)
        self._beat, self._beat_s = beat, beat_s
        self._beaten = self._clock()

    def tick(self):
        super().tick()
        now = self._clock()
        if now - self._beaten >= self._beat_s:
            self._beaten = now
            self._beat()
