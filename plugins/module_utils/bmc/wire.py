# A thin carrier of requests for thousands of BMCs in one process: HTTP/1.1 over one kept connection, the shared TLS context, no retries of its own.
#
# It speaks as connector.Connector does (`exchange`, `drop_connections`, `close`) and takes its place through Endpoint.transport. Of the CPU time that a
# BMC costs, requests takes 2 ms and http.client 0.6 ms for three reads (most of it in the email package, for headers); this takes 0.1 ms. What it cannot
# do (uploads) it hands to the Connector.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
import socket
import ssl
import time
import zlib
from urllib.parse import quote, urlsplit

from .errors import TransportError
from .tls import context_for, fingerprint_of

# A body larger than this is no Redfish resource; the largest real ones (schemas, BIOS registries) have a few MB.
MOST_BYTES = 64 * 2**20
MOST_LINE = 65536
MOST_HEADERS = 200
# A connection that breaks after less than this was not closed for idleness.
IDLE_S = 2.0
_IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
_USUAL_TARGET = re.compile(r"[\x21-\x7e]+")
USUAL_HEADERS = {
    "User-Agent": "aicluster.baremetal",
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # compression makes ETags weak
    "OData-Version": "4.0",
}


class Headers(dict):
    """Header fields of an answer, made of lower-case names; case does not matter in what is asked for."""

    def get(self, name, default=None):
        return super().get(name.lower(), default)

    def __getitem__(self, name):
        return super().__getitem__(name.lower())

    def __contains__(self, name):
        return super().__contains__(name.lower())


class Broken(Exception):
    """The answer is no HTTP, or ended in the middle. `empty`: there was not one byte of it."""

    def __init__(self, words, empty=False):
        super().__init__(words)
        self.empty = empty


class Reply:
    """What the client uses of requests' Response: `status_code`, `headers`, `content`, `text`, `json()`. `last`: the BMC ends the connection after it."""

    __slots__ = ("content", "headers", "last", "status_code")

    def __init__(self, status_code, headers, content, last=False):
        self.status_code, self.headers, self.content, self.last = status_code, headers, content, last

    @property
    def text(self):
        return self.content.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.content)


def read_reply(stream, method):
    """Read one answer (RFC 9112) from a buffered binary stream; raises Broken, or OSError of the stream."""
    while True:
        lines = _read_head(stream)
        version, _space, rest = lines[0].partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise Broken(f"no HTTP status line but {lines[0][:40]!r}")
        status = int(rest[:3])
        if status >= 200:
            break
    fields = _fields(lines)
    headers = Headers(fields)
    connection = fields.get("connection", "").lower()
    last = "close" in connection or (version == "HTTP/1.0" and "keep-alive" not in connection)
    if method == "HEAD" or status in (204, 304):
        return Reply(status, headers, b"", last)
    if "chunked" in fields.get("transfer-encoding", "").lower():
        return Reply(status, headers, _read_chunks(stream), last)
    length = fields.get("content-length")
    if length is None:
        body = stream.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise Broken("the answer is larger than any Redfish resource")
        return Reply(status, headers, body, True)
    length = length.split(",")[0].strip()  # some proxies send it twice
    if not length.isdigit():
        raise Broken(f"Content-Length is {length[:20]!r}")
    return Reply(status, headers, _read_exactly(stream, int(length)), last)


def _read_head(stream):
    """The lines of an answer's header, the status line first."""
    there = stream.peek(1)
    end = there.find(b"\r\n\r\n")
    if end > 0:  # the whole of it has come, as nearly always: one step instead of one for each line
        text = there[:end].decode("latin-1")
        lines = text.split("\r\n")
        # Where a line ends in LF alone, so may the header, and what was found is in the body.
        if text.count("\n") == len(lines) - 1:
            stream.read(end + 4)
            return lines
    line = stream.readline(MOST_LINE)
    if not line:
        raise Broken("the connection was closed", empty=True)
    lines = [line.decode("latin-1").rstrip("\r\n")]
    if not lines[0].startswith("HTTP/"):
        return lines  # it is none, and to wait for the end of its header would be in vain
    for _unused in range(MOST_HEADERS):
        line = stream.readline(MOST_LINE)
        if line in (b"\r\n", b"\n"):
            return lines
        if not line.endswith(b"\n"):
            raise Broken("the answer ended in its header")
        lines.append(line.decode("latin-1").rstrip("\r\n"))
    raise Broken("the answer has no end of header fields")


def _fields(lines):
    """{lower-case name: value} of the header fields in the lines after the first; equal fields are joined by a comma."""
    fields, name = {}, None
    if len(lines) > MOST_HEADERS:
        raise Broken("the answer has no end of header fields")
    for text in lines[1:]:
        if text[:1] in (" ", "\t") and name:
            fields[name] += " " + text.strip()  # folded, which old firmware still does
            continue
        name, colon, value = text.partition(":")
        name = name.strip().lower()
        if colon:
            value = value.strip()
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def _read_exactly(stream, length):
    if length > MOST_BYTES:
        raise Broken("the answer is larger than any Redfish resource")
    body = stream.read(length)
    if len(body) != length:
        raise Broken(f"the answer ended after {len(body)} of {length} bytes")
    return body


def _read_chunks(stream):
    parts, total = [], 0
    while True:
        line = stream.readline(MOST_LINE).split(b";")[0].strip()
        try:
            size = int(line, 16)
        except ValueError:
            raise Broken(f"no length of a chunk but {line[:20]!r}")
        if size <= 0:
            break
        total += size
        if total > MOST_BYTES:
            raise Broken("the answer is larger than any Redfish resource")
        parts.append(_read_exactly(stream, size))
        stream.readline(MOST_LINE)
    while stream.readline(MOST_LINE).strip():
        pass  # trailers
    return b"".join(parts)


class Wire:
    """One BMC's connection.

    `watch`, if given, is told of it (`opened(wire)`, `closed(wire)`), so that somebody else can `cut` it, and may refuse a request (`check` raises).
    """

    def __init__(self, endpoint, watch=None):
        self._endpoint, self._watch = endpoint, watch
        self._context = None
        if endpoint.scheme == "https":
            self._context = context_for(endpoint.tls, endpoint.ca_path, checked=not endpoint.fingerprint)
        self._socket = self._stream = None
        self._fragile, self._used = False, 0.0
        name = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
        usual = {"https": 443, "http": 80}.get(endpoint.scheme)
        self._host = name if endpoint.port == usual else f"{name}:{endpoint.port}"
        self._other = None
        if watch is not None:
            watch.opened(self)

    def exchange(self, method, path, body=None, headers=None, timeout=None, **extra):
        """Send one request, once; returns a Reply (any status, redirects not followed) or raises TransportError.

        A read on a kept connection that the BMC has closed meanwhile is sent once more on a new one (some close after every answer, silently); once that was
        seen, each request has a connection of its own.
        """
        if self._watch is not None:
            self._watch.check(method, path)
        if extra:
            return self._connector().exchange(method, path, body, headers, timeout, **extra)
        # Only the path of a link is used: BMCs behind NAT answer with addresses that we cannot reach, and credentials go only where they belong.
        parts = urlsplit(path)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connect_s, read_s = timeout or (self._endpoint.connect_timeout, self._endpoint.read_timeout)
        sending = {**USUAL_HEADERS, **(headers or {})}
        if not sending["Accept-Encoding"]:
            del sending["Accept-Encoding"]
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            sending["Content-Type"] = "application/json"
        if self._fragile:
            self.drop_connections()
        kept, idle_s = self._socket is not None, time.monotonic() - self._used
        try:
            return self._once(method, target, content, sending, connect_s, read_s)
        except TransportError as error:
            if not (kept and error.stale):
                raise
            # Cut in the middle of the work: this BMC does it again, and nobody could say whether a write on such a connection has arrived.
            self._fragile = self._fragile or idle_s < IDLE_S
            if method not in ("GET", "HEAD"):
                raise
            if self._watch is not None:
                self._watch.check(method, path)  # it was not the BMC but we who cut it
        finally:
            self._used = time.monotonic()
        return self._once(method, target, content, sending, connect_s, read_s)

    def _once(self, method, target, content, headers, connect_s, read_s):
        raw = self._socket
        if raw is None:
            raw = self._socket = self._connect(connect_s, read_s)
            self._stream = raw.makefile("rb")
        elif raw.gettimeout() != read_s:  # each call hands over to another thread
            raw.settimeout(read_s)
        if content is not None or method in ("POST", "PATCH", "PUT"):
            headers["Content-Length"] = str(len(content or b""))
        lines = [f"{method} {_safe(target)} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {_safe_value(value)}" for name, value in headers.items()]
        try:
            # One write: a header and a body in two packets has upset small web servers.
            raw.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (content or b""))
            reply = read_reply(self._stream, method)
        except (OSError, ValueError, Broken) as error:
            # ValueError: the socket was closed by another thread between two steps.
            self.drop_connections()
            raise _broken(error) from error
        if reply.last:
            self.drop_connections()
        reply.content = _plain(reply.content, reply.headers)
        return reply

    def _connect(self, connect_s, read_s):
        endpoint = self._endpoint
        try:
            raw = _open(endpoint.address, endpoint.port, connect_s)
        except OSError as error:
            reason = (
                "no answer to the connection" if isinstance(error, TimeoutError) else (error.strerror or str(error))
            )
            raise _error(reason, False) from error
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.settimeout(read_s)
            if self._context is not None:
                raw = self._context.wrap_socket(raw, server_hostname=endpoint.address)
                if endpoint.fingerprint and fingerprint_of(raw.getpeercert(binary_form=True)) != endpoint.fingerprint:
                    raise _error("its certificate is not the pinned one", False, "certificate_changed")
        except ssl.SSLCertVerificationError as error:
            raw.close()
            reason = f"its certificate is not trusted: {error.verify_message or error.reason}"
            raise _error(reason, False, "certificate_not_trusted") from error
        except ssl.SSLError as error:
            raw.close()
            raise _error(f"the TLS handshake failed ({error.reason or error})", False, "tls_handshake") from error
        except OSError as error:
            raw.close()
            reason = "no answer to the TLS handshake" if isinstance(error, TimeoutError) else str(error)
            raise _error(reason, False) from error
        except TransportError:
            raw.close()
            raise
        return raw

    def _connector(self):
        if self._other is None:
            from .connector import Connector

            self._other = Connector(self._endpoint)
        return self._other

    def drop_connections(self):
        """Forget the kept connection, so that the next request travels on a fresh one."""
        raw, stream, self._socket, self._stream = self._socket, self._stream, None, None
        for item in (stream, raw):
            if item is not None:
                try:
                    item.close()
                except OSError:
                    pass  # gone already
        if self._other is not None:
            self._other.drop_connections()

    def close(self):
        self.drop_connections()
        if self._other is not None:
            self._other.close()
        if self._watch is not None:
            self._watch.closed(self)

    def cut(self):
        """Called by another thread: end what is under way. The thread that waits gets a broken connection."""
        raw = self._socket
        if raw is not None:
            try:
                # Not SSLSocket.shutdown, which takes the TLS state away from the thread that reads.
                socket.socket.shutdown(raw, socket.SHUT_RDWR)
            except OSError:
                pass  # closed already


def _open(address, port, timeout):
    """A TCP connection. What is a number already is not given to the resolver, which takes as long as the connection."""
    family = socket.AF_INET if _IPV4.fullmatch(address) else socket.AF_INET6 if ":" in address else None
    if family is None or "%" in address:
        return socket.create_connection((address, port), timeout=timeout)
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        raw.settimeout(timeout)
        raw.connect((address, port))
    except BaseException:
        raw.close()
        raise
    return raw


def _error(reason, sent, code="unreachable", stale=False):
    error = TransportError(reason, sent, code)
    error.stale = stale
    return error


def _broken(error):
    """What went wrong after the request had begun to leave."""
    if isinstance(error, TimeoutError):
        return _error("no answer in time", True, "timeout")
    stale = isinstance(error, (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)) or (
        isinstance(error, Broken) and error.empty
    )
    words = str(error) if isinstance(error, Broken) else type(error).__name__
    return _error(f"the connection broke ({words})", True, stale=stale)


def _safe(target):
    """The target without what must not be in a request line (links with blanks exist)."""
    return target if _USUAL_TARGET.fullmatch(target) else quote(target, safe="!#$%&'()*+,/:;=?@[]~")


def _safe_value(value):
    """A header value that cannot become two lines."""
    text = str(value)
    return re.sub(r"[\r\n]+", " ", text) if "\r" in text or "\n" in text else text


def _plain(body, headers):
    """The body as it was before a compression that we had to allow (HTTP 406 without it)."""
    coding = headers.get("content-encoding")
    if coding and coding.lower() in ("gzip", "x-gzip", "deflate") and body:
        try:
            return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, MOST_BYTES)
        except zlib.error as error:
            raise _error("the compressed answer cannot be read", True) from error
    return body
