# A thin carrier of requests for thousands of BMCs in one process: http.client over one kept connection, the shared TLS context, no retries of its own.
#
# It speaks as connector.Connector does (`exchange`, `drop_connections`, `close`) and takes its place through Endpoint.transport. requests costs 2 ms of
# CPU for each BMC, which is nothing for one and half of everything for ten thousand. What it cannot do (uploads) it hands to the Connector.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import http.client
import json
import socket
import ssl
import zlib
from urllib.parse import urlsplit

from .errors import TransportError
from .tls import context_for, fingerprint_of

# A body larger than this is no Redfish resource; the largest real ones (schemas, BIOS registries) have a few MB.
MOST_BYTES = 64 * 2**20
USUAL_HEADERS = {
    "User-Agent": "aicluster.baremetal",
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # compression makes ETags weak
    "OData-Version": "4.0",
}


class Reply:
    """What the client uses of requests' Response: `status_code`, `headers` (case does not matter), `content`, `text`, `json()`."""

    __slots__ = ("content", "headers", "status_code")

    def __init__(self, status_code, headers, content):
        self.status_code, self.headers, self.content = status_code, headers, content

    @property
    def text(self):
        return self.content.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.content)


class Wire:
    """One BMC's connection.

    `watch`, if given, is told of it (`opened(wire)`, `closed(wire)`), so that somebody else can `cut` it, and may refuse a request (`check` raises).
    """

    def __init__(self, endpoint, watch=None):
        self._endpoint, self._watch = endpoint, watch
        self._context = None
        if endpoint.scheme == "https":
            self._context = context_for(endpoint.tls, endpoint.ca_path, checked=not endpoint.fingerprint)
        self._connection = None
        self._other = None
        if watch is not None:
            watch.opened(self)

    def exchange(self, method, path, body=None, headers=None, timeout=None, **extra):
        """Send one request, once; returns a Reply (any status, redirects not followed) or raises TransportError.

        A read on a kept connection that the BMC has closed meanwhile is sent once more on a new one (some close after every answer, silently).
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
        kept = self._connection is not None
        try:
            return self._once(method, target, content, sending, connect_s, read_s)
        except TransportError as error:
            self.drop_connections()
            if not (kept and error.stale and method in ("GET", "HEAD")):
                raise
        return self._once(method, target, content, sending, connect_s, read_s)

    def _once(self, method, target, content, headers, connect_s, read_s):
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect(connect_s, read_s)
        else:
            connection.sock.settimeout(read_s)
        try:
            connection.putrequest(method, target, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            if content is not None or method in ("POST", "PATCH", "PUT"):
                connection.putheader("Content-Length", str(len(content or b"")))
            connection.endheaders(content)
            response = connection.getresponse()
            # With a length read() itself notices an answer that ends too early; with a limit it would not.
            known = response.length is not None and response.length <= MOST_BYTES
            body = response.read() if known else response.read(MOST_BYTES + 1)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            # AttributeError: the socket was cut by another thread between two steps.
            raise _broken(error) from error
        if len(body) > MOST_BYTES:
            raise _error("the answer is larger than any Redfish resource", True)
        if response.will_close:
            self.drop_connections()
        return Reply(response.status, response.headers, _plain(body, response.headers))

    def _connect(self, connect_s, read_s):
        endpoint = self._endpoint
        try:
            raw = socket.create_connection((endpoint.address, endpoint.port), timeout=connect_s)
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
            raise _error("its certificate is not trusted", False, "certificate_not_trusted") from error
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
        connection = http.client.HTTPConnection(endpoint.address, endpoint.port, timeout=read_s)
        connection.auto_open = 0  # a second connection without the checks above must not happen
        connection.sock = raw
        return connection

    def _connector(self):
        if self._other is None:
            from .connector import Connector

            self._other = Connector(self._endpoint)
        return self._other

    def drop_connections(self):
        """Forget the kept connection, so that the next request travels on a fresh one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
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
        connection = self._connection
        raw = connection.sock if connection is not None else None
        if raw is not None:
            try:
                # Not SSLSocket.shutdown, which takes the TLS state away from the thread that reads.
                socket.socket.shutdown(raw, socket.SHUT_RDWR)
            except OSError:
                pass  # closed already


def _error(reason, sent, code="unreachable", stale=False):
    error = TransportError(reason, sent, code)
    error.stale = stale
    return error


def _broken(error):
    """What went wrong after the request had begun to leave."""
    if isinstance(error, TimeoutError):
        return _error("no answer in time", True, "timeout")
    stale = isinstance(
        error, (ConnectionError, http.client.RemoteDisconnected, ssl.SSLEOFError, ssl.SSLZeroReturnError)
    )
    return _error(f"the connection broke ({type(error).__name__})", True, stale=stale)


def _plain(body, headers):
    """The body as it was before a compression that we had to allow (HTTP 406 without it)."""
    coding = (headers.get("Content-Encoding") or "").lower()
    if coding in ("gzip", "x-gzip", "deflate") and body:
        try:
            return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, MOST_BYTES)
        except zlib.error as error:
            raise _error("the compressed answer cannot be read", True) from error
    return body
