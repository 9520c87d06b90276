# The control socket: what a person at the server or a test can do that a client of the BMC cannot.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""JSON lines over a unix socket, mode 0600.

`{"op": "state", "node": "gpu01"}` -> `{"ok": true, "result": ...}` or `{"ok": false, "error": ...}`.

The IPMI processes use the same socket (ops that begin with `ipmi_`).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import ipmi_commands

if TYPE_CHECKING:
    from .server import Simulator

Json = dict[str, Any]
OPS: dict[str, Callable[[Any, Json], Awaitable[Any]]] = {}


def op(function: Callable[[Any, Json], Awaitable[Any]]) -> Callable[[Any, Json], Awaitable[Any]]:
    OPS[function.__name__] = function
    return function


def _nodes(simulator: Simulator, message: Json) -> list:
    """The node named, or all of them."""
    if message.get("node"):
        return [simulator.node(message["node"])]
    return [front.node for front in simulator.fronts.values()]


@op
async def ping(simulator: Simulator, message: Json) -> Any:
    return {"pid": os.getpid(), "nodes": len(simulator.fronts), "ready": simulator.ready}


@op
async def nodes(simulator: Simulator, message: Json) -> Any:
    return [front.describe() for front in simulator.fronts.values()]


@op
async def state(simulator: Simulator, message: Json) -> Any:
    return simulator.node(message["node"]).state()


@op
async def stats(simulator: Simulator, message: Json) -> Any:
    return {node.name: dict(node.stats) for node in _nodes(simulator, message)}


# what clients are held to; sessions left are counted, not kept
COUNTERS = (
    "requests",
    "posts",
    "writes",
    "connections",
    "in_flight_peak",
    "sessions_made",
    "sessions_deleted",
    "image_pushes",
    "dropped",
)


def _counters(node: Any) -> Json:
    stats = node.__dict__.get("stats") or {}
    return {
        **{name: stats.get(name, 0) for name in COUNTERS},
        "sessions_left": len(node.__dict__.get("sessions") or ()),
    }


@op
async def counters(simulator: Simulator, message: Json) -> Any:
    """Per BMC; `touched`: only those that were asked something."""
    rows = {node.name: _counters(node) for node in _nodes(simulator, message)}
    if message.get("touched"):
        rows = {name: row for name, row in rows.items() if row["requests"] or row["connections"]}
    return rows


@op
async def totals(simulator: Simulator, message: Json) -> Any:
    """The counters of all BMCs together: sums, and the lowest and highest number that one BMC has."""
    rows = [_counters(front.node) for front in simulator.fronts.values()]
    return {
        "nodes": len(rows),
        **{
            name: {
                "sum": sum(row[name] for row in rows),
                "min": min((row[name] for row in rows), default=0),
                "max": max((row[name] for row in rows), default=0),
            }
            for name in (*COUNTERS, "sessions_left")
        },
    }


@op
async def reset_stats(simulator: Simulator, message: Json) -> Any:
    for node in _nodes(simulator, message):
        node.stats.clear()


@op
async def requests(simulator: Simulator, message: Json) -> Any:
    return list(simulator.node(message["node"]).requests.recent)


@op
async def events(simulator: Simulator, message: Json) -> Any:
    return list(simulator.node(message["node"]).events.recent)


@op
async def images(simulator: Simulator, message: Json) -> Any:
    """Images that arrived whole, per BMC; those without any are left out."""
    found = {node.name: node.__dict__.get("images") for node in _nodes(simulator, message)}
    return {name: rows for name, rows in found.items() if rows}


@op
async def cut_power(simulator: Simulator, message: Json) -> Any:
    """A hand at the plug: `ac_cycle` (default) or `aux_cycle`."""
    for node in _nodes(simulator, message):
        node.cut_power(message.get("kind", "ac_cycle"))


@op
async def behaviour(simulator: Simulator, message: Json) -> Any:
    return simulator.node(message["node"]).behaviour.as_dict()


@op
async def set_behaviour(simulator: Simulator, message: Json) -> Any:
    chosen = _nodes(simulator, message)
    for node in chosen:
        node.behaviour.set(message["values"])
        if message["values"].get("password_change_required"):
            for account in node.accounts.values():
                account.change_required = True
    for node in chosen:
        await simulator.fronts[node.name].update()


@op
async def reset_behaviour(simulator: Simulator, message: Json) -> Any:
    for node in _nodes(simulator, message):
        node.behaviour.reset()
        await simulator.fronts[node.name].update()


@op
async def power(simulator: Simulator, message: Json) -> Any:
    """A hand at the power button; nothing of it is a request to the BMC."""
    simulator.node(message["node"]).request_reset(message["action"])


@op
async def crash(simulator: Simulator, message: Json) -> Any:
    await simulator.node(message["node"]).crash()


@op
async def drop_sessions(simulator: Simulator, message: Json) -> Any:
    for node in _nodes(simulator, message):
        node.drop_sessions()


@op
async def set_account(simulator: Simulator, message: Json) -> Any:
    """Change an account from the outside: password, enabled, role, change_required."""
    node = simulator.node(message["node"])
    account = node.account_named(message["username"])
    if account is None:
        raise KeyError(f"{node.name} has no account {message['username']!r}")
    for key in ("password", "enabled", "role", "change_required"):
        if key in message:
            setattr(account, key, message[key])
    node.save()


@op
async def replace_nodes(simulator: Simulator, message: Json) -> Any:
    result = await simulator.replace(message["nodes"])
    simulator.write_endpoints()
    return result


# ---- the IPMI processes ------------------------------------------------------------------------


@op
async def ipmi_password(simulator: Simulator, message: Json) -> Any:
    return ipmi_commands.password(simulator.node(message["node"]), message["username"])


@op
async def ipmi_get(simulator: Simulator, message: Json) -> Any:
    return ipmi_commands.observe(simulator.node(message["node"]))


@op
async def ipmi_users(simulator: Simulator, message: Json) -> Any:
    return ipmi_commands.users(simulator.node(message["node"]))


@op
async def ipmi_do(simulator: Simulator, message: Json) -> Any:
    return ipmi_commands.carry_out(simulator.node(message["node"]), message)


async def serve_control(simulator: Simulator) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                try:
                    message = json.loads(line)
                    function = OPS.get(message.get("op"))
                    if function is None:
                        raise ValueError(f"unknown op {message.get('op')!r} (known: {', '.join(OPS)})")
                    reply = {"ok": True, "result": await function(simulator, message)}
                except asyncio.CancelledError:
                    raise
                except Exception as error:
                    reply = {
                        "ok": False,
                        "error": str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error),
                    }
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.LimitOverrunError, ValueError):
            pass
        finally:
            writer.close()

    path = simulator.control_path
    if path.exists():
        # a socket that still answers belongs to another simulator; one that does not is a leftover of a crash
        try:
            Control(path, timeout=2).call("ping")
        except OSError:
            path.unlink()
        else:
            raise OSError(f"another simulator is running: {path} answers")
    server = await asyncio.start_unix_server(serve, path=str(path), limit=16 * 2**20)
    path.chmod(0o600)
    return server


class ControlError(RuntimeError):
    """The simulator refused an op; the text is its reason."""


class Control:
    """Blocking client of the control socket; a connection per call, so that any thread or process may use it."""

    def __init__(self, path: str | Path, timeout: float = 30.0):
        self.path, self.timeout = str(path), timeout

    def call(self, op: str, **arguments: Any) -> Any:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(self.timeout)
            connection.connect(self.path)
            connection.sendall(json.dumps({"op": op, **arguments}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline()
        if not line:
            raise ControlError(f"the simulator closed {self.path} without an answer to {op}")
        reply = json.loads(line)
        if not reply["ok"]:
            raise ControlError(reply["error"])
        return reply["result"]
