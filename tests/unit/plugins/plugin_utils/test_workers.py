# Workers that ansible-playbook forked die with it; programs that it started do not.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

UNIT = pathlib.Path(__file__).resolve().parents[2]
CONTROLLER = f"""
import os, subprocess, sys, time
sys.path.insert(0, {str(UNIT)!r})
import conftest
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import workers
workers.arm()
pid = os.fork()
if pid == 0:
    os.setsid()  # as Ansible's workers do
    time.sleep(60)
program = subprocess.Popen(["sleep", "60"])
print(pid, program.pid, flush=True)
time.sleep(60)
"""


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as handle:
            return handle.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_killed_controller_takes_its_workers_along():
    with subprocess.Popen([sys.executable, "-c", CONTROLLER], stdout=subprocess.PIPE, text=True) as controller:
        worker, program = map(int, controller.stdout.readline().split())
        try:
            assert _runs(worker) and _runs(program)
            controller.kill()
            controller.wait()
            limit = time.monotonic() + 5
            while _runs(worker) and time.monotonic() < limit:
                time.sleep(0.05)
            assert not _runs(worker)
            assert _runs(program)
        finally:
            for pid in (worker, program):
                if _runs(pid):
                    os.kill(pid, signal.SIGKILL)
