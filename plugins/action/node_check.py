# Action: one call of node-check on a node. No module is shipped: one command, the wanted state on its standard input, JSON back.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import shlex
import socket
import subprocess
import time

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import outcome as outcomes
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import process
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import plain

SUITES = {"verify": ("verify", "--expect", "-"), "burn_in": ("burn-in", "--plan", "-"), "facts": ("facts",)}
_ARGUMENTS = {
    "suite": {"type": "str", "choices": list(SUITES), "required": True},
    "expect": {"type": "dict"},
    "plan": {"type": "dict"},
    "executable": {"type": "path", "default": "/usr/local/bin/node-check"},
    "timeout": {"type": "int", "default": 600},
    "accept_differences": {"type": "bool", "default": False},
    "network_server": {"type": "bool", "default": False},
}

_NUMBER, _NOTHING = (int, float), type(None)
_TEXT = (str, _NOTHING)
# What is taken from a node's answer, and of which types. The rest stays out of the result: Ansible obeys keys such as `changed` and `ansible_facts`.
_ANSWER = {
    "suite": str,
    "outcome": str,
    "items": list,
    "version": str,
    "started": _NUMBER,
    "seconds": _NUMBER,
    "error": str,
    "code": str,
}
_ANSWER_OF = {
    "verify": {"different": list},
    "burn_in": {"reason": _TEXT, "window": dict, "simulated": bool, "container": _TEXT},
    "facts": {
        "cpu": (dict, _NOTHING),
        "memory_bytes": (int, _NOTHING),
        "disks": (list, _NOTHING),
        "serial": _TEXT,
        "product": _TEXT,
        "nics": dict,
        "gpus": list,
        "container": _TEXT,
        "virtual": bool,
        "kernel": _TEXT,
        "simulated": bool,
        "hardware_strings": dict,
        "unreadable": list,
    },
}
_ITEM = {
    "check": str,
    "outcome": str,
    "value": object,
    "unit": _TEXT,
    "limit": object,
    "rule": _TEXT,
    "source": _TEXT,
    "simulated": bool,
    "gates": bool,
    "detail": _TEXT,
}


def _of_types(found, types, where):
    """The entries of `found` that are in `types`; ValueError with a sentence where one is of another type, or its outcome is none of the four."""
    taken = {key: found[key] for key in types if key in found}
    for key, value in taken.items():
        kinds = types[key] if isinstance(types[key], tuple) else (types[key],)
        # a truth value is a number to Python
        if not isinstance(value, kinds) or isinstance(value, bool) and not {bool, object} & set(kinds):
            wanted = " or ".join("null" if kind is _NOTHING else kind.__name__ for kind in kinds)
            raise ValueError(f"{where}{key} is {json.dumps(value)[:80]}, wanted {wanted}")
    if taken.get("outcome") not in outcomes.OUTCOMES:
        raise ValueError(f"{where}outcome is {taken.get('outcome')!r:.80}, wanted {' | '.join(outcomes.OUTCOMES)}")
    return taken


def read_answer(text, suite):
    """What a node answered: the keys that the suite has, nothing else. None where it is no answer of node-check; ValueError where one is not as it must be."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or "items" not in found:
        return None
    answer = _of_types(found, {**_ANSWER, **_ANSWER_OF[suite]}, "")
    items = []
    for number, item in enumerate(answer["items"]):
        where = f"items[{number}]."
        if not isinstance(item, dict) or not item.get("check"):
            raise ValueError(f"items[{number}] is {json.dumps(item)[:80]}, wanted a dictionary with check and outcome")
        items.append(_of_types(item, _ITEM, where))
    answer["items"] = items
    for key in ("different", "unreadable"):
        if not all(isinstance(line, str) for line in answer.get(key, ())):
            raise ValueError(f"{key} is {json.dumps(answer[key])[:80]}, wanted a list of sentences")
    return answer


def local_address(towards):
    """The address of this machine that packets to `towards` come from; nothing is sent."""
    with socket.socket(socket.AF_INET6 if ":" in towards else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((towards, 9))
        return probe.getsockname()[0]


class NetworkServer:
    """An iperf3 server of this task's own, for one node, that ends with the task (or with its worker, when that is killed)."""

    def __init__(self, towards):
        self.process, self.plan = None, {}
        try:
            address = local_address(towards)
            with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as free:
                free.bind((address, 0))
                port = free.getsockname()[1]
            self.process = subprocess.Popen(
                ["iperf3", "-s", "-1", "-B", address, "-p", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=process.die_with_parent,
            )
            self.plan = {"peer": address, "port": port}
        except FileNotFoundError:
            self.plan = {"problem": "iperf3 is not installed on the controller, and no other peer is given"}
        except OSError as error:
            self.plan = {
                "problem": f"no iperf3 server could be started on the controller towards {towards}: {error.strerror}"
            }

    def close(self):
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def problem_of(rc, stdout, stderr, executable, timeout):
    """Why a call gave no usable result: (code, sentence, next step)."""
    if rc in (126, 127):
        return (
            "not_installed",
            f"{executable} is not installed or cannot be started",
            "apply the role aicluster.baremetal.node_base",
        )
    if rc in (124, 137):
        return (
            "deadline_exceeded",
            f"node-check did not end within {timeout} s and was stopped",
            "raise timeout, or shorten the plan",
        )
    text = (stderr.strip() or stdout.strip()).splitlines()
    return (
        "no_result",
        f"node-check gave no result (exit status {rc}): {text[-1][:300] if text else 'no output'}",
        "run node-check by hand on the node",
    )


class ActionModule(ActionBase):
    """See plugins/modules/node_check.py."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        host = task_vars.get("inventory_hostname", "?")
        _validated, arguments = self.validate_argument_spec(
            argument_spec=_ARGUMENTS, required_if=[("suite", "verify", ("expect",)), ("suite", "burn_in", ("plan",))]
        )
        suite = arguments["suite"]
        document = arguments["expect"] if suite == "verify" else arguments["plan"] if suite == "burn_in" else None
        if suite == "burn_in" and self._task.check_mode:
            # stress is load on the node: check mode says what would run and runs nothing
            return dict(
                result, changed=False, skipped=True, msg=f"{host}: check mode: the burn-in plan was not run", items=[]
            )
        words = ["timeout", "-k", "10", str(arguments["timeout"]), arguments["executable"], *SUITES[suite]]
        document, server = plain(document), None
        if suite == "burn_in" and arguments["network_server"]:
            server = NetworkServer(str(plain(task_vars.get("ansible_host")) or host))
            document["network"] = dict(document.get("network") or {}, **server.plan)
        try:
            if suite == "burn_in":
                # as late as possible: the node compares its clock with this
                document["time"] = dict({"controller": time.time()}, **(document.get("time") or {}))
            ran = self._low_level_execute_command(
                " ".join(map(shlex.quote, words)),
                in_data=json.dumps(document).encode() if document is not None else b"",
            )
        except AnsibleConnectionFailure as error:
            # as a failure, not as "unreachable": the play can then record the reason and give the attempt back
            step = "look at the node's boot timeline and console, then run the stage again"
            return dict(
                result,
                failed=True,
                changed=False,
                items=[],
                error={"code": "unreachable", "next_step": step},
                msg=f"{host}: {error}; next: {step}",
            )
        finally:
            if server:
                server.close()
        result.update(changed=False, installed=True)
        try:
            answer = read_answer(ran.get("stdout") or "", suite)
        except ValueError as error:
            sentence = f"the answer of {arguments['executable']} is not as wanted: {error}"
            step = "look at node-check on the node, apply the role aicluster.baremetal.node_base to it"
            return dict(
                result,
                failed=True,
                outcome=outcomes.COULD_NOT_TEST,
                items=[],
                different=[sentence],
                error={"code": "bad_answer", "next_step": step},
                msg=f"{host}: {sentence}; next: {step}",
            )
        if answer is None:
            code, sentence, step = problem_of(
                ran.get("rc"),
                ran.get("stdout", ""),
                ran.get("stderr", ""),
                arguments["executable"],
                arguments["timeout"],
            )
            missing = code == "not_installed"
            result.update(
                installed=not missing,
                outcome="could_not_test",
                items=[],
                different=[sentence],
                error={"code": code, "next_step": step},
            )
            if not (missing and arguments["accept_differences"]):
                result.update(failed=True, msg=f"{host}: {sentence}; next: {step}")
            return result
        result.update(answer)
        if "error" in answer:
            result.update(failed=True, msg=f"{host}: node-check: {answer['error']}")
        elif answer["outcome"] not in ("pass", "not_applicable") and not arguments["accept_differences"]:
            reasons = answer.get("different") or [answer.get("reason") or answer["outcome"]]
            result.update(failed=True, msg=f"{host}: {suite}: {'; '.join(reasons)}")
        return result
