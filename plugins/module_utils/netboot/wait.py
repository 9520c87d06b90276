# Waiting for a boot: reads the timeline from the registry, keeps the attempt alive, ends at the first step that does not come in time.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time

from ..core.errors import BaremetalError, DeadlineExceeded, InvalidInput
from ..core.units import format_seconds
from . import timeline

HEARTBEAT_S = 10
RESERVED_S = 30


def limits(given=None):
    """(seconds for the reservation, {step: seconds}) from the option `limits`; InvalidInput for a name that does not exist or what is no number above 0."""
    values = {}
    for name, seconds in (given or {}).items():
        try:
            values[name] = seconds if isinstance(seconds, bool) else float(seconds)
        except (TypeError, ValueError):
            values[name] = seconds
    reserved = values.pop("reserved", RESERVED_S)
    if not isinstance(reserved, (int, float)) or isinstance(reserved, bool) or reserved <= 0:
        raise InvalidInput(
            "must be seconds above 0", thing="limit for reserved", wanted="a number above 0", seen=reserved
        )
    return reserved, timeline.limits(values)


def _failed(node, progress):
    return BaremetalError(
        str(progress.failure.get("detail") or "the deploy ramdisk failed without a reason"),
        host=node,
        thing=f"deployment (last step {progress.step or 'none'})",
        next_step="put right what the message says, then run the deploy stage again with deploy_retry_failed=true",
        code="boot_failed",
    )


def _overdue(node, progress, step, limit):
    words, hint = timeline.missing_words(step)
    after = progress.step or "the start of the wait"
    return DeadlineExceeded(
        f"{words} within {format_seconds(limit)} after {after}",
        host=node,
        thing="boot",
        wanted=f"step {step}",
        seen=f"last step {progress.step}" if progress.step else "no step at all",
        next_step=hint,
        code=f"boot_no_{step}",
    )


def registry_clock(registry):
    """A function that gives the registry's time in Unix seconds. The registry is asked once; what passes after that is the same on every machine."""
    base, start = timeline.seconds_of(registry.now()), time.monotonic()
    return lambda: base + time.monotonic() - start


def for_step(registry, node, attempt, fencing, until, allowed, poll_s=1.0, sleep=time.sleep):
    """Wait until the boot reached `until`; returns the Progress.

    The limit of each step counts from the event before it, by the registry's clock alone, not from the start of this call: a node whose turn comes
    late in a long batch gets no extra time. Raises DeadlineExceeded, BaremetalError `boot_failed`, or FencedOut.
    """
    clock = registry_clock(registry)
    started, beat, seen = clock(), None, None
    while True:
        now = clock()
        progress = timeline.Progress(registry.boot_events(node, attempt), started)
        if progress.step != seen and progress.step is not None:
            seen = progress.step
            # The step call is a heartbeat and checks the fence.
            registry.step(node, attempt, fencing, f"boot:{seen}", progress.last.get("detail"))
            beat = now
        elif beat is None or now - beat >= HEARTBEAT_S:
            registry.heartbeat(attempt, fencing)
            beat = now
        if progress.reached(until):
            return progress
        if progress.failure is not None:
            raise _failed(node, progress)
        late = progress.overdue(now, allowed)
        if late:
            raise _overdue(node, progress, *late)
        sleep(poll_s)


def for_reservation(registry, node, attempt, fencing, seconds=RESERVED_S, poll_s=0.5, sleep=time.sleep):
    """Wait until the boot service keeps the node's DHCP reservation: the proof that it runs and reads this registry."""
    end = time.monotonic() + seconds
    registry.heartbeat(attempt, fencing)
    while not any(event["step"] == "reserved" for event in registry.boot_events(node, attempt)):
        if time.monotonic() >= end:
            raise DeadlineExceeded(
                f"no DHCP reservation within {format_seconds(seconds)}",
                host=node,
                thing="boot service",
                wanted="boot event reserved",
                seen="nothing from the boot service for this attempt",
                next_step="check that the boot service runs (playbook boot_server) and that its registry is this one",
                code="boot_no_reservation",
            )
        sleep(poll_s)
