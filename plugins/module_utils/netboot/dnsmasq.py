# dnsmasq configuration: DHCP for reserved nodes only, TFTP with the loader, nothing else (no DNS, no router, no proxy). Rendering is pure.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import os
import subprocess
import tempfile

from ..core.errors import InvalidInput
from .addresses import normal_mac


def _line_safe(value, what):
    text = str(value)
    if any(c in text for c in "\n\r\0") or not text:
        raise InvalidInput(
            f"{what} cannot stand in a configuration file",
            thing="dnsmasq configuration",
            wanted="one line of text",
            seen=repr(text)[:60],
        )
    return text


def render(
    interface,
    address,
    network,
    tftp_root,
    reservation_dir,
    lease_file,
    pid_file,
    log_file,
    boot_url,
    http_loader_url,
    user="root",
    lease_time="10m",
):
    """The configuration text.

    `boot_url`: where iPXE asks its boot question, without the query; `http_loader_url`: the loader for firmware that boots by HTTP.
    """
    network = ipaddress.ip_network(network)
    if ipaddress.ip_address(address) not in network:
        raise InvalidInput(
            "the server's address is outside the provisioning network",
            thing="dnsmasq configuration",
            wanted=str(network),
            seen=address,
        )
    for what, path in (
        ("tftp_root", tftp_root),
        ("reservation_dir", reservation_dir),
        ("lease_file", lease_file),
        ("pid_file", pid_file),
        ("log_file", log_file),
    ):
        if not os.path.isabs(_line_safe(path, what)):
            raise InvalidInput(
                f"{what} is no absolute path", thing="dnsmasq configuration", wanted="an absolute path", seen=path
            )
    _line_safe(interface, "interface")
    return "".join(
        line + "\n"
        for line in (
            "# DHCP and TFTP of the provisioning network. Written by aicluster.baremetal (role boot_server): changes are overwritten.",
            "# No DNS.",
            "port=0",
            "no-resolv",
            "no-hosts",
            f"interface={interface}",
            "except-interface=lo",
            "bind-interfaces",
            f"user={_line_safe(user, 'user')}",
            f"pid-file={pid_file}",
            f"dhcp-leasefile={lease_file}",
            f"log-facility={log_file}",
            "log-dhcp",
            "# Only nodes with a reservation get an answer; the boot service keeps one file a node while it is being deployed.",
            f"dhcp-range={network.network_address},static,{network.netmask},{_line_safe(lease_time, 'lease_time')}",
            f"dhcp-hostsdir={reservation_dir}",
            "dhcp-ignore=tag:!known",
            "# The reservation says whose address it is: a ping before each offer would only cost 3 s of every boot.",
            "no-ping",
            "dhcp-option=option:router",
            "dhcp-option=option:dns-server",
            "enable-tftp",
            f"tftp-root={tftp_root}",
            "tftp-no-fail",
            "# Loaders: UEFI PXE (x86-64: client architecture 7, some firmware says 9), UEFI HTTP (16), then iPXE itself.",
            "dhcp-match=set:ipxe,175",
            "# iPXE would wait some seconds for a proxy DHCP server; there is none.",
            "dhcp-option=tag:ipxe,encap:175,176,1b",
            "dhcp-match=set:efi,option:client-arch,7",
            "dhcp-match=set:efi,option:client-arch,9",
            "dhcp-match=set:efihttp,option:client-arch,16",
            "dhcp-option-force=tag:efihttp,tag:!ipxe,60,HTTPClient",
            f"dhcp-boot=tag:efihttp,tag:!ipxe,{_line_safe(http_loader_url, 'http_loader_url')}",
            "dhcp-boot=tag:efi,tag:!ipxe,snponly.efi",
            f"dhcp-boot=tag:ipxe,{_line_safe(boot_url, 'boot_url')}?mac=${{netX/mac}}",
        )
    )


def reservation(mac, address, name):
    """The content of one file of dhcp-hostsdir."""
    address = str(ipaddress.ip_address(address))
    if not str(name).replace("-", "").replace(".", "").isalnum():
        raise InvalidInput(
            "the node name cannot stand in a reservation",
            thing="dnsmasq reservation",
            wanted="letters, digits, - and .",
            seen=repr(name)[:60],
        )
    return f"{normal_mac(mac)},{address},{name}\n"


def check(text, binary="dnsmasq"):
    """Let dnsmasq itself check a configuration; raises InvalidInput with what it said."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        done = subprocess.run(
            [binary, "--test", "-C", handle.name], capture_output=True, text=True, timeout=20, check=False
        )
    if done.returncode != 0:
        raise InvalidInput(
            "dnsmasq refuses the configuration",
            thing="dnsmasq configuration",
            seen=(done.stderr or done.stdout).strip()[-300:],
        )
