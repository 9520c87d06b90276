# Mains or standby power away and back: which ways of it a BMC offers, who else hangs on them, and sending one. What follows is the caller's.
#
# bmc_power and the firmware engine both come here. The ways are data (quirks.POWER_CYCLES); a BMC has those whose action it shows.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from dataclasses import dataclass, field

from ..core.errors import DeadlineExceeded, Unsupported
from . import quirks, transform
from .errors import AnswerLost

KINDS = ("ac_cycle", "aux_cycle")
MOST_CHASSIS = 8


@dataclass(frozen=True)
class Way:
    """One action that takes power away: `others` are the ids of further servers that lose it too."""

    kind: str
    action: str
    target: str
    reset_type: str
    body: dict = field(default_factory=dict)
    off_first: bool = False
    others: tuple = ()

    @property
    def word(self):
        return f"{self.action} {self.reset_type}"


def ways(client, kind=None):
    """The ways that this BMC offers, best first; all chassis are looked through only where the system's own have none of `kind`."""
    system = client.refresh_system()
    seen = transform.links(system, "Links", "Chassis")[:MOST_CHASSIS]
    chassis = [body for body in (client.optional(uri, None) for uri in seen) if body]
    found = _ways(client, system, chassis)
    if not any(kind in (None, way.kind) for way in found):
        known = {transform.same_path(uri) for uri in seen}
        more = [
            body
            for body in client.members(transform.link(client.root(), "Chassis"), "the chassis")
            if transform.same_path(transform.text(body, "@odata.id")) not in known and not _foreign(body, system)
        ]
        found += _ways(client, {}, more)
    return found


def _foreign(chassis, system):
    """Whether a chassis says that it holds other systems and not this one."""
    held = [transform.same_path(uri) for uri in transform.links(chassis, "Links", "ComputerSystems")]
    return bool(held) and transform.same_path(transform.text(system, "@odata.id")) not in held


def _ways(client, system, chassis):
    places = {"system": [system], "chassis": chassis}
    found = []
    for row in quirks.POWER_CYCLES:
        for body in places[row["where"]]:
            action = _action(client, body, row["action"], row["types"])
            if action:
                others = _others(client, body) if row["where"] == "chassis" else ()
                found.append(
                    Way(row["kind"], row["action"], *action, row.get("body", {}), row.get("off_first", False), others)
                )
    return found


def _action(client, body, name, types):
    """(target, ResetType) of an action, standard or OEM, that offers one of `types`; None else."""

    def inside(value, *keys):
        found = transform.dig(value, *keys)
        return found if isinstance(found, dict) else {}

    actions, oem = inside(body, "Actions"), inside(body, "Actions", "Oem")
    # iLO has its own actions in its part of the resource, as it was before there was a place for them
    older = [inside(value, "Actions") for value in inside(body, "Oem").values()]
    for place in (actions, oem, *[value for value in oem.values() if isinstance(value, dict)], *older):
        action = place.get(f"#{name}")
        if not isinstance(action, dict) or not transform.text(action, "target"):
            continue
        allowed = client.allowed_values(action, "ResetType")
        # a standard action without a list is not tried: FullPowerCycle is rare
        target = transform.text(action, "target")
        fits = [word for word in types if word in allowed]
        if not fits and not allowed and "/Oem/" in target:
            fits = list(types)
        if fits:
            return target, fits[0]
    return None


def _others(client, chassis):
    """Ids of the further servers in a chassis. GPU boards and DPUs that list themselves as systems are parts of this one."""
    own = transform.same_path(transform.text(client.system(), "@odata.id"))
    found = []
    for uri in transform.links(chassis, "Links", "ComputerSystems"):
        name = uri.rstrip("/").rsplit("/", 1)[-1]
        if transform.same_path(uri) == own or transform.NOT_HOST.match(name):
            continue
        body = next(
            (
                item
                for item in client.systems_seen()
                if transform.same_path(transform.text(item, "@odata.id")) == transform.same_path(uri)
            ),
            None,
        )
        # One that could be read and cannot be reset is no server; one that could not be read may be one.
        if body is None or transform.dig(body, "Actions", "#ComputerSystem.Reset") is not None:
            found.append(name)
    return tuple(dict.fromkeys(found))


def choose(client, kind):
    """The best Way of `kind`; raises Unsupported that lists what the BMC offers instead."""
    if client.source != "redfish":
        raise Unsupported(
            "IPMI has no command that takes mains or standby power away",
            host=client.endpoint.label,
            thing=f"power {kind}",
            wanted="an action of Redfish",
            seen="ipmi",
            next_step="use bmc_protocol: redfish for this task, do it at the PDU, or use state: cycle",
            code="no_power_cycle",
        )
    found = ways(client, kind)
    way = next((way for way in found if way.kind == kind), None)
    if way is None:
        offered = [f"{other.kind} ({other.word})" for other in found]
        raise Unsupported(
            "the BMC cannot take its own power away",
            host=client.endpoint.label,
            thing=f"power {kind}",
            wanted=" or ".join(row["action"] for row in quirks.POWER_CYCLES if row["kind"] == kind),
            seen="it offers " + (", ".join(dict.fromkeys(offered)) or "neither mains nor standby power"),
            next_step=(f"use {found[0].kind} if that will do, or " if found else "")
            + "do it at the PDU or by hand; cycle only takes the host's power away",
            code="no_power_cycle",
        )
    return way


def fire(client, way):
    """Send it once. The BMC may go down before it answers; what follows tells. Returns the error of a lost answer, or None."""
    try:
        client.post(way.target, {"ResetType": way.reset_type, **way.body})
    except (AnswerLost, DeadlineExceeded) as error:
        return error
    return None
