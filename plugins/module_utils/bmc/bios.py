# BIOS attributes: compared with what runs and with what is pending, sent once, and (where asked) applied by a restart and read back.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import difflib
import re

from ..core.deadline import Deadline
from ..core.errors import BaremetalError, InvalidInput, NotFound, Refused, Unsupported
from ..core.plan import Change, Plan
from . import connect, tasks, transform
from .endpoint import check_seconds
from .errors import AnswerLost, HttpError
from .power import power
from .result import Result, known_identity, read_until

REBOOTS = ("none", "graceful", "force")
# How long the BMC may take until it shows what was sent as pending.
PENDING_SHOWS_S = 30.0
MOST_JOBS = 50


# ---- pure ---------------------------------------------------------------------------------------------------------------------------------
def near_names(name, names, most=3):
    """Names that were probably meant: the same in another case first, then similar ones."""
    lower = {}
    for item in names:
        lower.setdefault(item.lower(), item)
    same = [lower[name.lower()]] if name.lower() in lower else []
    close = [lower[item] for item in difflib.get_close_matches(name.lower(), list(lower), most, 0.6)]
    return list(dict.fromkeys(same + close))[:most]


def as_kind_of(value, live, host=None, name=None):
    """The wanted value in the kind that the BMC uses (YAML gives 1 where the BMC has "1", and true where it has "True"); InvalidInput where it cannot be."""
    if isinstance(live, (dict, list)):
        raise Unsupported(
            "the BIOS attribute is no single value but an object of the vendor's own, which nobody says how to write",
            host=host,
            thing=name,
            wanted="a text, a number or a truth value",
            seen=", ".join(map(str, live)) if isinstance(live, dict) else "a list",
            next_step="set it in the BIOS setup or by the vendor's own tool",
        )
    if live is None or type(value) is type(live):
        return value
    if isinstance(live, bool) and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(live, int) and not isinstance(live, bool):
        if isinstance(value, float) and value == int(value):
            return int(value)
        if isinstance(value, str) and re.fullmatch(r"-?\d+", value.strip()):
            return int(value)
    if isinstance(live, str) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise InvalidInput(
        "the value has another type than the BIOS attribute",
        host=host,
        thing=name,
        wanted=f"{type(live).__name__}, such as {live!r}",
        seen=repr(value),
        next_step="put words such as on, yes or Enabled in quotes: YAML makes truth values of some"
        if isinstance(value, bool)
        else None,
    )


def observed(bios, settings):
    """(live, pending): attributes as they run, and those that differ from them after the next start. Dell shows only these, others the whole set."""
    live = transform.dig(bios, "Attributes")
    live = live if isinstance(live, dict) else {}
    after = transform.dig(settings, "Attributes")
    after = after if isinstance(after, dict) else {}
    return live, {name: value for name, value in after.items() if name not in live or value != live[name]}


def plan_bios(wanted, live, pending, applies):
    """Pure: (Plan, to_send). The Plan holds what will be other than now: with `applies` (a restart follows) everything that does not run yet, without it
    only what has to be sent. What is pending already is not sent again: Dell refuses a PATCH while its job waits."""
    to_send = {name: value for name, value in wanted.items() if pending.get(name, live.get(name)) != value}
    shown = [name for name in wanted if name in to_send or (applies and live.get(name) != wanted[name])]
    return Plan(
        [
            Change(
                f"bios.{name}", live.get(name) if live.get(name) != wanted[name] else pending.get(name), wanted[name]
            )
            for name in shown
        ]
    ), to_send


def registry_attributes(registry):
    """{name: {type, values, low, high, read_only, needs}} from an attribute registry; `needs`: attributes whose values decide over this one."""
    entries = transform.dig(registry, "RegistryEntries")
    found = {}
    items = transform.dig(entries, "Attributes")
    for item in items if isinstance(items, list) else []:
        name = transform.text(item, "AttributeName")
        if not name:
            continue
        values = item.get("Value")
        found[name] = {
            "type": transform.text(item, "Type"),
            "values": [v.get("ValueName") for v in values if isinstance(v, dict) and v.get("ValueName") is not None]
            if isinstance(values, list)
            else [],
            "low": transform.number(item, "LowerBound"),
            "high": transform.number(item, "UpperBound"),
            "read_only": item.get("ReadOnly") is True,
            "needs": [],
        }
    dependencies = transform.dig(entries, "Dependencies")
    for item in dependencies if isinstance(dependencies, list) else []:
        target = transform.text(item, "Dependency", "MapToAttribute") or transform.text(item, "DependencyFor")
        sources = transform.dig(item, "Dependency", "MapFrom")
        for source in sources if isinstance(sources, list) else []:
            name = transform.text(source, "MapFromAttribute")
            if target in found and name and name != target and name not in found[target]["needs"]:
                found[target]["needs"].append(name)
    return found


def in_order(names, attributes):
    """The names so that an attribute comes after those that it depends on; waves of names, the first has no wanted one before it. Circles end somewhere."""
    waves, left = [], list(names)
    while left:
        free = [
            name for name in left if not set(attributes.get(name, {}).get("needs", ())) & (set(left) - {name})
        ] or list(left)
        waves.append(free)
        left = [name for name in left if name not in free]
    return waves


def check_values(wanted, attributes, host=None):
    """InvalidInput for what the registry says can never be; the names of read-only ones, which only may be so (it depends on others), are returned."""
    doubtful = []
    for name, value in wanted.items():
        rule = attributes.get(name)
        if rule is None:
            continue
        if rule["values"] and value not in rule["values"]:
            near = near_names(str(value), [str(item) for item in rule["values"]])
            raise InvalidInput(
                "the BIOS attribute does not take this value",
                host=host,
                thing=name,
                wanted=" or ".join(str(item) for item in rule["values"][:20]),
                seen=value,
                next_step=f"did you mean {near[0]}?" if near else "use one of those",
            )
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            low, high = rule["low"], rule["high"]
            if (low is not None and value < low) or (high is not None and value > high):
                raise InvalidInput(
                    "the BIOS attribute does not take this value",
                    host=host,
                    thing=name,
                    wanted=f"{low} to {high}",
                    seen=value,
                )
        if rule["read_only"]:
            doubtful.append(name)
    return doubtful


# ---- the operation --------------------------------------------------------------------------------------------------------------------------
def bios(
    endpoint, attributes, reboot="none", clear_pending=False, deadline_s=None, check=False, fence=None, interval=2.0
):
    """BIOS `attributes` {name: value}. Without a restart they are pending then, and the result says `reboot_required`; with `reboot` graceful or force the
    server is restarted and the task waits until they run. `clear_pending`: what others left pending is thrown away first."""
    if reboot not in REBOOTS:
        raise InvalidInput(
            "there is no such way to restart",
            host=endpoint.label,
            thing="reboot",
            wanted=", ".join(REBOOTS),
            seen=reboot,
        )
    if not isinstance(attributes, dict) or not attributes:
        raise InvalidInput(
            "there are no BIOS attributes to set",
            host=endpoint.label,
            thing="attributes",
            wanted="names and values",
            seen=attributes,
        )
    if deadline_s is None:
        deadline_s = 120.0 if reboot == "none" else 1800.0
    check_seconds("timeout", deadline_s, endpoint.label)
    endpoint.require_redfish("IPMI has no BIOS attributes")
    deadline = Deadline(deadline_s, "the BIOS settings", host=endpoint.label)
    with connect(endpoint, deadline, fence) as client:
        client.login()
        places = _Places(client)
        live, pending = places.read()
        wanted = _known(client, attributes, live, pending)
        plan, to_send = plan_bios(wanted, live, pending, reboot != "none")
        foreign = {name: value for name, value in pending.items() if name not in wanted} if clear_pending else {}
        if foreign:
            plan = Plan(
                [
                    *plan.changes,
                    *(Change(f"bios.pending.{name}", value, None) for name, value in sorted(foreign.items())),
                ]
            )
            to_send = {name: value for name, value in wanted.items() if live.get(name) != value}
        result = Result(plan.changed, plan, warnings=client.warnings, source=client.source)
        result.before = {"attributes": {name: live.get(name) for name in wanted}, "pending": pending}
        waves = [list(to_send)]
        if to_send:
            rules = _rules(client, places.bios)
            doubtful = check_values(to_send, rules, endpoint.label)
            if doubtful:
                client.warnings.append(
                    "the BIOS says that these can only be read, which may change with others: " + ", ".join(doubtful)
                )
            waves = in_order(to_send, rules)
        waits = any(live.get(name) != value for name, value in wanted.items())
        restart = reboot if waits and reboot != "none" else None
        if restart:
            # Who looks at the diff must see that a server is restarted for it.
            result.plan = Plan([*plan.changes, Change("restart", None, restart)])
        result.after = {
            "attributes": dict(wanted) if waits and reboot != "none" else {name: live.get(name) for name in wanted}
        }
        result.after["pending"] = (
            {}
            if reboot != "none"
            else {
                name: value
                for name, value in {**({} if clear_pending else pending), **wanted}.items()
                if live.get(name) != value
            }
        )
        result.more = {"reboot_required": waits and reboot == "none", "restart": restart, "job": None}
        if not check:
            if foreign:
                _clear(client, places, live, pending)
                _verify_cleared(client, places, foreign, interval)
            if to_send:
                result.more["job"] = _send(client, places, to_send, waves)
                _verify_pending(client, places, to_send, interval)
        if not check and waits and reboot != "none":
            client.logout()  # the restart takes minutes; the session would only take a place
            _restart(endpoint, reboot, deadline, fence, interval)
            _verify_applied(client, places, wanted, result.more["job"], deadline, interval)
        result.bmc = known_identity(client)
        return result


class _Places:
    """The BIOS of the host and where its pending settings are, each read when asked."""

    def __init__(self, client):
        self.client = client
        uri = transform.link(client.system(), "Bios")
        if not uri:
            raise Unsupported(
                "this BMC shows no BIOS of the server",
                host=client.endpoint.label,
                thing=transform.text(client.system(), "@odata.id"),
                wanted="a link Bios",
                next_step="set it in the BIOS setup (bmc_boot target: bios), or update the BMC's firmware",
            )
        self.uri = uri
        self.bios = client.get(uri)
        self.settings_uri = transform.link(self.bios, "@Redfish.Settings", "SettingsObject") or self._search()

    def _search(self):
        """AMI without the link: at known names below. Else the Bios resource takes the values itself, as DSP0266 has it where there is no settings object."""
        for name in self.client.quirks(manager=True)["bios_settings"]:
            uri = f"{self.uri.rstrip('/')}/{name}"
            try:
                self.client.get(uri)
                return uri
            except HttpError as error:
                if error.status not in (404, 405):
                    raise
        return self.uri

    def read(self):
        self.bios = self.client.get(self.uri)
        settings = self.bios if self.settings_uri == self.uri else self.client.get(self.settings_uri)
        return observed(self.bios, settings)


def _known(client, attributes, live, pending):
    """The wanted attributes in the BMC's kinds; an unknown name lists those that were probably meant."""
    found = {}
    for name, value in attributes.items():
        if name not in live and name not in pending:
            near = near_names(str(name), live)
            raise NotFound(
                "the BIOS has no such attribute",
                host=client.endpoint.label,
                thing=name,
                wanted=f"one of its {len(live)} attributes",
                seen="near ones: " + ", ".join(near) if near else "no near name",
                next_step=(f"did you mean {near[0]}? " if near else "")
                + "names differ between models and BIOS versions; some appear only after a restart of the BMC (bmc_reset)",
            )
        found[name] = as_kind_of(value, live.get(name, pending.get(name)), client.endpoint.label, name)
    return found


def _rules(client, resource):
    """The rules of the attribute registry, or {} where the BMC does not give it (many do not): then the BMC itself judges."""
    name = transform.text(resource, "AttributeRegistry")
    collection = transform.link(client.root(), "Registries")
    if not name or not collection:
        return {}

    def plain(text):
        return re.sub(r"[^a-z0-9]", "", re.sub(r"\.json$", "", str(text).lower()))

    page = client.optional(collection, "the registries") or {}
    uris = [transform.text(item, "@odata.id") for item in transform.members_of(page) if isinstance(item, dict)]
    ours = [uri for uri in uris if plain(uri.rstrip("/").rsplit("/", 1)[-1]) == plain(name)]
    ours = ours or [uri for uri in uris if "biosattributeregistry" in plain(uri.rstrip("/").rsplit("/", 1)[-1])]
    if len(ours) != 1:
        return {}
    places = (client.optional(ours[0], None) or {}).get("Location")
    places = [place for place in places if isinstance(place, dict)] if isinstance(places, list) else []
    place = next(
        (item for item in places if transform.text(item, "Language").startswith("en")), places[0] if places else {}
    )
    if not transform.text(place, "Uri"):
        return {}
    try:
        with client.patient(60.0):
            return registry_attributes(client.get(transform.text(place, "Uri")))
    except BaremetalError as error:
        if error.code in ("deadline_exceeded", "authentication_failed"):
            raise
        return {}


def _send(client, places, values, waves):
    """PATCH what differs, in one request; in waves only where the BMC refuses one because of another. Returns the URI of the BMC's job, if it made one."""
    try:
        return _patch(client, places, values)
    except HttpError as error:
        if error.status in (400, 409) and len(waves) > 1 and any(error.names(name) for name in values):
            job = None
            for wave in waves:
                job = _patch(client, places, {name: values[name] for name in wave}) or job
            return job
        _name_refused(client, error, values)
        raise


def _patch(client, places, values):
    body = {"Attributes": values}
    times = transform.strings(transform.dig(places.bios, "@Redfish.Settings", "SupportedApplyTimes"))
    if "OnReset" in times:
        # On Dell this makes the job at once; making one with a second request would be refused.
        body["@Redfish.SettingsApplyTime"] = {"ApplyTime": "OnReset"}
    try:
        try:
            answer = client.patch(places.settings_uri, body)
        except HttpError as error:
            if error.status != 400 or len(body) == 1 or not error.names("@Redfish.SettingsApplyTime"):
                raise
            body.pop("@Redfish.SettingsApplyTime")
            answer = client.patch(places.settings_uri, body)
    except AnswerLost:
        client.warnings.append("the answer to the BIOS settings was lost; the pending values were read instead")
        return None
    handle = tasks.handle_of(answer)
    return handle.task or handle.monitor


def _name_refused(client, error, values):
    """Say more about a refusal than the BMC does: which job blocks it, or which attribute it does not take."""
    if error.status in (409, 503):
        job = queued_job(client)
        error.message = "the BMC takes no BIOS settings now"
        error.seen = f"{error.seen}; " + (
            f"job {job['id']} ({job['name']}) is {job['said']}" if job else "no queued job can be seen"
        )
        error.next_step = (
            "restart the server so that the job is done, or give clear_pending: true to throw its values away; "
            "a job that never ends goes with a restart of the BMC (bmc_reset)"
        )
    elif error.status == 400:
        named = [name for name in values if error.names(name)]
        if named:
            error.thing = ", ".join(named)
            error.next_step = "leave these out or set what they depend on first; bmc_info shows what the BIOS has"


def queued_job(client):
    """{id, uri, name, said} of a BIOS job that has not ended, or None: from the task service, the job service and the manager's own jobs."""
    root = client.root()
    services = [client.optional(transform.link(root, name), None) or {} for name in ("Tasks", "JobService")]
    collections = [transform.link(services[0], "Tasks"), transform.link(services[1], "Jobs")]
    collections.append(transform.link(client.manager(), "Links", "Oem", "Dell", "Jobs"))
    for collection in collections:
        for item in client.members(collection, None)[:MOST_JOBS] if collection else []:
            word, said = tasks.state_of(item)
            label = " ".join(transform.text(item, key) for key in ("Name", "JobType", "Description"))
            if word in (tasks.RUNNING, tasks.WAITING) and re.search(r"bios", label, re.IGNORECASE):
                return {
                    "id": transform.text(item, "Id"),
                    "uri": transform.text(item, "@odata.id"),
                    "name": transform.text(item, "Name"),
                    "said": said,
                }
    return None


def _clear(client, places, live, pending):
    """Throw away what is pending: by the vendor's action, by deleting the job, or by setting the present values again."""
    settings = client.get(places.settings_uri)
    oem = transform.dig(settings, "Actions", "Oem")
    for name, action in (oem if isinstance(oem, dict) else {}).items():
        if name.endswith("ClearPending") and transform.text(action, "target"):
            client.post(transform.text(action, "target"))
            return
    job = queued_job(client)
    if job:
        client.delete(job["uri"])
    back = {name: live[name] for name in pending if name in live}
    if back:
        try:
            _patch(client, places, back)
        except HttpError as error:
            _name_refused(client, error, back)
            raise


def _verify_cleared(client, places, foreign, interval):
    def left(state):
        return {name: value for name, value in state[1].items() if name in foreign}

    read_until(
        client,
        _part(client),
        places.read,
        lambda state: not left(state),
        thing="BIOS settings",
        wanted="none of the values that were pending",
        message="the BMC accepted to throw the pending BIOS settings away and still shows them",
        next_step="delete the job on the BMC's web page, or restart the BMC (bmc_reset), and try again",
        interval=interval,
        describe=lambda state: _words(left(state)),
    )


def _part(client):
    return Deadline(
        min(PENDING_SHOWS_S, client.deadline.remaining()), "pending BIOS settings", host=client.endpoint.label
    )


def _verify_pending(client, places, values, interval):
    def missing(state):
        live, pending = state
        return {
            name: pending.get(name, live.get(name))
            for name, value in values.items()
            if pending.get(name, live.get(name)) != value
        }

    read_until(
        client,
        _part(client),
        places.read,
        lambda state: not missing(state),
        thing="BIOS settings",
        wanted=_words(values),
        message="the BMC accepted the BIOS settings but does not show them as pending",
        next_step="restart the BMC (bmc_reset) and try again; some attributes depend on others",
        interval=interval,
        describe=lambda state: _words(missing(state)),
    )


def _restart(endpoint, how, deadline, fence, interval):
    """Restart the server, or switch it on where it is off: pending settings are taken by its next start."""
    present = power(endpoint, "on", deadline.remaining() or 1.0, check=True).before["power"]
    if present == "off":
        power(endpoint, "on", deadline.remaining() or 1.0, fence=fence, interval=interval)
    elif how == "force":
        power(endpoint, "reset", deadline.remaining() or 1.0, fence=fence, interval=interval)
    else:
        graceful_s = max(1.0, min(600.0, deadline.remaining() / 3))
        power(endpoint, "graceful", deadline.remaining() or 1.0, graceful_s=graceful_s, fence=fence, interval=interval)
        power(endpoint, "on", deadline.remaining() or 1.0, fence=fence, interval=interval)


def _verify_applied(client, places, wanted, job, deadline, interval):
    """Done is: the values run, and no BIOS job is under way (iDRAC shows new values before its job has ended)."""

    def read():
        live, _pending = places.read()
        rest = {name: live.get(name) for name, value in wanted.items() if live.get(name) != value}
        said = ""
        if not rest and job:
            try:
                word, said = tasks.state_of(client.look(job).body)
                if word == tasks.FAILED:
                    raise Refused(
                        "the BIOS job failed",
                        host=client.endpoint.label,
                        thing=job,
                        wanted="completed",
                        seen=said,
                        next_step="read the BMC's log (bmc_log) for the reason",
                        code="task_failed",
                    )
                said = "" if word in (None, tasks.DONE) else f"the job is {said}"
            except HttpError as error:
                if error.status not in (404, 410):
                    raise
        return rest, said

    read_until(
        client,
        deadline,
        read,
        lambda state: not state[0] and not state[1],
        thing="BIOS settings",
        wanted=_words(wanted),
        message="the server was restarted and the BIOS settings do not run",
        next_step="look at the server's console: the BIOS may have refused a value or still be in its self-test",
        interval=max(interval, 0.05),
        describe=lambda state: _words(state[0]) or state[1],
        code="bios_not_applied",
    )


def _words(values):
    words = [f"{name}={value}" for name, value in list(values.items())[:8]]
    return ", ".join(words) + (f" and {len(values) - 8} more" if len(values) > 8 else "")
