# The lab's networks: namespaces, bridges, veth pairs and taps. observe -> plan -> apply -> verify, all through iproute2's JSON and batch forms.
#
# Nothing is ever made in the host's own namespace: both ends of a veth pair are born in the namespace where they belong. Ownership is written
# on the namespace itself (the alias of its loopback device), so that a lab never touches or removes a namespace of somebody else.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import subprocess

from ..core.errors import BaremetalError, NotFound, Refused
from ..core.plan import Change, Plan
from .description import BRIDGES, CONTROLLER_HOST, DECOY_HOST, SLURM_HOST

NAMESPACE_DIRECTORY = "/run/netns"


def _run(argv, text=None):
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        raise NotFound("the program is not installed", thing=argv[0], next_step="install iproute2") from None
    except subprocess.TimeoutExpired:
        raise BaremetalError("the program did not end within 60 s", thing=" ".join(argv)) from None
    if done.returncode:
        # iproute2 names the failing batch line only by number: show the line itself.
        lines = (text or "").splitlines()
        place = [
            lines[int(word) - 1]
            for word in done.stderr.replace(":", " ").split()
            if word.isdigit() and 0 < int(word) <= len(lines)
        ][-1:]
        raise BaremetalError(
            "the program failed",
            thing=" ".join(argv),
            seen=f"exit {done.returncode}: {done.stderr.strip()} {place or ''}".strip(),
        )
    return done.stdout


def owner_alias(name, directory):
    return f"aicluster-lab {name} {directory}"


def wanted(description):
    """{namespace: {interface: {kind, master, mac, peer, addresses}}} for a description; the loopback device is implied."""
    names, nets = description["namespaces"], description["networks"]
    result = {namespace: {} for namespace in names.values()}
    ctl, oob, net, slurm = (result[names[part]] for part in ("ctl", "oob", "net", "slurm"))

    def veth(here, here_ns, here_if, there, there_ns, there_if, **here_options):
        here[here_if] = {"kind": "veth", "peer": [there_ns, there_if], **here_options}
        there[there_if] = {"kind": "veth", "peer": [here_ns, here_if]}
        return there[there_if]

    bmcs = veth(ctl, names["ctl"], "oob", oob, names["oob"], "oob", addresses=[f"{nets['oob']}.{CONTROLLER_HOST}/24"])
    bmcs["addresses"] = [
        f"{nets['oob']}.{DECOY_HOST}/24",
        *(f"{node['bmc']['address']}/24" for node in description["nodes"]),
    ]
    for bridge in BRIDGES:
        net[bridge] = {"kind": "bridge"}
        port = veth(
            ctl,
            names["ctl"],
            bridge,
            net,
            names["net"],
            f"{bridge}-ctl",
            addresses=[f"{nets[bridge]}.{CONTROLLER_HOST}/24"],
        )
        port["master"] = bridge
    veth(slurm, names["slurm"], "eth0", net, names["net"], "prov-slurm", addresses=[f"{nets['prov']}.{SLURM_HOST}/24"])[
        "master"
    ] = "prov"
    for node in description["nodes"]:
        if node["driver"] == "qemu":
            net.update({nic["tap"]: {"kind": "tun", "master": nic["bridge"]} for nic in node["nics"]})
    return result


def _made_by_the_simulator(description):
    """Namespaces of nspawn nodes and their ports on the bridges: they come and go with the power of the node."""
    nodes = [node for node in description["nodes"] if node["driver"] == "nspawn"]
    ports = {f"{description['namespaces']['net']}/{nic['tap']}" for node in nodes for nic in node["nics"]}
    return {f"{description['name']}-{node['name']}" for node in nodes} | ports


def existing():
    try:
        return sorted(os.listdir(NAMESPACE_DIRECTORY))
    except FileNotFoundError:
        return []


def _links(namespace):
    """{interface: {kind, master, mac, up, addresses, alias}} as the kernel has them."""
    try:
        rows = json.loads(_run(["ip", "-n", namespace, "-j", "-d", "address", "show"]) or "[]")
    except BaremetalError as error:
        if "Invalid argument" in str(error.seen) or "Peer netns reference is invalid" in str(error.seen):
            return None  # a name without a namespace behind it: what is left of a crash or of another mount namespace
        raise
    return {
        row["ifname"]: {
            "kind": row.get("linkinfo", {}).get("info_kind"),
            "master": row.get("master"),
            "mac": row.get("address"),
            "up": "UP" in row.get("flags", ()),
            "addresses": sorted(
                f"{a['local']}/{a['prefixlen']}" for a in row.get("addr_info", ()) if a.get("family") == "inet"
            ),
            "alias": row.get("ifalias"),
        }
        for row in rows
    }


def _vacant(links):
    """No interface but a loopback device that was never touched: what `ip netns add` leaves when the next command did not come (and nobody lives in it)."""
    return set(links) == {"lo"} and not links["lo"]["alias"] and not links["lo"]["up"]


def observe(description):
    """{namespace: links} of those of the lab's namespaces that exist, {} for a name with nothing behind it; Refused where one belongs to somebody else.

    Namespaces of nspawn nodes, also of those that the description no longer has, are found by their owner's mark.
    """
    from . import processes  # which itself needs this file

    alias = owner_alias(description["name"], description["dir"])
    names, seen = wanted(description), {}
    for namespace in existing():
        if namespace not in names and not namespace.startswith(description["name"] + "-"):
            continue
        links = _links(namespace)
        if links is None:
            if namespace in names:
                seen[namespace] = {}
            continue
        mark = links.get("lo", {}).get("alias")
        inhabited = processes.in_namespaces([namespace]) if namespace in names and mark != alias else {}
        if namespace in names and mark != alias and (inhabited or not _vacant(links)):
            raise Refused(
                "the network namespace exists and is not this lab's",
                thing=namespace,
                wanted=f"absent, or marked {alias!r}",
                seen=(mark or "no mark") + (f", and in it {processes.describe(inhabited)}" if inhabited else ""),
                next_step=f"choose another virtual_lab_name, or remove it: ip netns delete {namespace}",
            )
        if namespace in names or mark == alias:
            seen[namespace] = links
    return seen


def plan(description, observed, present=True):
    """The changes, as a Plan whose things are `namespace` or `namespace/interface`."""
    changes, target = [], wanted(description) if present else {}
    others = _made_by_the_simulator(description) if present else set()
    for namespace in sorted(set(observed) - set(target) - others):
        changes.append(Change(namespace, "present", None))
    for namespace, interfaces in target.items():
        have = observed.get(namespace) or {}
        if not have:
            changes.append(Change(namespace, "stale" if namespace in observed else None, "present"))
        elif not have["lo"]["up"] or not have["lo"]["alias"]:
            changes.append(Change(f"{namespace}/lo", "down", "up"))
        for name in sorted(set(have) - set(interfaces) - {"lo"}):
            if f"{namespace}/{name}" in others:
                continue
            changes.append(Change(f"{namespace}/{name}", have[name]["kind"] or "present", None))
        for name, want in interfaces.items():
            seen = have.get(name)
            aim = {
                "kind": want["kind"],
                "master": want.get("master"),
                "addresses": sorted(want.get("addresses", ())),
                "up": True,
            }
            if want.get("mac"):
                aim["mac"] = want["mac"]
            before = {key: seen[key] for key in aim} if seen else None
            if before and want.get("peer") and want["peer"][1] not in (observed.get(want["peer"][0]) or {}):
                before["kind"] += (
                    ", peer lost"  # the kernel is about to remove it: its other end, or the end's namespace, is gone
                )
            changes.append(Change(f"{namespace}/{name}", before, aim))
    return Plan(changes)


def _batch(lines, namespace=None):
    if lines:
        _run(["ip", *(["-n", namespace] if namespace else []), "-batch", "-"], "\n".join(lines) + "\n")


def _delete_link(namespace, name):
    try:
        _run(["ip", "-n", namespace, "link", "delete", "dev", name])
    except BaremetalError as error:
        if "Cannot find device" not in str(error.seen):  # the other end of a pair took it along
            raise


def apply(description, todo):
    """Carry out a plan. What is too much goes first, then what is missing or differs is made."""
    alias, target = owner_alias(description["name"], description["dir"]), wanted(description)
    namespaces = {change.thing: change for change in todo.changes if "/" not in change.thing}
    links = {tuple(change.thing.split("/", 1)): change for change in todo.changes if "/" in change.thing}

    def to_make(namespace, name):
        change = links.get((namespace, name))
        return change and not (change.before and change.before["kind"] == change.after["kind"])

    for (namespace, name), change in links.items():
        if name != "lo" and change.before and (change.after is None or to_make(namespace, name)):
            _delete_link(namespace, name)
    deleted = [name for name, change in namespaces.items() if change.after is None]
    _batch([f"netns delete {name}" for name in deleted])
    for name, change in namespaces.items():
        if change.before == "stale":
            os.unlink(os.path.join(NAMESPACE_DIRECTORY, name))
    if deleted and not existing():
        # iproute2 mounted the directory onto itself for the first namespace and never takes that back. A namespace made this moment keeps it busy.
        subprocess.run(["umount", NAMESPACE_DIRECTORY], capture_output=True, check=False)
    added = [name for name, change in namespaces.items() if change.after]
    _batch([f"netns add {name}" for name in added])
    for namespace in [*added, *(namespace for namespace, name in links if name == "lo")]:
        _batch([f'link set dev lo alias "{alias}"', "link set dev lo up"], namespace)

    made, pairs = set(), []
    for namespace, interfaces in target.items():
        lines = []
        for name, want in interfaces.items():
            if not to_make(namespace, name) or (namespace, name) in made:
                continue
            if want["kind"] == "bridge":
                lines.append(f"link add name {name} type bridge stp_state 0 forward_delay 0")
            elif want["kind"] == "tun":
                lines.append(f"tuntap add dev {name} mode tap")
            else:
                peer_namespace, peer = want["peer"]
                pairs.append(
                    f"link add name {name} netns {namespace} type veth peer name {peer} netns {peer_namespace}"
                )
                made.add((peer_namespace, peer))
        _batch(lines, namespace)
    _batch(pairs)  # a pair is made whole: where one end is missing, the plan has the other as lost

    for namespace, interfaces in target.items():
        lines = []
        for name, want in interfaces.items():
            change = links.get((namespace, name))
            if not change:
                continue
            before = {} if to_make(namespace, name) else change.before
            if want.get("mac") and before.get("mac") != want["mac"]:
                lines.append(f"link set dev {name} address {want['mac']}")
            if want.get("master"):
                lines.append(f"link set dev {name} master {want['master']}")
            elif before.get("master"):
                lines.append(f"link set dev {name} nomaster")
            surplus = sorted(set(before.get("addresses", ())) - set(want.get("addresses", ())))
            lines += [f"address delete {address} dev {name}" for address in surplus]
            lines += [f"address replace {address} dev {name}" for address in want.get("addresses", ())]
            lines.append(f"link set dev {name} up")
        _batch(lines, namespace)


def verify(description, present=True):
    """Read back; raises naming what still differs."""
    left = plan(description, observe(description), present)
    if left:
        raise BaremetalError(
            "the networks are not as they were set",
            thing=f"lab {description['name']}",
            wanted=left.diff()["after"].strip() or "absent",
            seen=left.diff()["before"].strip() or "absent",
            next_step="make demo-down, then start again",
        )
