# The QMP client against a small server that answers as QEMU does, in another order, and with events in between.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import asyncio
import json

import pytest

from bmc_simulator.qmp import Qmp, QmpError


async def serve(path, handle):
    async def connection(reader, writer):
        def send(message):
            writer.write(json.dumps(message).encode() + b"\n")

        send({"QMP": {}})
        waiting = []
        while line := await reader.readline():
            message = json.loads(line)
            if message["execute"] == "qmp_capabilities":
                send({"return": {}, "id": message["id"]})
            elif message["execute"] == "quit":
                break
            else:
                waiting = await handle(message, send, waiting)
        writer.close()

    return await asyncio.start_unix_server(connection, path)


def run(tmp_path, handle, work):
    """Run `work(qmp, seen)` against the server; `seen` collects events and, at the end, the word `end`."""

    async def main():
        seen = []
        server = await serve(str(tmp_path / "qmp"), handle)

        async def on_event(event):
            seen.append(event["event"])
            if event["event"] == "BAD":
                raise RuntimeError("what the event causes fails")

        async def on_end():
            seen.append("end")

        qmp = Qmp(on_event, on_end)
        await qmp.connect(str(tmp_path / "qmp"), 5)
        try:
            await work(qmp, seen)
        finally:
            await qmp.close()
            server.close()
        return seen

    return asyncio.run(main())


def test_commands_at_the_same_time_get_their_own_answers(tmp_path):
    async def backwards(message, send, waiting):
        waiting = [*waiting, message]
        if len(waiting) < 5:
            return waiting
        for entry in reversed(waiting):
            send({"return": entry["arguments"]["value"], "id": entry["id"]})
        return []

    async def work(qmp, seen):
        assert await asyncio.gather(*(qmp("echo", timeout=2, value=number) for number in range(5))) == list(range(5))

    run(tmp_path, backwards, work)


def test_refusal_silence_and_end(tmp_path):
    async def handle(message, send, waiting):
        if message["execute"] == "refuse":
            send({"error": {"desc": "no such device"}, "id": message["id"]})
        return waiting

    async def work(qmp, seen):
        with pytest.raises(QmpError, match="refuse: no such device"):
            await qmp("refuse")
        with pytest.raises(QmpError, match="did not answer silent in 0.1 s"):
            await qmp("silent", timeout=0.1)
        with pytest.raises(QmpError, match="QEMU is gone"):
            await qmp("quit")
        await asyncio.sleep(0.05)
        assert seen == ["end"]

    run(tmp_path, handle, work)


def test_an_event_that_fails_does_not_hide_the_next(tmp_path):
    async def handle(message, send, waiting):
        for name in ("BAD", "RESET"):
            send({"event": name})
        send({"return": {}, "id": message["id"]})
        return waiting

    async def work(qmp, seen):
        await qmp("anything")
        await asyncio.sleep(0.05)
        assert seen == ["BAD", "RESET"]

    run(tmp_path, handle, work)
