# Typed errors of the whole collection: each names the host, the thing, what was wanted, what was seen and what to do next.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from .redact import redact


class BaremetalError(Exception):
    """An error that a person on call can act on.

    `message` is one plain sentence without a full stop; `wanted` and `seen` may be any value that prints well;
    `code` is stable and machine-readable. Nothing secret may be put in any part: callers redact what they received from outside.
    """

    code = "error"

    def __init__(self, message, *, host=None, thing=None, wanted=None, seen=None, next_step=None, code=None):
        super().__init__(message)
        self.message = str(message)
        self.host = host
        self.thing = thing
        self.wanted = wanted
        self.seen = seen
        self.next_step = next_step
        if code:
            self.code = code

    def with_host(self, host):
        """Fill in the host where the code that raised did not know it; returns self, to be used in `raise error.with_host(name)`."""
        if self.host is None:
            self.host = host
        return self

    def __str__(self):
        head = ": ".join(str(part) for part in (self.host, self.thing, self.message) if part)
        parts = [head]
        if self.wanted is not None:
            parts.append(f"wanted: {self.wanted}")
        if self.seen is not None:
            parts.append(f"seen: {self.seen}")
        if self.next_step:
            parts.append(f"next: {self.next_step}")
        return "; ".join(parts)

    def as_result(self):
        """The failed-task form: `msg` for people, `error` for machines."""
        detail = {
            key: getattr(self, key) for key in ("code", "message", "host", "thing", "wanted", "seen", "next_step")
        }
        return redact({"failed": True, "msg": str(self), "error": {k: v for k, v in detail.items() if v is not None}})


class InvalidInput(BaremetalError):
    """What the user gave cannot be right; nothing was done. Where nothing better is known, the next step is to correct it."""

    code = "invalid_input"

    def __init__(self, message, **parts):
        super().__init__(message, **parts)
        if not self.next_step:
            self.next_step = f"correct {self.thing or 'what was given'}"


class Unreachable(BaremetalError):
    """No answer at the network level."""

    code = "unreachable"


class AuthenticationFailed(BaremetalError):
    """The other side answered and refused the credentials."""

    code = "authentication_failed"


class DeadlineExceeded(BaremetalError):
    """A wait ended without the thing awaited."""

    code = "deadline_exceeded"


class Conflict(BaremetalError):
    """Somebody else changed the thing first; nothing was written."""

    code = "conflict"


class FencedOut(Conflict):
    """A newer attempt owns the node; this one must stop at once and write nothing."""

    code = "fenced_out"


class NotFound(BaremetalError):
    """The thing named does not exist."""

    code = "not_found"


class Refused(BaremetalError):
    """The other side, or a rule of ours, says no."""

    code = "refused"


class Unsupported(BaremetalError):
    """The other side cannot do this."""

    code = "unsupported"
