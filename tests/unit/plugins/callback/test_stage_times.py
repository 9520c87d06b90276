# Wall time by stage, in a real run of two playbook files.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.wait_for: {{timeout: {seconds}}}
"""
ROOT = pathlib.Path(__file__).resolve().parents[4]


def test_each_playbook_file_is_a_stage_and_counted_once(tmp_path):
    tree = tmp_path / "ansible_collections" / "aicluster"
    tree.mkdir(parents=True)
    (tree / "baremetal").symlink_to(ROOT)
    (tmp_path / "first.yml").write_text(PLAY.format(seconds=1))
    (tmp_path / "second.yml").write_text(PLAY.format(seconds=2) * 2)
    (tmp_path / "fleet_failures.yml").write_text(PLAY.format(seconds=1))
    imports = "- import_playbook: first.yml\n- import_playbook: second.yml\n- import_playbook: fleet_failures.yml\n"
    (tmp_path / "all.yml").write_text(imports)
    times = tmp_path / "times"
    env = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(tmp_path),
        "ANSIBLE_CALLBACKS_ENABLED": "aicluster.baremetal.stage_times",
        "AICLUSTER_STAGE_TIMES": str(times),
        "ANSIBLE_HOME": str(tmp_path / "home"),
    }
    env.pop("ANSIBLE_CONFIG", None)
    command = [
        str(pathlib.Path(sys.executable).with_name("ansible-playbook")),
        "-i",
        "localhost,",
        "-e",
        f"ansible_python_interpreter={sys.executable}",
        "-c",
        "local",
        "all.yml",
        "first.yml",
    ]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split("\t") for line in times.read_text().splitlines()]
    assert [name for name, _seconds in rows] == ["first", "second", "first"]
    seconds = [float(value) for _name, value in rows]
    assert seconds[0] >= 1 and seconds[1] >= 5 and seconds[1] > seconds[2]
    assert "STAGE TIMES" in done.stdout
