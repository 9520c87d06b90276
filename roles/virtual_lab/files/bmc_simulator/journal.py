# Append-only JSON lines files of a node (requests, events) with the newest entries in memory.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import collections
import datetime
import json
import pathlib
import re
from typing import Any


def now_text(seconds: float | None = None) -> str:
    """UTC, ISO 8601 with milliseconds and Z."""
    moment = (
        datetime.datetime.now(datetime.timezone.utc)
        if seconds is None
        else datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    )
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_SECRETS = {"password", "oldpassword", "newpassword", "token", "privatekey", "keystring", "sharedsecret"}


def without_secrets(value: Any) -> Any:
    """A body as a journal may keep it."""
    if isinstance(value, dict):
        return {
            key: "***" if key.lower() in _SECRETS and item is not None else without_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, str) and "PRIVATE KEY-----" in value:
        # key and certificate in one text
        return re.sub(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", "***", value, flags=re.DOTALL
        )
    return [without_secrets(item) for item in value] if isinstance(value, list) else value


def differences(before: Any, after: Any, pointer: str = "") -> list[dict[str, Any]]:
    """What changed between two bodies, property by property: `{pointer, before, after}`; OData tags are left out."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if not key.startswith("@odata.") and key != "@Message.ExtendedInfo"]
        return [
            change
            for key in keys
            for change in differences(before.get(key), after.get(key), f"{pointer}/{key}")
            if key != "DateTime"
        ]
    return [] if before == after else [{"pointer": pointer, "before": before, "after": after}]


class Journal:
    """One file; a path of None keeps the entries in memory only."""

    __slots__ = ("path", "keep", "_recent")

    def __init__(self, path: pathlib.Path | None, keep: int = 500):
        self.path, self.keep = path, keep
        # an empty deque takes 600 bytes, and most BMCs of a fleet never write
        self._recent: collections.deque[dict[str, Any]] | None = None

    @property
    def recent(self) -> collections.deque[dict[str, Any]] | tuple[()]:
        return () if self._recent is None else self._recent

    def append(self, **entry: Any) -> None:
        entry = {"time": now_text(), **entry}
        if self._recent is None:
            self._recent = collections.deque(maxlen=self.keep)
        self._recent.append(entry)
        if self.path is not None:
            # one write of one line, so that a reader never sees half an entry
            with self.path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(entry) + "\n")
