# Owners can be told dead from alive, and forked workers die with a killed parent.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

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


MACHINE = "0123456789abcdef0123456789abcdef"
PATHS = {
    "machine": "/etc/machine-id",
    "uuid": "/sys/class/dmi/id/product_uuid",
    "boot": "/proc/sys/kernel/random/boot_id",
}


def _on(monkeypatch, **files):
    """Be a machine whose files say this, and give its own process as an Owner."""
    texts = {PATHS[key]: text for key, text in {"machine": MACHINE, "uuid": "U-1", "boot": "boot-1", **files}.items()}
    monkeypatch.setattr(process, "_read", texts.__getitem__)
    return process.identify(os.getpid())


def test_another_boot_of_the_same_machine_means_that_the_owner_is_gone(monkeypatch):
    before = _on(monkeypatch, boot="boot-0")
    assert MACHINE not in before.boot_id
    _on(monkeypatch)
    assert process.is_alive(before) is False


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"machine": "f" * 32}, {}),  # two controllers with one host name
        ({"uuid": "U-2"}, {}),  # a clone
        ({"machine": ""}, {}),  # a container without an identity
        ({"machine": ""}, {"machine": ""}),
        ({"machine": "uninitialized"}, {"machine": "uninitialized"}),
        ({}, {"boot": ""}),
    ],
)
def test_a_live_controller_elsewhere_with_our_host_name_is_not_taken_for_dead(monkeypatch, theirs, ours):
    other = _on(monkeypatch, boot="boot-0", **theirs)
    _on(monkeypatch, **ours)
    assert process.is_alive(other) is None


def test_an_owner_that_an_older_release_stored(monkeypatch):
    me = _on(monkeypatch)
    namespace = me.place()[1]
    assert namespace == os.readlink("/proc/self/ns/pid")
    assert process.is_alive({**me.as_dict(), "boot_id": f"boot-1/{namespace}"}) is True
    assert process.is_alive({**me.as_dict(), "boot_id": f"boot-1/{namespace}", "started": me.started + 1}) is False
    assert process.is_alive({**me.as_dict(), "boot_id": f"boot-0/{namespace}"}) is None
    assert process.is_alive({**me.as_dict(), "boot_id": ""}) is None
    assert process.is_alive({**me.as_dict(), "boot_id": "boot-1/pid:[1]"}) is None


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
