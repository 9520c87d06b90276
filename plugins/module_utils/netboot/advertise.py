# Answers the router solicitations of nodes that are being deployed: "there is no IPv6 router here".
#
# iPXE configures IPv6 beside IPv4 and waits for both. Without an answer it gives up only after some 15 s, at every boot. The answer holds no
# prefix, no router (lifetime 0) and no DHCPv6 flags, so it configures nothing on anybody (RFC 4861, section 4.2).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import logging
import socket
import struct
import threading

_log = logging.getLogger("aicluster.boot")
_SOLICITATION, _ADVERTISEMENT, _SOURCE_ADDRESS = 133, 134, 1
_ICMP6_FILTER = 1  # linux/icmpv6.h


def source_mac(packet):
    """The MAC in the source link-layer address option of a router solicitation, or None (no such option, or no solicitation)."""
    if len(packet) < 8 or packet[0] != _SOLICITATION:
        return None
    at = 8
    while at + 8 <= len(packet) and packet[at + 1]:
        if packet[at] == _SOURCE_ADDRESS:
            return ":".join(f"{byte:02x}" for byte in packet[at + 2 : at + 8])
        at += packet[at + 1] * 8
    return None


def advertisement():
    """The answer; the kernel fills in the checksum."""
    return struct.pack("!BBHBBHII", _ADVERTISEMENT, 0, 0, 64, 0, 0, 0, 0)


def _socket(interface):
    answering = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    try:
        # A set bit blocks: only solicitations come through.
        words = [0xFFFFFFFF] * 8
        words[_SOLICITATION >> 5] &= ~(1 << (_SOLICITATION & 31)) & 0xFFFFFFFF
        answering.setsockopt(socket.IPPROTO_ICMPV6, _ICMP6_FILTER, struct.pack("=8I", *words))
        answering.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        group = socket.inet_pton(socket.AF_INET6, "ff02::2") + struct.pack("=I", socket.if_nametoindex(interface))
        answering.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
        # Receivers drop advertisements that may have crossed a router.
        answering.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 255)
        answering.settimeout(1.0)
    except OSError:
        answering.close()
        raise
    return answering


class Advertiser:
    """One thread on one interface; `is_known` says of a MAC whether its node is being deployed."""

    def __init__(self, interface, is_known):
        self._is_known, self._stop = is_known, threading.Event()
        self._socket = _socket(interface)
        self._thread = threading.Thread(target=self._run, name="advertiser", daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.is_set():
            try:
                packet, sender = self._socket.recvfrom(1500)
                if not sender[0].startswith("fe80:") or not self._is_known(source_mac(packet)):
                    continue
                self._socket.sendto(advertisement(), sender)
            except TimeoutError:
                continue
            except OSError as error:
                _log.warning("router solicitation not answered: %s", error)

    def stop(self):
        self._stop.set()
        self._thread.join(timeout=5)
        self._socket.close()


def start(interface, is_known):
    """An Advertiser, or None where it is not possible: boots are then slower, nothing else."""
    try:
        return Advertiser(interface, is_known)
    except OSError as error:
        _log.warning(
            "IPv6 router solicitations on %s are not answered (%s): each iPXE boot takes some 15 s more",
            interface,
            error,
        )
        return None
