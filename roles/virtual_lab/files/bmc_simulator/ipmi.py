# The IPMI side of one BMC, seen from the simulator: a child process that is started again when it dies.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .node import Node

RESTART_PAUSE_SECONDS = 1.0
PACKAGE_PARENT = str(pathlib.Path(__file__).resolve().parents[1])


def _bind(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_DGRAM)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        raise OSError(f"IPMI cannot listen on {address} port {port}: {error.strerror}") from None
    return listener


class IpmiFront:
    """One process per BMC: pyghmi keeps its state in the process and blocks while it works."""

    def __init__(self, node: Node, control_path: pathlib.Path):
        self.node, self.control_path = node, control_path
        self.address: str = node.config["bmc"]["address"]
        # a free port has to be known before the child starts; an address that cannot be had is told at once
        with _bind(self.address, node.config["bmc"]["ipmi_port"]) as probe:
            self.port: int = probe.getsockname()[1]
        self._keeper: asyncio.Task | None = None
        self._deaf: socket.socket | None = None

    async def start(self, silent: bool = False) -> None:
        """Answer, or (silent) hold the port and say nothing."""
        if silent:
            self._deaf = _bind(self.address, self.port)
            return
        up = asyncio.Event()
        self._keeper = asyncio.get_running_loop().create_task(self._keep(up))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(up.wait(), 20)

    async def _keep(self, up: asyncio.Event) -> None:
        environment = {**os.environ, "PYTHONPATH": PACKAGE_PARENT, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [
            sys.executable,
            "-m",
            "bmc_simulator.ipmi_child",
            str(os.getpid()),
            str(self.control_path),
            self.node.name,
        ]
        command += [self.address, str(self.port), self.node.config["uuid"]]
        log = self.node.directory / "ipmi.log"
        while True:
            with log.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=output,
                    env=environment,
                )
            try:
                # it says "ready" once its socket is bound; end of file means that it died
                if await process.stdout.readline():
                    up.set()
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            self.node.event("error", what="IPMI process", detail=f"ended with {process.returncode}, see {log}")
            await asyncio.sleep(RESTART_PAUSE_SECONDS)

    async def stop(self) -> None:
        if self._deaf:
            self._deaf.close()
            self._deaf = None
        if self._keeper:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None
