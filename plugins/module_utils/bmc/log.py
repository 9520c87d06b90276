# Logs of a BMC: read with paging, a time and a limit; cleared one at a time. The log of Redfish and the SEL of IPMI are two stores, so each is named.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
import re
from dataclasses import replace

from ..core.deadline import Deadline
from ..core.errors import (
    AuthenticationFailed,
    BaremetalError,
    Conflict,
    InvalidInput,
    NotFound,
    Unreachable,
    Unsupported,
)
from ..core.plan import Change, Plan
from . import connect, tasks, transform
from .endpoint import DEFAULT_PORT, check_seconds
from .errors import AnswerLost, HttpError
from .result import Result, known_identity, read_until

# What is a log service by name and holds dumps, kernel messages or tokens; read only when named.
NOT_BY_DEFAULT = re.compile(r"^(dump|debug.*|journal|postcodes?|fdr|hostlogger|diagnosticlog)$", re.IGNORECASE)
SEVERITIES = ("OK", "Warning", "Critical")
MOST_PAGES = 400
IPMI_INSTEAD_S = 30.0
CLEARED = re.compile(r"\b(cleared|clear(ed)? (the )?(log|sel)|log clear)", re.IGNORECASE)


# ---- pure ---------------------------------------------------------------------------------------------------------------------------------
def moment(text):
    """A time with zone from ISO 8601 (also `Z`, also without zone: then UTC), or None."""
    plain = str(text or "").strip()
    match = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?))?(\.\d+)?\s*(Z|[+-]\d\d:?\d\d)?", plain, re.IGNORECASE
    )
    if not match:
        return None
    day, clock, _fraction, zone = match.groups()
    clock = clock or "00:00:00"
    zone = "+0000" if zone in (None, "Z", "z") else zone.replace(":", "")
    try:
        return datetime.datetime.strptime(
            f"{day}T{clock if clock.count(':') == 2 else clock + ':00'}{zone}", "%Y-%m-%dT%H:%M:%S%z"
        )
    except ValueError:
        return None


def entry_facts(resource):
    """{id, created, severity, message, message_id, type, sensor}; everything but the id may be None (Wiwynn and others leave nearly all out)."""
    severity = transform.text(resource, "Severity") or transform.text(resource, "MessageSeverity")
    number = transform.number(resource, "SensorNumber")
    sensor = transform.text(resource, "SensorType")
    return {
        "id": transform.text(resource, "Id") or transform.text(resource, "@odata.id").rstrip("/").rsplit("/", 1)[-1],
        "created": transform.text(resource, "Created") or transform.text(resource, "EventTimestamp") or None,
        "severity": severity or None,
        "message": transform.text(resource, "Message") or transform.text(resource, "Description") or None,
        "message_id": transform.text(resource, "MessageId") or None,
        "type": transform.text(resource, "EntryType") or None,
        "sensor": (f"{sensor} {int(number)}".strip() if number is not None else sensor) or None,
    }


def wanted_entries(entries, since=None, severity=None, limit=None):
    """Those after `since`, at least as bad as `severity`, the newest `limit`, oldest first. A time or severity that cannot be read does not exclude one."""
    start, floor = moment(since) if since else None, SEVERITIES.index(severity) if severity else 0

    def fits(entry):
        created = moment(entry["created"])
        if start and created and created < start:
            return False
        return entry["severity"] not in SEVERITIES or SEVERITIES.index(entry["severity"]) >= floor

    kept = [entry for entry in entries if fits(entry)]
    first = datetime.datetime(1, 1, 1, tzinfo=datetime.timezone.utc)
    if descending(entries):
        kept.reverse()
    kept.sort(key=lambda entry: moment(entry["created"]) or first)
    return kept[-limit:] if limit else kept


def descending(entries):
    """True where the BMC lists the newest first."""
    times = [moment(entry["created"]) for entry in entries]
    times = [time for time in times if time]
    return len(times) > 1 and times[0] > times[-1]


def only_says_cleared(entries):
    """True for a log that holds nothing but the note that it was cleared, which many BMCs write at once."""
    return not entries or (
        len(entries) == 1 and bool(CLEARED.search(f"{entries[0]['message']} {entries[0]['message_id']}"))
    )


# ---- the operation --------------------------------------------------------------------------------------------------------------------------
def log(
    endpoint,
    state="read",
    logs=None,
    since=None,
    severity=None,
    limit=200,
    deadline_s=120.0,
    check=False,
    fence=None,
    interval=1.0,
):
    """`read`: entries of the host system's and its manager's logs (or those in `logs`, by id or "Systems/1/SEL"). `cleared`: the one log named is empty."""
    check_seconds("timeout", deadline_s, endpoint.label)
    _check(endpoint, state, logs, since, severity, limit)
    deadline = Deadline(deadline_s, "the log", host=endpoint.label)
    with connect(endpoint, deadline, fence) as client:
        if endpoint.protocol == "ipmi":
            return _ipmi_log(client, state, logs, since, severity, limit, check)
        client.login()
        services = read_services(client)
        try:
            chosen = choose_logs(services, logs, endpoint.label)
        except NotFound as error:
            if state != "read" or [name.lower() for name in logs or ()] != ["sel"]:
                raise
            return _sel_instead(client, error, since, severity, limit, deadline)
        if state == "read":
            found = []
            for service in chosen:
                entries = read_entries(client, service, since, limit)
                found.append(
                    {
                        "log": service["name"],
                        "clear": bool(service["clear"]),
                        "entries": wanted_entries(entries, since, severity, limit),
                    }
                )
            result = Result(warnings=client.warnings, source=client.source)
            result.more = {"logs": found}
        else:
            result = _clear(client, _one(endpoint, chosen), deadline, check, interval)
        result.bmc = known_identity(client)
        return result


def _sel_instead(client, missing, since, severity, limit, deadline):
    """The SEL of a BMC that has none among its Redfish logs (iLO), read by IPMI on its usual port; the result and a warning say so."""
    endpoint = client.endpoint
    try:
        other = replace(endpoint, protocol="ipmi", port=DEFAULT_PORT["ipmi"], transport=None)
        part = Deadline(min(IPMI_INSTEAD_S, deadline.remaining()), "the SEL by IPMI", host=endpoint.label)
        with connect(other, part) as asker:
            result = _ipmi_log(asker, "read", ["sel"], since, severity, limit, False)
    except BaremetalError as error:
        missing.seen = f"{missing.seen}; nor by IPMI ({error.seen or error.message})"
        raise missing
    result.warnings.append("the BMC has no SEL by Redfish, it was read by IPMI")
    result.bmc = known_identity(client)
    return result


def _check(endpoint, state, logs, since, severity, limit):
    wrong = None
    if state not in ("read", "cleared"):
        wrong = ("state", "read or cleared", state)
    elif since and moment(since) is None:
        wrong = ("since", "a time such as 2026-01-31T12:00:00Z", since)
    elif severity and severity not in SEVERITIES:
        wrong = ("severity", " or ".join(SEVERITIES), severity)
    elif not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        wrong = ("limit", "a number above zero", limit)
    elif state == "cleared" and len(logs or ()) != 1:
        wrong = ("logs", "the one log to clear", ", ".join(logs or ()) or "none")
    if wrong:
        raise InvalidInput("this cannot be", host=endpoint.label, thing=wrong[0], wanted=wrong[1], seen=wrong[2])


def _one(endpoint, chosen):
    if len(chosen) == 1:
        return chosen[0]
    raise Conflict(
        "several logs have this name",
        host=endpoint.label,
        thing="logs",
        wanted="one of them",
        seen=", ".join(service["name"] for service in chosen),
        next_step="name it in full, such as " + chosen[0]["name"],
        code="ambiguous_log",
    )


def read_services(client):
    """[{name, id, entries, clear, info}] of the host system and its manager; `name` is "Systems/1/SEL"."""
    found, seen = [], set()
    for kind, owner in (("Systems", client.system_or_none()), ("Managers", client.manager())):
        for item in client.members(transform.link(owner, "LogServices"), "the log services"):
            uri = transform.text(item, "@odata.id")
            if not uri or transform.same_path(uri) in seen:
                continue
            seen.add(transform.same_path(uri))
            identity = transform.text(item, "Id") or uri.rstrip("/").rsplit("/", 1)[-1]
            found.append(
                {
                    "name": f"{kind}/{transform.text(owner, 'Id') or transform.text(owner, '@odata.id').rstrip('/').rsplit('/', 1)[-1]}/{identity}",
                    "id": identity,
                    "entries": transform.link(item, "Entries"),
                    "clear": transform.text(item, "Actions", "#LogService.ClearLog", "target"),
                }
            )
    return found


def choose_logs(services, logs, host=None):
    if not logs:
        return [service for service in services if not NOT_BY_DEFAULT.match(service["id"])]
    chosen = []
    for name in logs:
        fitting = [service for service in services if name.lower() in (service["id"].lower(), service["name"].lower())]
        if not fitting:
            raise NotFound(
                "the BMC has no such log",
                host=host,
                thing="logs",
                wanted=name,
                seen=", ".join(service["name"] for service in services) or "no log at all",
                next_step="name one of these"
                + ("; for the SEL, bmc_protocol: ipmi reads it" if "sel" in name.lower() else ""),
            )
        chosen += [service for service in fitting if service not in chosen]
    return chosen


def read_entries(client, service, since, limit):
    """Entries of one log, page by page, no more than are needed; a log that cannot be read is empty and a warning."""
    if not service["entries"]:
        return []
    try:
        page = client.get(service["entries"])
        count = transform.number(page, "Members@odata.count")
        entries = _entries(client, page, limit)
        if _next(page) and count and count > 2 * limit and not descending(entries) and _can_skip(client):
            # The newest are at the end of a long log: go there at once.
            page = client.get(f"{service['entries']}?$skip={int(count) - limit}")
            entries = _entries(client, page, limit)
        seen = set()
        start = moment(since) if since else None
        while _next(page) and _next(page) not in seen and len(seen) < MOST_PAGES:
            newest_first = descending(entries)
            oldest = moment(entries[-1]["created"]) if entries else None
            if newest_first and (len(entries) >= limit or (start and oldest and oldest < start)):
                break
            seen.add(_next(page))
            page = client.get(_next(page))
            entries += _entries(client, page, limit)
        if len(seen) >= MOST_PAGES:
            client.warnings.append(f"log {service['name']}: only its first {len(entries)} entries were read")
        return entries
    except (AuthenticationFailed, Unreachable):
        raise
    except BaremetalError as error:
        client.warnings.append(f"log {service['name']} could not be read: {error.seen or error.message}")
        return []


def _next(page):
    following = page.get("Members@odata.nextLink") or page.get("@odata.nextLink")
    return (
        transform.text(following, "@odata.id")
        if isinstance(following, dict)
        else (following if isinstance(following, str) else "")
    )


def _can_skip(client):
    features = client.root().get("ProtocolFeaturesSupported")
    return isinstance(features, dict) and (features.get("TopSkipQuery") is True or features.get("SkipQuery") is True)


def _entries(client, page, limit, read=None):
    """Members are whole entries nearly everywhere; where they are links, each is read, the last `limit` of a page. `read`: by what, else leniently."""
    found = []
    members = [item for item in transform.members_of(page) if isinstance(item, dict)]
    links = [item for item in members if len(item) <= 1]
    for item in members if not links else members[-limit:]:
        whole = item if len(item) > 1 else (read or client.optional)(transform.text(item, "@odata.id"), "a log entry")
        if whole:
            found.append(entry_facts(whole))
    return found


def _clear(client, service, deadline, check, interval):
    if not service["clear"]:
        raise Unsupported(
            "the BMC does not let this log be cleared",
            host=client.endpoint.label,
            thing=f"log {service['name']}",
            wanted="the action LogService.ClearLog",
            seen="no such action",
            next_step="some logs (audit, lifecycle) never can be; the SEL can be by IPMI",
        )

    if not service["entries"]:
        raise Unsupported(
            "the BMC does not show the entries of this log, so nobody could see whether it was cleared",
            host=client.endpoint.label,
            thing=f"log {service['name']}",
            wanted="a link Entries",
            seen="none",
            next_step="clear it on the BMC's web page; the SEL can be cleared by IPMI (bmc_protocol: ipmi)",
        )

    def observe():
        return _entries(client, client.get(service["entries"]), 50, client.if_there)

    before = observe()
    changed = not only_says_cleared(before)
    plan = Plan([Change(f"log.{service['name']}", "entries", "empty")] if changed else [])
    result = Result(plan.changed, plan, warnings=client.warnings, source=client.source)
    result.before = {"log": service["name"], "empty": not changed}
    result.after = {"log": service["name"], "empty": True}
    if not changed or check:
        return result
    old = {(entry["id"], entry["created"]) for entry in before}
    try:
        try:
            answer = client.post(service["clear"])
        except HttpError as error:
            if error.status != 400:
                raise
            answer = client.post(service["clear"], {"ClearType": "ClearAll"})  # MegaRAC wants it, others refuse it
        if tasks.handle_of(answer):
            tasks.require(
                client, tasks.follow(client, answer, deadline, thing=f"log {service['name']}"), f"log {service['name']}"
            )
    except AnswerLost:
        client.warnings.append("the answer to clearing the log was lost; the log was read instead")
    read_until(
        client,
        Deadline(min(60.0, deadline.remaining()), "the cleared log", host=client.endpoint.label),
        observe,
        lambda entries: not old & {(entry["id"], entry["created"]) for entry in entries},
        thing=f"log {service['name']}",
        wanted="no entry from before",
        message="the BMC accepted to clear the log and still shows its entries",
        next_step="the account may lack the privilege ConfigureManager; or clear the SEL by IPMI",
        interval=interval,
        describe=lambda entries: f"{len(entries)} entries on the first page",
    )
    return result


# ---- over IPMI ----------------------------------------------------------------------------------------------------------------------------
def sel_facts(record):
    """An entry from a SEL record of 16 bytes (IPMI 2.0, 32.1 to 32.3). What its data mean is the sensor's business; it is shown as it came."""
    raw = bytes(record)
    kind, stamp = raw[2], int.from_bytes(raw[3:7], "little")
    created = None
    if kind < 0xE0 and 0x20000000 <= stamp < 0xFFFFFFFF:  # below: seconds since the BMC's start, no time of day
        created = datetime.datetime.fromtimestamp(stamp, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    facts = {
        "id": str(int.from_bytes(raw[0:2], "little")),
        "created": created,
        "severity": None,
        "message_id": None,
        "type": "SEL",
        "sensor": None,
    }
    if kind != 0x02:
        return {**facts, "message": f"OEM record {kind:#04x}: {raw[3:16].hex()}"}
    word = "deasserted" if raw[12] & 0x80 else "asserted"
    facts["sensor"] = f"type {raw[10]:#04x} number {raw[11]}"
    return {**facts, "message": f"event {raw[12] & 0x7F:#04x} {word}, data {raw[13:16].hex()}"}


def _ipmi_log(client, state, logs, since, severity, limit, check):
    if logs and [name.lower() for name in logs] != ["sel"]:
        raise NotFound(
            "over IPMI there is one log, the SEL",
            host=client.endpoint.label,
            thing="logs",
            wanted=", ".join(logs),
            seen="sel",
            next_step="name sel, or use Redfish for the others",
        )
    if state == "read":
        entries = [sel_facts(bytes.fromhex(record)) for record in client.read_log(10 * limit)]
        result = Result(source="ipmi", warnings=client.warnings)
        result.more = {
            "logs": [{"log": "sel", "clear": True, "entries": wanted_entries(entries, since, severity, limit)}]
        }
        return result
    count = client.log_count()
    plan = Plan([Change("log.sel", "entries", "empty")] if count else [])
    result = Result(
        plan.changed, plan, {"log": "sel", "empty": not count}, {"log": "sel", "empty": True}, client.warnings, "ipmi"
    )
    if count and not check:
        client.clear_log()
        part = Deadline(min(30.0, client.deadline.remaining()), "the cleared SEL", host=client.endpoint.label)
        read_until(
            client,
            part,
            client.log_count,
            lambda left: left <= 1 and left < count or left == 0,
            thing="log sel",
            wanted="no entry from before",
            message="the BMC accepted to clear the SEL and still has its entries",
            next_step="the account may lack the privilege; or clear it by Redfish",
            describe=lambda left: f"{left} entries",
        )
    return result
