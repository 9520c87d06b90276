# The one Plan object from which `changed`, `--check` and `--diff` all come.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json


class Change:
    """One thing that will be, or was, set from `before` to `after` (any JSON-like values; None means absent)."""

    __slots__ = ("after", "before", "thing")

    def __init__(self, thing, before, after):
        self.thing, self.before, self.after = str(thing), before, after

    def __repr__(self):
        return f"Change({self.thing!r}, {self.before!r}, {self.after!r})"

    def __eq__(self, other):
        return isinstance(other, Change) and (self.thing, self.before, self.after) == (
            other.thing,
            other.before,
            other.after,
        )

    __hash__ = None


class Plan:
    """An ordered list of changes; a change whose two sides are equal is dropped, so that an unchanged world gives an empty plan."""

    def __init__(self, changes=(), secret=()):
        self.changes = [change for change in changes if change.before != change.after]
        self._secret = frozenset(secret)

    @classmethod
    def between(cls, observed, wanted, secret=()):
        """Compare two dicts over the keys of `wanted`; keys named in `secret` show in diffs only as changed."""
        return cls([Change(key, observed.get(key), value) for key, value in wanted.items()], secret)

    @property
    def changed(self):
        return bool(self.changes)

    def __bool__(self):
        return self.changed

    def _side(self, side):
        lines = []
        for change in self.changes:
            value = getattr(change, side)
            if value is None:
                continue
            shown = (
                f"(hidden, {side})" if change.thing in self._secret else json.dumps(value, sort_keys=True, default=str)
            )
            lines.append(f"{change.thing}: {shown}\n")
        return "".join(lines)

    def diff(self):
        """Ansible's diff form: one line a changed thing."""
        return {"before": self._side("before"), "after": self._side("after")}

    def summary(self):
        """One line for people, or "nothing to change"."""
        return (
            ", ".join(f"{c.thing}: {self._word(c, c.before)} -> {self._word(c, c.after)}" for c in self.changes)
            or "nothing to change"
        )

    def _word(self, change, value):
        if change.thing in self._secret:
            return "(hidden)"
        return "absent" if value is None else str(value)
