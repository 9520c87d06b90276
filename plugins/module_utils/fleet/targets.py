# Which BMC belongs to which host, from the values of the hosts' variables. Finds hosts that share one BMC, of which each would undo what the other did.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import re
import socket
from concurrent.futures import ThreadPoolExecutor

from ..core.errors import Conflict, InvalidInput

# what is needed of a host: the variable that has it
VARIABLES = {
    "address": "bmc_address",
    "port": "bmc_port",
    "ipmi_port": "bmc_ipmi_port",
    "protocol": "bmc_protocol",
    "credential": "bmc_credential",
    "fingerprint": "bmc_fingerprint",
    "ca_path": "bmc_ca_path",
    "tls": "bmc_tls",
    "system_id": "bmc_system_id",
    "ipmi_privilege": "bmc_ipmi_privilege",
    "ipmi_cipher_suite": "bmc_ipmi_cipher_suite",
    "attempt": "aicluster_attempt",
    "fencing": "aicluster_fencing",
}
# The usual ports of one BMC: the same address over Redfish and over IPMI is the same BMC.
USUAL_PORTS = {None, 443, 623}
RESOLVERS = 32
# The group of the hosts that lack the variable of a stagger rule.
NO_GROUP = "(none)"
MOST_NAMED = 20
# number of a task: (lowest, highest, whether the lowest itself is allowed)
NUMBERS = {
    "concurrency": (1, None, True),
    "canary": (0, None, True),
    "max_fail_percentage": (0, 100, True),
    "max_refused_logins": (0, None, True),
    "progress": (0, None, True),
    "timeout": (0, None, False),
    "deadline": (0, None, False),
    "node_timeout": (0, None, False),
}


def check_numbers(params):
    """InvalidInput for the first number of a task that makes no sense. What is not given is not looked at."""
    for name, (lowest, highest, included) in NUMBERS.items():
        value = params.get(name)
        if value is None or (
            (value > lowest or (included and value == lowest)) and (highest is None or value <= highest)
        ):
            continue
        wanted = f"{lowest} or more" if included else f"more than {lowest}"
        raise InvalidInput(
            "this number makes no sense",
            thing=name,
            wanted=wanted if highest is None else f"{lowest} to {highest}",
            seen=f"{value:g}",
            next_step=f"correct {name}, or leave it out for the usual value",
        )


def check_rules(rules):
    """InvalidInput for the first rule of a stagger that has no name of a variable, or numbers with which nothing would ever start."""
    for rule in rules:
        check_name(rule["by"], "stagger.by")
        if rule["batch"] < 1 or rule["pause"] < 0:
            raise InvalidInput(
                "such a stagger would never start anything",
                thing=f"stagger by {rule['by']}",
                wanted="batch of at least 1, pause of at least 0",
                seen=f"batch {rule['batch']}, pause {rule['pause']:g}",
                next_step="correct the numbers",
            )


def named(names):
    """Names for a message: the first of them, and how many more there are."""
    names = [str(name) for name in names]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def variable_names(given=None):
    """VARIABLES with the user's own names in it. A value where a name is wanted is refused: it would be the first host's value for all hosts."""
    names = dict(VARIABLES)
    for key, name in (given or {}).items():
        if key not in names:
            raise InvalidInput(
                "the fleet needs no such thing of a host",
                thing="variables",
                wanted=", ".join(VARIABLES),
                seen=key,
                next_step="correct the key",
            )
        names[key] = check_name(name, f"variables.{key}")
    return names


def check_name(name, thing):
    """The name of a variable, or InvalidInput."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise InvalidInput(
            "this is not the name of a variable",
            thing=thing,
            wanted="the name of a host variable, without braces: Ansible fills in a value here from the first host only",
            seen=name,
            next_step="give the name; each host's own value is read inside",
        )
    return name


def place_of(address, resolve=socket.getaddrinfo):
    """One form for each address: the number of an IP address, however it is written; that of a name by asking for it; a name that nobody knows as it is."""
    text = str(address).strip().strip("[]")
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        pass
    try:
        return str(ipaddress.ip_address(resolve(text, None, type=socket.SOCK_STREAM)[0][4][0]))
    except (OSError, ValueError, IndexError):
        return text.lower()


def bmc_keys(hosts, resolve=socket.getaddrinfo):
    """{host: key}: equal keys are one BMC. `hosts`: {host: {address, port, ...}}; those without an address have no key."""
    addresses = sorted({str(values["address"]) for values in hosts.values() if values.get("address")})
    names = [address for address in addresses if not _is_ip(address)]
    places = {address: place_of(address) for address in addresses if _is_ip(address)}
    if names:
        with ThreadPoolExecutor(min(RESOLVERS, len(names))) as pool:
            places.update(zip(names, pool.map(lambda name: place_of(name, resolve), names)))
    found = {}
    for host, values in hosts.items():
        if values.get("address"):
            port = values.get("port") or (values.get("ipmi_port") if values.get("protocol") == "ipmi" else None)
            port = int(port) if str(port or "").isdigit() else None
            found[host] = (places[str(values["address"])], None if port in USUAL_PORTS else port)
    return found


def _is_ip(address):
    try:
        ipaddress.ip_address(address.strip().strip("[]"))
    except ValueError:
        return False
    return True


def shared(hosts, keys, others=()):
    """{host: error} for hosts that have a BMC in common. Different systems behind one BMC (multi-node chassis) may share it when each is named.

    `others`: {host: values} that are only compared with, with their keys in `keys` too.
    """
    hosts, together = {**dict(others), **hosts}, {}
    for host, key in keys.items():
        together.setdefault(key, []).append(host)
    found = {}
    for key, names in together.items():
        if len(names) < 2:
            continue
        systems = [hosts[name].get("system_id") for name in names]
        if all(systems) and len(set(systems)) == len(systems):
            continue
        for name in names:
            if name in others:
                continue
            sharing = [other for other in names if other != name]
            found[name] = Conflict(
                "shares its BMC with another host, nothing was sent to it",
                host=name,
                thing=f"BMC {key[0]}" + (f" port {key[1]}" if key[1] else ""),
                wanted="a BMC of its own, or bmc_system_id that names another system for each of them",
                seen="also the BMC of " + ", ".join(sharing[:5]) + (" ..." if len(sharing) > 5 else ""),
                next_step="correct bmc_address of these hosts, or discover them again",
                code="shared_bmc",
            )
    return found


def group_values(value):
    """The groups that a host is in by one variable: a rack, or a list of PDUs; none where the variable is not set.

    A limit is for all: whoever asks puts those without a group into NO_GROUP, and says so.
    """
    if value is None or value == "":
        return []
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]
