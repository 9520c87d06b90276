# Action: one call of node-check on a node. No module is shipped: one command, the wanted state on its standard input, JSON back.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import shlex

from ansible.plugins.action import ActionBase

SUITES = {"verify": ("verify", "--expect", "-"), "burn_in": ("burn-in", "--plan", "-"), "facts": ("facts",)}
_ARGUMENTS = {
    "suite": {"type": "str", "choices": list(SUITES), "required": True},
    "expect": {"type": "dict"},
    "plan": {"type": "dict"},
    "executable": {"type": "path", "default": "/usr/local/bin/node-check"},
    "timeout": {"type": "int", "default": 600},
    "accept_differences": {"type": "bool", "default": False},
}


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
        ran = self._low_level_execute_command(
            " ".join(map(shlex.quote, words)), in_data=json.dumps(document).encode() if document is not None else b""
        )
        answer = None
        try:
            answer = json.loads(ran.get("stdout") or "")
        except ValueError:
            pass
        result.update(changed=False, installed=True)
        if not isinstance(answer, dict) or "items" not in answer:
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
