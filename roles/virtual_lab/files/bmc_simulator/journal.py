# Append-only JSON lines files of a node (requests, events) with the newest entries in memory.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import collections
import datetime
import json
import pathlib
from typing import Any


def now_text(seconds: float | None = None) -> str:
    """UTC, ISO 8601 with milliseconds and Z."""
    moment = (
        datetime.datetime.now(datetime.timezone.utc)
        if seconds is None
        else datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    )
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Journal:
    """One file; a path of None keeps the entries in memory only."""

    def __init__(self, path: pathlib.Path | None, keep: int = 500):
        self.path = path
        self.recent: collections.deque[dict[str, Any]] = collections.deque(maxlen=keep)

    def append(self, **entry: Any) -> None:
        entry = {"time": now_text(), **entry}
        self.recent.append(entry)
        if self.path is not None:
            # one write of one line, so that a reader never sees half an entry
            with self.path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(entry) + "\n")
