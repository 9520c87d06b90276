# The engine, with made-up work: bounds, order at one BMC, pacing, breaker, deadlines, work that hangs, interruption.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import Refused
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import engine as engine_module
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.breaker import Breaker
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.engine import Engine, Job, Watch
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.pace import Pacer

GOOD = {"changed": False}


def run(jobs, call, **options):
    results = []
    engine = Engine(call, **options)
    engine.run(jobs, lambda host, result: results.append((host, result)))
    assert len(results) == len(jobs), "every job is told once"
    return dict(results), engine


def codes(results):
    return {host: (result.get("error") or {}).get("code") for host, result in results.items()}


def test_all_run_and_never_more_at_once_than_allowed():
    now, most, lock = [0], [0], threading.Lock()

    def call(job, seconds, before_write):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= 1
        return GOOD

    results, _engine = run([Job(str(number)) for number in range(60)], call, concurrency=7)
    assert len(results) == 60 and most[0] == 7


def test_where_all_wait_as_many_as_allowed_are_soon_at_it_at_once():
    """Begins with some, and adds more while this process has nothing to do but to wait."""
    begun = time.monotonic()
    _results, engine = run([Job(str(n)) for n in range(96)], lambda *_unused: time.sleep(1.0) or GOOD, concurrency=48)
    assert engine.most_running == 48
    assert time.monotonic() - begun < 3.0, "the last of 96 jobs of 1 s, 48 at once, began much later than after 1 s"


def test_where_the_process_is_busy_no_more_are_added(monkeypatch):
    monkeypatch.setattr(engine_module, "BUSY", 0.0)  # whatever it does is too much
    _results, engine = run([Job(str(n)) for n in range(60)], lambda *_unused: time.sleep(0.15) or GOOD, concurrency=48)
    assert engine.most_running == engine_module.FIRST


def test_an_error_and_a_surprise_are_results_of_their_host():
    def call(job, seconds, before_write):
        if job.host == "a":
            raise Refused("no", thing="x", wanted="y", seen="z", next_step="w")
        if job.host == "b":
            raise KeyError("boom")
        return GOOD

    results, _engine = run([Job(name) for name in "abc"], call)
    assert codes(results) == {"a": "refused", "b": "unexpected", "c": None}
    assert results["a"]["error"]["host"] == "a" and "KeyError" in results["b"]["msg"]


def test_jobs_of_one_bmc_run_one_after_the_other():
    busy, order = set(), []

    def call(job, seconds, before_write):
        assert job.key not in busy
        busy.add(job.key)
        time.sleep(0.02)
        order.append(job.host)
        busy.discard(job.key)
        return GOOD

    jobs = [Job(f"{key}{number}", key=key) for number in range(4) for key in "xyz"]
    results, _engine = run(jobs, call, concurrency=12)
    assert not any(result.get("failed") for result in results.values()), results
    assert [host for host in order if host[0] == "x"] == ["x0", "x1", "x2", "x3"]


def test_writes_are_paced_for_each_group_and_hosts_that_need_nothing_are_not():
    writes, lock = [], threading.Lock()

    def call(job, seconds, before_write):
        if job.params:
            before_write()
            with lock:
                writes.append((job.groups, time.monotonic()))
        return GOOD

    jobs = [Job(f"{rack}{number}", True, groups=[(0, rack)]) for number in range(6) for rack in ("r1", "r2")]
    jobs += [Job(f"idle{number}", False, groups=[(0, "r1")]) for number in range(50)]
    begun = time.monotonic()
    run(jobs, call, pacers=[Pacer(2, 0.4)], concurrency=20)
    assert 0.7 < time.monotonic() - begun < 2.5, "three batches of two, both racks beside each other"
    for rack in ("r1", "r2"):
        times = sorted(moment for groups, moment in writes if groups == ((0, rack),))
        assert len(times) == 6
        assert all(later - earlier > 0.35 for earlier, later in zip(times, times[2:])), times


def test_a_write_that_draws_no_power_is_not_paced_but_fenced():
    fenced = []

    def call(job, seconds, before_write):
        before_write(paced=False)
        return GOOD

    jobs = [Job(f"n{number}", groups=[(0, "r")], fence=lambda: fenced.append(1)) for number in range(4)]
    begun = time.monotonic()
    run(jobs, call, pacers=[Pacer(1, 5.0)], concurrency=4)
    assert time.monotonic() - begun < 2 and len(fenced) == 4


def test_the_breaker_leaves_the_rest_untried():
    called = []

    def call(job, seconds, before_write):
        called.append(job.host)
        raise Refused("no", thing="x", wanted="y", seen="z", next_step="w")

    results, _engine = run([Job(str(n)) for n in range(100)], call, concurrency=1, breaker=Breaker(100, 5))
    assert len(called) == 6
    assert sorted(codes(results).values()) == ["not_tried"] * 94 + ["refused"] * 6
    assert "6 of 100" in results["99"]["msg"]


def test_the_canary_goes_first_and_alone():
    called = []

    def call(job, seconds, before_write):
        called.append(job.host)
        return {"failed": True, "error": {"code": "refused"}} if job.host == "0" else GOOD

    results, _engine = run([Job(str(n)) for n in range(50)], call, canary=4, breaker=Breaker(50, 10))
    assert sorted(called) == ["0", "1", "2", "3"]
    assert codes(results)["4"] == "not_tried"
    results, _engine = run([Job(str(n)) for n in range(50)], call, canary=4, breaker=Breaker(50, 30))
    assert "not_tried" not in codes(results).values()


def test_a_thread_whose_short_job_was_told_at_once_does_the_next_one():
    """The main thread may hear of the end of a job before the worker's next line."""
    engine = Engine(lambda job, seconds, before_write: GOOD, canary=1, grace_s=0.2)

    class Slow:
        def __init__(self, queue):
            self.get, self.get_nowait, self._put = queue.get, queue.get_nowait, queue.put

        def put(self, event):
            self._put(event)
            while not event[1].told:
                time.sleep(0.001)

    engine._events = Slow(engine._events)
    results = {}
    engine.run([Job("a", limit=1), Job("b", limit=1)], results.__setitem__)
    assert codes(results) == {"a": None, "b": None}


def test_a_credential_that_is_refused_is_not_tried_on_the_others():
    def call(job, seconds, before_write):
        return {"failed": True, "error": {"code": "authentication_failed"}} if job.credential == "bad" else GOOD

    jobs = [Job(f"{word}{n}", credential=word) for n in range(20) for word in ("bad", "good")]
    results, _engine = run(jobs, call, concurrency=1, breaker=Breaker(40, None, 3))
    found = [code for host, code in codes(results).items() if host.startswith("bad")]
    assert found.count("authentication_failed") == 3 and found.count("not_tried") == 17
    assert not any(code for host, code in codes(results).items() if host.startswith("good"))


def test_the_deadline_of_the_run_bounds_each_job_and_stops_the_rest():
    seconds_given = []

    def call(job, seconds, before_write):
        seconds_given.append(seconds)
        time.sleep(0.4)
        return GOOD

    results, _engine = run([Job(str(n), limit=60) for n in range(10)], call, concurrency=2, deadline_s=0.6)
    assert max(seconds_given) <= 1.0, "no job gets more time than the run has left (at least one second)"
    assert sorted(code or "" for code in codes(results).values()).count("not_tried") == 6


class _Wire:
    """A connection that hangs until it is cut."""

    def __init__(self, watch):
        self.gone = threading.Event()
        watch.opened(self)

    def cut(self):
        self.gone.set()


def test_work_that_does_not_end_is_cut_and_at_last_given_up():
    watch = Watch()

    def call(job, seconds, before_write):
        wire = _Wire(watch)
        if job.host == "deaf":
            time.sleep(5)
        wire.gone.wait(5)
        watch.check("GET", "/redfish/v1/")
        return GOOD

    begun = time.monotonic()
    jobs = [Job("slow", limit=0.2), Job("deaf", limit=0.2)]
    results, _engine = run(jobs, call, watch=watch, grace_s=0.3)
    assert time.monotonic() - begun < 4
    assert codes(results) == {"slow": "stopped", "deaf": "stuck"}


def test_after_a_cut_only_sessions_may_be_deleted():
    watch, seen = Watch(), []

    def call(job, seconds, before_write):
        job.cut_at = 1.0
        watch.check("DELETE", "/redfish/v1/SessionService/Sessions/5")
        seen.append("deleted")
        watch.check("DELETE", "/redfish/v1/AccountService/Accounts/5")

    results, _engine = run([Job("a")], call, watch=watch)
    assert seen == ["deleted"] and codes(results) == {"a": "stopped"}


PROGRAM = """
import importlib.util, time
spec = importlib.util.spec_from_file_location("conftest_of_tests", {conftest!r})
spec.loader.exec_module(importlib.util.module_from_spec(spec))
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.engine import Engine, Job, Watch
watch = Watch()
def call(job, seconds, before_write):
    print("begun", flush=True)
    try:
        while True:
            time.sleep(0.05)
            watch.check("GET", "/")
    finally:
        print("session deleted", flush=True)
Engine(call, watch=watch, concurrency=1).run([Job("a"), Job("b")], lambda host, result: None)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_starts_nothing_and_lets_work_under_way_clean_up(number):
    here = os.path.abspath(__file__)
    conftest = os.path.join(here.split("/tests/unit/")[0], "tests", "unit", "conftest.py")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(conftest=conftest)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        rest, _unused = process.communicate(timeout=20)
        assert rest == "session deleted\n", "the second job was not begun"
        assert process.returncode != 0
    finally:
        process.kill()
        process.wait()
