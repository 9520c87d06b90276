# Where large results go while the run is on: a file of JSON lines, the registry. So that ten thousand inventories are not held in Ansible's memory.
#
# A sink is called in a thread of its own, `sink(host, result)`; it may return what to remember of the result instead of it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import queue
import threading

from ..bmc.discover import facts_of, parts_of
from ..core.errors import BaremetalError, InvalidInput

# What stays of a result whose rest went to a sink.
KEPT = ("changed", "failed", "msg", "error", "source", "outcome")


def slim(result):
    return {key: result[key] for key in KEPT if key in result}


class JsonLines:
    """A file with one line for each host, `{"host": ..., ...result}`, in the order in which they end. Made anew, readable by its owner only."""

    def __init__(self, path):
        self.path = os.path.abspath(os.path.expanduser(str(path)))
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.fchmod(handle, 0o600)
            self._file = os.fdopen(handle, "w", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(
                "the output file cannot be written",
                thing=self.path,
                wanted="a path in a directory that exists",
                seen=error.strerror,
                next_step="correct output",
            )

    def __call__(self, host, result):
        self._file.write(json.dumps({"host": host, **result}, default=str) + "\n")

    def close(self):
        self._file.close()


class Inventories:
    """Inventories into the registry, as discovery records them. `save(host, serial, facts, parts)` writes one node and returns its Plan."""

    def __init__(self, save):
        self._save = save
        self.changed = 0

    def __call__(self, host, result):
        info = result.get("info")
        if not info or result.get("failed"):
            return
        plan = self._save(host, info, facts_of(info), parts_of(info))
        if plan is not None and plan.changed:
            self.changed += 1
            result["changed"] = True
            result["msg"] = f"{len(plan.changes)} things in the registry's record changed"

    def close(self):
        pass


class Writer:
    """Runs sinks in their own thread, so that slow writing does not hold up what starts next; `put` waits when it is far behind."""

    def __init__(self, sinks, keep):
        self._sinks, self._keep = sinks, keep
        self._queue = queue.Queue(maxsize=500)
        self._thread = threading.Thread(target=self._work, name="fleet-writer", daemon=True)
        self._thread.start()

    def put(self, host, result):
        self._queue.put((host, result))

    def close(self):
        """Wait until everything is written."""
        self._queue.put(None)
        self._thread.join()
        for sink in self._sinks:
            sink.close()

    def _work(self):
        while True:
            item = self._queue.get()
            if item is None:
                return
            host, result = item
            for sink in self._sinks:
                try:
                    sink(host, result)
                except BaremetalError as error:
                    result = error.with_host(host).as_result()
                except Exception as error:  # a full disk: this node's result is not recorded, and says so
                    result = BaremetalError(
                        f"the result could not be recorded ({type(error).__name__}: {error})",
                        host=host,
                        thing=type(sink).__name__,
                        next_step="find out why, then run again",
                        code="not_recorded",
                    ).as_result()
            self._keep(host, result)
