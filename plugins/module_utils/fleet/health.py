# The fleet's health gate: what the BMC says of its server, as an outcome. Nothing said is could_not_test, and never a pass.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..bmc import operations
from ..core.errors import BaremetalError
from ..core.outcome import COULD_NOT_TEST, FAIL, PASS, combine

RULE = "bmc-health-1"


def judge(info, accepted=("OK",), power=None):
    """Evidence items {check, outcome, value, limit, rule, source, detail} of an inventory with the section system. Pure."""
    system = info.get("system") or {}
    items = [_item("bmc_health", system.get("health"), accepted)]
    if power:
        items.append(_item("bmc_power", system.get("power"), (power,)))
    return items


def _item(check, value, accepted):
    outcome = (
        COULD_NOT_TEST if value is None else (PASS if str(value).lower() in {a.lower() for a in accepted} else FAIL)
    )
    return {
        "check": check,
        "outcome": outcome,
        "value": value,
        "limit": " or ".join(accepted),
        "rule": RULE,
        "source": "bmc",
        "detail": None,
    }


def health(endpoint, accepted=("OK",), power=None, deadline_s=60.0):
    """Read and judge one BMC; returns the result of the operation: `outcome`, `items`, failed unless everything passed."""
    info = operations.info(endpoint, ["system", "bmc"], deadline_s)
    items = judge(info, accepted, power)
    outcome = combine([item["outcome"] for item in items])
    result = {
        "changed": False,
        "outcome": outcome,
        "items": items,
        "source": info["source"],
        "bmc": info.get("bmc") or {},
        "bmc_warnings": info["warnings"],
        "msg": "; ".join(f"{item['check']}: {item['value']}" for item in items),
    }
    if outcome == PASS:
        return result
    bad = [item for item in items if item["outcome"] != PASS]
    error = BaremetalError(
        "the BMC does not call this server healthy"
        if outcome == FAIL
        else "the BMC does not say whether it is healthy",
        host=endpoint.label,
        thing=", ".join(item["check"] for item in bad),
        wanted=", ".join(item["limit"] for item in bad),
        seen=", ".join(str(item["value"]) for item in bad),
        next_step="look at the BMC's log and sensors"
        if outcome == FAIL
        else "read its sensors, or test the node itself",
        code="health_gate" if outcome == FAIL else "could_not_test",
    )
    return {**result, **error.as_result()}
