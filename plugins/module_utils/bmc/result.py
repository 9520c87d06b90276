# What every operation shares: its result, the check of its times, and the one way to wait for what the BMC shows.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from dataclasses import dataclass, field

from ..core.errors import BaremetalError, DeadlineExceeded, Unreachable
from ..core.plan import Plan
from .errors import HttpError


@dataclass
class Result:
    """What an operation did: `changed` only where a write was sent and accepted (in check mode: would be)."""

    changed: bool = False
    plan: Plan = field(default_factory=Plan)
    before: dict = field(default_factory=dict)
    after: dict = field(default_factory=dict)
    warnings: list = field(default_factory=list)
    source: str = "redfish"
    bmc: dict = field(default_factory=dict)
    more: dict = field(default_factory=dict)

    def as_result(self, diff=False):
        found = {
            "changed": self.changed,
            "before": self.before,
            "after": self.after,
            "source": self.source,
            "bmc": self.bmc,
            "bmc_warnings": list(dict.fromkeys(self.warnings)),
            "msg": self.plan.summary(),
            **self.more,
        }
        if diff:
            found["diff"] = self.plan.diff()
        lacking = self.more.get("needs_consent")
        if lacking:
            # Only a check gets here without it. Who reads the diff, or the message, must see that a real run would refuse.
            words = f"needs consent: [{', '.join(lacking)}]"
            found["msg"] = f"{found['msg']}; {words}"
            if diff:
                found["diff"]["after"] += f"# {words}\n"
        return found


def known_identity(client):
    """Who the BMC is, from what was read anyway: not worth a request of its own in every call."""
    if client.source == "redfish":
        return client.identity(read=False)
    return {}


def read_until(
    client, deadline, read, done, *, thing, wanted, message, next_step, interval=1.0, describe=str, code=None
):
    """Call `read` until `done(value)`; returns the value. What was seen last is in the error, also when the time ends in the middle of a request.

    A BMC that does not answer, or answers "busy", "broken" or nothing, while it works is not an error yet; a refusal is.
    """
    seen = "nothing"
    while True:
        try:
            value = read()
            if done(value):
                return value
            seen = describe(value)
        except DeadlineExceeded:
            pass  # the client's own limit ended this read; what was seen before it counts
        except (Unreachable, HttpError) as error:
            if isinstance(error, HttpError) and error.status < 500 and error.status != 429:
                raise
            if seen == "nothing" or seen.startswith("no answer"):
                seen = f"no answer ({error.seen})"
        except BaremetalError as error:
            # Some BMCs answer 200 with nothing in it while something moves.
            if error.code != "not_json":
                raise
            if seen == "nothing" or seen.startswith("no "):
                seen = f"no usable answer ({error.seen})"
        if deadline.expired():
            raise DeadlineExceeded(
                message,
                host=client.endpoint.label,
                thing=thing,
                wanted=wanted,
                seen=seen,
                next_step=next_step,
                code=code or "accepted_not_moved",
            )
        deadline._sleep(min(interval, max(0.01, deadline.remaining())))
