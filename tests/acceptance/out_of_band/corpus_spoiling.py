# Part of point 1: every key of every resource that an operation reads, taken away and set to null; no operation may have an error that is not a typed one.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""In one process, over a carrier that answers from the recorded tree. Each operation is first run on the tree as it is, which says what it reads; then once for
each property of each of these resources without the property, and once with null in its place. What no operation reads is spoiled all at once: no result
may change by it."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import json
import multiprocessing
import random
import traceback

import recorded_trees
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import (
    connect,
    operations,
    power,
    redfish,
    transform,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import bmc as door
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import baseline
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import firmware

IMAGE = "http://192.0.2.9/rescue.iso"
# where a collection has more members in it, the others are spoiled one by one, each alone in the collection: an event log has a thousand entries of one kind
MOST_INLINE = 20
# and while one of a collection with more members is spoiled, the collection lists it and one other
MOST_LISTED = 4


class Known:
    """As much of a registry as a firmware plan in check mode reads."""

    def __init__(self, serial):
        self.serial = serial

    def node(self, name):
        return {"name": name, "serial": self.serial, "state": "available", "platform": "p"}

    def firmware_plan(self, node):
        return None

    def claim_firmware_plan(self, node, actor, owner, check):
        return None


def firmware_baseline(row, method="auto"):
    """A baseline that wants another version of one row of a firmware inventory."""
    component = {
        "inventory": "^nothing$" if row is None else f"^{baseline.re.escape(row)}$",
        "wanted": "99.99",
        "rule": "exact",
        "method": method,
    }
    component["image"] = {"url": "http://192.0.2.9/x.bin", "sha256": "0" * 64}
    component["activation"] = "immediate"
    return baseline.parse({"schema": 1, "name": "n", "platforms": {"p": {"components": {"c": component}}}}, "point 1")


def params_of(module, options):
    own, _function, more = door.MODULES[module]
    checked = ArgumentSpecValidator({**own, "timeout": {"type": "float"}}, **more).validate(options)
    assert not checked.error_messages, checked.error_messages
    return checked.validated_parameters


def calls(where, attributes, order, row, serial):
    """{name: call} of everything that reads a BMC or plans for it; of options that are planned by the same lines (the boot targets) some."""
    found = {}

    def add(name, module, options):
        function, params = door.MODULES[module][1], params_of(module, options)
        found[name] = lambda: function(where, dict(params), True, None)

    for section in (*operations.SECTIONS, *operations.MORE_SECTIONS):
        add(f"info {section}", "bmc_info", {"sections": [section]})
    for state in ("graceful", "cycle", "nmi", "ac_cycle", "aux_cycle"):
        add(f"power {state}", "bmc_power", {"state": state, "timeout": 5})
    for target in ("pxe", "cd", "none"):
        add(f"boot {target}", "bmc_boot", {"target": target})
    add("boot legacy", "bmc_boot", {"target": "pxe", "mode": "legacy", "once": False})
    add("boot uri", "bmc_boot", {"target": "uefi_http", "http_uri": IMAGE, "mode": "uefi"})
    add("boot order", "bmc_boot", {"order": order})
    add("bios", "bmc_bios", {"attributes": attributes})
    add("bios applied", "bmc_bios", {"attributes": attributes, "reboot": "force", "clear_pending": True})
    add("media inserted", "bmc_virtual_media", {"image": IMAGE})
    add("media ejected", "bmc_virtual_media", {"state": "ejected"})
    add("firmware info", "bmc_firmware_info", {})
    wanted, pulled = firmware_baseline(row), firmware.Options(publish=lambda image: IMAGE)
    found["firmware plan"] = lambda: firmware.update(where, Known(serial), "node", wanted, pulled, check=True)
    found["firmware way"] = lambda: _ways(where)
    add("log", "bmc_log", {"limit": 20})
    add("reset", "bmc_reset", {})
    add("account", "bmc_account", {"username": "monitor", "password": "Monitor-1234567", "role": "Administrator"})
    add("storage", "bmc_storage", {"name": "boot", "raid_type": "RAID1", "drives": ["0", "1"]})
    for number, options in enumerate(
        (
            {"hostname": "x"},
            {"ntp_servers": ["192.0.2.9"], "ntp_enabled": True},
            {"dns_servers": ["192.0.2.9"]},
            {"ipmi_over_lan": False},
            {"secure_boot": True},
            {"event_destinations": [{"destination": "https://192.0.2.9/"}]},
        )
    ):
        add(f"settings {number}", "bmc_settings", options)
    return found


def _ways(where):
    with firmware.RedfishUpdater(where) as updater:
        return [updater.methods(), updater.marks(), updater.health(), updater.power()]


def endpoint(carrier):
    return Endpoint(
        "192.0.2.1", username="x", password="y", tls="insecure", name="node", transport=carrier, guarded=False
    )


def tell(call):
    """What a call came to, as text; ("traceback", text) for an error that is not typed."""
    try:
        found = call()
        return "result", json.dumps(
            found if isinstance(found, (dict, list)) else found.as_result(diff=True), sort_keys=True
        )
    except BaremetalError as error:
        found = error.as_result()
        if not error.message or (error.seen is None and error.wanted is None):
            return "traceback", f"an error that says nothing: {error!r}"
        return "refused", json.dumps(found, default=str)
    except Exception:
        return "traceback", traceback.format_exc(limit=-3)


def questions(tree):
    """What is asked of a tree: (five of its BIOS attributes, the last entry of its boot order, a row of its firmware inventory, its serial)."""
    attributes, order, row, serial = {}, ["disk"], None, "none"
    with contextlib.suppress(BaremetalError), connect(endpoint(recorded_trees.Carrier(tree))) as client:
        service = client.optional(transform.link(client.root(), "UpdateService"), None) or {}
        rows = client.members(transform.link(service, "FirmwareInventory"), None)
        row = next((transform.text(item, "Id") for item in rows if item.get("Updateable") is not False), None)
        system = client.system()
        serial = operations.redfish_info(client, ["system"])["system"]["serial"] or serial
        order = transform.strings(transform.dig(system, "Boot", "BootOrder"))[-1:] or order
        bios = client.optional(transform.link(system, "Bios"), None) or {}
        live = transform.dig(bios, "Attributes")
        attributes = dict(list((live if isinstance(live, dict) else {}).items())[:5])
    return attributes or {"Nothing": 1}, order, row, serial


def shorten(tree):
    """{path: {property: all items}} of the long lists of objects that stand at the top of a resource; in the tree only the first of them stay."""
    long = {}
    for path, resource in tree.items():
        for key, items in resource.items():
            inline = isinstance(items, list) and any(isinstance(item, dict) and len(item) > 1 for item in items)
            if inline and len(items) > MOST_INLINE:
                long.setdefault(path, {})[key] = items
                resource[key] = items[:MOST_INLINE]
    return long


def spoilings(resource, long):
    """As each_spoiled; then the same in each of the items that were left out, alone in their list."""
    yield from recorded_trees.each_spoiled(resource)
    for key, items in long.items():
        shown = resource[key]
        for number, item in enumerate(items[MOST_INLINE:], MOST_INLINE):
            resource[key] = [item]
            try:
                for pointer, how in recorded_trees.each_spoiled(item):
                    yield f"/{key}/{number}{pointer}", how
            finally:
                resource[key] = shown


def collections_of(tree):
    """{path of a resource: path of the collection that lists it} for collections that are so long that reading all of it each time is a waste."""
    found = {}
    for path, resource in tree.items():
        members = transform.members_of(resource)
        if len(members) > MOST_LISTED:
            found.update(
                {
                    transform.same_path(transform.text(item, "@odata.id")): path
                    for item in members
                    if isinstance(item, dict) and len(item) == 1
                }
            )
    return found


@contextlib.contextmanager
def alone(tree, path, collection):
    """While a resource is spoiled, the long collection that lists it lists it and one other."""
    if collection is None:
        yield
        return
    resource = tree[collection]
    members = resource["Members"]
    own = [item for item in members if transform.same_path(transform.text(item, "@odata.id")) == path]
    resource["Members"] = own + [item for item in members if item not in own][:1]
    try:
        yield
    finally:
        resource["Members"] = members


def spoil_tree(name, tree, most=None):
    """{counts, failures: [text]} of one tree. `most`: properties of each resource that are tried, for a quick look; None is all."""
    power.SETTLE_S, redfish.BACKOFF = 0.005, ()
    long = shorten(tree)
    carrier = recorded_trees.Carrier(tree)
    runs = calls(endpoint(carrier), *questions(tree))
    count, failures, readers, plain = collections.Counter(), [], collections.defaultdict(list), {}
    for what, call in runs.items():
        carrier.reads = set()
        plain[what] = tell(call)
        for path in carrier.reads:
            readers[path].append(what)
        if plain[what][0] == "traceback":
            failures.append(f"{name}, nothing spoiled, {what}: {plain[what][1]}")
    seen, listed = set(), collections_of(tree)
    for path in sorted(readers):
        count["resources"] += 1
        with alone(tree, path, listed.get(path)):
            # closed, so that what is spoiled last is put right when not all is tried
            with contextlib.closing(spoilings(tree[path], long.get(path, {}))) as spoiled:
                _spoil_resource(name, path, spoiled, readers[path], runs, count, failures, seen, most)
    rest = [path for path in tree if path not in readers]
    spoil = recorded_trees.dice_spoiler(random.Random(name), lost=0.5, odd=((None, 0.5),))
    carrier.tree = {**tree, **{path: spoil(tree[path]) for path in rest}}
    for what, call in runs.items():
        if tell(call) != plain[what]:
            failures.append(f"{name}, {what}: its result changed when resources were spoiled that it does not read")
    count["unread"] = len(rest)
    count["unread properties"] = sum(1 for path in rest for _property in recorded_trees.properties(tree[path]))
    if carrier.writes:
        failures.append(f"{name}: in check mode something was written: {carrier.writes[:3]}")
    return dict(count), failures


def _spoil_resource(name, path, spoiled, readers, runs, count, failures, seen, most):
    last = None
    for number, (pointer, how) in enumerate(spoiled):
        if most and number >= most:
            break
        count["properties"] += pointer != last
        last = pointer
        for what in readers:
            count["runs"] += 1
            end, text = tell(runs[what])
            count[end] += 1
            if end == "traceback" and (what, text) not in seen:
                seen.add((what, text))
                failures.append(f"{name} {path}#{pointer} {how}, {what}: {text}")


def spoil_all(trees, most=None):
    """(counts of all trees together, failures), on as many processes as there are cores."""
    total, failures = collections.Counter(), []
    # the largest trees first, so that no process is left with one of them at the end
    names = sorted(trees, key=lambda name: -len(json.dumps(trees[name])))
    with concurrent.futures.ProcessPoolExecutor(
        multiprocessing.cpu_count(), mp_context=multiprocessing.get_context("fork")
    ) as pool:
        jobs = {name: pool.submit(spoil_tree, name, trees[name], most) for name in names}
        for name, job in jobs.items():
            count, wrong = job.result()
            print(f"  {name}: {count}", flush=True)
            total.update(count)
            failures += wrong
    return total, failures
