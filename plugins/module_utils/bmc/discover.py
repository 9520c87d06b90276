# The discover stage: find BMCs, log in, put their accounts on a site credential, read the hardware, and record it all.
#
# What must be remembered is passed in: `registry` (the node records), `secrets` (get, has, add), `far` (does the BMC work: here, or on another machine).
# Order of one new BMC, so that a crash at any point loses nothing: read the serial with the factory account; store the new password; record the node with
# its reference; only then change the password on the BMC; verify by logging in. The next run tries the site credential first and so never guesses twice.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import secrets as randomness
import string
from concurrent.futures import ThreadPoolExecutor

from ..core import node_columns
from ..core.errors import AuthenticationFailed, BaremetalError, Conflict, InvalidInput, NotFound, Refused, Unreachable
from ..core.outcome import COULD_NOT_TEST, FAIL, PASS
from ..core.plan import Change, Plan
from ..core.redact import redact
from ..core.texts import clean_all
from . import connect, operations, scan, sources
from .endpoint import DEFAULT_PORT, IPMI_PASSWORD_BYTES, Endpoint

# What changes by itself between two looks is no inventory: power, health, the boot override.
VOLATILE = {"system": ("power", "health")}
FACT_SECTIONS = ("system", "bmc", "processors", "memory", "nics", "drives", "gpus", "firmware")
PART_KINDS = {"processors": "cpu", "memory": "memory", "nics": "nic", "drives": "drive", "gpus": "gpu"}
PLACE = ("site", "rack", "slot", "role", "platform", "tenant")
EXPECTED_ALSO = ("bmc_address", "bmc_protocol", "provision_mac", "provision_ip", "provision_prefix", "ansible_host")
# Node states in which discovery may still move a node on; in all later ones it only refreshes the record.
EARLY = ("registered", "verifying", "verifying_failed", "manageable", "inspecting", "inspecting_failed")

# The check by which `why` tells of a BMC that lets nobody in, in whatever state its node is.
ACCESS_CHECK = "bmc_access"
# Failures of ours, before anything was asked of the BMC: they say nothing about it, so no node moves because of them.
NOT_TRIED = ("no_credential", "secret_not_found", "no_account", "internal", "name_unknown")
NEVER_READ = ("registered", "verifying", "verifying_failed")


# ---- pure parts -----------------------------------------------------------------------------------------------------------------------------
def check_password_length(length):
    if not 12 <= length <= IPMI_PASSWORD_BYTES:
        raise InvalidInput(
            "this password length cannot work",
            thing="password length",
            wanted=f"12 to {IPMI_PASSWORD_BYTES}",
            seen=length,
            next_step="correct discover_password_length",
        )


def account_of(reference, secret):
    """{username, password} of an entry of the secret store; InvalidInput where it is no account."""
    account = {key: str(secret.get(key) or "") for key in ("username", "password")}
    lacking = [key for key, value in account.items() if not value]
    if lacking:
        raise InvalidInput(
            "an entry of the secret store is no account",
            thing=f"entry {reference}",
            wanted="username and password",
            seen=f"no {' and no '.join(lacking)}",
            next_step=f"complete the entry `{reference}` in the secret store",
            code="no_account",
        )
    return account


def generate_password(length=16):
    """A random password that every BMC takes: at most 20 bytes (IPMI 2.0), all four kinds of characters, no character that needs quoting anywhere."""
    check_password_length(length)
    kinds = (string.ascii_lowercase, string.ascii_uppercase, string.digits, "-_.")
    while True:
        word = "".join(randomness.choice("".join(kinds)) for unused in range(length))
        # The first character is a letter: a leading dash or digit has upset vendors' parsers.
        if word[0] in string.ascii_letters and all(any(char in kind for char in word) for kind in kinds):
            return word


def node_name(text):
    """A host name made of a serial, for a server that nobody has named yet."""
    return re.sub(r"[^a-z0-9]+", "-", str(text).lower()).strip("-")[:63].rstrip("-")


def read_expected(rows, places=None):
    """The expected-servers list in its normal form: {serial: row}. `protocol` means bmc_protocol; InvalidInput names place, key, wanted and seen.

    `places`: where each row stands ("list.csv line 7"); without it rows are counted from 1.
    """
    known = ("serial", "name", *PLACE, *EXPECTED_ALSO)
    found, taken = {}, {}
    for number, row in enumerate(rows, 1):
        where = places[number - 1] if places else f"expected servers, row {number}"
        if not isinstance(row, dict):
            raise InvalidInput(
                "a row of the expected-servers list cannot be read",
                thing=where,
                wanted="keys and values",
                seen=type(row).__name__,
                next_step=f"correct {where}",
            )
        row = {str(key).strip(): value for key, value in row.items() if value not in (None, "")}
        if "protocol" in row:
            row["bmc_protocol"] = row.pop("protocol")
        unknown = sorted(set(row) - set(known))
        if unknown:
            raise InvalidInput(
                "a row of the expected-servers list cannot be read",
                thing=where,
                wanted="serial and any of protocol, " + ", ".join(known[1:]),
                seen=", ".join(unknown),
                next_step=f"correct {where}",
            )
        serial = node_columns.clean("serial", row.get("serial"), where=where)
        if not serial:
            raise InvalidInput(
                "a row of the expected-servers list has no serial",
                thing=where,
                wanted="the serial that the BMC tells",
                seen=", ".join(f"{key} {value}" for key, value in sorted(row.items())) or "an empty row",
                next_step=f"correct {where}",
            )
        row = {key: node_columns.clean(key, value, serial, where) for key, value in row.items()}
        row = {key: value for key, value in row.items() if value is not None}
        node_columns.check_pair(row.get("provision_ip"), row.get("provision_prefix"), serial, where)
        for thing, value in _alone(row):
            if (thing, value) in taken:
                raise InvalidInput(
                    f"a {thing} is listed twice",
                    host=serial,
                    thing=where,
                    wanted=f"a {thing} of its own for each server",
                    seen=f"{value}, which {taken[(thing, value)]} has too",
                    next_step="correct one of the two",
                )
            taken[(thing, value)] = where
        found[serial] = row
    return found


def _alone(row):
    """(thing, value) of a row that no other row may have. Serials are compared without case: two that differ only there are one server, mistyped."""
    yield "serial", row["serial"].lower()
    for key in ("name", "bmc_address", "provision_mac", "provision_ip", "ansible_host"):
        if row.get(key):
            yield key, str(row[key]).lower()
    place = node_columns.place_of(row)
    if place:
        yield "place", place


def _given(row):
    """A row of the registry's list as one of a file: without what was not given."""
    return {key: value for key, value in row.items() if value is not None}


def _folded(changes):
    """One change a thing, from what it was first to what it is last: a node that moves on twice would otherwise have one of its states as context."""
    folded = {}
    for change in changes:
        before = folded[change.thing].before if change.thing in folded else change.before
        folded[change.thing] = Change(change.thing, before, change.after)
    return list(folded.values())


def _told(item):
    """An item of evidence as one text: what two of them are compared by, and what a diff shows."""
    step = (item.get("detail") or {}).get("next_step")
    return f"{item['outcome']}: {item['value']}" + (f"; next: {step}" if step else "")


def facts_of(info):
    """The part of an inventory that is recorded: without what changes by itself."""
    facts = {key: info[key] for key in FACT_SECTIONS if info.get(key)}
    for section, keys in VOLATILE.items():
        if isinstance(facts.get(section), dict):
            facts[section] = {key: value for key, value in facts[section].items() if key not in keys}
    return facts


def parts_of(info):
    """The parts for the registry; two parts in one slot (vendors repeat labels) get a number."""
    parts, slots = [], set()
    for section, kind in PART_KINDS.items():
        for item in info.get(section) or []:
            slot, count = str(item.get("slot") or len(parts)), 1
            while (kind, slot) in slots:
                count += 1
                slot = f"{item.get('slot')}#{count}"
            slots.add((kind, slot))
            rest = {key: value for key, value in item.items() if key not in ("slot", "kind") and value is not None}
            parts.append({"kind": kind, "slot": slot, **rest})
    return parts


def provision_mac(info, slot=None):
    """The MAC that netboots: the NIC in `slot`, or without one the first NIC that the BMC lists. None where there is no such NIC."""
    nics = [nic for nic in info.get("nics") or [] if nic.get("mac")]
    if slot:
        nics = [nic for nic in nics if str(nic.get("slot")).lower() == str(slot).lower()]
    return nics[0]["mac"] if nics else None


def compare(expected, nodes):
    """{missing, unexpected, misplaced, matched} of the expected list ({serial: row}) against node records.

    Like the registry's own comparison, but a record whose hardware was never read (its BMC did not answer or let nobody in) is still missing.
    """
    found = {node["serial"]: node for node in nodes}
    result = {"missing": [], "unexpected": [], "misplaced": [], "matched": []}
    for serial, row in expected.items():
        node = found.get(serial)
        if node is None or node.get("state") in NEVER_READ:
            result["missing"].append(
                {key: row[key] for key in ("serial", "name", *PLACE, "bmc_address") if row.get(key)}
            )
            continue
        differences = {
            key: [row[key], node.get(key)] for key in PLACE if row.get(key) is not None and row[key] != node.get(key)
        }
        entry = {"serial": serial, "name": node.get("name")}
        if differences:
            result["misplaced"].append({**entry, "differences": differences})
        else:
            result["matched"].append(entry)
    for serial, node in found.items():
        if serial not in expected:
            result["unexpected"].append(
                {
                    key: node[key]
                    for key in ("serial", "name", "rack", "slot", "bmc_address")
                    if node.get(key) is not None
                }
            )
    return result


def columns_of(find, info, row, known, options):
    """The node's columns from what was seen, the expected row and the record that is there. Place: the BMC's own word, else the list's, else the record's."""
    row, known = row or {}, known or {}
    place = info.get("location") or {}
    system = info.get("system") or {}
    columns = {"uuid": system.get("uuid"), "bmc_fingerprint": find.get("fingerprint")}
    # A name stays the name that a person gave, as long as it means the address where the BMC was found.
    named = [other for other in (known.get("bmc_address"), row.get("bmc_address")) if other]
    hosts = options.get("hosts") or {}
    columns["bmc_address"] = next(
        (other for other in named if hosts.get(other.lower()) == find["address"]), find["address"]
    )
    protocol = row.get("bmc_protocol") or known.get("bmc_protocol") or find["protocols"][0]
    columns["bmc_protocol"] = protocol
    columns["bmc_port"] = find["port"] if protocol == find["protocols"][0] else options["ipmi_port"]
    for key in PLACE:
        columns[key] = place.get(key) or row.get(key) or known.get(key)
    if not columns["platform"] and system.get("model"):
        columns["platform"] = node_name(system["model"])
    columns["provision_mac"] = (
        row.get("provision_mac") or known.get("provision_mac") or provision_mac(info, options.get("provision_nic"))
    )
    for key in ("provision_ip", "provision_prefix", "ansible_host"):
        if row.get(key):
            columns[key] = row[key]
    columns["name"] = row.get("name") or known.get("name") or node_name(system.get("serial"))
    return {key: value for key, value in columns.items() if value is not None}


# ---- the work with the BMCs: here, or behind the same three calls on another machine ----------------------------------------------------------
class Here:
    """Does the BMC work in this process, over bounded threads. Every call takes and returns plain data, so that it can be sent elsewhere."""

    def __init__(self, concurrency=16):
        self.concurrency = concurrency

    def scan(self, ranges, port, ipmi_port, timeout):
        return scan.scan(ranges, port, ipmi_port or 0, timeout)

    def ssdp(self, wait_s):
        """[(address, port)] of the Redfish services that answer a search."""
        return sources.ssdp(wait_s)

    def visit(self, targets):
        """For each {address, port, protocol, fingerprint, tls, candidates: [{username, password}], sections}: what `visit` returns."""
        return self._each(visit, targets)

    def rotate(self, targets):
        """For each {address, ..., username, password, new_password, account_uri}: {ok: True} or {error: ...}."""
        return self._each(rotate, targets)

    def _each(self, work, targets):
        if not targets:
            return []
        with ThreadPoolExecutor(max_workers=max(1, min(self.concurrency, len(targets)))) as pool:
            return list(pool.map(lambda target: guarded(work, target), targets))


def guarded(work, target):
    """One BMC's trouble never ends the others' work."""
    try:
        return work(target)
    except BaremetalError as error:
        return {"error": {**error.as_result()["error"], "text": str(error)}}
    except Exception as error:  # a bug or an unheard-of answer: named, and the other BMCs go on
        return {
            "error": {
                "code": "internal",
                "message": f"{type(error).__name__}: {error}",
                "text": f"{target['address']}: {type(error).__name__}: {error}",
            }
        }


def endpoint_for(target, candidate, protocol=None):
    protocol = protocol or target["protocol"]
    return Endpoint(
        address=target["address"],
        port=target["port"] if protocol == target["protocol"] else target.get("ipmi_port") or DEFAULT_PORT[protocol],
        protocol=protocol,
        username=candidate["username"],
        password=candidate["password"],
        fingerprint=target.get("fingerprint") if protocol == "redfish" else None,
        tls=(target.get("tls") or ("pinned" if target.get("fingerprint") else "verify"))
        if protocol == "redfish"
        else "verify",
        name=target.get("name"),
        timeout=target.get("timeout") or 120.0,
        transport=target.get("transport"),
    )


def visit(target):
    """Log in with the first of the candidates that works, and read the inventory.

    {candidate: index, info: {...}} or {candidate: index, must_change: True, account_uri} or raises. Each candidate is tried once: BMCs lock accounts.
    """
    last = None
    for index, candidate in enumerate(target["candidates"]):
        try:
            found = operations.info(endpoint_for(target, candidate), target.get("sections"))
        except AuthenticationFailed as error:
            if error.code == "password_change_required":
                uri = error.thing if str(error.thing).startswith("/") else None
                return {"candidate": index, "must_change": True, "account_uri": uri}
            last = error
            continue
        result = {"candidate": index, "info": found}
        if target.get("also_ipmi"):
            operations_ok = operations.can_log_in(
                endpoint_for(target, candidate, "ipmi"), candidate["username"], candidate["password"]
            )
            result["ipmi_ok"] = operations_ok
        return result
    raise last or AuthenticationFailed(
        "there is no credential to try",
        host=target["address"],
        thing="discover_factory_credentials",
        seen="an empty list",
        next_step="name the factory account's entry in the secret store",
        code="no_credential",
    )


def rotate(target):
    """Set `new_password` for the account that we log in with, and prove it by logging in. Well also where another controller has done it already."""
    candidate = {"username": target["username"], "password": target["password"]}
    endpoint = endpoint_for(target, candidate)
    try:
        if endpoint.protocol == "redfish" and target.get("account_uri"):
            # Only the account's own resource can be reached while the BMC insists on a new password.
            with connect(endpoint) as client:
                client.hide(target["new_password"])
                operations.patch_account(
                    client, target["account_uri"], {"Password": target["new_password"]}, etag=False
                )
        else:
            operations.account(endpoint, target["username"], target["new_password"], password_right=False)
            return {"ok": True}
    except AuthenticationFailed:
        if not operations.can_log_in(endpoint, target["username"], target["new_password"]):
            raise
        return {"ok": True}
    if not operations.can_log_in(endpoint, target["username"], target["new_password"]):
        raise Refused(
            "the BMC accepted the new password but does not take it",
            host=endpoint.label,
            thing=f"account {target['username']}",
            seen="the log-in with the new password is refused",
            next_step="look at the account on the BMC itself",
            code="accepted_not_moved",
        )
    return {"ok": True}


# ---- the stage --------------------------------------------------------------------------------------------------------------------------------
class Stage:
    """One run of discovery. `options`: ranges, port, ipmi_port, scan_timeout, sections, rotate, site_reference, site_username, password_length,
    approve (expected|all), provision_nic, accept_misplaced, factory (list of references)."""

    def __init__(self, options, registry, secrets, far, actor, check=False):
        self.options, self.registry, self.secrets, self.far = options, registry, secrets, far
        self.actor, self.check = actor, check
        self.changes, self.problems, self.warnings = [], [], []
        self.records = {}  # serial -> the record as it is (or in check mode would be) after this run
        self.retired, self.retired_pins = {}, {}
        self.access = {}  # serial -> the newest evidence of ACCESS_CHECK
        self.expected, self.places = {}, {}
        self.lost = set()  # addresses of known or listed BMCs that did not answer as one
        self.judged, self.owners = (
            (),
            {},
        )  # serials known before the writing, and {(thing, value): serials} as all will be after it

    def run(self, expected=None, places=None):
        """`expected`: rows of the list, or None for the list that the registry holds; `places`: where each row stands. Returns the report."""
        check_password_length(self.options["password_length"])
        self._check_secrets()
        have = {row["serial"]: _given(row) for row in self.registry.expected()} if self.registry else {}
        self.expected = read_expected(expected, places) if expected is not None else have
        if expected is not None:
            self._save_expected(have)
        for node in self.registry.nodes() if self.registry else []:
            self.records[node["serial"]] = node
        if self.registry:
            self.retired = {node["serial"]: node for node in self.registry.nodes(state="retired")}
            self.retired_pins = {
                node["bmc_fingerprint"]: node for node in self.retired.values() if node["bmc_fingerprint"]
            }
            self.access = self.registry.newest_of(ACCESS_CHECK)
        self.options["hosts"] = self._hosts()
        self.options["ranges"], unknown = self._resolved(self._ranges())
        seen = self.far.scan(
            self.options["ranges"], self.options["port"], self.options["ipmi_port"], self.options["scan_timeout"]
        )
        entries = [
            {"find": find, "known": None, "row": None, "serial": None, "changed": False} for find in seen["bmcs"]
        ]
        entries = [entry for entry in entries if self._guarded(entry, self._prepare, entry)]
        self._visit(entries)
        self._refuse_doubles(entries)
        self._note_owners(entries, entries)
        self._rotate([entry for entry in entries if entry.get("rotation")])
        late = [entry for entry in entries if entry.get("late")]
        if late:
            self._refuse_doubles(entries)
            self._note_owners(entries, late)
        for entry in entries:
            self._guarded(entry, self._record, entry)
        self._note_places()
        for entry in entries:
            self._guarded(entry, self._move, entry)
        self._silent(seen, entries)
        self._unresolved(unknown)
        return self._report(seen, entries)

    def _guarded(self, entry, work, *arguments):
        """What `work` gives; None where it fails: that is the problem of this BMC, also where nobody thought of it, and the others go on."""
        try:
            return work(*arguments)
        except BaremetalError as error:
            self._problem(entry, error)
        except Exception as error:
            lines = str(error).splitlines() or [""]
            known = entry.get("known") or entry.get("row") or {}
            trouble = BaremetalError(
                "discovery does not know what to make of this BMC",
                host=known.get("name") or entry.get("serial") or entry["find"]["address"],
                thing=entry["find"]["address"],
                wanted="an inventory that can be recorded",
                seen=redact(f"{type(error).__name__}: {lines[0]}"),
                next_step="please report this text with the model of the server; all other BMCs were worked on",
                code="internal",
            )
            self._problem(entry, trouble)
        return None

    # names in place of addresses
    def _listed(self):
        """{serial: record, or row of the list where there is no record}, without retired nodes."""
        records = {serial: record for serial, record in self.records.items() if record.get("state") != "retired"}
        return {**self.expected, **records}

    def _hosts(self):
        """{name, in lower case: address} of the host names that records and the list have as bmc_address; None for a name that nobody knows."""
        rows = [*self.expected.values(), *self._listed().values()]
        names = sorted({row["bmc_address"].lower() for row in rows if scan.is_name(row.get("bmc_address"))})
        if not names:
            return {}
        with ThreadPoolExecutor(max_workers=min(16, len(names))) as pool:
            return dict(zip(names, pool.map(scan.address_of, names)))

    def _resolved(self, ranges):
        """(the ranges with addresses in the place of names that records or the list have, names that nobody knows)."""
        found, unknown = [], []
        for entry in ranges:
            name, unused, port = str(entry).strip().partition(":")
            if name.lower() not in self.options["hosts"]:
                found.append(entry)
                continue
            address = self.options["hosts"][name.lower()]
            if address is None:
                unknown.append(name.lower())
                continue
            shown = f"[{address}]" if ":" in address else address
            found.append(f"{shown}:{port}" if port else shown)
        return list(dict.fromkeys(found)), unknown

    def _address(self, row):
        """The address of a record or row: that of its name where it has a name."""
        address = row.get("bmc_address")
        return self.options.get("hosts", {}).get(address.lower(), address) if address else None

    def _unresolved(self, names):
        """Nodes that were to be looked at and whose BMC has a name without an address."""
        for serial, row in sorted(self._listed().items()):
            name = row.get("bmc_address")
            if not name or name.lower() not in names:
                continue
            error = InvalidInput(
                "the name of its BMC has no address",
                host=row.get("name") or serial,
                thing=f"bmc_address {name}",
                wanted="a name that the controller can resolve, or an address",
                seen="no such name",
                next_step="correct the name server or the node's bmc_address, and run discover again",
                code="name_unknown",
            )
            entry = {**self._entry_of(serial, row), "find": {**self._entry_of(serial, row)["find"], "address": name}}
            self._guarded(entry, self._failed, entry, error)

    def _entry_of(self, serial, row):
        """An entry for a BMC that a record or the list has, and that was not found."""
        # No port is guessed: what is recorded is taken for true later.
        protocols = [row.get("bmc_protocol") or "redfish"]
        find = {"address": self._address(row), "port": row.get("bmc_port"), "protocols": protocols}
        known, listed = self.records.get(serial), self.expected.get(serial)
        return {"find": find, "known": known, "row": listed, "serial": serial, "changed": False}

    def _ranges(self):
        """The ranges, the addresses that others know (DHCP leases), and what answers the search, without doubles."""
        found = [*self.options["ranges"], *(self.options.get("addresses") or ())]
        for address, port in self.far.ssdp(self.options["ssdp_wait"]) if self.options.get("ssdp_wait") else ():
            found.append(f"[{address}]:{port}" if ":" in address else f"{address}:{port}" if port != 443 else address)
        return list(dict.fromkeys(found))

    def _check_secrets(self):
        """Before any work: the store can be read, and what it has for the factory is an account. A lost store must not look like BMCs that let nobody in."""
        if hasattr(self.secrets, "check"):
            self.secrets.check()
        for reference in self.options["factory"]:
            try:
                account_of(reference, self.secrets.get(reference))
            except NotFound as error:
                if error.code != "secret_not_found":
                    raise
                # Its entry may be taken out once every BMC has a password of its own.
                self.warnings.append(str(error))

    # what we know of an answer before logging in
    def _prepare(self, entry):
        """Whether this BMC is to be visited."""
        find = entry["find"]
        known = entry["known"] = self._known(find)
        pinned = known.get("bmc_fingerprint") if known else None
        entry["serial"] = known["serial"] if known else None
        entry["row"] = next((row for row in self.expected.values() if self._address(row) == find["address"]), None)
        # By its certificate only: the address may belong to the server that took its place.
        gone = self.retired_pins.get(find.get("fingerprint"))
        if known is None and gone:
            entry["row"] = self.expected.get(gone["serial"])
            self._refuse_retired(entry, gone)
            return False
        if pinned and find.get("fingerprint") and pinned != find["fingerprint"]:
            self._failed(
                entry,
                Conflict(
                    "the BMC shows another certificate than the pinned one; nothing was sent to it",
                    host=known["name"],
                    thing=f"{find['address']} port {find['port']}",
                    wanted=f"SHA-256 {pinned}",
                    seen=f"SHA-256 {find['fingerprint']}",
                    next_step="if it was replaced on purpose, set the node's bmc_fingerprint to the new one with the node module",
                    code="certificate_changed",
                ),
            )
            return False
        entry["references"] = self._references(entry)
        return True

    def _known(self, find):
        """The record of this BMC: by its certificate, which moves with it, else by its address."""
        records = [record for record in self.records.values() if record.get("state") != "retired"]
        if find.get("fingerprint"):
            for record in records:
                if record.get("bmc_fingerprint") == find["fingerprint"]:
                    return record
        for record in records:
            if self._address(record) == find["address"] and (
                len(find["protocols"]) > 1 or record.get("bmc_port") in (None, find["port"])
            ):
                return record
        return None

    def _references(self, entry):
        """References of credentials to try, in order: the site credential where one can exist, then the factory ones."""
        found = []
        known, row, find = entry["known"], entry["row"], entry["find"]
        if known and known.get("bmc_credential"):
            found.append(known["bmc_credential"])
        if row:
            found.append(self._reference(row["serial"]))
        if find.get("fingerprint"):
            found.append(self._reference(find["fingerprint"][:16]))
        there = [
            reference
            for reference in dict.fromkeys(found)
            if reference not in self.options["factory"] and self.secrets.has(reference)
        ]
        own = known.get("bmc_credential") if known else None
        if own and own not in there and own not in self.options["factory"]:
            entry["lost"] = own
        return there + list(self.options["factory"])

    def _reference(self, serial):
        return self.options["site_reference"].replace("{serial}", str(serial))

    def _target(self, entry, **more):
        find = entry["find"]
        return {
            "name": (entry["row"] or {}).get("name") or (entry["known"] or {}).get("name"),
            "address": find["address"],
            "port": find["port"],
            "protocol": find["protocols"][0],
            "ipmi_port": self.options["ipmi_port"],
            "fingerprint": find.get("fingerprint"),
            "tls": "legacy" if find.get("legacy_tls") else None,
            **more,
        }

    def _visit(self, entries):
        targets, asked = [], []
        for entry in entries:
            candidates, references = [], []
            try:
                for reference in entry["references"]:
                    try:
                        candidates.append(account_of(reference, self.secrets.get(reference)))
                    except NotFound as error:
                        if error.code != "secret_not_found":
                            raise  # the store itself is gone
                        continue  # said before the work began
                    references.append(reference)
                if not candidates:
                    raise self._no_credential(entry)
            except (InvalidInput, AuthenticationFailed) as error:
                self._guarded(entry, self._failed, entry, error)
                continue
            asked.append(entry)
            entry["references"], entry["candidates"] = references, candidates
            wants_ipmi = (
                (entry["row"] or {}).get("bmc_protocol") or (entry["known"] or {}).get("bmc_protocol")
            ) == "ipmi"
            entry["also_ipmi"] = wants_ipmi and entry["find"]["protocols"] == ["redfish", "ipmi"]
            targets.append(
                self._target(
                    entry,
                    candidates=candidates,
                    sections=self.options["sections"],
                    also_ipmi=entry["also_ipmi"],
                )
            )
        for entry, answer in zip(asked, self.far.visit(targets)):
            self._guarded(entry, self._take, entry, clean_all(answer))

    def _take(self, entry, answer):
        """What a visit gave: whose BMC it is, and whether its password is to be replaced."""
        if "error" in answer:
            lost = entry.get("lost") and answer["error"].get("code") == "authentication_failed"
            self._failed(entry, self._no_credential(entry) if lost else self._refused(entry, answer["error"]))
            return
        entry["reference"] = entry["references"][answer["candidate"]]
        entry["secret"] = entry["candidates"][answer["candidate"]]
        entry["must_change"], entry["account_uri"] = answer.get("must_change"), answer.get("account_uri")
        entry["info"] = answer.get("info")
        if answer.get("ipmi_ok") is False:
            error = Refused(
                "the list says that this node is driven by IPMI, but its BMC does not take the account over IPMI",
                host=(entry["row"] or {}).get("name") or entry["find"]["address"],
                thing=f"account {entry['secret']['username']}",
                seen="the log-in over IPMI is refused",
                next_step="switch on IPMI over LAN for the account, or list the node with protocol: redfish",
                code="ipmi_login",
            )
            self._problem(entry, error, stop=False)
            entry["half_open"] = error.as_result()["error"]
        self._identify(entry)
        if entry.get("error"):
            return
        factory = entry["reference"] in self.options["factory"]
        if not (factory and self.options["rotate"] or entry["must_change"]):
            return
        if factory and not self._asked_for(entry):
            self._withhold(entry)
        else:
            entry["rotation"] = True

    def _asked_for(self, entry):
        """Whether anybody wants this server: a factory password alone does not make it ours."""
        if not self.expected or self.options["approve"] == "all":
            return True
        return (entry["serial"] or (entry["row"] or {}).get("serial")) in self.expected

    def _withhold(self, entry):
        """Nothing is written to a server that nobody listed. Where it tells its serial it is recorded all the same, and said to be unexpected."""
        entry["withheld"] = True
        if not entry["must_change"]:
            return
        find = entry["find"]
        error = Refused(
            "this BMC wants its password changed before it tells its serial, and no listed server is known to have it; nothing was changed on it",
            host=(entry["known"] or {}).get("name") or find["address"],
            thing=f"{find['address']} port {find['port']}",
            wanted="a row of the expected-servers list with this bmc_address",
            seen="no such row",
            next_step=f"write bmc_address {find['address']} into the row of its server, or run with discover_approve: all",
            code="not_listed",
        )
        self._problem(entry, error)

    def _refused(self, entry, error):
        """A refused log-in with what only the controller knows: which entries of which store were tried."""
        if error.get("code") not in ("authentication_failed", "lockout_guard"):
            return error
        find, known = entry["find"], entry["known"] or entry["row"] or {}
        own = [reference for reference in entry["references"] if reference not in self.options["factory"]]
        tried = " and ".join(f"`{reference}`" for reference in own or entry["references"])
        where = f"{find['address']} port {find['port']}"
        place = getattr(self.secrets, "path", None) or "the secret store"
        return AuthenticationFailed(
            error["message"],
            host=known.get("name") or find["address"],
            thing=f"{where}, {error.get('thing')}",
            wanted=f"the password of entry {tried} in {place}",
            seen=error.get("seen"),
            next_step=f"put the password that the BMC at {where} has into {tried} in {place}, or set that one on the BMC; then run discover again",
            code=error["code"],
        )

    def _no_credential(self, entry):
        """Nothing that this BMC could know was there to try."""
        own = entry.get("lost")
        return AuthenticationFailed(
            "its own entry is not in the secret store" if own else "there is no credential to try",
            host=(entry["known"] or entry["row"] or {}).get("name") or entry["find"]["address"],
            thing=f"entry {own}" if own else "discover_factory_credentials",
            wanted="an entry with username and password",
            seen="no such entry",
            next_step=f"put the entry `{own}` back, or set the account on the BMC to a factory credential"
            if own
            else "name the factory account's entry in the secret store",
            code="secret_not_found" if own else "no_credential",
        )

    def _identify(self, entry):
        """Bind the answer to a serial and to the record and row of that serial."""
        if entry["must_change"]:
            return
        serial = (entry["info"].get("system") or {}).get("serial")
        if not serial:
            self._failed(
                entry,
                Refused(
                    "the BMC does not tell the serial of its server",
                    host=entry["find"]["address"],
                    thing="serial",
                    seen="; ".join(entry["info"].get("warnings") or []) or "an empty value",
                    next_step="a node is its chassis serial: read it off the server and register the node with the node module",
                    code="no_serial",
                ),
            )
            return
        entry["serial"] = serial
        entry["row"] = self.expected.get(serial)
        if serial in self.retired:
            self._refuse_retired(entry, self.retired[serial])
            return
        known = self.records.get(serial)
        pinned, seen = (known or {}).get("bmc_fingerprint"), entry["find"].get("fingerprint")
        if known and pinned and seen and pinned != seen:
            entry["known"] = known
            self._failed(
                entry,
                Conflict(
                    "this server is known with another BMC certificate",
                    host=known["name"],
                    thing=f"{entry['find']['address']} port {entry['find']['port']}",
                    wanted=f"SHA-256 {pinned}",
                    seen=f"SHA-256 {seen}",
                    next_step="if its BMC was replaced, set the node's bmc_fingerprint to the new one with the node module",
                    code="certificate_changed",
                ),
            )
            return
        entry["known"] = known

    def _refuse_retired(self, entry, node):
        """A retired server that still answers is left alone; only a list that asks for it makes it a problem."""
        error = Refused(
            "this server is retired in the registry; nothing was changed on it or recorded",
            host=node["name"],
            thing=f"{entry['find']['address']} serial {node['serial']}",
            wanted="a server that is not retired",
            seen="state retired",
            next_step="take its BMC off the network or out of the ranges"
            + (", and its row out of the expected-servers list" if entry["row"] else ""),
            code="node_retired",
        )
        entry["error"] = entry["pending"] = str(error)
        if entry["row"]:
            self._problem(entry, error)
        else:
            self.warnings.append(str(error))

    def _refuse_doubles(self, entries):
        by_serial = {}
        for entry in entries:
            if entry.get("info") and not entry.get("error"):
                by_serial.setdefault(entry["serial"], []).append(entry)
        for serial, group in by_serial.items():
            if len(group) > 1:
                where = ", ".join(entry["find"]["address"] for entry in group)
                for entry in group:
                    error = Conflict(
                        "two BMCs tell the same serial",
                        host=serial,
                        thing="serial",
                        seen=where,
                        next_step="correct the serial of one board",
                        code="double_serial",
                    )
                    entry["known"] = self.records.get(serial)
                    self._failed(entry, error, create=False)
                    entry.pop("rotation", None)

    def _rotate(self, entries):
        """Put each account on its site password: stored first, then recorded, then set, then proven."""
        targets = []
        for entry in entries:
            if not entry.get("error"):
                target = self._guarded(entry, self._ready, entry)
                if target:
                    targets.append((entry, target))
        again = []
        for (entry, target), answer in zip(targets, self.far.rotate([target for unused, target in targets])):
            if "error" in answer:
                self._guarded(entry, self._failed, entry, clean_all(answer["error"]))
                continue
            entry["reference"] = entry["site_reference"]
            if not entry.get("info"):
                account = {"username": target["username"], "password": target["new_password"]}
                again.append((entry, {**target, "candidates": [account], "sections": self.options["sections"]}))
        for (entry, _unused), answer in zip(again, self.far.visit([target for unused, target in again])):
            self._guarded(entry, self._read_at_last, entry, clean_all(answer))

    def _ready(self, entry):
        """The order for the BMC work, once the new password is stored and recorded; None where there is nothing to do."""
        find = entry["find"]
        if entry.get("info"):
            reference = self._reference(entry["serial"])
        else:
            reference = self._reference(find["fingerprint"][:16] if find.get("fingerprint") else find["address"])
        username = entry["secret"]["username"]
        entry["site_reference"] = reference
        self.changes.append(
            Change(f"{find['address']}: password of {username}", "the factory's", f"a new one, kept as {reference}")
        )
        entry["changed"] = True
        if self.check:
            return None
        # Two controllers may be here at once: both get the password that was stored first.
        fresh = {"username": username, "password": generate_password(self.options["password_length"])}
        password = str(self.secrets.add(reference, fresh)["password"])
        entry["new_password"] = password
        if entry.get("info"):
            self._save(entry, {"bmc_credential": reference}, state="registered")
            if entry.get("error"):
                return None  # a password that no record leads to would be lost
        return self._target(
            entry,
            username=username,
            password=entry["secret"]["password"],
            new_password=password,
            account_uri=entry.get("account_uri") if entry["must_change"] else None,
        )

    def _read_at_last(self, entry, answer):
        """The visit of a BMC that only answers since it has its new password."""
        if "error" in answer or "info" not in answer:
            unchanged = {"code": "internal", "text": "the BMC still wants its password changed"}
            self._failed(entry, answer.get("error") or unchanged)
            return
        entry["info"], entry["must_change"], entry["late"] = answer["info"], False, True
        self._identify(entry)

    # writing down
    def _record(self, entry):
        """The node's whole record, and that its BMC let us in."""
        if entry.get("error") or not entry.get("info"):
            return
        columns = {"parts": parts_of(entry["info"]), "facts": facts_of(entry["info"])}
        reference = entry["reference"] if not (self.check and entry.get("rotation")) else entry["site_reference"]
        self._save(entry, {**columns, "bmc_credential": reference}, state="manageable")
        if entry.get("error"):
            return
        half_open = entry.get("half_open")
        if half_open:
            self._access(entry["serial"], FAIL, half_open["message"], half_open.get("next_step"))
        else:
            self._access(entry["serial"], PASS, "BMC login and inventory succeeded")
        self._note_contradictions(entry)
        if entry.get("withheld"):
            self.warnings.append(
                f"{self.records[entry['serial']].get('name') or entry['serial']}: serial {entry['serial']} at {entry['find']['address']} has the factory "
                f"password of `{entry['reference']}` and keeps it, because it is not in the expected-servers list: add it there, or run with "
                "discover_approve: all; if it is none of yours, take its address out of the ranges"
            )

    def _save(self, entry, more, state):
        columns = columns_of(entry["find"], entry["info"], entry["row"], entry["known"], self.options)
        columns.update(more)
        serial = entry["serial"]
        self._settle(entry, columns)
        try:
            if self.check or not self.registry:
                plan = (
                    self.registry.plan_node(serial, state=state, apart=self.judged, **columns)
                    if self.registry
                    else Plan([Change("state", None, state)])
                )
            else:
                plan = self.registry.save_node(serial, self.actor, state=state, apart=self.judged, **columns)
        except BaremetalError as error:
            self._problem(entry, error)
            return
        name = columns["name"]
        self.changes += [Change(f"{name}: {change.thing}", change.before, change.after) for change in plan.changes]
        entry["changed"] = entry["changed"] or plan.changed
        before = self.records.get(serial) or {"serial": serial, "state": state}
        self.records[serial] = {**before, **{key: value for key, value in columns.items() if key != "parts"}}
        entry["known"] = self.records[serial]

    # what only one server can have
    def _note_owners(self, entries, new):
        """Who will have which MAC, address and BMC address once all of this run is written: only so can two servers swap. `new`: those not yet noted."""
        # Of nodes that others register meanwhile nothing is known here: those the registry itself judges.
        self.judged = frozenset([*self.records, *(entry["serial"] for entry in entries if entry.get("serial"))])
        rows = dict(self.records)
        for entry in new:
            if entry.get("info") and not entry.get("error"):
                columns = self._guarded(
                    entry, columns_of, entry["find"], entry["info"], entry["row"], entry["known"], self.options
                )
                if columns is not None:
                    rows[entry["serial"]] = {**(entry["known"] or {}), **columns}
        for serial, row in rows.items():
            for owned in node_columns.own_things(row).items():
                self.owners.setdefault(owned, set()).add(serial)

    def _settle(self, entry, columns):
        """Take out of `columns` what another server has, and name it; places are told by `_note_places`."""
        serial, known = entry["serial"], entry["known"] or {}
        before = node_columns.own_things(known)
        for thing, value in node_columns.own_things({**known, **columns}).items():
            others = sorted(self.owners.get((thing, value), set()) - {serial})
            if value == before.get(thing):  # who only asks for it will be refused, and that one is told
                others = [
                    other
                    for other in others
                    if node_columns.own_things(self.records.get(other) or {}).get(thing) == value
                ]
            if not others or thing == "place":
                continue
            if thing == "bmc_address":
                # It has just answered there, so the other record is an old one.
                for other in others:
                    self._displace(other, entry, (thing, value))
                continue
            if value != before.get(thing):
                for key in (thing, "provision_prefix") if thing == "provision_ip" else (thing,):
                    columns.pop(key, None)
                self.owners[(thing, value)].discard(serial)
            names = ", ".join((self.records.get(other) or {}).get("name") or other for other in others)
            if thing not in entry.setdefault("clashes", {}):
                entry["clashes"][thing] = f"{names} has the {thing} {value} too"
                error = Conflict(
                    f"the {thing} {value} belongs to {names}",
                    host=columns.get("name") or serial,
                    thing=thing,
                    wanted=f"a {thing} that no other node has",
                    seen=f"serial {', '.join(others)}",
                    next_step="correct the expected-servers list or, with the node module, the record of one of the two; "
                    f"retire {names} if it is gone; to swap them, list both",
                )
                self._problem(entry, error, stop=False)

    def _displace(self, serial, entry, owned):
        """Another server answers at the BMC address of this record: from now on its own is not known, so that nothing meant for it reaches the other."""
        self.owners[owned].discard(serial)
        record, find = self.records.get(serial), entry["find"]
        if record is None:
            return
        plan = Plan([Change("bmc_address", record.get("bmc_address"), None)])
        try:
            if self.registry and not self.check:
                plan = self.registry.save_node(serial, self.actor, bmc_address=None, bmc_port=None)
        except BaremetalError as error:
            self._problem({"find": find, "known": record, "serial": serial}, error)
            return
        name = record.get("name") or serial
        self.changes += [Change(f"{name}: {change.thing}", change.before, change.after) for change in plan.changes]
        record.update(bmc_address=None, bmc_port=None)
        error = Conflict(
            "another server answers at the address of its BMC",
            host=name,
            thing=f"{find['address']} port {find['port']}",
            wanted=f"serial {serial}",
            seen=f"serial {entry['serial']}",
            next_step="find the address of its BMC, put it into the ranges and run discover again",
        )
        displaced = {"find": find, "known": record, "row": None, "serial": serial, "changed": True}
        self._guarded(displaced, self._failed, displaced, error)

    def _note_contradictions(self, entry):
        """What the list or the record says, and the hardware does not."""
        record, listed = self.records[entry["serial"]], (entry["row"] or {}).get("bmc_address")
        name = record.get("name") or entry["serial"]
        # A name is not resolved here: only two addresses can contradict each other.
        if listed and re.fullmatch(r"[0-9.]+|.*:.*", listed) and listed != entry["find"]["address"]:
            self.warnings.append(
                f"{name}: serial {entry['serial']} answers at BMC address {entry['find']['address']}, the expected-servers list says {listed}; "
                "correct the list, or the cabling or address of the BMC; the address where it answers is recorded"
            )
        own = [str(nic["mac"]).lower() for nic in entry["info"].get("nics") or [] if nic.get("mac")]
        mac = record.get("provision_mac")
        if mac and own and mac not in own:
            self.warnings.append(
                f"{name}: its provision_mac {mac} is none of the NICs that its BMC lists ({', '.join(own)}); where it is wrong, correct it "
                "with the node module or in the list"
            )

    def _note_places(self):
        """Which servers say that they stand in one place: at most one of them can be right."""
        for serial, record in self.records.items():
            place = node_columns.place_of(record)
            if place:
                self.places.setdefault(place, []).append(record.get("name") or serial)
        for place, names in sorted(self.places.items()):
            if len(names) > 1:
                self.warnings.append(f"{', '.join(sorted(names))}: recorded in the same place ({place}); correct it")

    def approved(self, entry):
        """(may it become available, why not)."""
        row, record = entry["row"], self.records[entry["serial"]]
        if entry.get("clashes"):
            return False, f"{'; '.join(entry['clashes'].values())}: correct one of them"
        others = [name for name in self.places.get(node_columns.place_of(record), []) if name != record.get("name")]
        if others and not self.options["accept_misplaced"]:
            text = f"{', '.join(sorted(others))} stands there too ({node_columns.place_of(record)})"
            return False, f"it is in the wrong place ({text}): correct the place of one of them"
        if not self.expected:
            return True, None
        if row is None:
            if self.options["approve"] == "all":
                return True, None
            return False, "it is not in the expected-servers list: add it there (or run with discover_approve: all)"
        wrong = {
            key: (row[key], record.get(key))
            for key in PLACE
            if row.get(key) is not None and row[key] != record.get(key)
        }
        if wrong and not self.options["accept_misplaced"]:
            text = ", ".join(f"{key} {seen} instead of {wanted}" for key, (wanted, seen) in sorted(wrong.items()))
            return False, f"it is in the wrong place ({text}): move it, or correct the list"
        return True, None

    def _move(self, entry):
        """Towards `available`, by the transitions that the lifecycle has; nodes in later states stay where they are."""
        if entry.get("error") or not entry.get("info"):
            return
        serial = entry["serial"]
        allowed, why_not = self.approved(entry)
        entry["pending"] = why_not
        rotated = entry["reference"] not in self.options["factory"] or not self.options["rotate"]
        rotated = rotated or (self.check and entry.get("rotation"))
        while rotated and self.records[serial]["state"] in EARLY:
            state = self.records[serial]["state"]
            new = {"manageable": "available", "verifying_failed": "verifying", "inspecting_failed": "inspecting"}.get(
                state, "manageable"
            )
            if new == "available" and not allowed:
                break
            reason = {"manageable": "BMC login and inventory succeeded", "available": "no baseline is asked for"}.get(
                new, "seen by discovery"
            )
            if not self._transition(entry, state, new, reason):
                break
        entry["state"] = self.records[serial]["state"]

    def _transition(self, entry, old, new, reason):
        serial = entry["serial"]
        if not self.check and self.registry:
            try:
                self.registry.transition(serial, old, new, self.actor, reason)
            except Conflict:
                # Another controller moved it meanwhile: go on from where it is now.
                self.records[serial]["state"] = self.registry.node(serial)["state"]
                return self.records[serial]["state"] != old
            except BaremetalError as error:
                self._problem(entry, error)
                return False
        self.changes.append(Change(f"{self.records[serial].get('name') or serial}: state", old, new))
        self.records[serial]["state"] = new
        entry["changed"] = True
        return True

    def _access(self, serial, outcome, text, next_step=None):
        """What `why` shows of the node's BMC. Written where it is news: another outcome, another reason, or a success that takes a failure back."""
        last = self.access.get(serial)
        item = {
            "check": ACCESS_CHECK,
            "outcome": outcome,
            "value": text,
            "rule": "discover",
            "source": "discover",
            "detail": {"next_step": next_step} if next_step else None,
        }
        if not self.registry or (outcome == PASS and last is None):
            return
        if last and last["outcome"] == outcome and (outcome == PASS or _told(last) == _told(item)):
            return
        name = self.records[serial].get("name") or serial
        self.changes.append(Change(f"{name}: {ACCESS_CHECK}", last and _told(last), _told(item)))
        self.access[serial] = item
        if not self.check:
            self.registry.record_evidence(serial, None, [item], self.actor)

    def _failed(self, entry, error, create=True):
        """A BMC that was to let us in and did not: a problem of this run, and evidence for its node in whatever state that is."""
        self._problem(entry, error)
        if isinstance(error, BaremetalError):
            error = error.as_result()["error"]
        self._login_failed(entry, error, create)

    def _login_failed(self, entry, error, create):
        """Put the failure where `why` finds it. Of an unknown BMC only the list can tell whose it is. Only a node that waits to be verified is moved."""
        if not self.registry:
            return
        known, row = entry["known"], entry["row"]
        if known is None and row:
            known = entry["known"] = self.records.get(row["serial"])
        serial = known["serial"] if known else row["serial"] if row and create else None
        if serial is None:
            return
        entry["serial"] = serial
        if known is None:
            info = {"system": {"serial": serial}, "location": {}}
            columns = columns_of(entry["find"], info, row, None, self.options)
            columns.pop("platform", None)
            # Nobody has logged in yet, so nothing proves that this certificate is that server's: it is pinned when the login works.
            columns.pop("bmc_fingerprint", None)
            try:
                plan = (self.registry.plan_node if self.check else self.registry.save_node)(
                    *((serial,) if self.check else (serial, self.actor)), state="registered", **columns
                )
            except BaremetalError as trouble:
                self._problem(entry, trouble)
                return
            self.changes += [
                Change(f"{columns['name']}: {change.thing}", change.before, change.after) for change in plan.changes
            ]
            self.records[serial] = {"serial": serial, "state": "registered", **columns}
            entry["known"] = self.records[serial]
        reason = f"{error.get('message') or error.get('text')}" + (f" ({error['seen']})" if error.get("seen") else "")
        if error.get("code") == "lockout_guard":
            # Not asked again after refusals that are on record already; how long the guard still waits is no news at each run.
            if (self.access.get(serial) or {}).get("outcome") == FAIL:
                return
            reason = error["message"]
        tried = error.get("code") not in NOT_TRIED
        self._access(serial, FAIL if tried else COULD_NOT_TEST, reason, error.get("next_step"))
        path = {"registered": ("verifying", "verifying_failed"), "verifying": ("verifying_failed",)}.get(
            self.records[serial]["state"], ()
        )
        for new in path if tried else ():
            if not self._transition(entry, self.records[serial]["state"], new, reason):
                return

    def _silent(self, seen, entries):
        """Known or listed BMCs inside the ranges that do not answer: a problem each, by name."""
        read = {entry.get("serial") for entry in entries} | {problem["serial"] for problem in self.problems}
        asked = {}
        for address, port in scan.parse_ranges(self.options["ranges"], self.options["port"]):
            asked.setdefault(address, set()).add(port)
        for serial, row in sorted(self._listed().items()):
            entry = self._entry_of(serial, row)
            if not row.get("bmc_address"):
                self._guarded(entry, self._without_address, serial, row, read)
            elif entry["find"]["address"] in asked:
                self._guarded(entry, self._silent_one, entry, row, asked[entry["find"]["address"]], seen)

    def _silent_one(self, entry, row, ports, seen):
        """A BMC at an address that was asked. Its record knows the port, the list does not; only what was asked there can be lost."""
        address, port = entry["find"]["address"], row.get("bmc_port")
        name = row.get("name") or entry["serial"]
        over_ipmi = row.get("bmc_protocol") == "ipmi"
        there = [find for find in seen["bmcs"] if find["address"] == address]
        if any(over_ipmi or port in (None, find["port"]) or find["protocols"] == ["ipmi"] for find in there):
            return
        if port and port not in ({self.options["ipmi_port"]} if over_ipmi else ports):
            option = "discover_ipmi_port" if over_ipmi else "discover_ranges or discover_port"
            others = self.options["ipmi_port"] if over_ipmi else ", ".join(str(number) for number in sorted(ports))
            self.warnings.append(
                f"{name}: its BMC was not looked at: it is recorded at {address} port {port}, and port {others} was asked; "
                f"name the port in {option}, or correct the node's bmc_port"
            )
            return
        self.lost.add(address)
        other = next(
            (
                found
                for found in seen["others"]
                if found["address"] == address and (over_ipmi or port in (None, found["port"]))
            ),
            None,
        )
        error = Unreachable(
            "its BMC does not answer",
            host=name,
            thing=address,
            seen=(other.get("reason") or "what answers is no BMC") if other else "no answer",
            next_step="check the power, the cable and the address of the BMC",
        )
        self._failed(entry, error)

    def _without_address(self, serial, record, found):
        """A BMC that was lost together with its address stays a problem until it is found again."""
        if (self.access.get(serial) or {}).get("outcome") != FAIL or serial in found:
            return
        error = Unreachable(
            "the address of its BMC is not known",
            host=record.get("name") or serial,
            thing="bmc_address",
            seen=self.access[serial]["value"],
            next_step="find the address of its BMC, put it into the ranges and run discover again",
        )
        self._problem({"find": {"address": None}, "known": record, "serial": serial}, error)

    def _note_case(self, records):
        """A listed serial that only differs in case from one that was found is most likely the same server; it stays two rows until a person says so."""
        found = {}
        for record in records:
            found.setdefault(record["serial"].lower(), []).append(record)
        seen = {record["serial"] for record in records if record.get("state") not in NEVER_READ}
        for serial, row in sorted(self.expected.items()):
            for record in found.get(serial.lower(), ()) if serial not in seen else ():
                if record["serial"] == serial or record["serial"] in self.expected:
                    continue
                self.warnings.append(
                    f"{row.get('name') or serial}: the listed serial {serial} (missing) differs from {record['serial']} "
                    f"({record.get('name') or 'no name'}, not listed) only in case; if they are one server, write {record['serial']} in the list"
                )

    def _save_expected(self, have):
        rows = list(self.expected.values())
        if not self.registry:
            plan = Plan([Change(serial, have.get(serial), row) for serial, row in sorted(self.expected.items())])
        elif self.check:
            plan = self.registry.plan_expected(rows)
        else:
            plan = self.registry.save_expected(rows, self.actor)
        self.changes += [Change(f"expected {change.thing}", change.before, change.after) for change in plan.changes]

    def _problem(self, entry, error, stop=True):
        """Note what is wrong with one BMC; the others go on. `error`: a BaremetalError or the dict of one that came from elsewhere."""
        if isinstance(error, BaremetalError):
            error = {**error.as_result()["error"], "text": str(error)}
        if stop:
            entry["error"] = error.get("text")
        row = entry.get("row") or entry.get("known") or {}
        entry["serial"] = entry.get("serial") or row.get("serial")
        self.problems.append(
            {
                "code": error.get("code"),
                "host": row.get("name") or entry.get("serial") or entry["find"]["address"],
                "address": entry["find"]["address"],
                "serial": entry.get("serial"),
                "msg": error.get("text") or error.get("message"),
            }
        )

    def _failing(self, records):
        """`reasons`: {node name: [problem texts]} of nodes that the inventory has; `failing`: their names and one node without a problem.

        A play over `failing` can fail exactly these nodes: the one without a problem keeps Ansible from ending the whole run when all others fail.
        """
        names = {record["serial"]: record.get("name") for record in records}
        reasons = {}
        for problem in self.problems:
            if names.get(problem["serial"]):
                reasons.setdefault(names[problem["serial"]], []).append(problem["msg"])
        survivor = next((name for name in sorted(filter(None, names.values())) if name not in reasons), None)
        return {"reasons": reasons, "failing": sorted(reasons) + ([survivor] if reasons and survivor else [])}

    def _report(self, seen, entries):
        plan = Plan(self.changes)
        records = [record for record in self.records.values() if record.get("state") != "retired"]
        self._note_case(records)
        report = {
            "changed": plan.changed,
            "diff": (Plan(_folded(self.changes)) or plan).diff(),
            "asked": seen["asked"],
            # What should be a BMC and does not answer as one is lost, and neither just silent nor another host.
            "silent": len([address for address in seen["silent"] if address not in self.lost]),
            "others": [other for other in seen["others"] if other["address"] not in self.lost],
            "lost": sorted(self.lost),
            "problems": self.problems,
            "warnings_of_discovery": list(
                dict.fromkeys(
                    self.warnings
                    + [text for entry in entries if entry.get("info") for text in entry["info"].get("warnings") or []]
                )
            ),
            "bmcs": [
                {
                    "address": entry["find"]["address"],
                    "port": entry["find"]["port"],
                    "protocols": entry["find"]["protocols"],
                    "fingerprint": entry["find"].get("fingerprint"),
                    "serial": entry.get("serial"),
                    "name": (self.records.get(entry.get("serial")) or {}).get("name"),
                    "state": (self.records.get(entry.get("serial")) or {}).get("state"),
                    "pending": entry.get("pending"),
                    "changed": entry["changed"],
                    "error": entry.get("error"),
                }
                for entry in entries
            ],
            **(
                compare(self.expected, records)
                if self.expected
                else {"missing": [], "unexpected": [], "misplaced": [], "matched": []}
            ),
        }
        report.update(self._failing(records))
        named = sum(1 for entry in entries if not entry.get("error"))
        report["msg"] = (
            f"{report['asked']} addresses asked: {len(entries)} BMCs ({named} read), {len(self.lost)} lost BMCs, "
            f"{len(report['others'])} other hosts, {report['silent']} silent; "
            f"{len(report['missing'])} missing, {len(report['unexpected'])} unexpected, {len(report['misplaced'])} misplaced, {len(self.problems)} problems"
        )
        return report
