# The server's own boot order, by the references that its firmware uses. Only Boot.BootOrder counts, never the order of a collection.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ..core.deadline import Deadline
from ..core.errors import InvalidInput, NotFound, Unsupported
from ..core.plan import Change, Plan
from . import connect, transform
from .endpoint import check_seconds
from .errors import AnswerLost
from .result import Result, known_identity, read_until

# What a word means: searched in a boot option's name, alias and UEFI device path (UEFI 2.10, 10.3: MAC(), IPv4(), Uri(), NVMe(), Sata(), HD()).
KINDS = {
    "pxe": re.compile(r"\bpxe|^network \||/MAC\((?!.*Uri\().*IPv[46]\(", re.IGNORECASE),
    "uefi_http": re.compile(r"\bhttp|Uri\(", re.IGNORECASE),
    "disk": re.compile(r"\b(hdd|hard ?(disk|drive)|disk|ssd|nvme|raid)\b|\b(NVMe|Sata|Scsi|SasEx|HD)\(", re.IGNORECASE),
    "cd": re.compile(r"\b(cd|dvd|cd-?rom)\b|CDROM\(", re.IGNORECASE),
    "usb": re.compile(r"\busb\b|USB\(", re.IGNORECASE),
}
VERIFY_S = 60.0


# ---- pure ---------------------------------------------------------------------------------------------------------------------------------
def option_facts(resource):
    """{reference, name, words} of a BootOption; `words` is what a name or a kind is searched in."""
    name = transform.text(resource, "DisplayName") or transform.text(resource, "Name")
    alias = transform.text(resource, "Alias")
    path = transform.text(resource, "UefiDevicePath")
    return {
        "reference": transform.text(resource, "BootOptionReference") or transform.text(resource, "Id"),
        "name": name,
        "words": " | ".join((name, "" if alias.lower() == "none" else alias, path)),
    }


def resolve(order, present, options, host=None):
    """The whole order wanted: what `order` names first, the rest as it is. Each entry is a reference, a kind of KINDS, a MAC address, or (part of) a name."""
    by_reference = {option["reference"]: option for option in options}
    known = list(dict.fromkeys([*present, *by_reference]))
    first = []
    for entry in order:
        text = str(entry).strip()
        if text in known:
            found = [text]
        elif text.lower() in KINDS:
            found = [
                ref for ref in known if ref in by_reference and KINDS[text.lower()].search(by_reference[ref]["words"])
            ]
        else:
            plain = re.sub(r"[:-]", "", text).lower()
            is_mac = re.fullmatch(r"[0-9a-f]{12}", plain)
            found = [
                ref
                for ref in known
                if ref in by_reference
                and (
                    plain in re.sub(r"[:-]", "", by_reference[ref]["words"]).lower()
                    if is_mac
                    else text.lower() in by_reference[ref]["words"].lower()
                )
            ]
        if not found:
            raise NotFound(
                "the server has no such boot option",
                host=host,
                thing="order",
                wanted=text,
                seen="; ".join(
                    f"{ref} ({by_reference[ref]['name'] if ref in by_reference else 'no name'})" for ref in known
                )
                or "none at all",
                next_step="name a reference, part of a name, a MAC address, or one of " + ", ".join(KINDS),
            )
        first += [ref for ref in found if ref not in first]
    return first + [ref for ref in present if ref not in first]


# ---- the operation --------------------------------------------------------------------------------------------------------------------------
def boot_order(endpoint, order, deadline_s=120.0, check=False, fence=None, interval=1.0):
    """Put what `order` names first. Where the BMC keeps the order as a pending setting, the server's next start takes it (`reboot_required`)."""
    check_seconds("timeout", deadline_s, endpoint.label)
    if not order:
        raise InvalidInput(
            "there is no order to set", host=endpoint.label, thing="order", wanted="boot options", seen=order
        )
    endpoint.require_redfish(
        "IPMI knows no boot order", "use bmc_protocol: redfish, or a persistent override (target with once: false)"
    )
    deadline = Deadline(deadline_s, "the boot order", host=endpoint.label)
    with connect(endpoint, deadline, fence) as client:
        client.login()
        live, pending, uri = _read(client)
        options = [
            option_facts(item)
            for item in client.members(transform.link(client.system(), "Boot", "BootOptions"), "the boot options")
        ]
        present = live if pending is None else pending
        wanted = resolve(order, present, [option for option in options if option["reference"]], endpoint.label)
        plan = Plan([Change("boot.order", present, wanted)])
        result = Result(
            plan.changed,
            plan,
            {"order": live, "pending": pending},
            {"order": live if pending is not None else wanted, "pending": None if pending is None else wanted},
        )
        result.warnings, result.source = client.warnings, client.source
        result.more = {"reboot_required": pending is not None and live != wanted}
        if plan.changed and not check:
            try:
                client.patch(uri, {"Boot": {"BootOrder": wanted}})
            except AnswerLost:
                client.warnings.append("the answer to the boot order was lost; it was read instead")

            def read():
                now, later, _uri = _read(client)
                return now if later is None else later

            read_until(
                client,
                Deadline(min(VERIFY_S, deadline.remaining()), "the boot order", host=endpoint.label),
                read,
                lambda seen: seen == wanted,
                thing="boot order",
                wanted=", ".join(wanted),
                message="the BMC accepted the boot order and does not show it",
                next_step="set it by a BIOS attribute (bmc_bios) or in the BIOS setup; some BMCs take it only while the server is off",
                interval=interval,
                describe=", ".join,
            )
        result.bmc = known_identity(client)
        return result


def _read(client):
    """(order that counts, pending order or None, URI where it is set): the system's settings object where that has an order."""
    system = client.refresh_system() if client._system is not None else client.system()
    live = transform.strings(transform.dig(system, "Boot", "BootOrder"))
    if not live:
        raise Unsupported(
            "the BMC shows no boot order",
            host=client.endpoint.label,
            thing=transform.text(system, "@odata.id"),
            wanted="Boot.BootOrder",
            seen="none",
            next_step="set it by a BIOS attribute (bmc_bios), or use a persistent override (target with once: false)",
        )
    later = transform.link(system, "@Redfish.Settings", "SettingsObject")
    settings = client.optional(later, None) if later else None
    if settings is not None:
        order = transform.strings(transform.dig(settings, "Boot", "BootOrder"))
        if isinstance(transform.dig(settings, "Boot"), dict):
            return live, order or live, later
    return live, None, transform.text(system, "@odata.id")
