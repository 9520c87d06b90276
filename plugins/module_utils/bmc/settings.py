# Settings of the BMC itself: name, time servers, name servers, IPMI over LAN, where events go; and the secure boot state of its server.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from ..core.deadline import Deadline
from ..core.errors import InvalidInput, Unsupported
from ..core.plan import Change, Plan
from . import connect, transform
from .endpoint import check_seconds
from .errors import AnswerLost, HttpError, read_messages
from .result import Result, known_identity, read_until

NAMES = ("hostname", "ntp_servers", "ntp_enabled", "dns_servers", "ipmi_over_lan", "secure_boot", "event_destinations")
EVENT_PROTOCOLS = ("Redfish", "SyslogUDP", "SyslogTCP", "SyslogTLS")
# What BMCs put in the places of a list that are empty.
EMPTY = ("", "0.0.0.0", "::", "(null)", "none", "null")
VERIFY_S = 60.0
# RFC 1123, 2.1: letters, digits and hyphens, at most 63 in a label, which a hyphen neither begins nor ends; 253 in all (RFC 1035, 2.3.4)
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
MOST_NAME = 253
# Properties that a refusal names -> the option that it is about
PROPERTIES = {
    "hostname": ("HostName",),
    "ntp_servers": ("NTPServers", "StaticNTPServers", "NTP"),
    "ntp_enabled": ("NTP", "ProtocolEnabled"),
    "dns_servers": ("StaticNameServers", "NameServers", "UseDNSServers"),
    "ipmi_over_lan": ("IPMI", "ProtocolEnabled"),
    "secure_boot": ("SecureBootEnable",),
}
# What Base and the vendors' registries call a property that cannot be written (iLO: SNTPConfigurationManagedByDHCPAndIsReadOnly), and one that is not there
READ_ONLY = re.compile(r"NotWritable|ReadOnly|read[- ]only|NotModifiable", re.IGNORECASE)
NOT_OFFERED = re.compile(r"PropertyUnknown|NotSupported|Unsupported", re.IGNORECASE)
BMC_RESET = re.compile(r"\.(ResetRequired|iLOResetRequired|ManagerResetRequired)$", re.IGNORECASE)


# ---- pure ---------------------------------------------------------------------------------------------------------------------------------
def real_items(value):
    """The entries of a list of addresses or names without the fillers."""
    return [item.strip() for item in transform.strings(value) if item.strip().lower() not in EMPTY]


def same_destination(one, other):
    def plain(text):
        text = str(text or "").strip().lower().rstrip("/")
        return text.split("://", 1)[-1] if text.startswith("syslog://") else text

    return plain(one) == plain(other)


def is_address(text):
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return True


def is_name(text):
    """Whether it can be the name of a machine, with or without a domain. Four numbers are an address, or were meant to be one."""
    text = str(text)
    labels = text.rstrip(".").split(".")
    return len(text) <= MOST_NAME and all(map(LABEL.fullmatch, labels)) and not labels[-1].isdigit()


def is_destination(text, protocol):
    """Whether events can be sent there: a URL for Redfish, host:port (a URL for some) for syslog."""
    whole = text if "://" in text else f"syslog://{text}"
    try:
        parts = urlsplit(whole)
        host, _port = parts.hostname, parts.port  # a port that is none raises
    except ValueError:
        return False
    if protocol == "Redfish" and parts.scheme not in ("http", "https"):
        return False
    return bool(host) and (is_address(host) or is_name(host)) and not re.search(r"\s", text)


def check_names(wanted, host=None):
    """InvalidInput for what can be no name or address, before anything is sent: BMCs differ in what they take, and in what they then do."""
    name = wanted["hostname"]
    if name is not None and not is_name(name):
        raise InvalidInput(
            "this cannot be the name of a machine",
            host=host,
            thing="hostname",
            wanted="letters, digits and hyphens (no underscore), 63 at most between dots, no hyphen at either end, not only digits",
            seen=repr(name),
        )
    for option, fits, words in (
        ("ntp_servers", lambda item: is_address(item) or is_name(item), "an IP address or a host name each"),
        ("dns_servers", is_address, "an IP address each: a name could not be looked up"),
    ):
        wrong = [item for item in wanted[option] or () if not fits(item)]
        if wrong:
            raise InvalidInput(
                "this cannot be the address of a server",
                host=host,
                thing=option,
                wanted=words,
                seen=", ".join(map(repr, wrong)),
            )
    for item in wanted["event_destinations"] or ():
        # What is to go away may be as wrong as it is.
        if item["state"] == "present" and not is_destination(str(item["destination"]), item["protocol"]):
            raise InvalidInput(
                "events cannot be sent there",
                host=host,
                thing="event_destinations",
                wanted="an http or https URL" if item["protocol"] == "Redfish" else "host:port of a syslog server",
                seen=repr(item["destination"]),
            )


def event_word(item):
    return f"{item['protocol']} {item['destination']}"


def plan_settings(have, wanted):
    """Pure: the Plan between what the BMC has (`facts`) and the options that were given (None: not asked)."""
    changes = []
    for name in NAMES[:-1]:
        if wanted.get(name) is not None:
            changes.append(Change(name, have.get(name), wanted[name]))
    for item in wanted.get("event_destinations") or ():
        found = next(
            (
                one
                for one in have["event_destinations"]
                if same_destination(one["destination"], item["destination"]) and one["protocol"] == item["protocol"]
            ),
            None,
        )
        before = event_word(found) if found else None
        changes.append(
            Change(
                f"event {event_word(item)}",
                before,
                before
                if found and item["state"] == "present"
                else (event_word(item) if item["state"] == "present" else None),
            )
        )
    return Plan(changes)


def clean(options, host=None):
    """The options in their normal form; InvalidInput names the wrong one."""
    wanted = {name: options.get(name) for name in NAMES}
    for name in ("ntp_servers", "dns_servers"):
        if wanted[name] is not None:
            wanted[name] = [str(item).strip() for item in wanted[name] if str(item).strip()]
    if wanted["hostname"] is not None:
        wanted["hostname"] = str(wanted["hostname"]).strip()
    events = []
    for item in wanted["event_destinations"] or ():
        entry = {
            "protocol": "Redfish",
            "state": "present",
            "context": "",
            **{key: value for key, value in item.items() if value is not None},
        }
        if (
            not entry.get("destination")
            or entry["protocol"] not in EVENT_PROTOCOLS
            or entry["state"] not in ("present", "absent")
        ):
            raise InvalidInput(
                "an event destination cannot be read",
                host=host,
                thing="event_destinations",
                wanted="destination, protocol (" + ", ".join(EVENT_PROTOCOLS) + "), state (present or absent)",
                seen=item,
            )
        events.append(entry)
    wanted["event_destinations"] = events or None
    if all(value is None for value in wanted.values()):
        raise InvalidInput(
            "there is nothing to set", host=host, thing="settings", wanted=" or ".join(NAMES), seen="none of them"
        )
    check_names(wanted, host)
    return wanted


# ---- the operation --------------------------------------------------------------------------------------------------------------------------
def settings(endpoint, options, deadline_s=120.0, check=False, fence=None, interval=1.0):
    """Set what `options` (NAMES) says and leave the rest. The secure boot state is taken by the server's next start (`reboot_required`)."""
    check_seconds("timeout", deadline_s, endpoint.label)
    wanted = clean(options, endpoint.label)
    endpoint.require_redfish("these settings need Redfish")
    deadline = Deadline(deadline_s, "the settings of the BMC", host=endpoint.label)
    with connect(endpoint, deadline, fence) as client:
        client.login()
        places = _Places(client, wanted)
        have = places.facts()
        plan = plan_settings(have, wanted)
        asked = [name for name in NAMES if wanted[name] is not None]
        result = Result(
            plan.changed, plan, {name: have.get(name) for name in asked}, warnings=client.warnings, source=client.source
        )
        result.after = _after(have, wanted, asked)
        if plan.changed and not check:
            _apply(client, places, have, wanted, {change.thing for change in plan.changes})
            have = _verify(client, places, wanted, deadline, interval)
        result.more = {
            "reboot_required": places.waits_for_reboot(wanted),
            "bmc_reset_required": places.bmc_reset_required,
        }
        result.bmc = known_identity(client)
        return result


def read_settings(client):
    """{name: value} of all that `settings` can set, as this BMC has it; None for what it does not show."""
    found, known = {}, {}
    for name in NAMES:
        # any value will do: it only says which resources are to be read
        wanted = {**dict.fromkeys(NAMES), name: [{}] if name == "event_destinations" else True}
        try:
            value = _Places(client, wanted, known).facts().get(name)
        except Unsupported:
            value = None
        if name == "event_destinations" and value is not None:
            value = [{key: one[key] for key in ("protocol", "destination")} for one in value]
        found[name] = value
    return found


def _after(have, wanted, asked):
    after = {name: wanted[name] for name in asked if name != "event_destinations"}
    if "event_destinations" in asked:
        gone = [item for item in wanted["event_destinations"] if item["state"] == "absent"]
        kept = [
            {"protocol": one["protocol"], "destination": one["destination"]}
            for one in have["event_destinations"]
            if not any(
                same_destination(one["destination"], item["destination"]) and one["protocol"] == item["protocol"]
                for item in gone
            )
        ]
        for item in wanted["event_destinations"]:
            if item["state"] == "present" and not any(
                same_destination(one["destination"], item["destination"]) and one["protocol"] == item["protocol"]
                for one in kept
            ):
                kept.append({"protocol": item["protocol"], "destination": item["destination"]})
        after["event_destinations"] = kept
    return after


class _Places:
    """The resources that hold these settings; only those that are asked for are read.

    `known`: resources that were read already, for a caller that has nothing written between; without it each look reads them anew.
    """

    def __init__(self, client, wanted, known=None):
        self.client, self.wanted, self._known = client, wanted, known
        self.network = self.nic = self.secure = self.clock = None
        self.network_uri = self.nic_uri = self.secure_uri = self.clock_uri = None
        self.bmc_reset_required = False
        if any(wanted[name] is not None for name in ("ntp_servers", "ntp_enabled", "ipmi_over_lan", "hostname")):
            self.network_uri = self._link(client.manager(), "NetworkProtocol", needed=wanted["hostname"] is None)
        if any(wanted[name] is not None for name in ("dns_servers", "hostname")):
            try:
                self.nic_uri = self._find_nic()
            except Unsupported:
                if wanted["dns_servers"] is not None or not self.network_uri:
                    raise  # the name is in NetworkProtocol too
        if wanted["secure_boot"] is not None:
            self.secure_uri = self._link(client.system(), "SecureBoot", needed=True)

    def _get(self, uri):
        if self._known is None:
            return self.client.get(uri)
        if uri not in self._known:
            self._known[uri] = self.client.get(uri)
        return self._known[uri]

    def _link(self, owner, name, needed):
        uri = transform.link(owner, name)
        if not uri and needed:
            raise Unsupported(
                "the BMC does not show this by Redfish",
                host=self.client.endpoint.label,
                thing=name,
                wanted=f"a link {name} of {transform.text(owner, '@odata.id')}",
                seen="none",
                next_step="set it on the BMC's web page, or update its firmware",
                code="setting_not_offered",
            )
        return uri or None

    def _clock_link(self):
        """iLO keeps time servers in a resource of its own, which the manager's Oem names; NTP is null in its NetworkProtocol."""
        oem = self.client.manager().get("Oem")
        for vendor in oem.values() if isinstance(oem, dict) else ():
            for key in ("Links", "links"):
                uri = transform.link(vendor, key, "DateTimeService")
                if uri:
                    return uri
        return None

    def _find_nic(self):
        """The manager's interface that we talk to; else the first that is switched on and is no link to the host."""
        found = self.client.members(
            transform.link(self.client.manager(), "EthernetInterfaces"), "the interfaces of the BMC"
        )
        found = [item for item in found if transform.text(item, "@odata.id")]
        for item in found:
            entries = [entry for key in ("IPv4Addresses", "IPv6Addresses") for entry in transform.items(item, key)]
            addresses = [transform.text(entry, "Address") for entry in entries]
            if self.client.endpoint.address in addresses:
                return transform.text(item, "@odata.id")
        inner = ("tohost", "usb", "host", "hmc")
        outer = [
            item
            for item in found
            if item.get("InterfaceEnabled") is not False
            and not any(word in transform.text(item, "Id").lower() for word in inner)
        ]
        if not outer and not found:
            raise Unsupported(
                "the BMC shows no interface of its own",
                host=self.client.endpoint.label,
                thing="EthernetInterfaces",
                wanted="one of the manager",
                seen="none",
                next_step="set it on the BMC's web page",
                code="setting_not_offered",
            )
        return transform.text((outer or found)[0], "@odata.id")

    def facts(self):
        """{name: value} of what was asked for."""
        client, wanted, found = self.client, self.wanted, {"event_destinations": []}
        if self.network_uri:
            self.network = self._get(self.network_uri)
            ntp = transform.dig(self.network, "NTP")
            if not isinstance(ntp, dict) and wanted["ntp_servers"] is not None:
                self.clock_uri = self._clock_link()
            if self.clock_uri:
                self.clock = self._get(self.clock_uri)
            found["ntp_servers"] = real_items(
                self.clock.get("StaticNTPServers") if self.clock else transform.dig(ntp, "NTPServers")
            )
            found["ntp_enabled"] = transform.dig(ntp, "ProtocolEnabled")
            found["ipmi_over_lan"] = transform.dig(self.network, "IPMI", "ProtocolEnabled")
            found["hostname"] = transform.text(self.network, "HostName") or None
        if self.nic_uri:
            self.nic = self._get(self.nic_uri)
            found["dns_servers"] = real_items(self.nic.get(self._dns_key()))
            if transform.text(self.nic, "HostName"):
                found["hostname"] = transform.text(self.nic, "HostName")
        if self.secure_uri:
            self.secure = self._get(self.secure_uri)
            later = transform.link(self.secure, "@Redfish.Settings", "SettingsObject")
            place = client.optional(later, None) if later else None
            found["secure_boot"] = transform.dig(
                place if place and "SecureBootEnable" in place else self.secure, "SecureBootEnable"
            )
        if wanted["event_destinations"]:
            found["event_destinations"] = self.subscriptions()
        self._refuse_absent(found)
        return found

    def _refuse_absent(self, found):
        for name, key, place in (
            ("ntp_servers", "NTP", self.network),
            ("ntp_enabled", "NTP", self.network),
            ("ipmi_over_lan", "IPMI", self.network),
        ):
            if name == "ntp_servers" and self.clock and isinstance(self.clock.get("StaticNTPServers"), list):
                continue
            if self.wanted[name] is not None and not isinstance(transform.dig(place, key), dict):
                self._not_offered(
                    name,
                    f"{key} in {self.network_uri}",
                    "leave ntp_enabled out: this BMC asks the time servers that it has, and an empty list of them means none"
                    if name == "ntp_enabled" and self._clock_link()
                    else "set it on the BMC's web page, or update its firmware",
                )
        if self.wanted["secure_boot"] is not None and not isinstance(found.get("secure_boot"), bool):
            self._not_offered(
                "secure_boot", f"SecureBootEnable in {self.secure_uri}", "set it in the server's own setup"
            )
        if self.wanted["hostname"] is not None and not (
            "HostName" in (self.nic or {}) or "HostName" in (self.network or {})
        ):
            self._not_offered(
                "hostname", f"HostName in {self.nic_uri or self.network_uri}", "set it on the BMC's web page"
            )
        if self.wanted["dns_servers"] is not None and self._dns_key() not in self.nic:
            self._not_offered("dns_servers", f"StaticNameServers in {self.nic_uri}", "set it on the BMC's web page")

    def _not_offered(self, name, wanted, next_step):
        raise Unsupported(
            "the BMC does not show this by Redfish",
            host=self.client.endpoint.label,
            thing=name,
            wanted=wanted,
            seen="none",
            next_step=next_step,
            code="setting_not_offered",
        )

    def _dns_key(self):
        return "StaticNameServers" if "StaticNameServers" in self.nic else "NameServers"

    def collection(self):
        client = self.client
        service = client.optional(transform.link(client.root(), "EventService"), None) or {}
        uri = transform.link(service, "Subscriptions")
        if not uri:
            raise Unsupported(
                "the BMC has no event service",
                host=client.endpoint.label,
                thing="event_destinations",
                wanted="EventService/Subscriptions",
                seen="none",
                next_step="use SNMP or syslog on the BMC's web page",
                code="setting_not_offered",
            )
        return uri

    def subscriptions(self):
        absent = any(item.get("state") == "absent" for item in self.wanted["event_destinations"])
        return [
            {
                "uri": transform.text(item, "@odata.id"),
                "destination": transform.text(item, "Destination"),
                "protocol": transform.text(item, "Protocol") or "Redfish",
            }
            for item in self.client.members(self.collection(), "the event destinations", certain=absent)
            if transform.text(item, "Destination")
        ]

    def waits_for_reboot(self, wanted):
        """The secure boot state that runs is another than the one that is set."""
        if wanted["secure_boot"] is None or self.secure is None:
            return False
        now = transform.text(self.secure, "SecureBootCurrentBoot")
        return bool(now) and (now == "Enabled") is not wanted["secure_boot"]


def _apply(client, places, have, wanted, things):
    body = {}
    ntp = {}
    if "ntp_servers" in things and not places.clock_uri:
        ntp["NTPServers"] = wanted["ntp_servers"]
    if "ntp_enabled" in things:
        ntp["ProtocolEnabled"] = wanted["ntp_enabled"]
    if ntp:
        body["NTP"] = ntp
    if "ipmi_over_lan" in things:
        body["IPMI"] = {"ProtocolEnabled": wanted["ipmi_over_lan"]}
    nic = {}
    if "hostname" in things:
        if places.nic is not None and "HostName" in places.nic:
            nic["HostName"] = wanted["hostname"]
        else:
            body["HostName"] = wanted["hostname"]
    if "dns_servers" in things:
        nic[places._dns_key()] = wanted["dns_servers"]
        if transform.dig(places.nic, "DHCPv4", "UseDNSServers") is True:
            nic["DHCPv4"] = {"UseDNSServers": False}
    try:
        if nic:
            _patch(places, places.nic_uri, nic, things & {"hostname", "dns_servers"})
        if places.clock_uri and "ntp_servers" in things:
            # Places of the list that are not sent keep what they have.
            room = len(places.clock["StaticNTPServers"]) - len(wanted["ntp_servers"])
            servers = [*wanted["ntp_servers"], *[""] * max(0, room)]
            _patch(places, places.clock_uri, {"StaticNTPServers": servers}, {"ntp_servers"})
        if "secure_boot" in things:
            later = transform.link(places.secure, "@Redfish.Settings", "SettingsObject")
            _patch(places, later or places.secure_uri, {"SecureBootEnable": wanted["secure_boot"]}, {"secure_boot"})
        for item in wanted["event_destinations"] or ():
            if f"event {event_word(item)}" in things:
                _event(client, places, have, item)
        # The protocols last: who switches IPMI or the network off may lose the BMC for a moment.
        if body:
            _patch(
                places, places.network_uri, body, things & {"ntp_servers", "ntp_enabled", "ipmi_over_lan", "hostname"}
            )
    except AnswerLost:
        client.warnings.append("the answer to a change of the settings was lost; they were read instead")


def _patch(places, uri, body, options):
    """PATCH; a refusal that means "not here" becomes a typed error that names the option. Some BMCs say it in an answer of success."""
    client = places.client
    try:
        answer = client.patch(uri, body)
    except HttpError as error:
        refused = _refusal(client, uri, options, error.status, error.messages, error.seen)
        if refused is None:
            raise
        raise refused
    messages = read_messages(answer.body)
    if any(BMC_RESET.search(item["id"]) for item in messages):
        places.bmc_reset_required = True
    refused = _refusal(client, uri, options, answer.status, messages, None)
    if refused is not None:
        raise refused


def _refusal(client, uri, options, status, messages, seen):
    said = "; ".join(f"{item['id'].rsplit('.', 1)[-1]}: {item['text']}".strip(": ") for item in messages)
    if READ_ONLY.search(said):
        text, code = "the BMC does not let this setting be changed", "setting_read_only"
    elif status in (405, 501) or NOT_OFFERED.search(said):
        text, code = "the BMC does not have this setting by Redfish", "setting_not_offered"
    else:
        return None
    error = HttpError(text, status=status, messages=messages)
    named = [option for option in NAMES if option in options and any(map(error.names, PROPERTIES[option]))]
    dhcp = "dhcp" in said.lower()
    return Unsupported(
        text,
        host=client.endpoint.label,
        thing=", ".join(named or sorted(options)),
        wanted=f"a property that can be written in {uri}",
        seen=seen or said[:400],
        next_step="DHCP decides it on this BMC: switch that off there, or let DHCP give the value"
        if dhcp
        else "set it on the BMC's web page or in the server's setup; leave the option out for this BMC",
        code=code,
    )


def _event(client, places, have, item):
    if item["state"] == "absent":
        for one in have["event_destinations"]:
            if same_destination(one["destination"], item["destination"]) and one["protocol"] == item["protocol"]:
                client.delete(one["uri"])
        return
    body = {"Destination": item["destination"], "Protocol": item["protocol"], "Context": item["context"] or "aicluster"}
    if item["protocol"] == "Redfish":
        body["EventFormatType"] = "Event"
    else:
        body["SubscriptionType"] = "Syslog"
    collection = places.collection()
    for _unused in range(3):
        try:
            client.post(collection, body)
            return
        except HttpError as error:
            # Services before 1.5 know neither, and some want EventTypes instead.
            named = [
                name
                for name in ("EventFormatType", "SubscriptionType", "Context")
                if name in body and error.names(name)
            ]
            needs_types = error.status == 400 and "EventTypes" not in body and error.names("EventTypes")
            if error.status == 400 and not (named or needs_types) and error.names("Protocol"):
                raise Unsupported(
                    "the BMC does not send events in this way",
                    host=client.endpoint.label,
                    thing=f"event_destinations {event_word(item)}",
                    wanted=f"protocol {item['protocol']}",
                    seen=error.seen,
                    next_step="use protocol Redfish, or the BMC's own syslog settings on its web page",
                    code="setting_not_offered",
                )
            if error.status != 400 or not (named or needs_types):
                raise
            for name in named:
                body.pop(name)
            if needs_types:
                body["EventTypes"] = ["Alert"]


def _verify(client, places, wanted, deadline, interval):
    def describe(have):
        rest = plan_settings(have, wanted)
        return ", ".join(f"{change.thing}: {change.before}" for change in rest.changes)

    return read_until(
        client,
        Deadline(min(VERIFY_S, deadline.remaining()), "the settings of the BMC", host=client.endpoint.label),
        places.facts,
        lambda have: not plan_settings(have, wanted).changed,
        thing="settings of the BMC",
        wanted=", ".join(
            f"{name}: {value}" for name, value in wanted.items() if value is not None and name != "event_destinations"
        )
        or "the event destinations",
        message="the BMC accepted the settings but does not show them",
        next_step="the BMC says that it wants a restart first: bmc_reset, then run again"
        if places.bmc_reset_required
        else "some need a restart of the BMC (bmc_reset), others are decided by DHCP; look at its web page",
        interval=interval,
        describe=describe,
    )
