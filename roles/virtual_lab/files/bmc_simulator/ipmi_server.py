# IPMI 2.0 over LAN for the BMCs of a fleet, in the simulator's own event loop: RMCP+ sessions, cipher suites 3 and 17.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""After the IPMI 2.0 specification, chapter 13; numbers in brackets are its tables and clauses.

A lab's BMC has pyghmi in a process of its own instead (ipmi_child.py). That is a second opinion on the wire, but it takes 30 MB for
each BMC, and pyghmi cannot tell two servers on the same port apart.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import struct
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from . import ipmi_commands
from .ipmi_commands import ROLES, Commands
from .node import Node

RMCP = b"\x06\x00\xff\x07"
IPMI, OPEN_REQUEST, RAKP1, RAKP3 = 0x00, 0x10, 0x12, 0x14
# (13-15) status codes
NO_RESOURCES, BAD_SESSION, BAD_ROLE, BAD_NAME, BAD_INTEGRITY, NO_SUITE = 0x01, 0x02, 0x09, 0x0D, 0x0F, 0x11
# cipher suites: authentication, integrity and confidentiality algorithm, hash, length of an authentication code (22.15.2)
SUITES = {3: (1, 1, 1, hashlib.sha1, 12), 17: (3, 4, 1, hashlib.sha256, 16)}
BMC_ADDRESS = 0x20
SESSION_IDLE_SECONDS = 60.0
MAX_SESSIONS = 16


def checksum(data: bytes) -> int:
    return -sum(data) & 0xFF


@dataclass(slots=True)
class Session:
    id: int
    remote: bytes
    suite: int
    tag: int
    used: float = field(default_factory=time.monotonic)
    username: bytes = b""
    role: int = 0
    key: bytes = b""
    remote_random: bytes = b""
    random: bytes = b""
    sik: bytes = b""
    k1: bytes = b""
    aes: bytes = b""
    privilege: int = 2
    limit: int = 4
    established: bool = False
    sequence: int = 0
    # the last answers by sequence number: a request that comes twice is carried out once
    answers: dict[bytes, bytes] = field(default_factory=dict)

    def mac(self, key: bytes, *parts: bytes) -> bytes:
        return hmac.new(key, b"".join(parts), SUITES[self.suite][3]).digest()


class FleetIpmi(Commands, asyncio.DatagramProtocol):
    """The IPMI side of one BMC."""

    def __init__(self, node: Node):
        self.node = node
        self.guid = uuid.UUID(node.config["uuid"]).bytes
        self.sessions: dict[int, Session] = {}
        self.transport: asyncio.DatagramTransport | None = None

    # ---- what the commands need ----------------------------------------------------------------

    def ask(self) -> dict[str, Any]:
        return ipmi_commands.observe(self.node)

    def do(self, session: Session, what: str, **arguments: Any) -> Any:
        message = {"what": what, "account": session.username.decode("utf-8", "replace"), **arguments}
        return ipmi_commands.carry_out(self.node, message)

    def users(self) -> list[dict[str, Any]]:
        return ipmi_commands.users(self.node)

    # ---- packets in ----------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if data[:4] != RMCP or len(data) < 10:
            return
        delay = self.node.behaviour.delay_s
        if delay:
            asyncio.get_running_loop().call_later(delay, self._receive, data, addr)
        else:
            self._receive(data, addr)

    def _receive(self, data: bytes, address: Any) -> None:
        try:
            answer = self._plain(data) if data[4] == 0 else self._rmcp_plus(data) if data[4] == 6 else None
        except (IndexError, struct.error, ValueError):
            # what cannot be read gets no answer, as from a BMC
            return
        if answer and self.transport and not self.transport.is_closing():
            self.transport.sendto(answer, address)

    def _plain(self, data: bytes) -> bytes | None:
        """Requests without a session, in IPMI 1.5 form: authentication capabilities and cipher suites."""
        message = data[14 : 14 + data[13]]
        netfn, command = message[1] >> 2, message[5]
        if netfn != 6 or command not in (0x38, 0x54):
            return None
        if command == 0x38:  # 22.13: IPMI 2.0 only, per-user authentication
            out = bytes([0, 1, 0x80, 0x04, 0x02, 0, 0, 0, 0])
        else:  # 22.15: a list in pieces of 16 bytes
            records = b"".join(
                bytes([0xC0, suite, row[0], row[1] | 0x40, row[2] | 0x80]) for suite, row in SUITES.items()
            )
            index = message[8] & 0x3F
            out = bytes([0, 1]) + records[index * 16 : index * 16 + 16]
        reply = _answer_to(message, out)
        return RMCP + bytes(9) + bytes([len(reply)]) + reply

    def _rmcp_plus(self, data: bytes) -> bytes | None:
        kind = data[5] & 0x3F
        number, _sequence, length = struct.unpack_from("<IIH", data, 6)
        payload = data[16 : 16 + length]
        if len(payload) != length:
            return None
        if kind == OPEN_REQUEST:
            return _unprotected(0x11, self._open(payload))
        if kind in (RAKP1, RAKP3):
            session = self.sessions.get(struct.unpack_from("<I", payload, 4)[0])
            step = self._rakp1 if kind == RAKP1 else self._rakp3
            if session is None:
                return _unprotected(kind + 1, bytes([payload[0], BAD_SESSION, 0, 0, 0, 0, 0, 0]))
            return _unprotected(kind + 1, step(session, payload))
        session = self.sessions.get(number)
        if kind == IPMI and session is not None and session.established and data[5] & 0xC0 == 0xC0:
            return self._in_session(session, data, payload)
        return None

    # ---- opening a session (13.17 to 13.24) ----------------------------------------------------

    def _open(self, payload: bytes) -> bytes:
        tag, remote = payload[0], payload[4:8]
        oldest = time.monotonic() - SESSION_IDLE_SECONDS
        for number in [number for number, session in self.sessions.items() if session.used < oldest]:
            del self.sessions[number]
        if len(self.sessions) >= MAX_SESSIONS:
            return bytes([tag, NO_RESOURCES, 0, 0]) + remote
        asked = (payload[12], payload[20], payload[28])
        suite = next((number for number, row in SUITES.items() if row[:3] == asked), None)
        if suite is None or str(suite) not in self.node.behaviour.ipmi_suites:
            return bytes([tag, NO_SUITE, 0, 0]) + remote
        number = int.from_bytes(os.urandom(4), "little") | 1
        self.sessions[number] = Session(number, remote, suite, tag)
        algorithms_ = b"".join(bytes([place, 0, 0, 8, value, 0, 0, 0]) for place, value in enumerate(asked))
        return bytes([tag, 0, 4, 0]) + remote + struct.pack("<I", number) + algorithms_

    def _rakp1(self, session: Session, payload: bytes) -> bytes:
        tag, length = payload[0], payload[27]
        username = payload[28 : 28 + length]
        secret = ipmi_commands.password(self.node, username.decode("utf-8", "replace"))
        if secret is None:
            del self.sessions[session.id]
            return bytes([tag, BAD_NAME, 0, 0]) + session.remote
        account = self.node.account_named(username.decode("utf-8", "replace"))
        session.role, session.limit = payload[24], ROLES[account.role]
        if session.role & 0x0F > session.limit:
            del self.sessions[session.id]
            return bytes([tag, BAD_ROLE, 0, 0]) + session.remote
        session.limit = session.role & 0x0F or session.limit
        session.username, session.key = username, secret.encode()[:20]
        session.remote_random, session.random = payload[8:24], os.urandom(16)
        code = session.mac(
            session.key,
            session.remote,
            struct.pack("<I", session.id),
            session.remote_random,
            session.random,
            self.guid,
            bytes([session.role, len(username)]),
            username,
        )
        return bytes([tag, 0, 0, 0]) + session.remote + session.random + self.guid + code

    def _rakp3(self, session: Session, payload: bytes) -> bytes | None:
        who = bytes([session.role, len(session.username)]) + session.username
        wanted = session.mac(session.key, session.random, session.remote, who)
        if not hmac.compare_digest(wanted, payload[8 : 8 + len(wanted)]):
            self.node.authenticate(session.username.decode("utf-8", "replace"), "\0")  # counts towards the lockout
            del self.sessions[session.id]
            return bytes([payload[0], BAD_INTEGRITY, 0, 0]) + session.remote
        session.sik = session.mac(session.key, session.remote_random, session.random, who)
        session.k1 = session.mac(session.sik, b"\x01" * 20)
        session.aes = session.mac(session.sik, b"\x02" * 20)[:16]
        session.established = True
        self.node.stats["ipmi_sessions"] += 1
        check = session.mac(session.sik, session.remote_random, struct.pack("<I", session.id), self.guid)
        return bytes([payload[0], 0, 0, 0]) + session.remote + check[: SUITES[session.suite][4]]

    # ---- inside a session (13.28, 13.29) -------------------------------------------------------

    def _in_session(self, session: Session, data: bytes, payload: bytes) -> bytes | None:
        size = SUITES[session.suite][4]
        code = session.mac(session.k1, data[4:-size])[:size]
        if not hmac.compare_digest(code, data[-size:]):
            return None
        session.used = time.monotonic()
        cipher = Cipher(algorithms.AES(session.aes), modes.CBC(payload[:16])).decryptor()
        clear = cipher.update(payload[16:]) + cipher.finalize()
        message = clear[: -1 - clear[-1]]
        if checksum(message[:2]) != message[2] or checksum(message[3:-1]) != message[-1]:
            return None
        if message not in session.answers:
            if len(session.answers) > 4:
                session.answers.clear()
            session.answers[message] = _answer_to(message, self._command(session, message))
        return self._protect(session, session.answers[message])

    def _command(self, session: Session, message: bytes) -> bytes:
        netfn, command, data = message[1] >> 2, message[5], message[6:-1]
        if (netfn, command) == (6, 0x3B):  # 22.18, Set Session Privilege Level
            wanted = data[0] & 0x0F
            if wanted > session.limit:
                return b"\x81"
            session.privilege = wanted or session.privilege
            return bytes([0, session.privilege])
        if (netfn, command) == (6, 0x3C):  # 22.19, Close Session
            self.sessions.pop(session.id, None)
            return b"\x00"
        answer = self.run(netfn, command, data, session, session.privilege)
        return bytes([answer]) if isinstance(answer, int) else b"\x00" + answer

    def _protect(self, session: Session, message: bytes) -> bytes:
        pad = -(len(message) + 1) % 16
        clear = message + bytes(range(1, pad + 1)) + bytes([pad])
        start = os.urandom(16)
        cipher = Cipher(algorithms.AES(session.aes), modes.CBC(start)).encryptor()
        payload = start + cipher.update(clear) + cipher.finalize()
        session.sequence += 1
        body = bytes([6, 0xC0]) + session.remote + struct.pack("<IH", session.sequence, len(payload)) + payload
        fill = -(len(body) + 2) % 4
        body += b"\xff" * fill + bytes([fill, 7])
        return RMCP + body + session.mac(session.k1, body)[: SUITES[session.suite][4]]


def _answer_to(message: bytes, out: bytes) -> bytes:
    """The response to an IPMI message (13-8): addresses swapped, completion code and data in `out`."""
    head = bytes([message[3], (message[1] & 0xFC) + 4 | (message[4] & 3)])
    tail = bytes([message[0], (message[4] & 0xFC) | (message[1] & 3), message[5]]) + out
    return head + bytes([checksum(head)]) + tail + bytes([checksum(tail)])


def _unprotected(kind: int, payload: bytes | None) -> bytes | None:
    return None if payload is None else RMCP + bytes([6, kind]) + bytes(8) + struct.pack("<H", len(payload)) + payload
