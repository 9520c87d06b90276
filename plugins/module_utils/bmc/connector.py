# The transport under the Redfish client: sushy's Connector with one shared TLS context, pinned certificates and no retries of its own.
#
# sushy 5.14 repeats every verb up to three times when the answer is lost (a POST then reaches the BMC three times), makes a TLS context for every
# connection, and lets the environment override certificate checks. Here one exchange is one request; who calls decides what may be repeated.
# The class still is a sushy Connector, so that sushy's resource model can be put on top of it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ssl
from urllib.parse import urlsplit

from ..core.errors import Unsupported
from .errors import TransportError
from .tls import context_for

try:
    import requests
    import urllib3
    from requests.adapters import HTTPAdapter
    from requests.cookies import RequestsCookieJar
    from sushy import exceptions as sushy_exceptions
    from sushy.connector import Connector as SushyConnector

    IMPORT_ERROR = None
except ImportError as error:  # ansible-test imports every file without the controller's requirements
    IMPORT_ERROR = error
    HTTPAdapter = RequestsCookieJar = SushyConnector = object


class _NoCookies(RequestsCookieJar):
    """Cookies are a second way to be logged in; a stale one next to Basic makes OpenBMC and Supermicro answer 403."""

    def set_cookie(self, *args, **kwargs):
        return None


class _PinnedAdapter(HTTPAdapter):
    """Hands the shared context and the pinned fingerprint to urllib3 and keeps requests from loading a CA store for each connection."""

    def __init__(self, context, fingerprint):
        self._context, self._fingerprint = context, fingerprint
        super().__init__(pool_connections=1, pool_maxsize=2, max_retries=0)

    def init_poolmanager(self, connections, maxsize, block=False, **kwargs):
        super().init_poolmanager(
            connections, maxsize, block=block, ssl_context=self._context, assert_fingerprint=self._fingerprint, **kwargs
        )

    def build_connection_pool_key_attributes(self, request, verify, cert=None):
        parts = urlsplit(request.url)
        return {"scheme": parts.scheme, "host": parts.hostname, "port": parts.port}, {}

    def cert_verify(self, conn, url, verify, cert):
        return None


def _causes(error):
    """The error and everything that it wraps (requests keeps urllib3's error as an argument, not as __cause__)."""
    seen, todo = [], [error]
    while todo and len(seen) < 20:
        item = todo.pop(0)
        if not isinstance(item, BaseException) or item in seen:
            continue
        seen.append(item)
        todo += [*item.args, getattr(item, "reason", None), item.__cause__, item.__context__]
    return seen


def classify(error):
    """requests' exception -> TransportError, which says whether the request can have arrived."""
    chain = _causes(error)
    text = " ".join(str(item) for item in chain)
    if isinstance(error, requests.exceptions.SSLError) or any(
        isinstance(item, urllib3.exceptions.SSLError) for item in chain
    ):
        if "ingerprint" in text:
            return TransportError("its certificate is not the pinned one", False, "certificate_changed")
        if "CERTIFICATE_VERIFY_FAILED" in text or "doesn't match" in text:
            why = next((item.verify_message for item in chain if isinstance(item, ssl.SSLCertVerificationError)), "")
            why = f": {why}" if why else ""
            return TransportError(f"its certificate is not trusted{why}", False, "certificate_not_trusted")
        return TransportError(f"the TLS handshake failed ({chain[-1]})", False, "tls_handshake")
    not_sent = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
    if isinstance(error, requests.exceptions.ConnectTimeout) or any(isinstance(item, not_sent) for item in chain):
        reason = next(
            (str(item) for item in reversed(chain) if isinstance(item, OSError) and item.errno),
            "no answer to the connection",
        )
        return TransportError(reason, False)
    if isinstance(error, requests.exceptions.Timeout):
        return TransportError("no answer in time", True, "timeout")
    return TransportError(f"the connection broke ({type(chain[-1]).__name__})", True)


class Connector(SushyConnector):
    """`exchange` sends one request once. `_op` is the same for sushy's resource model, with sushy's exceptions."""

    def __init__(self, endpoint):
        if IMPORT_ERROR is not None:
            raise Unsupported(
                "a Python library that Redfish needs is missing",
                host=endpoint.label,
                thing="sushy",
                seen=IMPORT_ERROR,
                next_step="pip install sushy on the machine that runs this task",
            )
        super().__init__(endpoint.url, verify=True)
        context = context_for(endpoint.tls, endpoint.ca_path, checked=not endpoint.fingerprint)
        if endpoint.tls == "insecure" and not endpoint.fingerprint:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._adapter = _PinnedAdapter(context, endpoint.fingerprint)
        self._endpoint = endpoint
        self._session.mount("https://", self._adapter)
        self._session.trust_env = False  # no proxy, netrc or CA bundle of the environment for a BMC
        self._session.cookies = _NoCookies()
        # Handshakes are the most expensive thing a BMC does: keep the connection while we work.
        self._session.headers.pop("Connection", None)
        self._session.headers["User-Agent"] = "aicluster.baremetal"
        self._session.headers["Accept"] = "application/json"
        self._session.headers["Accept-Encoding"] = "identity"  # compression makes ETags weak
        self._session.headers["OData-Version"] = "4.0"

    def drop_connections(self):
        """Forget kept connections, so that the next request travels on a fresh one."""
        self._adapter.close()

    def exchange(self, method, path, body=None, headers=None, timeout=None, **extra):
        """Send one request, once; returns requests' Response (any status, redirects not followed) or raises TransportError."""
        parts = urlsplit(path)
        # Only the path of a link is used: BMCs behind NAT answer with addresses that we cannot reach, and credentials go only where they belong.
        # The slash keeps a link such as "@elsewhere/x" from becoming a part of the host's name.
        target = f"{self._url}/{parts.path.lstrip('/')}" + (f"?{parts.query}" if parts.query else "")
        if timeout is None:
            timeout = (self._endpoint.connect_timeout, self._endpoint.read_timeout)
        try:
            return self._session.request(
                method, target, json=body, headers=headers, timeout=timeout, allow_redirects=False, **extra
            )
        except requests.exceptions.RequestException as error:
            raise classify(error) from error

    def _op(self, method, path="", data=None, headers=None, blocking=False, timeout=None, **extra):
        for unused in ("server_side_retries_left", "allow_reauth", "verify"):
            extra.pop(unused, None)
        extra.pop("allow_redirects", None)
        try:
            response = self.exchange(method, path, data, headers, timeout, **extra)
        except TransportError as error:
            raise sushy_exceptions.ConnectionError(url=path, error=error.reason)
        sushy_exceptions.raise_for_response(method, path, response)
        return response
