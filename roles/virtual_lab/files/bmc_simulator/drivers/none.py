# No machine at all: a state machine with the timing of one, for client tests and fleets.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import asyncio

from .base import Boot, Driver


class NoneDriver(Driver):
    media_files = False

    def __init__(self, node, lab):
        super().__init__(node, lab)
        self._on = node.stored_power == "On"
        self._shutting_down: asyncio.Task | None = None

    @property
    def running(self) -> bool:
        return self._on

    async def attach(self) -> bool:
        self._on = self.node.stored_power == "On"
        return self._on

    async def start(self, first: Boot, then: Boot) -> None:
        self._on = True

    async def stop(self) -> None:
        self._on = False
        if self._shutting_down:
            self._shutting_down.cancel()

    async def shutdown(self) -> None:
        if not self._shutting_down or self._shutting_down.done():
            self._shutting_down = asyncio.get_running_loop().create_task(self._shut_down())

    async def _shut_down(self) -> None:
        await asyncio.sleep(self.node.behaviour.graceful_off_s)
        self._on = False
        await self.node.machine_stopped("shut down by the operating system")

    async def reset(self) -> None:
        await self.node.machine_rebooted("reset")

    async def close(self, keep: bool) -> None:
        # the power state of a machine that does not exist survives in the node's state file
        if self._shutting_down:
            self._shutting_down.cancel()
