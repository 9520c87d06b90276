# Running tools on a node: deadline, whole process group, missing programs.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import time

from ansible_collections.aicluster.baremetal.plugins.module_utils.health.system import System


def test_output_status_and_missing_program():
    ran = System().run(["sh", "-c", "cat; echo err >&2; exit 3"], 10, stdin="in")
    assert (ran.rc, ran.out, ran.problem) == (3, "in", "") and ran.brief() == "exit status 3: err"
    ran = System().run(["no-such-program-here"], 10)
    assert ran.rc is None and ran.brief() == "no-such-program-here: not installed"


def test_deadline_stops_everything_that_was_started(tmp_path):
    pid_file = tmp_path / "pid"
    started = time.monotonic()
    ran = System().run(["sh", "-c", f"sleep 60 & echo $! > {pid_file}; echo said; wait"], 1)
    assert time.monotonic() - started < 10
    assert ran.rc is None and "did not end within 1 s" in ran.problem and ran.out == "said\n"
    child = int(pid_file.read_text())
    for _turn in range(50):
        try:
            with open(f"/proc/{child}/stat", encoding="utf-8") as stream:
                if stream.read().rsplit(")", 1)[1].split()[0] == "Z":
                    break
        except OSError:
            break
        time.sleep(0.1)
    else:
        os.kill(child, 9)
        raise AssertionError("the child outlived the deadline")


def test_files_that_are_not_there():
    system = System()
    assert system.read("/no/such") is None and system.read_bytes("/no/such") is None and system.names("/no/such") == []
    assert system.uptime() > 0 and system.free_bytes("/tmp") > 0
