# Errors that only out-of-band work has: what a BMC answered, and whether a request may have arrived.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

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
        parts.setdefault("seen", f"HTTP {status}")
        super().__init__(message, **parts)
        self.status, self.messages = status, list(messages)
        if not self.next_step:
            code, self.next_step = verdict(self)
            self.code = parts.get("code") or code

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


# What a refusal means and what to do about it: (statuses, words in a message or its id, code, next step). The first row that fits counts.
VERDICTS = (
    (
        (400, 403, 405, 501),
        r"licen[sc]e|SFT-OOB-LIC|SFT-DCMS|not activated",
        "license_required",
        "the BMC wants a licence for this (Supermicro: SFT-OOB-LIC or SFT-DCMS-SINGLE); install it, or do it in another way",
    ),
    (
        (403,),
        r"",
        "no_privilege",
        "use an account with the role Administrator, or give this one the privilege that the BMC's message names",
    ),
    ((404,), r"", "not_found", "this BMC does not have it; check the id, or restart the BMC if it was there before"),
    ((405, 501), r"", "not_offered", "this BMC does not offer this; newer BMC firmware may, and IPMI sometimes does"),
    (
        (409,),
        r"",
        "bmc_conflict",
        "something else is under way on this BMC (a job, an update, a boot); wait until it is done and run again",
    ),
    ((412, 428), r"", "etag_refused", "the BMC accepts no form of its own ETag; update its firmware"),
    ((429, 503), r"", "bmc_busy", "wait a minute and run again; a BMC that stays busy needs a restart (bmc_reset)"),
    (
        range(500, 600),
        r"",
        "bmc_failed",
        "run again later; a BMC that stays like this needs a restart (bmc_reset); its event log may say why",
    ),
    (
        (400,),
        r"",
        "bmc_refused",
        "read the BMC's message: it names the property or value that it does not take; compare with what bmc_info shows",
    ),
)
REFUSED = ("bmc_refused", "look at the BMC's event log, and at its web page for the same action")


def verdict(error, is_page=False):
    """(code, next step) for an HttpError. `is_page`: the answer was not JSON, so it may not be a Redfish service at all."""
    words = " ".join(f"{item['id']} {item['text']}" for item in error.messages)
    for statuses, pattern, code, next_step in VERDICTS:
        if error.status in statuses and re.search(pattern, words, re.IGNORECASE):
            if is_page:
                next_step += "; check that the address is a Redfish service"
            return code, next_step
    return REFUSED


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


def only_refuses(body):
    """True for an answer that is an error and nothing else, with a critical message in it: some BMCs send that with the status of success."""
    if not isinstance(body, dict) or set(body) != {"error"} or not isinstance(body["error"], dict):
        return False
    items = body["error"].get("@Message.ExtendedInfo")
    items = items if isinstance(items, list) else [items]
    return any(
        isinstance(item, dict) and "Critical" in (item.get("MessageSeverity"), item.get("Severity")) for item in items
    )
