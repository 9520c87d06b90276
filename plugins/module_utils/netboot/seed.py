# The cloud-init seed of one node (NoCloud): identity, SSH keys and static addresses by MAC. Pure.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import gzip
import hashlib
import io
import ipaddress
import json
import re
import tarfile

from ..core.errors import InvalidInput
from .addresses import normal_mac

# The directory that cloud-init's NoCloud source reads without any kernel argument.
SEED_DIRECTORY = "var/lib/cloud/seed/nocloud"
_HOSTNAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.IGNORECASE)
_SSH_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-[a-z0-9@.-]+) [A-Za-z0-9+/]+={0,3}( [^\n\r]*)?"
)

_OURS = {
    "preserve_hostname": False,
    "manage_etc_hosts": False,
    "disable_root": False,
    "ssh_pwauth": False,
    "ssh_deletekeys": False,
}


def _bad(message, seen, wanted):
    return InvalidInput(message, thing="cloud-init seed", wanted=wanted, seen=repr(seen)[:80])


def check_public_key(key):
    """Return one public key line without blanks around it; raises InvalidInput (also for a private key given by mistake)."""
    key = str(key).strip()
    if "PRIVATE KEY" in key:
        raise InvalidInput(
            "is a private key",
            thing="SSH public key",
            wanted="the .pub file's line",
            next_step="give the content of the .pub file",
        )
    if not _SSH_KEY.fullmatch(key):
        raise InvalidInput(
            "is no SSH public key line", thing="SSH public key", wanted="ssh-ed25519 AAAA... comment", seen=key[:40]
        )
    return key


def interface(name, mac, address=None, gateway=None, mtu=None, nameservers=()):
    """One network interface: `address` with prefix ("10.77.1.11/24"), or None for a link that is only brought up."""
    entry = {"match": {"macaddress": normal_mac(mac)}, "set-name": name, "dhcp4": False, "dhcp6": False}
    try:
        if address:
            parsed = ipaddress.ip_interface(address)
            if "/" not in str(address):
                raise ValueError(f"{address} has no prefix length")
            entry["addresses"] = [str(parsed)]
        if gateway:
            via = ipaddress.ip_address(gateway)
            # Not "default": cloud-init before 23.1 takes only networks.
            entry["routes"] = [{"to": "0.0.0.0/0" if via.version == 4 else "::/0", "via": str(via)}]
        if nameservers:
            entry["nameservers"] = {"addresses": [str(ipaddress.ip_address(item)) for item in nameservers]}
    except ValueError as error:
        raise _bad(f"interface {name} has a bad address", str(error), "ADDRESS/PREFIX")
    if mtu:
        entry["mtu"] = int(mtu)
    return name, entry


def check_user_data(user_data):
    """InvalidInput where the site's own cloud-config keys would replace ours."""
    ours = {*_OURS, "hostname", "users"}
    for key, value in (user_data or {}).items():
        if key in ours:
            raise _bad(
                f"user data must not set {key}, the deployment does",
                value,
                f"keys other than {', '.join(sorted(ours))}",
            )


def render(hostname, instance_id, public_keys, interfaces, user_data=None):
    """The three files of a seed as {name: text}.

    `interfaces`: (name, entry) pairs of `interface`; `user_data`: extra cloud-config keys of the site (dict), which may not replace ours.
    The files are written as JSON, which is YAML: no quoting rule can be got wrong.
    The host keys are kept (`ssh_deletekeys: false`): the ramdisk made them and reported the public half, which the controller pinned.
    """
    if not _HOSTNAME.fullmatch(str(hostname)) or len(hostname) > 253:
        raise _bad("the host name is not valid", hostname, "letters, digits and hyphens")
    keys = [check_public_key(key) for key in public_keys]
    if not keys:
        raise _bad("no SSH public key is given", public_keys, "at least one key, or nobody could log in")
    config = {
        "hostname": hostname,
        **_OURS,
        "users": [{"name": "root", "lock_passwd": True, "ssh_authorized_keys": keys}],
    }
    check_user_data(user_data)
    config.update(user_data or {})
    names = [name for name, entry in interfaces]
    if len(set(names)) != len(names):
        raise _bad("two interfaces have the same name", names, "one entry an interface")
    macs = [entry["match"]["macaddress"] for name, entry in interfaces]
    if len(set(macs)) != len(macs):
        raise _bad("two interfaces have the same MAC", macs, "one entry a MAC")
    return {
        # "local": cloud-init applies everything before the network starts, so that SSH does not wait for a second stage.
        "meta-data": json.dumps({"instance-id": instance_id, "local-hostname": hostname, "dsmode": "local"}, indent=1)
        + "\n",
        "user-data": "#cloud-config\n" + json.dumps(config, indent=1) + "\n",
        "network-config": json.dumps({"version": 2, "ethernets": dict(interfaces)}, indent=1) + "\n",
    }


def archive(files):
    """The seed as tar.gz bytes, the same bytes for the same files (no times, owners or gzip header time)."""
    tar_bytes = io.BytesIO()
    with tarfile.open(fileobj=tar_bytes, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            data = files[name].encode("utf-8")
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o600
            tar.addfile(member, io.BytesIO(data))
    return gzip.compress(tar_bytes.getvalue(), mtime=0)


def sha256(data):
    return hashlib.sha256(data).hexdigest()
