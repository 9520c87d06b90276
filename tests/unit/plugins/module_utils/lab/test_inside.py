# Asking from inside a network namespace, with a real server in a namespace of this test's own.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import DeadlineExceeded
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab import inside, processes

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2"),
]


@pytest.fixture
def namespace():
    name = f"uti{os.getpid() % 100000}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
    server = subprocess.Popen(
        ["ip", "netns", "exec", name, sys.executable, "-m", "http.server", "8123", "--bind", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    yield name
    processes.end([server.pid])
    server.wait(5)
    subprocess.run(["ip", "netns", "delete", name], check=True)


def test_answers_are_seen_inside_and_this_process_stays_outside(namespace):
    here = os.readlink("/proc/self/ns/net")
    url = "http://127.0.0.1:8123/there-is-none"
    assert inside.wait_answers(namespace, [url], 15) == {url: 404}
    assert os.readlink("/proc/self/ns/net") == here
    assert "refused" in inside.answer(url)


def test_silent_addresses_are_named(namespace):
    with pytest.raises(DeadlineExceeded, match="8124.*refused"):
        inside.wait_answers(namespace, ["http://127.0.0.1:8124/"], 0.5)


def test_a_server_that_must_speak_first_and_does_not_is_no_answer(namespace):
    inside.wait_answers(namespace, ["http://127.0.0.1:8123/"], 15)
    with pytest.raises(DeadlineExceeded, match="8124"):
        inside.wait_answers(namespace, ["tcp://127.0.0.1:8124"], 0.5)


def test_the_caller_may_end_the_wait(namespace):
    def crashed():
        raise ValueError("the program crashed")

    with pytest.raises(ValueError, match="crashed"):
        inside.wait_answers(namespace, ["http://127.0.0.1:8124/"], 30, each=crashed)
