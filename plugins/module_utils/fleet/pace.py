# Pacing: how many nodes of one group (a rack, a PDU) may be switched within some seconds, so that a row of racks does not draw its inrush current at once.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from collections import deque

# Members under way that talk IPMI: each IPMI session is a process of its own.
IPMI_AT_ONCE = 32


class Pacer:
    """At most `batch` writes to the members of one group within any `pause` seconds, and at most `batch` members under way that may still write.

    A member takes a place when it starts. It gives the place back when it ends without a write (it was as wanted already), else `pause` seconds after its
    write; a long wait for the power to come after the write holds nobody up. With `pause` 0 it is a plain limit of members under way.
    """

    def __init__(self, batch, pause):
        self.batch, self.pause = int(batch), float(pause)
        self._held = {}  # group -> the members under way that have not written yet
        self._until = {}  # group -> the times at which places come free

    def free_at(self, group, now):
        """`now` when there is a place, a later time when one comes free by itself, None when it depends on a member under way."""
        until = self._until.get(group)
        while until and until[0] <= now:
            until.popleft()
        if len(self._held.get(group, ())) + len(until or ()) < self.batch:
            return now
        return until[0] if until else None

    def start(self, group, member):
        self._held.setdefault(group, set()).add(member)

    def wrote(self, group, member, now):
        """The member is about to write. With `pause` 0 the place stays taken until it ends."""
        held = self._held.get(group, ())
        if self.pause and member in held:
            held.discard(member)
            self._until.setdefault(group, deque()).append(now + self.pause)

    def end(self, group, member):
        self._held.get(group, set()).discard(member)
