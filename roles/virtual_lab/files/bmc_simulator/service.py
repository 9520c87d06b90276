# The Redfish service of one BMC over HTTP: authentication, headers, ETags, queries, injected faults, request journal.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import asyncio
import base64
import binascii
import datetime
import email.utils
import hashlib
import json
import marshal
import pathlib
import re
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

from aiohttp import BodyPartReader, web

from . import query, resources, writes
from .journal import differences, without_secrets
from .messages import Problem, error_body, info
from .node import PRIVILEGES, Account, Node
from .resources import ACCOUNTS, MONITORS, SESSIONS, UPDATE, V1, Json
from .writes import Answer, Call

OPEN = {"/redfish", V1, f"{V1}/odata", f"{V1}/$metadata"}
PUSH = {f"{UPDATE}/update-multipart", f"{UPDATE}/update"}
MAX_BODY = 1024 * 1024
MAX_IMAGE = 512 * 2**20
SCHEMA_HOST = "http://redfish.dmtf.org/schemas/v1"
_VOLATILE = ("DateTime",)


def etag_of(body: Json, weak: bool = False, revision: int = 0) -> str:
    """An entity tag that does not change with the clock.

    The revision counts writes to the resource: a new password changes nothing that can be read, and is a change.
    """
    stable = {key: value for key, value in body.items() if key not in _VOLATILE}
    # Version 2 writes equal values in the same order in equal bytes (resources are built in one order), for less than JSON costs.
    digest = hashlib.blake2b(marshal.dumps([stable, revision], 2), digest_size=8).hexdigest()
    return f'W/"{digest}"' if weak else f'"{digest}"'


def _metadata() -> str:
    names = [*resources.VERSIONS]
    collections = [
        f"{name}Collection"
        for name in (
            "ComputerSystem",
            "Processor",
            "Memory",
            "Storage",
            "Drive",
            "EthernetInterface",
            "LogService",
            "LogEntry",
            "VirtualMedia",
            "Manager",
            "Chassis",
            "SoftwareInventory",
            "Task",
            "Session",
            "ManagerAccount",
            "Role",
            "MessageRegistryFile",
            "StorageController",
            "Volume",
            "PowerSupply",
            "Fan",
            "Sensor",
            "Certificate",
            "EventDestination",
            "BootOption",
        )
    ]
    references = "".join(
        f'<edmx:Reference Uri="{SCHEMA_HOST}/{name}_v1.xml"><edmx:Include Namespace="{name}"/>'
        + (f'<edmx:Include Namespace="{name}.{resources.VERSIONS[name]}"/>' if name in resources.VERSIONS else "")
        + "</edmx:Reference>"
        for name in [*names, *collections]
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">'
        + references
        + f'<edmx:Reference Uri="{SCHEMA_HOST}/RedfishExtensions_v1.xml">'
        '<edmx:Include Namespace="RedfishExtensions.v1_0_0" '
        'Alias="Redfish"/></edmx:Reference>'
        + '<edmx:DataServices><Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">'
        f'<EntityContainer Name="Service" Extends="ServiceRoot.{resources.VERSIONS["ServiceRoot"]}.ServiceContainer"/>'
        "</Schema></edmx:DataServices></edmx:Edmx>"
    )


METADATA = _metadata()


def _odata() -> Json:
    names = {
        "Service": V1 + "/",
        "Systems": f"{V1}/Systems",
        "Managers": f"{V1}/Managers",
        "Chassis": f"{V1}/Chassis",
        "SessionService": f"{V1}/SessionService",
        "AccountService": f"{V1}/AccountService",
        "Tasks": f"{V1}/TaskService",
        "UpdateService": UPDATE,
        "EventService": f"{V1}/EventService",
        "CertificateService": f"{V1}/CertificateService",
        "Registries": f"{V1}/Registries",
        "Sessions": SESSIONS,
    }
    return {
        "@odata.context": f"{V1}/$metadata",
        "value": [{"name": name, "kind": "Singleton", "url": url} for name, url in names.items()],
    }


def _kind_of_write(path: str) -> str | None:
    if path in PUSH or path.endswith("UpdateService.SimpleUpdate"):
        return "update"
    if path.endswith("/Bios/Settings"):
        return "bios"
    return "media" if "/VirtualMedia/" in path else None


class Service:
    """Answers the requests of one BMC. One instance per node, all in one event loop."""

    __slots__ = ("node", "seen", "in_flight")

    def __init__(self, node: Node):
        self.node = node
        self.seen = 0
        self.in_flight = 0

    # ---- entry ---------------------------------------------------------------------------------

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; faults that the behaviour asks for are decided here."""
        stats = self.node.stats
        self.seen += 1
        self.in_flight += 1
        stats["requests"] += 1
        if self.in_flight > stats["in_flight_peak"]:
            stats["in_flight_peak"] = self.in_flight
        try:
            return await self._handle(request)
        finally:
            self.in_flight -= 1

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        node, behaviour = self.node, self.node.behaviour
        is_write = request.method not in ("GET", "HEAD", "OPTIONS")
        path = request.path.rstrip("/") or "/"
        note: Json = {}
        if behaviour.delay_s:
            await self._wait(request, behaviour.delay_s)
        if behaviour.slow_path and re.search(behaviour.slow_path, path):
            await self._wait(request, behaviour.slow_s)
        if behaviour.reset_reused:
            if getattr(request.protocol, "served", 0):
                request.transport.abort()
                raise ConnectionResetError("a reused connection is cut, as the behaviour wants it")
            request.protocol.served = 1
        response = None
        drop = False
        try:
            fault = self._fault(request.method, path)
            if fault and fault["drop"] and not is_write:
                request.transport.abort()
            if fault and not fault["drop"]:
                headers = {"Retry-After": str(fault["retry_after"])} if fault.get("retry_after") is not None else {}
                raise Problem(fault["message"], status=fault["status"], headers=headers)
            drop = bool(fault and fault["drop"])
            if behaviour.html_504_every_n and self.seen % behaviour.html_504_every_n == 0:
                response = web.Response(
                    status=504, text="<html><body><h1>504 Gateway Time-out</h1></body></html>", content_type="text/html"
                )
            elif behaviour.busy_every_n and self.seen % behaviour.busy_every_n == 0:
                raise Problem(
                    "ServiceTemporarilyUnavailable", f"{behaviour.retry_after_s:g}", headers=self._retry_after()
                )
            elif node.warm_at > time.monotonic():
                raise Problem("ServiceTemporarilyUnavailable", "1", headers={"Retry-After": "1"})
            elif behaviour.broken_json_every_n and not is_write and self.seen % behaviour.broken_json_every_n == 0:
                response = web.Response(text='{"@odata.etag": ""a"", ', content_type="application/json")
            elif behaviour.redirect_slash and not request.path.endswith("/"):
                target = request.path + "/" + (f"?{request.query_string}" if request.query_string else "")
                response = web.Response(status=behaviour.redirect_status, headers={"Location": target})
            else:
                response = await self._answer(request, path, note)
        except Problem as problem:
            response = self._json(problem.status, problem.body(), problem.headers)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            traceback.print_exc()
            response = self._json(500, error_body([info("InternalError")]))
        finally:
            if is_write:
                session = path == SESSIONS or path.startswith(SESSIONS + "/")
                entry: Json = {
                    "method": request.method,
                    "path": path,
                    "account": note.pop("account", None),
                    "status": response.status if response else None,
                    "client": request.remote,
                    "via": "redfish",
                    **note,
                }
                if session:
                    entry["session"] = True
                node.requests.append(**entry)
                node.stats["posts"] += request.method == "POST" and not session
                node.stats["writes"] += 0 if session else 1
        node.stats[f"{request.method} {response.status}"] += 1
        if self._answer_is_lost(request.method, path, response.status) or drop:
            node.stats["dropped"] += 1
            request.transport.abort()
        if behaviour.close_connections:
            response.force_close()
        return response

    @staticmethod
    async def _wait(request: web.BaseRequest, seconds: float) -> None:
        """Take this long, unless the client has gone: then nothing is in flight any more."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 1.0))
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError("the client did not wait for the answer")

    def _answer_is_lost(self, method: str, path: str, status: int) -> bool:
        left = self.node.behaviour.answer_lost_after_post
        if not left or method != "POST" or path.startswith(SESSIONS) or status >= 400:
            return False
        if left > 0:
            self.node.behaviour.set({"answer_lost_after_post": left - 1})
        return True

    def _fault(self, method: str, path: str) -> Json | None:
        for fault in self.node.behaviour.faults:
            if fault["times"] and fault["method"] in (None, method) and re.search(fault["path"], path):
                if fault["times"] > 0:
                    fault["times"] -= 1
                return fault
        return None

    def _retry_after(self) -> dict[str, str]:
        behaviour = self.node.behaviour
        if behaviour.retry_after_form == "none":
            return {}
        if behaviour.retry_after_form == "date":
            moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=behaviour.retry_after_s)
            return {"Retry-After": email.utils.format_datetime(moment, usegmt=True)}
        return {"Retry-After": f"{behaviour.retry_after_s:g}"}

    # ---- answers -------------------------------------------------------------------------------

    def _shape(self, body: Json) -> Json:
        """Leave out or empty what the behaviour wants left out or empty."""
        behaviour = self.node.behaviour
        if not (behaviour.drop_properties or behaviour.null_properties or behaviour.vanished or behaviour.members_null):
            return body
        dropped = set(behaviour.drop_properties) | self.node.vanished
        nulled = set(behaviour.null_properties)

        def walk(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: None if key in nulled else walk(item) for key, item in value.items() if key not in dropped}
            return [walk(item) for item in value] if isinstance(value, list) else value

        if dropped or nulled:
            body = walk(body)
        if behaviour.members_null and body.get("Members") == []:
            body = {**body, "Members": None}
        return body

    def _json(self, status: int, body: Json | None, headers: dict[str, str] | None = None) -> web.Response:
        headers = {"OData-Version": "4.0", "Cache-Control": "no-cache", **(headers or {})}
        profile = self.node.profile
        if profile is not None and "Location" in headers:
            headers["Location"] = profile.own(headers["Location"])
        if body is None:
            return web.Response(status=status, headers=headers)
        if "error" not in body:
            body = self._shape(body)
            name = str(body.get("@odata.type", "")).lstrip("#").rsplit(".", 1)[0]
            if name:
                headers.setdefault("Link", f"<{SCHEMA_HOST}/{name}.json>; rel=describedby")
        text = json.dumps(body)
        if profile is not None:
            text = profile.own_json(text)
        return web.Response(
            status=status,
            headers=headers,
            body=text.encode(),
            content_type="application/json",
            charset="utf-8",
        )

    def _present(self, path: str) -> Json | None:
        """A resource with its ETag inside, as GET and $expand give it."""
        body = resources.find(self.node, path.rstrip("/"))
        if body is not None and body.get("@odata.id"):
            body["@odata.etag"] = self._tag(path.rstrip("/"), body)
        return body

    def _partial(self, path: str) -> Json | None:
        body = self._present(path)
        return {key: value for key, value in body.items() if key not in ("Id", "Name")} if body else body

    def _tag(self, path: str, body: Json) -> str:
        return etag_of(body, self.node.behaviour.weak_etag, self.node.counters[f"revision {path}"])

    # ---- the request proper --------------------------------------------------------------------

    async def _answer(self, request: web.BaseRequest, path: str, note: Json) -> web.Response:
        method = request.method
        if request.headers.get("OData-Version", "4.0") != "4.0":
            raise Problem("PreconditionFailed", status=412)
        if self.node.profile is not None:
            asked, path = path, self.node.profile.plain(path)
            if path is None:
                if self._authenticate(request)[0] is None:
                    raise Problem("NoValidSession", headers={"WWW-Authenticate": 'Basic realm="redfish"'})
                raise Problem("ResourceMissingAtURI", asked)
        if self.node.behaviour.case_insensitive:
            path = self._real_case(path)
        logging_in = method == "POST" and path in (SESSIONS, f"{SESSIONS}/Members")
        account, token = (None, None) if logging_in else self._authenticate(request)
        if account:
            note["account"] = account.username
        is_open = path in OPEN and method in ("GET", "HEAD")
        if account is None and not logging_in and not is_open:
            raise Problem(
                "NoValidSession",
                headers={} if self.node.behaviour.no_basic_auth else {"WWW-Authenticate": 'Basic realm="redfish"'},
            )
        if (
            account
            and account.change_required
            and not is_open
            and not self._allowed_before_change(method, path, account)
        ):
            raise Problem("PasswordChangeRequired", f"{ACCOUNTS}/{account.id}")
        if method in ("GET", "HEAD"):
            return self._get(request, path)
        return await self._write(request, path, account, token, note)

    def _real_case(self, path: str) -> str:
        """The registered spelling of a path: fixed parts are corrected, the parts that name things keep theirs."""
        for expression, _function in resources.RESOURCES:
            if re.match(expression.pattern, path, re.IGNORECASE):
                pattern = re.sub(r"\(\?P<\w+>\[\^/\]\+\)", "*", expression.pattern.strip("^$")).split("/")
                return "/".join(
                    given if fixed == "*" else fixed for given, fixed in zip(path.split("/"), pattern, strict=True)
                )
        return path

    @staticmethod
    def _allowed_before_change(method: str, path: str, account: Account) -> bool:
        own = f"{ACCOUNTS}/{account.id}"
        return (path == own and method in ("GET", "HEAD", "PATCH")) or path.startswith(f"{SESSIONS}/")

    def _authenticate(self, request: web.BaseRequest) -> tuple[Account | None, str | None]:
        node = self.node
        token = request.headers.get("X-Auth-Token")
        if token is not None:
            session = node.session_of(token)
            account = node.accounts.get(session.account) if session else None
            return (account, token) if account and account.enabled else (None, None)
        scheme, _space, blob = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic" or node.behaviour.no_basic_auth:
            return None, None
        try:
            username, _colon, password = base64.b64decode(blob, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None, None
        return node.authenticate(username, password), None

    def _allow(self, path: str, exists: bool) -> str:
        methods = writes.methods(resources.locate(self.node, path)[1])
        return ", ".join((*(("GET", "HEAD") if exists else ()), *methods))

    def _get(self, request: web.BaseRequest, path: str) -> web.Response:
        if path == "/redfish":
            return self._json(200, {"v1": f"{V1}/"}, {"Allow": "GET, HEAD"})
        if path == f"{V1}/$metadata":
            return web.Response(
                text=METADATA,
                content_type="application/xml",
                headers={"OData-Version": "4.0", "Allow": "GET, HEAD", "Cache-Control": "no-cache"},
            )
        if path == f"{V1}/odata":
            return self._json(200, _odata(), {"Allow": "GET, HEAD", "ETag": etag_of(_odata())})
        if path.startswith(MONITORS + "/"):
            return self._monitor(path)
        if self.node.behaviour.secondary_needs_power and f"/{resources.HGX}" in path and not self.node.driver.running:
            raise Problem("GeneralError", status=503)
        body = self._present(path)
        if body is None:
            if writes.methods(resources.locate(self.node, path)[1]):
                raise Problem("OperationNotAllowed", headers={"Allow": self._allow(path, False)})
            raise Problem("ResourceMissingAtURI", path)
        tag = body.get("@odata.etag") or etag_of(body)
        wanted = dict(request.query)
        if path != V1 or wanted:
            query.check(wanted, not self.node.behaviour.no_query_support)
        if path == V1 and {"$expand", "only"} & set(wanted) and self.node.behaviour.no_query_support:
            raise Problem("QueryParameterUnsupported", "$expand")
        if request.headers.get("If-None-Match") in (tag, "*"):
            return web.Response(status=304, headers={"ETag": tag, "OData-Version": "4.0", "Cache-Control": "no-cache"})
        page = self.node.behaviour.paging if isinstance(body.get("Members"), list) else 0
        if wanted or page:
            load = self._partial if self.node.behaviour.expand_partial else self._present
            body = query.apply(body, wanted, page, load)
        return self._json(200, body, {"Allow": self._allow(path, True), "ETag": tag})

    def _monitor(self, path: str) -> web.Response:
        task = self.node.tasks.get(path.rsplit("/", 1)[1])
        if task is None or not self.node.shows(task):
            raise Problem("ResourceMissingAtURI", path)
        body = resources.task_body(task)
        if not task.over:
            return self._json(202, body, {"Location": path, "Retry-After": "1", "Allow": "GET, HEAD"})
        return self._json(200, body, {"Allow": "GET, HEAD"})

    async def _write(
        self, request: web.BaseRequest, path: str, account: Account | None, token: str | None, note: Json
    ) -> web.Response:
        node = self.node
        present = resources.find(node, path)
        found = writes.find(request.method, resources.locate(node, path)[1])
        if found is None:
            if present is None and not writes.methods(path) and path not in OPEN:
                raise Problem("ResourceMissingAtURI", path)
            raise Problem(
                "OperationNotAllowed", headers={"Allow": self._allow(path, present is not None or path in OPEN)}
            )
        entry, arguments = found
        if entry.privilege and (account is None or entry.privilege not in PRIVILEGES[account.role]):
            raise Problem("InsufficientPrivilege")
        owner, local, prefix = resources.locate(node, path)
        if node.behaviour.license_required and _kind_of_write(local) in node.behaviour.license_required:
            raise Problem("SMC.1.0.OemLicenseNotPassed", "SFT-OOB-LIC")
        call = Call(owner, local, {}, account, request.remote or "", token, arguments)
        try:
            if path in PUSH:
                await self._receive_image(request, call)
            elif request.method != "DELETE":
                call.body = await self._body(request)
            if call.body or call.parameters:
                note["body"] = without_secrets(call.body or call.parameters)
            if path == SESSIONS and isinstance(call.body.get("UserName"), str):
                note["account"] = call.body["UserName"]
            if request.method == "PATCH" and present is not None:
                # after the body has arrived: from here to the end of the write nothing waits, so the two are one step
                self._check_etag(request, path)
            if node.profile is not None:
                call.body = node.profile.plain_body(call.body)
                call.parameters = node.profile.plain_body(call.parameters)
            answer: Answer = await entry.handler(call)
            if owner is not node and answer.body is not None:
                answer.body = resources.moved(answer.body, prefix)
        finally:
            if call.upload:
                call.upload.unlink(missing_ok=True)
        if request.method == "PATCH" and answer.status < 300:
            node.counters[f"revision {path}"] += 1
            node.save()
            note["changes"] = without_secrets(differences(present, resources.find(node, path)))
        headers = dict(answer.headers)
        if answer.body is not None and answer.status in (200, 201) and "@odata.id" in answer.body:
            after = resources.find(node, answer.body["@odata.id"].rstrip("/"))
            if after is not None:
                headers["ETag"] = self._tag(answer.body["@odata.id"].rstrip("/"), after)
                answer.body["@odata.etag"] = headers["ETag"]
        return self._json(answer.status, answer.body, headers)

    def _check_etag(self, request: web.BaseRequest, path: str) -> None:
        behaviour = self.node.behaviour
        given = request.headers.get("If-Match")
        if given is None:
            if behaviour.etag_required:
                raise Problem("PreconditionRequired", status=behaviour.etag_missing_status)
            return
        tags = {tag.strip() for tag in given.split(",")}
        if behaviour.etag_refuses_own_weak and any(tag.startswith("W/") for tag in tags):
            raise Problem("PreconditionFailed")
        present, revision = resources.find(self.node, path), self.node.counters[f"revision {path}"]
        if "*" not in tags and not tags & {etag_of(present, weak, revision) for weak in (False, True)}:
            raise Problem("PreconditionFailed")

    async def _body(self, request: web.BaseRequest) -> Json:
        try:
            raw = await asyncio.wait_for(request.read(), 60)
        except web.HTTPRequestEntityTooLarge:
            raise Problem("PayloadTooLarge") from None
        if not raw.strip():
            if "/Actions/" in request.path:
                return {}
            raise Problem("MalformedJSON")
        content_type = request.headers.get("Content-Type", "application/json").split(";")[0].strip().lower()
        if content_type not in (
            "application/json",
            "text/json",
            "application/octet-stream",
            "application/x-www-form-urlencoded",
        ):
            raise Problem("UnsupportedMediaType")
        try:
            body = json.loads(raw)
        except ValueError:
            raise Problem("MalformedJSON") from None
        if not isinstance(body, dict):
            raise Problem("MalformedJSON")
        return body

    async def _receive_image(self, request: web.BaseRequest, call: Call) -> None:
        """Stream a pushed image to a file: the multipart form of DSP0266 or a raw body."""
        handle = tempfile.NamedTemporaryFile(dir=self.node.directory, prefix="upload-", delete=False)  # noqa: SIM115 - outlives this call
        call.upload = pathlib.Path(handle.name)
        size = 0

        async def store(read: Callable[..., Any]) -> None:
            nonlocal size
            while block := await read(2**18):
                size += len(block)
                if self._upload_is_cut(size):
                    request.transport.abort()
                    raise ConnectionResetError("the upload was cut, as the behaviour wants it")
                if size > MAX_IMAGE:
                    raise Problem("PayloadTooLarge")
                handle.write(block)

        with handle:
            # the plain path: products have names of their own for it
            if not call.path.endswith("multipart"):
                await store(request.content.read)
            elif not request.headers.get("Content-Type", "").lower().startswith("multipart/"):
                raise Problem("UnsupportedMediaType")
            else:
                try:
                    await self._receive_parts(request, call, store)
                except ValueError as error:
                    raise Problem("PropertyValueError", str(error), status=400) from None
        if not size:
            call.upload.unlink(missing_ok=True)
            call.upload = None

    def _upload_is_cut(self, size: int) -> bool:
        behaviour = self.node.behaviour
        times = behaviour.upload_cut_times
        if not behaviour.upload_cut_after or size < behaviour.upload_cut_after or not times:
            return False
        if times > 0:
            behaviour.set({"upload_cut_times": times - 1})
        self.node.stats["uploads_cut"] += 1
        return True

    @staticmethod
    async def _receive_parts(request: web.BaseRequest, call: Call, store: Callable[..., Any]) -> None:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader):
                continue
            if part.name == "UpdateParameters":
                call.parameters = json.loads(await part.text() or "{}")
                if not isinstance(call.parameters, dict):
                    raise ValueError("UpdateParameters must be an object")
            elif part.name == "UpdateFile":
                await store(part.read_chunk)
            else:
                await part.read()
