# Which addresses a deployed node gets: the provisioning interface as registered, rails with the same host number. Pure.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress

from ..core.errors import InvalidInput
from . import seed
from .addresses import normal_mac


def _bad(message, wanted, seen, host=None, next_step=None):
    return InvalidInput(message, host=host, thing="deploy network", wanted=wanted, seen=seen, next_step=next_step)


def host_address(address, prefix, network):
    """The address in `network` with the host number that `address` has in its own network of `prefix` bits, as ADDRESS/PREFIX text."""
    own = ipaddress.ip_interface(f"{address}/{prefix}")
    other = ipaddress.ip_network(network)
    number = int(own.ip) - int(own.network.network_address)
    if number >= other.num_addresses - 1:
        raise _bad(
            "the rail's network is too small for the node's host number", f"more than {number} addresses", str(other)
        )
    return f"{other.network_address + number}/{other.prefixlen}"


def rail_network(label, network):
    """The network of a rail as the option says it; InvalidInput where it is none."""
    try:
        return ipaddress.ip_network(network)
    except ValueError as error:
        raise _bad(f"the network of {label} is not valid", "for example 10.77.2.0/24", str(error)) from error


def check_options(rails=(), gateway=None, nameservers=(), name="prov0"):
    """What of the options of `interfaces` can be wrong for any node; InvalidInput. Which NICs a node has is not asked here."""
    some_mac = "02:00:00:00:00:01"
    seed.interface(name, some_mac, gateway=gateway, nameservers=nameservers)
    labels = [name]
    for index, rail in enumerate(rails):
        label = rail.get("name") or f"rail{index}"
        if rail.get("network"):
            rail_network(label, rail["network"])
        seed.interface(label, some_mac, rail.get("address"), mtu=rail.get("mtu"))
        if label in labels:
            raise _bad("two interfaces have the same name", "one entry an interface", label)
        labels.append(label)


def _is(nic, wanted):
    """Does `wanted` (a slot, a name, or a MAC in any form) name this NIC?"""
    text = str(wanted).lower()
    if text in (str(nic.get("slot")).lower(), str(nic.get("name")).lower()):
        return True
    try:
        return normal_mac(text) == normal_mac(nic["mac"])
    except InvalidInput:
        return False


def interfaces(node, nics, rails=(), gateway=None, nameservers=(), name="prov0"):
    """The interfaces of seed.render for one node.

    `node`: registry dict with provision_mac, provision_ip, provision_prefix; `nics`: [{slot, mac, name}] of its last inventory; `rails`: site
    options [{name, nic, network, mtu, address}]: `nic` is a slot, a name or a MAC of `nics`, by default the NICs other than the provisioning one
    in the order of the inventory; `address` (with prefix) overrides the rule of host_address. A rail without network is only brought up.
    """
    host = node["name"]
    for key in ("provision_mac", "provision_ip"):
        if not node.get(key):
            raise _bad(
                f"the registry has no {key} for the node",
                key,
                "nothing",
                host,
                "run the discover stage, or set it with the node module",
            )
    prefix = node.get("provision_prefix") or 24
    mac = normal_mac(node["provision_mac"])
    result = [seed.interface(name, mac, f"{node['provision_ip']}/{prefix}", gateway=gateway, nameservers=nameservers)]
    # a BMC that shows one address twice (Gigabyte H262) shows one NIC
    by_mac = {}
    for nic in nics:
        if nic.get("mac"):
            by_mac.setdefault(normal_mac(nic["mac"]), nic)
    others = [nic for address, nic in by_mac.items() if address != mac]
    taken = set()
    for index, rail in enumerate(rails):
        label = rail.get("name") or f"rail{index}"
        wanted = rail.get("nic")
        if wanted:
            found = [nic for nic in others if _is(nic, wanted)]
        else:
            found = [nic for nic in others if normal_mac(nic["mac"]) not in taken][:1]
        if len(found) != 1:
            seen = ", ".join(f"{nic.get('slot')}={nic['mac']}" for nic in others) or "no further NICs"
            raise _bad(
                f"no single NIC for {label}",
                wanted or "one more NIC than the provisioning one",
                seen,
                host,
                "run discover again, or set nic of the rail",
            )
        rail_mac = normal_mac(found[0]["mac"])
        if rail_mac in taken:
            raise _bad(f"the NIC of {label} is already another rail's", "one rail a NIC", rail_mac, host)
        taken.add(rail_mac)
        address = rail.get("address")
        if not address and rail.get("network"):
            rail_network(label, rail["network"])
            address = host_address(node["provision_ip"], prefix, rail["network"])
        result.append(seed.interface(label, rail_mac, address, mtu=rail.get("mtu")))
    return result
