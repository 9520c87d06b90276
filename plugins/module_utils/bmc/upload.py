# Large files to a BMC: streamed from disk with constant memory, in the multipart form of DSP0266 or raw; sent again only where it certainly was not taken.
#
# A kernel takes megabytes before the other side has seen one of them. So before the last block goes out, everything else must have been acknowledged: only
# then does "all but the last block" mean what it says, up to what the BMC's own kernel buffers, also where a BMC hung up long ago.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import termios
import time
import uuid
from urllib.parse import urlsplit

from ..core.deadline import Deadline
from ..core.errors import BaremetalError
from . import guard
from .errors import AnswerLost, TransportError
from .wire import USUAL_HEADERS, Broken, Wire, read_reply

BLOCK = 1 << 18
# BMCs take some hundred kB a second at worst; some check the whole image before they answer.
SLOWEST_BYTES_S = 256 << 10
ANSWER_S = 600.0
DRAIN_S = 120.0
TCP_ESTABLISHED = 1  # linux/tcp_states.h
TRUST = ("certificate_changed", "certificate_not_trusted", "tls_handshake")


class Body:
    """What is sent: bytes before, the file, bytes behind. `before_last` is called once, before the last block is given out.

    As long as it was not called the other side cannot have the whole body: the Content-Length says how much is missing.
    """

    def __init__(self, path, head=b"", tail=b"", before_last=None):
        self._file = open(path, "rb")  # noqa: SIM115 - closed by the one who made it
        self._parts = [head, self._file, tail]
        self._size = len(head) + os.fstat(self._file.fileno()).st_size + len(tail)
        self._left = self._size
        self._before_last = before_last
        self.settle = None  # called before `before_last`: what was given out so far must have arrived
        self.started = self.whole = False

    def __len__(self):
        return self._size

    def __iter__(self):
        while True:
            # never all at once: there must be something before the last block
            block = self.read(max(1, min(BLOCK, self._left - 1) if self._left > 1 else 1))
            if not block:
                return
            yield block

    def read(self, size=BLOCK):
        size = BLOCK if size is None or size < 0 else min(size, BLOCK)
        block, self.started = b"", True
        while self._parts and len(block) < size:
            part = self._parts[0]
            piece = part.read(size - len(block)) if part is self._file else part[: size - len(block)]
            if part is not self._file:
                self._parts[0] = part[len(piece) :]
            if not piece:
                self._parts.pop(0)
            block += piece
        self._left -= len(block)
        if not self._left and not self.whole:
            if self.settle:
                self.settle()
            if self._before_last:
                self._before_last()
            self.whole = True
        return block

    def close(self):
        self._file.close()


def multipart(path, name, parameters, oem=None, before_last=None):
    """(content type, Body) of the form: the JSON part first, the file last, each with its own content type (without, some BMCs see no file)."""
    boundary = uuid.uuid4().hex
    head = b""
    parts = [("UpdateParameters", parameters), *sorted((oem or {}).items())]
    for field, value in parts:
        head += (
            f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\nContent-Type: application/json\r\n\r\n'
            f"{json.dumps(value)}\r\n"
        ).encode()
    safe = "".join(letter for letter in name if letter.isalnum() or letter in "._-") or "image.bin"
    head += (
        f'--{boundary}\r\nContent-Disposition: form-data; name="UpdateFile"; filename="{safe}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    return f"multipart/form-data; boundary={boundary}", Body(
        path, head, f"\r\n--{boundary}--\r\n".encode(), before_last
    )


def _exchange(endpoint, path, headers, body, limit):
    """One POST on a connection of its own; returns a wire.Reply or raises TransportError."""
    wire = Wire(endpoint)
    raw = wire._connect(endpoint.connect_timeout, min(DRAIN_S, limit.seconds))
    stream = raw.makefile("rb")
    try:
        parts = urlsplit(path)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        own = {"Host": wire._host, "Content-Length": str(len(body)), "Connection": "close"}
        lines = [f"POST {target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in {**USUAL_HEADERS, **headers, **own}.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise TransportError("the request has a line break where none may be", False)
        body.settle = lambda: _drained(raw)
        try:
            raw.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
            for block in body:
                raw.sendall(block)
        except OSError as error:
            early = _early_answer(raw, stream)
            if early is None:
                raise TransportError(f"the connection broke ({error.strerror or error})", True) from error
            return early
        raw.settimeout(max(1.0, limit.remaining()))
        return read_reply(stream, "POST")
    except TimeoutError as error:
        raise TransportError("no answer in time", True, "timeout") from error
    except (OSError, ValueError, Broken) as error:
        raise TransportError(f"the connection broke ({error})", True) from error
    finally:
        stream.close()
        raw.close()


def _early_answer(raw, stream):
    """What a BMC said that refused the upload before its end and hung up; None where it said nothing that can still be read."""
    try:
        raw.settimeout(2.0)
        return read_reply(stream, "POST")
    except (OSError, ValueError, Broken):
        return None


def _drained(raw):
    """Wait until all that was sent is acknowledged; OSError where the other side is gone."""
    end, pause = time.monotonic() + DRAIN_S, 0.001
    while True:
        broken = raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if broken:
            raise OSError(broken, os.strerror(broken))
        if hasattr(socket, "TCP_INFO") and raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != TCP_ESTABLISHED:
            raise ConnectionResetError("the BMC hung up before the end of the image")
        left = struct.unpack("i", fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
        if not left:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"{left} bytes are not acknowledged")
        time.sleep(pause)
        pause = min(0.05, pause * 2)


def send(client, path, make_body):
    """POST a Body; returns the Answer. `make_body()` -> (content type, Body), called again for each try.

    Repeated only after an answer that says that it was not taken (a redirect, 401 with an old session, busy with a time to wait). A connection that broke
    before the last block was out raises `upload_broken`, one that broke after it AnswerLost.
    """
    where, redirects, relogged, tries = path, 0, False, 0
    while True:
        content_type, body = make_body()
        limit = Deadline(ANSWER_S + len(body) / SLOWEST_BYTES_S, f"the upload to {where}", host=client.endpoint.label)
        headers = {**client._auth_headers(), "Content-Type": content_type}
        if client.before_write:
            client.before_write()
        status = None
        try:
            with guard.IN_FLIGHT.one(client.endpoint, limit.remaining()):
                response = _exchange(client.endpoint, where, headers, body, limit)
            status = response.status_code
        except TransportError as error:
            if error.code in TRUST and not body.started:
                raise client._untrusted(error)
            if body.whole:
                raise AnswerLost(
                    "the answer to the upload was lost, the image may have been taken",
                    host=client.endpoint.label,
                    thing=f"POST {where}",
                    seen=error.reason,
                    next_step="run again: what became of it is read from the BMC first",
                )
            raise BaremetalError(
                "the upload broke off before its end, the image was not taken",
                host=client.endpoint.label,
                thing=f"POST {where}",
                wanted=f"{len(body)} bytes sent",
                seen=error.reason,
                next_step="run again; if it stays, restart the BMC: its memory may be full",
                code="upload_broken",
            )
        finally:
            body.close()
            client.sent.append(("POST", where, status))
        if status in (301, 302, 307, 308):
            redirects += 1
            location = urlsplit(response.headers.get("Location") or "")
            if redirects > 3 or not location.path:
                raise client._refused("POST", where, response, "the BMC redirects without end")
            where = location.path + (f"?{location.query}" if location.query else "")
            continue
        if status == 401 and client._token and not relogged:
            relogged = True
            client._token = client._session_uri = None
            client.login()
            continue
        if status < 400:
            return client._answer("POST", where, response)
        refused = client._refused("POST", where, response)
        tries += 1
        wait = client._busy_for(response, refused)
        if status in (429, 503) and wait is not None and client._pause(tries, wait, client.deadline):
            continue
        raise refused
