# The simulator process: one listener per BMC, the control socket, start and orderly end.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import asyncio
import json
import logging
import os
import pathlib
import socket
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod

from .certificate import certificate_text, ensure_certificate, fingerprint, server_context, write_private
from .messages import error_body, info
from .node import Node
from .schema import check_lab
from .service import MAX_BODY, Service

# a BMC that goes away does not wait for its clients
SHUTDOWN_SECONDS = 0.2


class Front:
    """The Redfish listener of one node (and its IPMI process), opened and closed as the node's reachability changes."""

    def __init__(self, node: Node, simulator: Simulator):
        self.node, self.simulator = node, simulator
        self.service = Service(node)
        self.port: int = node.config["bmc"]["port"]
        self.ipmi_port: int | None = None
        self.fingerprint: str | None = None
        self._context = None
        self._certificate = "normal"
        self._runner: web.ServerRunner | None = None
        self._silent: asyncio.Server | None = None
        self._shown: Any = None
        self._lock = asyncio.Lock()
        self.ipmi = None
        node.on_reachability = self.update
        node.on_certificate = self._install
        node.certificate = self._shown_certificate

    async def open(self) -> None:
        bmc = self.node.config["bmc"]
        if bmc["tls"]:
            self._load_certificate("normal")
        if "ipmi" in bmc["protocols"]:
            from .ipmi import IpmiFront

            self.ipmi = IpmiFront(self.node, self.simulator.control_path)
            self.ipmi_port = self.ipmi.port
        await self.update()

    def _pem(self, kind: str) -> pathlib.Path:
        return self.node.directory / ("bmc.pem" if kind == "normal" else f"bmc-{kind}.pem")

    def _shown_certificate(self) -> str | None:
        return certificate_text(self._pem(self._certificate)) if self.node.config["bmc"]["tls"] else None

    async def _install(self, pem: bytes) -> None:
        """Replace the BMC's own certificate; the listener is opened again a moment later, after the answer has gone out."""
        write_private(self._pem("normal"), pem)

        async def reopen() -> None:
            await asyncio.sleep(0.2)
            async with self._lock:
                self._load_certificate("normal")
                await self._shut()
                self._shown = None
            await self.update()
            self.simulator.write_endpoints()

        self.node.spawn(reopen(), "new certificate")

    def _load_certificate(self, kind: str) -> None:
        """The BMC's own certificate; a changed one is another self-signed one, which a lab's BMC always has."""
        name = self._pem(kind).name
        address = self.node.config["bmc"]["address"]
        path = ensure_certificate(self.node.directory, f"{self.node.name}-bmc", address, name)
        self.fingerprint, self._context, self._certificate = fingerprint(path), server_context(path), kind

    async def update(self) -> None:
        """Make the listeners fit the node's reachability: no (normal), refuse, silent; and its certificate."""
        async with self._lock:
            wanted, certificate = (
                (self.node.reachable, self.node.settings["ipmi_enabled"]),
                self.node.behaviour.certificate,
            )
            changed = self.node.config["bmc"]["tls"] and certificate != self._certificate
            if wanted == self._shown and not changed:
                return
            await self._shut()
            if changed:
                self._load_certificate(certificate)
            self._shown = wanted
            wanted = wanted[0]
            if wanted == "refuse":
                return
            if "redfish" in self.node.config["bmc"]["protocols"]:
                await self._listen(wanted == "silent")
            if self.ipmi and self.node.settings["ipmi_enabled"]:
                await self.ipmi.start(silent=wanted == "silent")

    async def _listen(self, silent: bool) -> None:
        address = self.node.config["bmc"]["address"]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, self.port))
        except OSError as error:
            listener.close()
            raise OSError(
                f"the BMC of {self.node.name} cannot listen on {address} port {self.port}: {error.strerror}"
            ) from None
        # a port of 0 is chosen once and kept when the listener comes back
        self.port = listener.getsockname()[1]
        if silent:
            self._silent = await asyncio.start_server(self._swallow, sock=listener)
            return
        self._runner = web.ServerRunner(
            ConnectionServer(self.service.handle, self.node.behaviour.keepalive_s), shutdown_timeout=SHUTDOWN_SECONDS
        )
        await self._runner.setup()
        await web.SockSite(self._runner, listener, ssl_context=self._context, backlog=128).start()

    @staticmethod
    async def _swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _shut(self) -> None:
        if self._runner:
            await self._runner.cleanup()
            self._runner = None
        if self._silent:
            self._silent.close()
            self._silent = None
        if self.ipmi:
            await self.ipmi.stop()

    async def close(self) -> None:
        async with self._lock:
            await self._shut()
            self._shown = "closed"

    def describe(self) -> dict[str, Any]:
        bmc = self.node.config["bmc"]
        return {
            "name": self.node.name,
            "serial": self.node.config["serial"],
            "address": bmc["address"],
            "port": self.port,
            "tls": bmc["tls"],
            "ipmi_port": self.ipmi_port,
            "protocols": bmc["protocols"],
            "fingerprint": self.fingerprint,
        }


def _request(message, payload, protocol, writer, task, loop=None):
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop or asyncio.get_running_loop(), client_max_size=MAX_BODY
    )


class _Connection(web.RequestHandler):
    """aiohttp's connection, but what it cannot parse is answered as Redfish asks: 501 for an unknown method."""

    def handle_error(self, request, status=500, exc=None, message=None):
        if isinstance(exc, BadHttpMethod):
            status = 501
        response = web.json_response(
            error_body([info("GeneralError")]), status=status, headers={"OData-Version": "4.0"}
        )
        response.force_close()
        return response


class ConnectionServer(web.Server):
    def __init__(self, handler: Any, keepalive_s: float):
        super().__init__(handler, request_factory=_request)
        self.keepalive_s = keepalive_s

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=asyncio.get_running_loop(), keepalive_timeout=self.keepalive_s, access_log=None)


class Simulator:
    """All nodes of a lab in one event loop."""

    def __init__(self, lab: dict[str, Any], keep_nodes: bool = False):
        self.lab, self.keep_nodes = lab, keep_nodes
        self.fronts: dict[str, Front] = {}
        self.control_path = pathlib.Path(lab["run_dir"]) / "bmc.sock"
        self.ready = False
        self._control: asyncio.Server | None = None

    async def start(self) -> None:
        """Bind everything; a failure to bind ends the start, with what was opened closed again."""
        from .control import serve_control

        pathlib.Path(self.lab["dir"]).mkdir(parents=True, exist_ok=True)
        self.control_path.parent.mkdir(parents=True, exist_ok=True)
        self._control = await serve_control(self)
        try:
            await self._add_all(self.lab["nodes"])
            self.write_endpoints()
            self.ready = True
        except BaseException:
            await self.close()
            raise

    async def add(self, config: dict[str, Any]) -> Front:
        node = Node(config, self.lab)
        front = self.fronts[node.name] = Front(node, self)
        await node.attach()
        await front.open()
        return front

    async def _add_all(self, configs: list[dict[str, Any]]) -> None:
        # all at once: an IPMI process takes a second to start, and a machine may take longer to be taken over
        results = await asyncio.gather(*(self.add(config) for config in configs), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def remove(self, name: str) -> None:
        front = self.fronts.pop(name)
        await front.close()
        await front.node.close(keep=False)

    async def replace(self, nodes: list[dict[str, Any]]) -> dict[str, list[str]]:
        """Make the set of nodes the given one: what is gone ends, what is new starts, what is the same stays."""
        new = {config["name"]: config for config in check_lab({**self.lab, "nodes": nodes})["nodes"]}
        gone = [name for name, front in self.fronts.items() if new.get(name) != front.node.config]
        for name in gone:
            await self.remove(name)
        fresh = [name for name in new if name not in self.fronts]
        await self._add_all([new[name] for name in fresh])
        return {"removed": gone, "added": fresh}

    def node(self, name: str) -> Node:
        if name not in self.fronts:
            raise KeyError(f"there is no node {name!r} (nodes: {', '.join(self.fronts) or 'none'})")
        return self.fronts[name].node

    async def close(self) -> None:
        """Fronts first, so that nothing new is asked; then the machines, all at once."""
        await asyncio.gather(*(front.close() for front in self.fronts.values()), return_exceptions=True)
        results = await asyncio.gather(
            *(front.node.close(self.keep_nodes) for front in self.fronts.values()), return_exceptions=True
        )
        for name, result in zip(self.fronts, results, strict=True):
            if isinstance(result, BaseException):
                logging.error("the end of %s failed: %s", name, result)
        if self._control:
            self._control.close()
            self.control_path.unlink(missing_ok=True)
            self.control_path.with_name("endpoints.json").unlink(missing_ok=True)

    def write_endpoints(self) -> None:
        """Addresses, ports and certificate fingerprints, for people and tools: the run directory's `endpoints.json`."""
        path = self.control_path.with_name("endpoints.json")
        partial = path.with_suffix(".new")
        partial.write_text(json.dumps([front.describe() for front in self.fronts.values()], indent=1), encoding="utf-8")
        os.replace(partial, path)
