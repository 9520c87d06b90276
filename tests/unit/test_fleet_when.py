# The lint rule for fleet tasks finds a condition on the task and around it, also where the task is in another file, and nothing else.
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
ROLLOUT = "- aicluster.baremetal.firmware_rollout: {baseline: x}\n  when: x\n"
INCLUDED = "- ansible.builtin.include_tasks: tasks/all.yml\n  when: x\n"
FILE_OPTION = "- ansible.builtin.import_tasks: {file: tasks/all.yml}\n  when: x\n"
APPLIED = "- ansible.builtin.include_tasks: {file: tasks/all.yml, apply: {when: x}}\n"
INCLUDED_WELL = (
    "- ansible.builtin.include_tasks: tasks/all.yml\n- ansible.builtin.include_tasks: tasks/one.yml\n  when: x\n"
)
ROLE = "- hosts: all\n  roles:\n    - role: mine\n      when: x\n"
INCLUDE_ROLE = "- ansible.builtin.include_role: {name: aicluster.baremetal.mine}\n  when: x\n"
OTHER_ENTRY = "- ansible.builtin.include_role: {name: mine, tasks_from: one}\n  when: x\n"
TEMPLATED = "- ansible.builtin.include_role: {name: '{{ which }}'}\n  when: x\n"


@pytest.mark.parametrize(
    "text, status, line",
    [
        (ON_IT, 1, ":3:"),
        (AROUND, 1, ":2:"),
        (BESIDE, 0, ""),
        (ROLLOUT, 1, ":1:"),
        (INCLUDED, 1, ":1:"),
        (FILE_OPTION, 1, ":1:"),
        (APPLIED, 1, ":1:"),
        (INCLUDED_WELL, 0, ""),
        (ROLE, 1, ":3:"),
        (INCLUDE_ROLE, 1, ":1:"),
        (OTHER_ENTRY, 0, ""),
        (TEMPLATED, 0, ""),
    ],
)
def test_conditions(tmp_path, capsys, text, status, line):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "all.yml").write_text("- aicluster.baremetal.fleet: {operation: info}\n")
    (tmp_path / "tasks" / "one.yml").write_text("- debug: {}\n")
    role = tmp_path / "roles" / "mine" / "tasks"
    role.mkdir(parents=True)
    (role / "main.yml").write_text("- ansible.builtin.import_tasks: more.yml\n")
    (role / "more.yml").write_text("- block:\n    - fleet: {operation: info}\n")
    (role / "one.yml").write_text("- debug: {}\n")
    file = tmp_path / "play.yml"
    file.write_text(text)
    assert rule.main([tmp_path]) == status
    said = capsys.readouterr().out
    assert line in said and said.count("\n") == (1 if status else 0)


def test_this_checkout_has_none(capsys):
    root = PATH.parents[1]
    assert rule.main([root / "playbooks", root / "roles"]) == 0, capsys.readouterr().out
