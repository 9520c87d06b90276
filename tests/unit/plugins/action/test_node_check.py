# The node_check action: what it makes of a node's answer, its network server, and its documentation.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shutil
import socket
import time

import pytest
import yaml

from ansible_collections.aicluster.baremetal.plugins.action import node_check
from ansible_collections.aicluster.baremetal.plugins.modules import node_check as documented


def test_documentation_and_options_agree():
    options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    assert set(options) == set(node_check._ARGUMENTS)
    for name, spec in node_check._ARGUMENTS.items():
        for key in ("type", "choices", "default", "required"):
            assert options[name].get(key) == spec.get(key), (name, key)


@pytest.mark.parametrize(
    ("rc", "out", "err", "code", "words"),
    [
        (127, "", "sh: node-check: not found", "not_installed", "is not installed"),
        (124, "", "", "deadline_exceeded", "did not end within 5 s"),
        (137, "", "", "deadline_exceeded", "did not end within 5 s"),
        (1, "", "Traceback\nSyntaxError: x", "no_result", "SyntaxError: x"),
        (0, "", "", "no_result", "no output"),
    ],
)
def test_no_usable_answer(rc, out, err, code, words):
    found, sentence, step = node_check.problem_of(rc, out, err, "/usr/local/bin/node-check", 5)
    assert found == code and words in sentence and step


def test_address_that_faces_the_node():
    assert node_check.local_address("127.0.0.1") == "127.0.0.1"


@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
def test_network_server_ends_with_its_task():
    server = node_check.NetworkServer("127.0.0.1")
    pid = server.process.pid
    try:
        assert server.plan["peer"] == "127.0.0.1"
        deadline = time.monotonic() + 10
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", server.plan["port"])) == 0:
                    break
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)
    finally:
        server.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_network_server_that_cannot_be(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    server = node_check.NetworkServer("127.0.0.1")
    assert server.process is None and "iperf3 is not installed" in server.plan["problem"]
    server.close()
