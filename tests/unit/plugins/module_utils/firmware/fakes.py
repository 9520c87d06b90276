# A BMC and a journal in memory, for the engine: every call can be the last one of its controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import copy

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError, Unsupported
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.images import Local
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.port import FirmwarePort


class Killed(BaseException):
    """kill -9 of the controller."""


class Clock:
    """Time that passes only in sleep."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Bmc(FirmwarePort):
    """`arrived`: whole images by component, in order. Faults are attributes. `clock` moves its tasks."""

    def __init__(self, clock, versions, activations, **faults):
        self.clock, self.versions, self.activations = clock, dict(versions), activations
        self.pending, self.all_tasks, self.arrived, self.restarts = {}, {}, [], []
        self.resets, self.away_until, self.on = 0, 0.0, True
        self.task_seconds, self.reset_seconds = 20.0, 30.0
        self.forgets_tasks = self.no_task_list = self.shows_staged = self.no_marks = False
        self.lies_at_100 = self.no_effect = self.task_fails = self.lose_answer = self.no_task = False
        self.break_off = self.busy_at_reset = 0
        self.refuses_reset = False
        self.cannot = ()
        self.old_task = False
        self.flash_seconds = 0.0  # how long a host flashes after its reset; a second reset meanwhile cuts the flash off
        self.flashing, self.flashes_cut = None, 0
        self.lost_after_reset = None  # code of the error after a reset that was done
        self.shown_after = 0.0  # seconds from an image to the moment when its task can be seen
        for name, value in faults.items():
            assert hasattr(self, name), name
            setattr(self, name, value)
        if self.old_task:
            self.all_tasks["/tasks/0|0"] = {
                "uri": "/tasks/0",
                "at": 0.0,
                "component": None,
                "version": None,
                "state": "done",
            }

    def _live(self):
        if self.clock() < self.away_until:
            raise BaremetalError("away", code="unreachable")
        if self.flashing and self.clock() >= self.flashing[0]:
            self.versions.update(self.flashing[1])
            self.flashing = None
        for key, task in list(self.all_tasks.items()):
            if task["state"] == "running" and self.clock() >= task["at"] + self.task_seconds:
                if self.task_fails:
                    task["state"] = "failed"
                else:
                    task["state"] = "done"
                    self._written(task)
                if self.forgets_tasks:
                    self.all_tasks.pop(key, None)

    def _written(self, task):
        if self.no_effect:
            return
        name = task["component"]
        if self.activations[name] == "immediate":
            self.versions[name] = task["version"]
            self._bmc_restart()
        else:
            self.pending[name] = task["version"]

    def _bmc_restart(self):
        self.away_until = self.clock() + self.reset_seconds
        self.all_tasks = {key: task for key, task in self.all_tasks.items() if task["state"] == "running"}

    def inventory(self, only=None):
        self._live()
        return [
            {
                "id": name,
                "version": version,
                "updateable": True,
                "staged": self.pending.get(name) if self.shows_staged else None,
            }
            for name, version in self.versions.items()
        ]

    def tasks(self):
        self._live()
        if self.no_task_list:
            return None
        return {
            key: self._shown(task)
            for key, task in self.all_tasks.items()
            if self.clock() >= task["at"] + self.shown_after
        }

    def _shown(self, task):
        percent = 100 if task["state"] == "done" else 50
        return {"uri": task["uri"], "state": task["state"], "percent": percent, "name": "t", "started": str(task["at"])}

    def task(self, handle):
        self._live()
        found = next((task for task in self.all_tasks.values() if task["uri"] == handle["task"]), None)
        if found is None:
            return {"state": "gone", "percent": None, "text": ""}
        shown = self._shown(found)
        if self.lies_at_100 and shown["state"] == "done":
            shown.update(state="running", percent=100)
        return {**shown, "text": "flash error" if shown["state"] == "failed" else ""}

    def method(self, step):
        return "multipart"

    def push(self, step, image, method, before_last):
        self._live()
        if self.break_off > 0:
            self.break_off -= 1
            raise BaremetalError("the connection broke", code="upload_broken", seen="reset")
        self.kill("mid_upload")
        before_last()
        self.kill("last_block_not_out")
        number = len(self.arrived) + 1
        self.arrived.append((step.component, step.to_version))
        uri = f"/tasks/{number}"
        self.all_tasks[f"{uri}|{self.clock()}"] = {
            "uri": uri,
            "at": self.clock(),
            "component": step.component,
            "version": step.to_version,
            "state": "running",
        }
        self.kill("answer_not_read")
        if self.lose_answer:
            self.lose_answer = False
            raise BaremetalError("lost", code="answer_lost", seen="timeout")
        return {"task": None if self.no_task else uri, "monitor": None, "done": False}

    def kill(self, where):
        """Replaced by the kill test."""

    def marks(self):
        self._live()
        return {} if self.no_marks else {"host": self.resets, "bmc": self.resets}

    def restart(self, activation):
        self._live()
        if self.busy_at_reset:
            self.busy_at_reset -= 1
            raise BaremetalError("busy", code="bmc_busy")
        if self.refuses_reset:
            raise BaremetalError("the BMC accepted it and did not move", code="accepted_not_moved", next_step="look")
        if activation in self.cannot:
            raise Unsupported("no", seen="not offered")
        self.resets += 1
        self.restarts.append(activation)
        if self.flashing and activation != "bmc_reset":
            self.flashes_cut, self.flashing = self.flashes_cut + 1, None
        flashed = {}
        covers = {
            "ac_cycle": set(self.activations.values()),
            "host_reboot": {"host_reboot"},
            "bmc_reset": {"bmc_reset"},
        }
        for name, version in list(self.pending.items()):
            if self.activations[name] in covers[activation]:
                flashed[name] = version
                del self.pending[name]
        if self.flash_seconds and flashed:
            self.flashing = (self.clock() + self.flash_seconds, flashed)
        else:
            self.versions.update(flashed)
        self.kill("reset_done")
        if activation != "host_reboot":
            self._bmc_restart()
        if self.lost_after_reset:
            code, self.lost_after_reset = self.lost_after_reset, None
            raise BaremetalError("what came of it could not be read", code=code)

    def power(self):
        return "on" if self.on else "off"

    def switch_on(self):
        self.on = True

    def switch_off(self):
        self.on = False

    def health(self):
        return {}


class Journal:
    """As the registry keeps it: what was moved is kept, whatever happens to the controller."""

    def __init__(self, plan, clock):
        self.clock, self.moved = clock, dict.fromkeys([step.number for step in plan.steps], clock())
        self.records = [
            {"number": step.number, "state": "planned", "detail": {}, "pushes": 0, "resets": 0} for step in plan.steps
        ]

    def steps(self):
        return [{**row, "age_s": self.clock() - self.moved[row["number"]]} for row in copy.deepcopy(self.records)]

    def move(self, number, expected, new, detail=None, pushed=False, reset=False):
        record = next(record for record in self.records if record["number"] == number)
        assert record["state"] == expected, (record, expected, new)
        self.moved[number] = self.clock()
        merged = {**record["detail"], **(detail or {})}
        record.update(
            state=new,
            detail={key: value for key, value in merged.items() if value is not None},
            pushes=record["pushes"] + bool(pushed),
            resets=record["resets"] + bool(reset),
        )


class Images:
    def get(self, image, fetch=True):
        return Local("/image.bin", 10, image["sha256"])


class Deadly:
    """Wraps an object: the controller dies before or after its n-th call on any of the wrapped objects."""

    def __init__(self, fate, inner, names):
        self._fate, self._inner, self._names = fate, inner, names

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        if name not in self._names:
            return value

        def call(*args, **kwargs):
            self._fate(f"before {name}")
            found = value(*args, **kwargs)
            self._fate(f"after {name}")
            return found

        return call


class Fate:
    """Dies at the n-th chance."""

    def __init__(self, at):
        self.at, self.count, self.where = at, 0, None

    def __call__(self, where):
        self.count += 1
        if self.count == self.at:
            self.where = where
            raise Killed(where)
