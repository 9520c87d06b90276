# What a server boots next: the boot override of its BMC.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core.deadline import Deadline
from ..core.errors import DeadlineExceeded, InvalidInput, Unsupported
from ..core.plan import Change, Plan
from . import connect, quirks, transform
from .endpoint import check_seconds
from .errors import HttpError
from .result import Result, known_identity, read_until

BOOT_TARGETS = tuple(transform.BOOT_TARGETS)


def plan_boot(present, target, enabled, mode=None, http_uri=None):
    """Pure: the Plan from the boot override that is set (`transform.boot` shape) to the one wanted. Fields that mean nothing are not compared."""
    changes = [Change("boot.target", present["target"], target)]
    if target == "none":
        # it goes with the target; alone it means nothing without one
        if present["target"] != "none":
            changes.append(Change("boot.enabled", present["enabled"], "disabled"))
    else:
        changes.append(Change("boot.enabled", present["enabled"], enabled))
        if mode:
            changes.append(Change("boot.mode", present["mode"], mode))
        if http_uri:
            changes.append(Change("boot.http_uri", present.get("http_uri"), http_uri))
    return Plan(changes)


def boot(endpoint, target, once=True, mode=None, deadline_s=60.0, check=False, fence=None, interval=1.0, http_uri=None):
    """Set the boot override: `target` of BOOT_TARGETS, for the next boot or (`once=False`) until changed; `mode` uefi or legacy, None leaves it.

    `http_uri`: what uefi_http boots, for BMCs that can be told; without it the server asks DHCP.
    """
    if target not in BOOT_TARGETS:
        raise InvalidInput(
            "there is no such boot target",
            host=endpoint.label,
            thing="target",
            wanted=", ".join(BOOT_TARGETS),
            seen=target,
        )
    check_seconds("timeout", deadline_s, endpoint.label)
    if http_uri and (target != "uefi_http" or not str(http_uri).lower().startswith(("http://", "https://"))):
        raise InvalidInput(
            "only a boot by UEFI HTTP has a URL",
            host=endpoint.label,
            thing="http_uri",
            wanted="http:// or https://, with target: uefi_http",
            seen=f"{http_uri}, target {target}",
        )
    deadline = Deadline(deadline_s, f"boot target {target}", host=endpoint.label)
    enabled = "disabled" if target == "none" else ("once" if once else "persistent")
    with connect(endpoint, deadline, fence) as client:
        if client.source == "ipmi":
            observe = client.read_boot
            # IPMI cannot leave the mode: a bit for it is always sent, UEFI unless legacy was asked for. Several BMCs ignore it, so it is
            # compared only when it was asked for.
            wanted_mode = mode
        else:

            def observe():
                return transform.boot(client.fresh_boot_place()[0])

            place = client.boot_place()[0]
            wanted_mode = mode
            if mode and not transform.has_boot_mode(place):
                client.warnings.append("this BMC has no boot mode to set, it was left out")
                wanted_mode = None
        present = observe() if client.source == "ipmi" else transform.boot(place)
        if http_uri and client.source == "redfish":
            _refuse_uri(client, place)
        plan = plan_boot(present, target, enabled, wanted_mode, http_uri)
        after = (
            dict(present, target=target, enabled=enabled, mode=wanted_mode or present["mode"])
            if plan.changed
            else present
        )
        if plan.changed and http_uri:
            after["http_uri"] = http_uri
        result = Result(plan.changed, plan, present, after, client.warnings, client.source)
        if plan.changed:
            if client.source == "redfish":
                body = boot_body(place, target, enabled, wanted_mode, client.endpoint.label)
                if http_uri:
                    body["Boot"]["HttpBootUri"] = http_uri
                if not check:
                    _send_boot(client, place, body, present, wanted_mode)
            elif not check:
                client.send_boot(target, enabled == "persistent", mode or "uefi")
            if not check:
                result.after = _verify_boot(client, observe, target, enabled, wanted_mode, deadline, interval, http_uri)
        result.bmc = known_identity(client)
        return result


def _refuse_uri(client, place):
    if "HttpBootUri" not in (transform.dig(place, "Boot") or {}):
        raise Unsupported(
            "this BMC cannot be told what UEFI HTTP boots",
            host=client.endpoint.label,
            thing="http_uri",
            wanted="Boot.HttpBootUri",
            seen="no such property",
            next_step="leave http_uri out and let DHCP give the URL, or use virtual media",
        )


def boot_body(place, target, enabled, mode, host=None):
    """Pure: the PATCH body. The mode is sent where the BMC has that property (some demand it), and never where it has not."""
    names = transform.BOOT_TARGETS[target]
    allowed = transform.boot_targets(place)
    have = transform.dig(place, "Boot")
    if not any(str(key).startswith("BootSourceOverride") for key in (have if isinstance(have, dict) else {})):
        raise Unsupported(
            "the BMC has no boot override",
            host=host,
            thing="Boot",
            wanted="Boot.BootSourceOverrideTarget",
            seen=", ".join(have) if isinstance(have, dict) and have else "no such property",
            next_step="put it first in the boot order (order) where the BMC shows one, or use IPMI",
        )
    current = transform.text(place, "Boot", "BootSourceOverrideMode")
    if target == "none":
        body = {"BootSourceOverrideEnabled": "Disabled"}
        if not allowed or "None" in allowed:
            body["BootSourceOverrideTarget"] = "None"
        if transform.has_boot_mode(place) and current:
            body["BootSourceOverrideMode"] = current  # some fall back to Legacy in every PATCH without it
        return {"Boot": body}
    if target == "cd":
        names = quirks.of_system(place)["cd_targets"]
    name = next((item for item in names if item in allowed), None) if allowed else names[0]
    if name is None:
        raise Unsupported(
            "the BMC does not offer this boot target",
            host=host,
            thing="target",
            wanted=f"{target} ({' or '.join(names)})",
            seen=", ".join(allowed),
            next_step="choose one of those; for network boot pxe and uefi_http are different targets",
        )
    body = {
        "BootSourceOverrideTarget": name,
        "BootSourceOverrideEnabled": "Once" if enabled == "once" else "Continuous",
    }
    _refuse_value(
        place,
        host,
        "BootSourceOverrideEnabled",
        body["BootSourceOverrideEnabled"],
        "once",
        "what is to last goes into the boot order (order) or the BIOS settings (bmc_bios)"
        if enabled != "once"
        else "use once: false, and target: none after the boot",
    )
    if mode and transform.has_boot_mode(place):
        _refuse_value(
            place,
            host,
            "BootSourceOverrideMode",
            transform.BOOT_MODES[mode],
            "mode",
            "leave mode out, or change it in the BIOS settings (bmc_bios)",
        )
    if transform.has_boot_mode(place) and (mode or current):
        body["BootSourceOverrideMode"] = transform.BOOT_MODES[mode] if mode else current
    return {"Boot": body}


def _refuse_value(place, host, name, value, option, next_step):
    """Unsupported where the BMC lists the values of a property of the override and this is none of them."""
    allowed = transform.strings(transform.dig(place, "Boot", f"{name}@Redfish.AllowableValues"))
    if allowed and value not in allowed:
        raise Unsupported(
            "the BMC does not offer such a boot override",
            host=host,
            thing=option,
            wanted=f"{name} {value}",
            seen=", ".join(allowed),
            next_step=next_step,
        )


def _send_boot(client, place, body, present, mode):
    uri = client.boot_place()[1]
    try:
        client.patch(uri, body)
    except HttpError as error:
        if (
            error.status in (400, 403, 405, 409)
            and "BootSourceOverrideMode" in body["Boot"]
            and error.names("BootSourceOverrideMode")
        ):
            if mode and present["mode"] != mode:
                error.next_step = "the boot mode of this BMC is read-only; change it in the BIOS settings"
                raise
            body["Boot"].pop("BootSourceOverrideMode")
            client.patch(uri, body)
            return
        raise


def _verify_boot(client, observe, target, enabled, mode, deadline, interval, http_uri=None):
    part = Deadline(min(30.0, deadline.remaining()), f"boot target {target}", host=client.endpoint.label)
    last = {}

    def read():
        last.update(observe())
        return dict(last)

    try:
        return read_until(
            client,
            part,
            read,
            lambda seen: not plan_boot(seen, target, enabled, mode, http_uri).changed,
            thing="boot override",
            wanted=f"{target}, {enabled}" + (f", {mode}" if mode else "") + (f", {http_uri}" if http_uri else ""),
            message="the BMC accepted the boot override but does not show it",
            next_step="restart the BMC, or set it by IPMI"
            if client.source == "redfish"
            else "set it by Redfish: many BMCs ignore boot flags that come by IPMI",
            interval=interval,
            describe=describe_boot,
        )
    except DeadlineExceeded as error:
        if last.get("target") == target and enabled == "once" and last.get("enabled") == "persistent":
            error.message = "the BMC made the one-time boot override a permanent one"
            error.next_step = "take it back with target: none after the boot (or boot in a persistent way and say once: false); newer BMC firmware may mend it"
        raise


def describe_boot(seen):
    """A boot override in words, "pxe, once, uefi": what errors show."""
    return ", ".join(str(seen[key]) for key in ("target", "enabled", "mode", "http_uri") if seen.get(key))
