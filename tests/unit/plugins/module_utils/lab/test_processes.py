# Ending processes by id, with proof.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import subprocess
import sys

from ansible_collections.aicluster.baremetal.plugins.module_utils.lab import processes

SLEEP = "import time; print(1, flush=True); time.sleep(600)"


def sleeper(code=SLEEP, *arguments, **options):
    child = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, **options)
    child.stdout.readline()
    return child


def test_a_process_that_ignores_term_is_killed():
    child = sleeper("import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)")
    assert processes.end([child.pid], seconds=0.5) == [child.pid]
    assert child.wait(5) == -9


def test_a_pid_without_a_process_is_no_error():
    child = sleeper("print(1)")
    child.wait()
    assert processes.end([child.pid]) == []


def test_found_by_argument_and_by_environment_but_never_oneself():
    child = sleeper(SLEEP, "/some/lab/conf", env={**os.environ, "UNIT_MARK": "x"})
    try:
        assert processes.with_argument("/some/lab/conf") == [child.pid]
        assert processes.with_argument("/some/lab") == []
        assert processes.with_environment("UNIT_MARK=x") == [child.pid]
        assert processes.program(child.pid).startswith("python")
    finally:
        processes.end([child.pid])
        child.wait(5)
    assert os.getpid() not in processes.with_argument(processes.command_line(os.getpid())[0])
