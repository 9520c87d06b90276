# The node_check action: what it makes of a node's answer, its network server, and its documentation.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
import types

import pytest
import yaml

from ansible_collections.aicluster.baremetal.plugins.action import node_check
from ansible_collections.aicluster.baremetal.plugins.module_utils.health import cli
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


ITEM = {"check": "sysctl:vm.swappiness", "outcome": "pass", "value": 1, "limit": 1, "simulated": False, "detail": None}
ANSWER = {"suite": "verify", "outcome": "pass", "different": [], "items": [ITEM], "version": "1", "seconds": 0.5}


def test_only_what_a_suite_has_is_taken_from_a_node():
    foreign = {"changed": True, "add_host": {"host_name": "x"}, "ansible_facts": {"a": 1}, "failed": True, "msg": "x"}
    told = {**ANSWER, **foreign, "gpus": [], "items": [{**ITEM, "ansible_facts": {}}]}
    assert node_check.read_answer(json.dumps(told), "verify") == ANSWER
    assert node_check.read_answer(json.dumps({**ANSWER, "reason": "x"}), "verify") == ANSWER


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"items": {}}, "items is {}, wanted list"),
        ({"items": ["x"]}, 'items[0] is "x", wanted a dictionary'),
        ({"items": [{**ITEM, "outcome": "fine"}]}, "items[0].outcome is 'fine', wanted pass | fail"),
        ({"items": [{**ITEM, "check": 3}]}, "items[0].check is 3, wanted str"),
        ({"outcome": None}, "outcome is null, wanted str"),
        ({"outcome": "good"}, "outcome is 'good', wanted pass | fail | not_applicable | could_not_test"),
        ({"different": "all"}, 'different is "all", wanted list'),
        ({"different": [{}]}, "different is [{}], wanted a list of sentences"),
        ({"seconds": True}, "seconds is true, wanted int or float"),
        ({"error": {"code": "x"}}, 'error is {"code": "x"}, wanted str'),
    ],
)
def test_an_answer_of_other_types_is_refused(wrong, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        node_check.read_answer(json.dumps({**ANSWER, **wrong}), "verify")


def test_what_is_no_answer_of_node_check():
    for text in ("", "sh: x", "[]", "{}", '{"outcome": "pass"}'):
        assert node_check.read_answer(text, "verify") is None


@pytest.mark.parametrize("arguments", [("facts",), ("burn-in", "--plan"), ("verify", "--expect")])
def test_all_that_node_check_itself_says_is_taken(arguments, tmp_path, capsys):
    document = tmp_path / "document.json"
    if arguments[0] == "verify":
        document.write_text(json.dumps({"schema": 1, "sysctls": {"kernel.osrelease": "1"}, "packages": ["x"]}))
    else:
        document.write_text(json.dumps({"schema": 1, "groups": ["hardware"]}))
    cli.main([*arguments, *([str(document)] if len(arguments) > 1 else [])])
    told = capsys.readouterr().out
    assert node_check.read_answer(told, arguments[0].replace("-", "_")) == json.loads(told)
    assert "error" not in json.loads(told), told


@pytest.mark.parametrize(
    ("answer", "failed"), [({**ANSWER, "changed": True, "ansible_facts": {"a": 1}}, False), ({"items": 3}, True)]
)
def test_the_result_of_the_task_has_nothing_of_the_nodes_own(monkeypatch, answer, failed):
    plugin = object.__new__(node_check.ActionModule)
    plugin._task = types.SimpleNamespace(check_mode=False)
    plugin._low_level_execute_command = lambda *_arguments, **_more: {"rc": 0, "stdout": json.dumps(answer)}
    arguments = {name: spec.get("default") for name, spec in node_check._ARGUMENTS.items()}
    plugin.validate_argument_spec = lambda **_more: (None, {**arguments, "suite": "verify", "expect": {"schema": 1}})
    monkeypatch.setattr(node_check.ActionBase, "run", lambda *_arguments: {})
    result = plugin.run(None, {"inventory_hostname": "gpu01"})
    assert result["changed"] is False and "ansible_facts" not in result
    assert bool(result.get("failed")) == failed
    if failed:
        assert result["error"]["code"] == "bad_answer" and result["items"] == []
        assert "gpu01: the answer of /usr/local/bin/node-check is not as wanted: items is 3" in result["msg"]
        assert "; next: " in result["msg"]
