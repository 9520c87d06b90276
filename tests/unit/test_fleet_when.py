# The lint rule for fleet tasks finds a condition on the task and around it, and nothing else.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import importlib.util
import pathlib

import pytest

PATH = pathlib.Path(__file__).resolve().parents[1] / "fleet_when.py"
spec = importlib.util.spec_from_file_location("fleet_when", PATH)
rule = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rule)

ON_IT = "- hosts: all\n  tasks:\n    - aicluster.baremetal.fleet: {operation: info}\n      when: x\n"
AROUND = "- block:\n    - fleet: {operation: info}\n  when: x\n"
BESIDE = "- hosts: all\n  tasks:\n    - debug: {}\n      when: x\n    - aicluster.baremetal.fleet: {operation: info}\n"


@pytest.mark.parametrize("text, status, line", [(ON_IT, 1, ":3:"), (AROUND, 1, ":2:"), (BESIDE, 0, "")])
def test_conditions(tmp_path, capsys, text, status, line):
    file = tmp_path / "play.yml"
    file.write_text(text)
    assert rule.main([tmp_path]) == status
    assert line in capsys.readouterr().out
