# The Redfish client: the only file that knows the wire. What may be repeated, sessions, redirects, ETags, pages; resources as plain dicts.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
import contextlib
import email.utils
import logging
import math
import random
import signal
import threading
import time
from urllib.parse import urlsplit

from ..core.deadline import Deadline
from ..core.errors import AuthenticationFailed, BaremetalError, NotFound, Refused, Unreachable, Unsupported
from ..core.redact import Redactor
from . import guard, quirks, transform
from .errors import AnswerLost, HttpError, TransportError, only_refuses, read_messages, verdict
from .tls import fetch_fingerprint

LOG = logging.getLogger(__name__)
ROOT = "/redfish/v1/"
READS = ("GET", "HEAD")
BUSY_KEYS = ("ServiceTemporarilyUnavailable", "SYS518", "ServiceInUnknownState")
SESSION_LIMIT_KEYS = ("SessionLimitExceeded", "RAC0218", "CreateLimitReachedForResource", "SessionsLimitExceeded")
MISSING_KEYS = ("ResourceMissingAtURI", "ResourceNotFound")
PASSWORD_CHANGE = "PasswordChangeRequired"
MOVED, MOVED_SAME_METHOD, SEE_OTHER = (301, 302), (307, 308), 303
MOST_PAGES = 200
BACKOFF = (0.5, 1.5, 4.0)


def retry_after(value, now=None):
    """`Retry-After` in seconds, from a number or an HTTP date, held between 1 and 60; None where there is none or it means nothing."""
    if value is None:
        return None
    text = str(value).strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - (time.time() if now is None else now)
        except (TypeError, ValueError):
            return None
    if math.isnan(seconds):
        return None
    return min(60.0, max(1.0, seconds))


def etag_ladder(etag):
    """The forms of If-Match to try after a 412, in order; the last, None, means without the header."""
    forms = []
    if etag:
        strong = etag[2:] if etag.startswith("W/") else etag
        forms = [etag, strong, strong.strip('"')]
    forms += ["*", None]
    return list(dict.fromkeys(forms))


def trust_advice(code, shown=None, reason=""):
    """What to do about a BMC whose certificate is not accepted; `shown` is the fingerprint that it shows now, `reason` what TLS said."""
    pin = f'bmc_fingerprint: "{shown}"' if shown else "bmc_fingerprint"
    if code == "certificate_changed":
        return (
            "find out why (new BMC board, renewed certificate, somebody in between), on the BMC's own console; if the new one is right, replace the pin: "
            f"task aicluster.baremetal.node with the node's serial and {pin}, or change bmc_fingerprint where the inventory sets it"
        )
    if code == "certificate_not_trusted" and ("expired" in reason or "not yet valid" in reason):
        return f"look at the clocks here and on the BMC, and renew its certificate (bmc_certificate); a CA cannot help; until then it can be pinned with {pin}"
    if code == "certificate_not_trusted" and "mismatch" in reason:
        return f"use the name or address that the certificate is for as bmc_address, or give it one for this address, or pin it with {pin}"
    if code == "certificate_not_trusted":
        return f"give bmc_ca_path, or, if that is the BMC's own certificate, pin it with {pin}"
    return "an old BMC may need bmc_tls: legacy"


def _usual_carrier():
    """connector.Connector, loaded when it is needed: it brings requests and sushy along, and the doors have a carrier of their own."""
    from .connector import Connector

    return Connector


class Answer:
    """One answer: `status`, `headers` (case does not matter), `body` (dict, or None where there was none)."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


class RedfishClient:
    """One BMC over Redfish. Use it in a `with` block: a session that was opened is deleted on every way out.

    `deadline` bounds everything that the client does. `before_write` is called immediately before every request that changes something
    (also before a repeat); it raises to stop it: the fence of an attempt.
    """

    source = "redfish"

    def __init__(self, endpoint, deadline=None, before_write=None):
        self.endpoint = endpoint
        self.deadline = deadline or Deadline(endpoint.timeout, "the work with the BMC", host=endpoint.label)
        self.before_write = before_write
        self.warnings = []
        self.sent = []  # (method, path, status) of every exchange, for tests and for the log of an operation
        self._redact = Redactor([endpoint.password])
        self._connector = (endpoint.transport or _usual_carrier())(endpoint)
        self._token = self._session_uri = None
        self._session_refused = False
        self._root = self._system = self._manager = self._chassis = self._linked = None
        self._all_systems = []
        self.seen_processors = None
        self._etags, self._etag_step = {}, 0
        self._last_used = 0.0
        # undecided: a session is just being opened or deleted, and a signal waits until that is done
        self._old_handlers, self._signalled, self._undecided = {}, None, False
        self._read_s = endpoint.read_timeout
        self._refusals = None  # how often this credential was refused before; None until it was looked up

    # ---- life ---------------------------------------------------------------------------------------------------------------------
    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self.logout()
        self._connector.close()

    def hide(self, *secrets):
        """Never show these strings in an error of this client (a BMC may quote what it was sent)."""
        self._redact = Redactor([self.endpoint.password, *secrets])

    def login(self):
        """Open one session for longer work. At the BMC's session limit, or where it has no sessions, Basic is used instead."""
        if self._token or self._session_refused:
            return
        uri = transform.link(self.root(), "Links", "Sessions")
        if not uri.startswith("/"):
            uri = ROOT + "SessionService/Sessions"
        self._check_guard()
        self._guard_signals()
        self._undecided = True
        try:
            self._open_session(uri)
        finally:
            self._undecided = False
            if self._signalled is not None:
                raise SystemExit(128 + self._signalled)  # it came while nobody knew yet which session is to be deleted

    def _open_session(self, uri):
        body = {"UserName": self.endpoint.username, "Password": self.endpoint.password}
        try:
            answer = self._send("POST", uri, body, authenticate=False, repeat_busy=False)
        except (AnswerLost, HttpError) as error:
            status = getattr(error, "status", None)
            limit = isinstance(error, HttpError) and error.has(*SESSION_LIMIT_KEYS)
            if limit or status in (None, 404, 405, 500, 501, 503):
                self._session_refused = True
                self.warnings.append(
                    "the BMC has no free session, Basic authentication was used"
                    if limit or status == 503
                    else "no session could be opened, Basic authentication was used"
                )
                return
            if status in (400, 401):
                raise self._denied(error)
            raise
        self._let_in()
        self._token = answer.headers.get("X-Auth-Token")
        if not self._token:
            return
        location = answer.headers.get("Location") or transform.text(answer.body or {}, "@odata.id")
        self._session_uri = urlsplit(location or "").path or None
        if any(PASSWORD_CHANGE in item["id"] for item in read_messages(answer.body)):
            self.logout()
            raise self._must_change(answer.body)

    def logout(self):
        """Delete our session. Never fails: a session that is gone already is what we want. It has its own few seconds, also after the deadline."""
        token, uri = self._token, self._session_uri
        self._undecided = True
        try:
            for number in range(4 if token and uri else 0):
                try:
                    response = self._connector.exchange("DELETE", uri, headers={"X-Auth-Token": token}, timeout=(5, 10))
                except TransportError as error:
                    self._connector.drop_connections()
                    if number or not error.sent or error.code == "timeout":
                        raise
                    continue  # a kept connection that the BMC had closed meanwhile; twice is the same as once here
                if response.status_code in MOVED + MOVED_SAME_METHOD:
                    uri = urlsplit(response.headers.get("Location") or "").path or uri
                elif response.status_code in (429, 503):
                    time.sleep(min(3.0, retry_after(response.headers.get("Retry-After")) or 1.0))
                else:
                    break
        except TransportError as error:
            LOG.debug("%s: the session could not be deleted: %s", self.endpoint.label, error.reason)
        finally:
            self._token = self._session_uri = None
            self._undecided = False
            self._restore_signals()

    def session_gone(self):
        """Whether the session that was opened here is not known any more, which is a sign of a BMC that restarted; False where there is none."""
        if not self._token:
            return False
        try:
            response = self._connector.exchange(
                "GET",
                self._session_uri or ROOT + "SessionService",
                headers={"X-Auth-Token": self._token},
                timeout=(3, 10),
            )
        except TransportError:
            self._connector.drop_connections()
            return True
        return response.status_code == 401

    def abandon(self):
        """Forget the session without deleting it: it ends with the BMC's restart, and nobody is there to delete it."""
        self._token = self._session_uri = None
        self._restore_signals()

    def _guard_signals(self):
        """While a session is open, SIGTERM and SIGINT end this process the long way, so that it is deleted: a leaked one blocks one of about eight places for
        half an hour. Python's own reaction to SIGTERM, and that of Ansible's workers to both, is to leave at once."""
        if threading.current_thread() is not threading.main_thread() or self._old_handlers:
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)
            if before is signal.SIG_DFL or callable(before):
                self._old_handlers[number] = before
                signal.signal(number, self._leave)

    def _leave(self, number, frame):
        if self._signalled is not None:
            return  # it is being left already, and this would stop the deletion of the session
        self._signalled = number
        if not self._undecided:
            raise SystemExit(128 + number)

    def _restore_signals(self):
        """Put the handlers back; the one whose signal came meanwhile is called now, after the session was deleted."""
        handlers, self._old_handlers = self._old_handlers, {}
        for number, before in handlers.items():
            signal.signal(number, before)
        number, self._signalled = self._signalled, None
        if number is None:
            return
        if callable(handlers.get(number)):
            handlers[number](number, None)
        else:
            raise SystemExit(128 + number)

    # ---- requests -----------------------------------------------------------------------------------------------------------------
    def _auth_headers(self):
        if self._token:
            return {"X-Auth-Token": self._token}
        pair = f"{self.endpoint.username}:{self.endpoint.password}".encode()
        return {"Authorization": "Basic " + base64.b64encode(pair).decode("ascii")}

    def _send(
        self, method, path, body=None, headers=None, authenticate=True, repeatable=None, repeat_busy=True, limit=None
    ):
        """One request with every recovery that is safe for its verb. Returns an Answer with a status below 400, or raises.

        `repeatable`: sending it twice is the same as once (GET; a PATCH that is read back). `limit`: seconds for this resource.
        """
        read = method in READS
        repeatable = read if repeatable is None else repeatable
        deadline = (
            Deadline(min(limit, self.deadline.remaining()), f"{method} {path}", host=self.endpoint.label)
            if limit
            else self.deadline
        )
        tries, redirects, relogged, own_headers, where = 0, 0, False, dict(headers or {}), path
        while True:
            if deadline.expired():
                raise deadline.exceeded(f"no usable answer to {method} {where}")
            sending = dict(own_headers)
            if authenticate:
                self._check_guard()
                sending.update(self._auth_headers())
            if not read:
                if authenticate and self.before_write:
                    self.before_write()
                if time.monotonic() - self._last_used > 2.0:
                    # An idle kept connection may be half closed; then nobody could say whether this write arrived.
                    self._connector.drop_connections()
            try:
                response = self._exchange(method, where, body, sending, deadline)
            except TransportError as error:
                self._connector.drop_connections()
                # What was too slow once will be again, and makes the BMC slower still: one more try, not three.
                tries += 1 if error.code != "timeout" else len(BACKOFF)
                if error.code in ("certificate_changed", "certificate_not_trusted", "tls_handshake"):
                    raise self._untrusted(error)
                if error.sent and not repeatable:
                    raise AnswerLost(
                        "the answer to a write was lost, it may have been done",
                        host=self.endpoint.label,
                        thing=f"{method} {where}",
                        seen=error.reason,
                        next_step="run again: the present state is read first",
                    )
                if not self._pause(tries, None, deadline):
                    raise self._unreachable(method, where, error, tries <= len(BACKOFF))
                continue
            status = response.status_code
            if status in MOVED + MOVED_SAME_METHOD or (status == SEE_OTHER):
                redirects += 1
                location = urlsplit(response.headers.get("Location") or "")
                if redirects > 3 or not location.path:
                    raise self._refused(method, where, response, "the BMC redirects without end")
                where = location.path + (f"?{location.query}" if location.query else "")
                if status == SEE_OTHER:
                    method, body, read, repeatable = "GET", None, True, True
                continue
            if status == 401 and authenticate and self._token and not relogged:
                relogged = True
                self._token = self._session_uri = None  # expired: nothing to delete
                self.login()
                continue
            if status == 401 and authenticate and not relogged and self._try_session(response):
                relogged = True
                continue
            if status == 406 and own_headers.get("Accept-Encoding", "identity"):
                own_headers["Accept-Encoding"] = ""
                continue
            if status < 400:
                if authenticate:
                    self._let_in()
                return self._answer(method, where, response)
            refused = self._refused(method, where, response)
            tries += 1
            wait = self._busy_for(response, refused)
            if status in (429, 503) and repeat_busy and (read or repeatable or wait is not None):
                # The BMC says that it did not take the request, so even a POST may be sent again.
                if self._pause(tries, wait, deadline):
                    continue
            elif status in (500, 502, 504) and repeatable and tries <= 2 and self._pause(tries, wait, deadline):
                continue
            raise refused

    def _check_guard(self):
        """Before the credential is sent for the first time."""
        if self._refusals is None:
            self._refusals = guard.check(self.endpoint)

    def _let_in(self):
        if self._refusals:
            guard.forget(self.endpoint)
            self._refusals = 0

    def _try_session(self, response):
        """Some BMCs have Basic switched off and say so by not offering it; where it is offered, the credentials are wrong. True: logged in."""
        if self._token or self._session_refused or "basic" in response.headers.get("WWW-Authenticate", "").lower():
            return False
        self.login()
        return bool(self._token)

    def _exchange(self, method, path, body, headers, deadline):
        left = max(0.2, deadline.remaining())
        timeout = (min(self.endpoint.connect_timeout, left), min(self._read_s, left))
        status, whole = None, False
        try:
            with guard.IN_FLIGHT.one(self.endpoint, left):
                response = self._connector.exchange(method, path, body, headers, timeout)
            status, whole = response.status_code, True
            return response
        except TransportError:
            whole = True
            raise
        finally:
            if not whole:
                # A signal ended it in the middle: the next request on this connection (the deletion of our session) would be read the answer to this one.
                self._connector.drop_connections()
            self._last_used = time.monotonic()
            self.sent.append((method, path, status))
            LOG.debug("%s: %s %s -> %s", self.endpoint.label, method, path, status)

    @contextlib.contextmanager
    def limited(self, seconds, thing):
        """Inside, everything has to be done within `seconds` (None: no limit but the deadline)."""
        before = self.deadline
        if seconds is not None:
            self.deadline = Deadline(min(seconds, before.remaining()), thing, host=self.endpoint.label)
        try:
            yield self.deadline
        finally:
            self.deadline = before

    @contextlib.contextmanager
    def patient(self, seconds):
        """For resources that take long: the wait for one answer is at least `seconds` inside (the deadline bounds it all the same)."""
        before, self._read_s = self._read_s, max(self._read_s, seconds)
        try:
            yield
        finally:
            self._read_s = before

    def _pause(self, tries, wait, deadline):
        """Sleep before the next try; False when there is to be none."""
        if tries > len(BACKOFF) and wait is None:
            return False
        seconds = wait if wait is not None else BACKOFF[tries - 1] * random.uniform(0.7, 1.3)
        if seconds >= deadline.remaining():
            return False
        time.sleep(seconds)
        return True

    @staticmethod
    def _busy_for(response, refused):
        wait = retry_after(response.headers.get("Retry-After"))
        if wait is None and isinstance(refused, HttpError) and refused.has(*BUSY_KEYS):
            args = [arg for item in refused.messages if item["id"].endswith(BUSY_KEYS[0]) for arg in item["args"]]
            wait = next((seconds for seconds in map(retry_after, args) if seconds), 5.0)
        return wait

    def _json(self, response):
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            return ...

    def _answer(self, method, path, response):
        body = self._json(response)
        if body is ... or (method == "GET" and not isinstance(body, dict)):
            if method != "GET" and response.status_code < 300:
                body = None  # a write that was accepted and answered with a page of text is still accepted
            else:
                error = BaremetalError(
                    "the answer is not JSON",
                    host=self.endpoint.label,
                    thing=f"{method} {path}",
                    wanted="a JSON object",
                    seen=self._redact.text(response.text[:80].replace("\n", " ")) or "an empty body",
                    next_step="restart the BMC if this stays; check that the address is a Redfish service",
                    code="not_json",
                )
                error.answer = Answer(response.status_code, response.headers, None) if body is None else None
                raise error
        if isinstance(body, dict) and method == "GET":
            etag = response.headers.get("ETag") or transform.text(body, "@odata.etag")
            self._etags[transform.same_path(path)] = etag
        return Answer(response.status_code, response.headers, body if isinstance(body, dict) else None)

    # ---- errors -------------------------------------------------------------------------------------------------------------------
    def _refused(self, method, path, response, text=None):
        body = self._json(response)
        messages = self._redact(read_messages(body if isinstance(body, dict) else None))
        said = "; ".join(dict.fromkeys(item["text"] or item["id"] for item in messages))
        if not said and body is ...:
            said = "a page that is not JSON: " + self._redact.text(response.text[:60].replace("\n", " "))
        if response.status_code in (401, 403) and any(PASSWORD_CHANGE in item["id"] for item in messages):
            return self._must_change(body)
        error = HttpError(
            text or "the BMC refused a request",
            status=response.status_code,
            messages=messages,
            host=self.endpoint.label,
            thing=f"{method} {path}",
            seen=f"HTTP {response.status_code}" + (f", {said[:400]}" if said else ""),
        )
        if response.status_code == 401:
            return self._denied(error)
        error.code, error.next_step = verdict(error, body is ...)
        return error

    def _denied(self, error):
        guard.refused(self.endpoint)
        self._refusals = None
        return AuthenticationFailed(
            "the BMC refused the user name or password",
            host=self.endpoint.label,
            thing=f"account {self.endpoint.username}",
            seen=error.seen,
            next_step="check bmc_credential and the entry in the secret store",
        )

    def _must_change(self, body):
        args = [arg for item in read_messages(body) if PASSWORD_CHANGE in item["id"] for arg in item["args"]]
        return AuthenticationFailed(
            "the BMC wants this account's password changed before anything else",
            host=self.endpoint.label,
            thing=str(args[0]) if args else f"account {self.endpoint.username}",
            seen="PasswordChangeRequired",
            next_step="rotate it with bmc_account or with the discover stage",
            code="password_change_required",
        )

    def _unreachable(self, method, path, error, cut_short=False):
        """`cut_short`: there was no time for all tries, so with more time it might have answered."""
        found = Unreachable(
            "the BMC does not answer",
            host=self.endpoint.label,
            thing=f"{self.endpoint.address} port {self.endpoint.port}",
            wanted=f"an answer to {method} {path}",
            seen=error.reason,
            next_step="check the address, the cable and the power of the BMC",
        )
        found.cut_short = cut_short
        return found

    def _untrusted(self, error):
        shown, seen = None, error.reason
        if error.code in ("certificate_changed", "certificate_not_trusted"):
            # One more handshake, in which nothing is sent: whoever has to decide needs to see which certificate it is.
            try:
                shown = fetch_fingerprint(
                    self.endpoint.address,
                    self.endpoint.port,
                    min(self.endpoint.connect_timeout, max(1.0, self.deadline.remaining())),
                )
                seen = f"SHA-256 {shown}"
            except BaremetalError as problem:
                seen = f"{error.reason}; its fingerprint could not be read ({problem.seen or problem.message})"
        return Refused(
            f"the BMC is not trusted: {error.reason}",
            host=self.endpoint.label,
            thing=f"{self.endpoint.address} port {self.endpoint.port}",
            wanted=f"SHA-256 {self.endpoint.fingerprint}"
            if self.endpoint.fingerprint
            else "a certificate that can be verified"
            if error.code == "certificate_not_trusted"
            else "a TLS connection",
            seen=seen,
            next_step=trust_advice(error.code, shown, error.reason),
            code=error.code,
        )

    # ---- resources ----------------------------------------------------------------------------------------------------------------
    def get(self, path, limit=None, authenticate=True):
        """A resource as a dict. An answer that is not JSON is asked for once more."""
        try:
            answer = self._send("GET", path, limit=limit, authenticate=authenticate)
        except BaremetalError as error:
            if error.code != "not_json":
                raise
            answer = self._send("GET", path, limit=limit, authenticate=authenticate)
        if set(answer.body) == {"error"}:
            raise self._error_in_place(path, answer)
        return answer.body

    def _error_in_place(self, path, answer, method="GET", status=500):
        """Some BMCs answer 200 and an error (Intel S2600, for drives that it lists and does not have). `status`: what it should have been."""
        messages = self._redact(read_messages(answer.body))
        missing = any(item["id"].rsplit(".", 1)[-1] in MISSING_KEYS for item in messages)
        said = "; ".join(dict.fromkeys(item["text"] or item["id"] for item in messages))
        return HttpError(
            "the BMC answered with an error in the place of the resource"
            if method == "GET"
            else "the BMC refused a request, with the status of success",
            status=404 if missing else status,
            messages=messages,
            host=self.endpoint.label,
            thing=f"{method} {path}",
            seen=f"HTTP {answer.status}, {said[:400] or 'an error without a message'}",
        )

    def look(self, path):
        """The Answer to one GET, whatever its body: monitors of tasks answer without one, or with somebody else's. Broken JSON is asked for once more."""
        for last in (False, True):
            try:
                return self._send("GET", path)
            except BaremetalError as error:
                answer = getattr(error, "answer", None)
                if error.code == "not_json" and isinstance(answer, Answer):
                    return answer
                if error.code != "not_json" or last:
                    raise
        return None  # not reached

    @staticmethod
    def wait_asked(answer):
        """Seconds that the BMC asked us to wait (Retry-After), or None."""
        return retry_after((answer.headers or {}).get("Retry-After"))

    def optional(self, path, what=None):
        """Like `get`, but a resource that cannot be read is None and a warning."""
        if not path:
            return None
        try:
            return self.get(path)
        except (HttpError, BaremetalError) as error:
            if isinstance(error, (AuthenticationFailed, Unreachable)) or error.code == "deadline_exceeded":
                raise
            if not (isinstance(error, HttpError) and error.status == 404 and what is None):
                self.warnings.append(f"{what or path} could not be read: {error.seen or error.message}")
            return None

    def root(self):
        """The service root, read without credentials."""
        if self._root is None:
            self._root = self.get(ROOT, authenticate=False)
        return self._root

    def if_there(self, path, what=None):
        """A resource, None where the BMC says that there is none. Every other trouble is an error: nobody knows whether what cannot be read is there."""
        if not path:
            return None
        try:
            return self.get(path)
        except HttpError as error:
            if error.status == 404:
                return None
            raise

    def members(self, path, what=None, expand=True, certain=False):
        """The resources of a collection. `$expand` is tried where the BMC offers it and not believed blindly; pages are followed.

        What cannot be read is left out, with a warning. `certain`: it is an error, for a caller that takes what is not among them for not there.
        """
        if not path:
            return []
        found, read = [], self.if_there if certain else self.optional
        if expand and self._can_expand():
            page = self._quietly(f"{path}?$expand=.($levels=1)")
            if page is not None:
                found = self._pages(page, read)
                # Some services drop properties in expanded members, Id among them: such a member is read singly.
                return [item if "Id" in item else self._single(item, what, read) for item in found]
        page = read(path, what)
        if page is None:
            return []
        for item in self._pages(page, read):
            whole = self._whole(item, what, read)
            if whole is not None:
                found.append(whole)
        return found

    def _whole(self, item, what, read=None):
        if "Id" in item or len(item) > 3:
            return item
        return (read or self.optional)(transform.text(item, "@odata.id"), what or "a member")

    def _single(self, item, what, read):
        uri = transform.text(item, "@odata.id")
        return (read(uri, what or "a member") if uri else None) or item

    def _quietly(self, path):
        try:
            return self.get(path)
        except BaremetalError as error:
            if isinstance(error, (AuthenticationFailed, Unreachable)) or error.code == "deadline_exceeded":
                raise
            return None

    def _can_expand(self):
        query = transform.dig(self.root(), "ProtocolFeaturesSupported", "ExpandQuery")
        offered = isinstance(query, dict) and bool(query.get("NoLinks")) and bool(query.get("Levels"))
        return offered and self.quirks()["expand"]

    def _pages(self, page, read=None):
        items, seen = [], set()
        while page:
            items += [item for item in transform.members_of(page) if isinstance(item, dict)]
            following = page.get("Members@odata.nextLink") or page.get("@odata.nextLink")
            if isinstance(following, dict):
                following = following.get("@odata.id")
            if not following or following in seen or len(seen) >= MOST_PAGES:
                break
            seen.add(following)
            page = (read or self.optional)(following, "a further page")
        return items

    def patch(self, path, body, etag=True):
        """PATCH with If-Match where the resource has an ETag, and down the ladder of forms on 412. Only for values that are read back."""
        key = transform.same_path(path)
        if etag and key not in self._etags:
            self.get(path)
        known = self._etags.get(key) if etag else None
        forms = etag_ladder(known)
        if known is None:
            forms = [None, "*"]
        elif self._etag_step:
            # What this BMC took last time, counted from the end: forms that are equal are left out, so the head of the list varies.
            forms = forms[-self._etag_step :]
        last = None
        for number, form in enumerate(forms):
            try:
                answer = self._send("PATCH", path, body, {"If-Match": form} if form else None, repeatable=True)
            except HttpError as error:
                if error.status == 412 or (error.status == 428 and form is None and last is None):
                    last = error
                    continue
                raise
            self._etags.pop(key, None)
            if known and number:
                self._etag_step = len(forms) - number
            return answer
        last.next_step = "the BMC accepts no form of its own ETag; update its firmware"
        raise last

    def post(self, path, body=None):
        """POST; sent again only where it certainly did not arrive. An action without parameters sends `{}`, as some BMCs demand."""
        answer = self._send("POST", path, {} if body is None else body)
        if only_refuses(answer.body):
            raise self._error_in_place(path, answer, "POST", 400)
        return answer

    def delete(self, path):
        """DELETE; with If-Match, down the ladder of forms, only where the BMC asks for it."""
        try:
            return self._send("DELETE", path)
        except HttpError as error:
            if error.status not in (412, 428):
                raise
            last = error
        self.get(path)
        for form in etag_ladder(self._etags.get(transform.same_path(path)))[:-1]:
            try:
                return self._send("DELETE", path, None, {"If-Match": form})
            except HttpError as error:
                if error.status != 412:
                    raise
                last = error
        raise last

    # ---- which system -------------------------------------------------------------------------------------------------------------
    def systems(self):
        """All systems of this BMC as dicts; one that cannot be read is a warning (an HGX tray with the host off answers 503)."""
        collection = transform.link(self.root(), "Systems")
        if not collection:
            return []
        page = self.get(collection)
        found = []
        for item in self._pages(page):
            uri = transform.text(item, "@odata.id")
            if len(item) > 3:
                found.append(item)
                continue
            try:
                found.append(self.get(uri, limit=60))
            except (HttpError, BaremetalError) as error:
                if isinstance(error, (AuthenticationFailed, Unreachable)):
                    raise
                self.warnings.append(f"system {uri} could not be read: {error.seen or error.message}")
        return found

    def system(self):
        """The host's system. Ambiguous is an error that lists the ids, never a guess."""
        if self._system is None:
            found = self.systems()
            if not found:
                raise NotFound(
                    "this Redfish service has no computer system",
                    host=self.endpoint.label,
                    thing="Systems",
                    wanted="one computer system",
                    next_step="this is a switch, a power shelf or a chassis controller, not a server's BMC",
                )
            self._system = transform.choose_system(found, self.endpoint.system_id, self.endpoint.label)
            self._all_systems = found
        return self._system

    def system_or_none(self):
        """Like `system`, but {} where the service has none at all: a chassis controller and a switch have logs, settings and a manager too."""
        try:
            return self.system()
        except NotFound as error:
            if error.thing != "Systems":
                raise
            return {}

    def refresh_system(self):
        uri = transform.text(self.system(), "@odata.id")
        self._system = self.get(uri)
        return self._system

    def manager(self):
        """The manager of the chosen system, by its own link; where that is missing, the one that says that it manages it."""
        if self._manager is None:
            system = self.system_or_none()
            uri = transform.manager_uri(system)
            found = self.optional(uri, "the manager") if uri else None
            if found is None:
                managers = self.members(transform.link(self.root(), "Managers"), "the managers", expand=False)
                found = transform.choose_manager(managers, system)
            self._manager = found or {}
        return self._manager

    def linked_chassis(self):
        """The chassis that the system links first, {} where that cannot be read."""
        if self._linked is None:
            uri = transform.link(self.system_or_none(), "Links", "Chassis")
            self._linked = self.optional(uri, "the chassis") or {}
        return self._linked

    def chassis(self):
        """The chassis that the server is, {} where none can be told: by the system's own link. Where that leads to a board and the system has no serial of its
        own, so that the chassis' is taken for the server's, a box among the others that says that it holds the system."""
        if self._chassis is None:
            system = self.system_or_none()
            found = linked = self.linked_chassis()
            if linked and transform.is_board(linked) and not transform.own_serial(system):
                everything = self.members(transform.link(self.root(), "Chassis"), "the chassis")
                found = transform.box_of(everything, system) or linked
                if found is linked and transform.text(linked, "SerialNumber"):
                    self.warnings.append(
                        "the system has no serial number; the one shown is that of a "
                        f"{transform.text(linked, 'ChassisType')}, {transform.text(linked, '@odata.id')}"
                    )
            self._chassis = found
        return self._chassis

    def identity(self, read=True):
        """{vendor, model, firmware} of the BMC; with `read=False` only from what was read already."""
        if not read:
            return transform.bmc_identity(self._root or {}, self._manager or {}, self._system or {})
        return transform.bmc_identity(self.root(), self.manager(), self.system_or_none())

    def quirks(self, manager=False):
        """The switches of this BMC from what was read already; with `manager` its manager is read for it (model and firmware)."""
        if manager:
            self.manager()
        return quirks.switches_for(quirks.identity_of(self._root or {}, self._manager or {}, self._system or {}))

    # ---- domain words: what operations call ---------------------------------------------------------------------------------------
    def reset_action(self):
        """(target URI, list of allowed reset types or None where the BMC does not say)."""
        action = transform.dig(self.system(), "Actions", "#ComputerSystem.Reset")
        if not isinstance(action, dict):
            raise Unsupported(
                "this system has no Reset action",
                host=self.endpoint.label,
                thing=transform.text(self.system(), "@odata.id"),
                wanted="Actions/#ComputerSystem.Reset",
                next_step="name the host's own system with system_id, or use IPMI for the power",
            )
        target = (
            transform.text(action, "target")
            or transform.text(self.system(), "@odata.id").rstrip("/") + "/Actions/ComputerSystem.Reset"
        )
        return target, self.allowed_values(action, "ResetType", "the list of reset types") or None

    def allowed_values(self, action, parameter, what=None):
        """What an action says that it takes for a parameter, itself or in its ActionInfo; [] where it says nothing. `what`: see optional."""
        allowed = transform.strings(action.get(f"{parameter}@Redfish.AllowableValues"))
        if not allowed and action.get("@Redfish.ActionInfo"):
            allowed = transform.allowed_by_action_info(
                self.optional(str(action["@Redfish.ActionInfo"]), what), parameter
            )
        return allowed

    def systems_seen(self):
        """The systems as they were read when the host's one was chosen."""
        self.system()
        return self._all_systems

    def restart_marks(self, fresh=True):
        """What changes when the system restarts: power, LastResetTime, boot progress (those that this BMC has)."""
        system = self.refresh_system() if fresh else self.system()
        return (
            transform.power_word(system.get("PowerState")),
            transform.text(system, "LastResetTime"),
            transform.text(system, "BootProgress", "LastState"),
        )

    def read_power(self, fresh=True):
        system = self.refresh_system() if fresh and self._system is not None else self.system()
        return transform.power_word(system.get("PowerState"))

    def power_said(self):
        """The power state as the BMC gave it last, in words for an error."""
        system = self._system or {}
        if "PowerState" not in system:
            return "no PowerState"
        return f"PowerState {'null' if system['PowerState'] is None else system['PowerState']}"

    def reset(self, reset_type):
        target, unused = self.reset_action()
        return self.post(target, {"ResetType": reset_type})

    def fresh_boot_place(self):
        self.refresh_system()
        return self.boot_place()

    def boot_place(self):
        """(resource that holds the boot override, its URI): the system, or its settings object where only that lists the targets."""
        system = self.system()
        settings_uri = transform.link(system, "@Redfish.Settings", "SettingsObject")
        if not transform.boot_targets(system) and settings_uri:
            settings = self.optional(settings_uri, "the settings of the system")
            if settings and transform.boot_targets(settings):
                return settings, settings_uri
        return system, transform.text(system, "@odata.id")
