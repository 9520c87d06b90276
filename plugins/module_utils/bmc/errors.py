# Errors that only out-of-band work has: what a BMC answered, and whether a request may have arrived.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core.errors import BaremetalError, Refused


class AnswerLost(BaremetalError):
    """A write was sent and its answer never came: it may or may not have been done. Decided by reading back, never by sending it again."""

    code = "answer_lost"


class TransportError(Exception):
    """One exchange that ended without an answer. `sent` is False only where the request certainly never left."""

    def __init__(self, reason, sent, code="unreachable"):
        super().__init__(reason)
        self.reason, self.sent, self.code = reason, sent, code


class HttpError(Refused):
    """The BMC answered with an error status. `status` is the HTTP status, `messages` the Redfish messages in it (already redacted)."""

    code = "bmc_refused"

    def __init__(self, message, *, status, messages=(), **parts):
        super().__init__(message, **parts)
        self.status, self.messages = status, list(messages)

    def names(self, prop):
        """True where a message of this error is about the property `prop`."""
        for item in self.messages:
            related = [str(path).rsplit("/", 1)[-1].rsplit(".", 1)[-1] for path in item.get("related", ())]
            if prop in related or prop in [str(arg) for arg in item.get("args", ())] or prop in item.get("text", ""):
                return True
        return False

    def has(self, *message_keys):
        """True where a message id ends in one of `message_keys` ("PasswordChangeRequired")."""
        return any(item["id"].rsplit(".", 1)[-1] in message_keys for item in self.messages)


def read_messages(body):
    """The Redfish messages of an answer (error or extended information) as [{id, text, args, related}]; tolerant of every shape."""
    if not isinstance(body, dict):
        return []
    found = []
    error = body.get("error")
    places = [body, error if isinstance(error, dict) else {}]
    for place in places:
        for key, value in place.items():
            if not str(key).endswith("@Message.ExtendedInfo"):
                continue
            for item in value if isinstance(value, list) else [value]:
                if not isinstance(item, dict):
                    continue
                args, related = item.get("MessageArgs"), item.get("RelatedProperties")
                found.append(
                    {
                        "id": str(item.get("MessageId") or ""),
                        "text": str(item.get("Message") or ""),
                        "args": list(args) if isinstance(args, list) else [],
                        "related": list(related) if isinstance(related, list) else [],
                    }
                )
    if not found and isinstance(error, dict) and (error.get("message") or error.get("code")):
        found.append(
            {"id": str(error.get("code") or ""), "text": str(error.get("message") or ""), "args": [], "related": []}
        )
    return found
