# A person's word for what cannot be undone: bound to a serial number, so that a wrong inventory line or a copied task cannot give it for another machine.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core.errors import Refused
from . import transform


def words_of(consent):
    """The serial numbers of an option that is one or a list of them."""
    given = consent if isinstance(consent, (list, tuple)) else [consent]
    return [str(item).strip() for item in given if item is not None and str(item).strip()]


def server_serial(client):
    """The server's serial number as the operating system reads it, or None."""
    return transform.system_facts(client.system(), client.chassis())["serial"]


def lacking(serials, consent, unknown="a serial number, which this BMC does not show"):
    """The result's keys about a word that is wanted: the serial numbers that a real run needs and that were not given (`serials`: [] where none is needed)."""
    missing = [] if words_of(consent) else [str(serial or unknown) for serial in serials]
    return {"consent_required": bool(missing), "needs_consent": missing}


def require_server(client, consent, why, plan):
    """Raise Refused unless `consent` is this server's serial number; `why` says what it is wanted for."""
    serial = server_serial(client)
    given = words_of(consent)
    if serial and given == [serial]:
        return
    raise Refused(
        f"{why} and nobody consented to it for this server",
        host=client.endpoint.label,
        thing="consent",
        wanted=f"the server's serial number, {serial}" if serial else "a serial number, which this BMC does not show",
        seen=", ".join(given) or "nothing",
        next_step=f"look at the plan ({plan.summary()}), then run again with consent: {serial}",
        code="consent_required",
    )
