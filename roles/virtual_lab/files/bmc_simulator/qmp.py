# Client of QEMU's machine protocol (QMP) for one event loop.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any


class QmpError(RuntimeError):
    """QEMU refused a command, or is gone."""


class Qmp:
    """One connection. `on_event` gets each event, `on_end` is called once when QEMU closes the connection."""

    def __init__(self, on_event: Callable[[dict[str, Any]], Awaitable[None]], on_end: Callable[[], Awaitable[None]]):
        self._on_event, self._on_end = on_event, on_end
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: dict[int, asyncio.Future] = {}
        self._number = 0
        self._tasks: list[asyncio.Task] = []
        self._events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def connect(self, path: str, timeout: float) -> None:
        """Connect and leave capability negotiation; raises OSError, TimeoutError or QmpError."""
        async with asyncio.timeout(timeout):
            self._reader, self._writer = await asyncio.open_unix_connection(path, limit=4 * 2**20)
            if not await self._reader.readline():
                raise QmpError("QEMU closed the connection")
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._read()), loop.create_task(self._deliver())]
            await self("qmp_capabilities")

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                message = json.loads(line)
                if "event" in message:
                    self._events.put_nowait(message)
                    continue
                future = self._waiting.pop(message.get("id"), None)
                if future and not future.done():
                    future.set_result(message)
        except (ConnectionError, ValueError):
            pass
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(QmpError("QEMU is gone"))
        self._waiting.clear()
        self._events.put_nowait(None)

    async def _deliver(self) -> None:
        # events run beside the reader, because what they cause may itself send commands
        while (event := await self._events.get()) is not None:
            try:
                await self._on_event(event)
            except Exception:
                # what one event causes may fail; the next ones, and the end, must still be heard of
                logging.exception("the event %s could not be dealt with", event.get("event"))
        await self._on_end()

    async def __call__(self, command: str, timeout: float = 20.0, **arguments: Any) -> Any:
        if self._writer is None or self._writer.is_closing():
            raise QmpError("QEMU is gone")
        self._number += 1
        number, future = self._number, asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._writer.write(json.dumps({"execute": command, "arguments": arguments, "id": number}).encode() + b"\n")
        try:
            await self._writer.drain()
            message = await asyncio.wait_for(future, timeout)
        except ConnectionError:
            raise QmpError("QEMU is gone") from None
        except TimeoutError:
            raise QmpError(f"QEMU did not answer {command} in {timeout:g} s") from None
        finally:
            # by its own number: other commands may have been sent meanwhile
            self._waiting.pop(number, None)
        if "error" in message:
            raise QmpError(f"{command}: {message['error'].get('desc')}")
        return message["return"]

    async def close(self) -> None:
        """Leave QEMU alone; no more callbacks."""
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if self._writer:
            self._writer.close()
            with contextlib.suppress(Exception):
                await self._writer.wait_closed()
