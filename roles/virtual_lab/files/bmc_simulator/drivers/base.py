# What a BMC needs from the machine behind it: start, stop, reset, boot order, media.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..node import Node


class DriverError(RuntimeError):
    """The machine did not do what was asked; the text says what and where to look."""


@dataclass(frozen=True)
class Boot:
    """How a machine boots: target None means its normal order. `source` says why: once, continuous or order."""

    target: str = "None"
    mode: str = "UEFI"
    source: str = "order"
    http_uri: str | None = None


class Driver:
    """A machine. Methods are called one at a time for one node; none of them waits for the operating system.

    The driver reports what happens on its own through node.machine_rebooted(reason) and node.machine_stopped(reason).
    """

    # whether virtual media must be fetched into a file before they can be inserted
    media_files = True
    # whether a machine that ran when its simulator ended is started again by the next one
    resumes = False

    def __init__(self, node: Node, lab: dict[str, Any]):
        self.node, self.lab = node, lab

    @property
    def running(self) -> bool:
        raise NotImplementedError

    async def attach(self) -> bool:
        """Take over a machine that an earlier simulator left running; True if there is one."""
        return False

    async def start(self, first: Boot, then: Boot) -> None:
        """Power on with the boot `first`; every later reset uses `then` unless set_boot says otherwise."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Power off at once."""
        raise NotImplementedError

    async def shutdown(self) -> None:
        """Ask the operating system to shut down; machine_stopped follows when it did."""
        raise NotImplementedError

    async def reset(self) -> None:
        """Reset at once; machine_rebooted follows."""
        raise NotImplementedError

    async def interrupt(self) -> None:
        """Send a non-maskable interrupt."""

    async def set_boot(self, boot: Boot) -> None:
        """The boot of the next reset of a running machine."""

    async def set_media(self, path: pathlib.Path | None) -> None:
        """Insert a file as CD, or eject it."""

    async def crash(self) -> None:
        """End the machine as a crash would, without telling it."""
        await self.stop()

    async def close(self, keep: bool) -> None:
        """The simulator ends: power the machine off, or let it run on for the next simulator to attach."""
        if self.running and not keep:
            await self.stop()
