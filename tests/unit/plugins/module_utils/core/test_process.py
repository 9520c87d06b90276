# Owners can be told dead from alive, and forked workers die with a killed parent.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import process

PARENT = textwrap.dedent(
    """
    import importlib.util, os, sys, time
    spec = importlib.util.spec_from_file_location("process", sys.argv[1])
    process = importlib.util.module_from_spec(spec)
    sys.modules["process"] = process
    spec.loader.exec_module(process)
    if sys.argv[2] == "armed":
        process.arm_forks()
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    print(child, process.this_controller().pid, flush=True)
    time.sleep(30)
    """
)


def _kill_parent(mode):
    environment = {k: v for k, v in os.environ.items() if k != "AICLUSTER_CONTROLLER_PID"}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, process.__file__, mode], stdout=subprocess.PIPE, text=True, env=environment
    )
    child, controller = map(int, parent.stdout.readline().split())
    time.sleep(0.1)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    end = time.monotonic() + 5
    while time.monotonic() < end and os.path.exists(f"/proc/{child}"):
        if process._stat(child)[2] == "Z":
            break
        time.sleep(0.02)
    else:
        if os.path.exists(f"/proc/{child}"):
            os.kill(child, signal.SIGKILL)
            return "lives", parent.pid, controller
    return "died", parent.pid, controller


def test_armed_worker_dies_with_its_parent():
    state, parent, controller = _kill_parent("armed")
    assert state == "died"
    assert parent == controller


def test_unarmed_worker_outlives_its_parent():
    assert _kill_parent("unarmed")[0] == "lives"


def test_this_process_is_alive_and_a_dead_one_is_not():
    assert process.is_alive(process.identify(os.getpid())) is True
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    owner = process.identify(gone.pid)
    gone.wait()
    assert process.is_alive(owner) is False


def test_a_reused_pid_is_not_the_same_process():
    me = process.identify(os.getpid())
    assert process.is_alive(process.Owner(me.host, me.boot_id, me.pid, me.started + 1)) is False


def test_another_machine_cannot_be_known():
    me = process.identify(os.getpid())
    assert process.is_alive({**me.as_dict(), "host": "elsewhere"}) is None
    assert process.is_alive({**me.as_dict(), "boot_id": "another-boot/pid:[1]"}) is False


GENTLE = textwrap.dedent(
    """
    import importlib.util, os, signal, sys, time
    spec = importlib.util.spec_from_file_location("process", sys.argv[1])
    process = importlib.util.module_from_spec(spec)
    sys.modules["process"] = process
    spec.loader.exec_module(process)
    process.arm_forks()
    child = os.fork()
    if child == 0:
        def last_words(number, frame):
            print("given back", flush=True)
            os._exit(0)
        signal.signal(signal.SIGTERM, last_words)
        process.die_with_parent(os.getppid(), signal.SIGTERM)
        print("armed", flush=True)
        time.sleep(30)
        os._exit(1)
    time.sleep(30)
    """
)


def test_a_worker_may_ask_for_a_gentler_signal():
    environment = {k: v for k, v in os.environ.items() if k != "AICLUSTER_CONTROLLER_PID"}
    parent = subprocess.Popen(
        [sys.executable, "-c", GENTLE, process.__file__], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout.readline() == "armed\n"
    parent.kill()
    parent.wait()
    assert parent.stdout.read() == "given back\n"
