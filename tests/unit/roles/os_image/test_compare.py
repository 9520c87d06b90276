# The first question of an image build, asked in check mode by the role itself: is the image that is there current, and whole?
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.image import manifest

PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    os_image_name: small
    os_image_install_tools: false
  tasks:
    - ansible.builtin.include_role: {name: aicluster.baremetal.os_image, tasks_from: compare}
    - ansible.builtin.copy: {content: "{{ os_image_wanted_key }}", dest: "{{ os_image_dir }}/key"}
      check_mode: false
    - ansible.builtin.include_role: {name: aicluster.baremetal.os_image}
"""


@pytest.fixture(name="build")
def _build(tmp_path):
    collections = tmp_path / "collections" / "ansible_collections" / "aicluster"
    collections.mkdir(parents=True)
    (collections / "baremetal").symlink_to(pathlib.Path(__file__).resolve().parents[4])
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "small").mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "AICLUSTER_"))}
    environment.update(ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"), ANSIBLE_HOME=str(tmp_path / "home"))
    options = {"os_image_dir": str(tmp_path), "os_image_work_dir": str(tmp_path / "work")}
    program = str(pathlib.Path(sys.executable).with_name("ansible-playbook"))
    command = [program, "-i", "localhost,", str(tmp_path / "play.yml"), "--check", "-e", json.dumps(options)]

    def run():
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert "unreachable=0" in done.stdout, done.stdout + done.stderr
        return " ".join(done.stdout.split())

    return run


def test_an_image_that_is_not_whole_is_built_again(build, tmp_path):
    assert "image small: none in" in build()
    files = {name: {"size_bytes": 4} for name in manifest.DISK_FILES}
    key = (tmp_path / "key").read_text()
    (tmp_path / "small" / "manifest.json").write_text(json.dumps({"format": "disk", "key": key, "files": files}))
    for name in manifest.DISK_FILES:
        (tmp_path / "small" / name).write_bytes(b"1234")
    whole = build()
    assert "image small: " not in whole and "changed=0" in whole and "failed=0" in whole
    (tmp_path / "small" / "disk.raw").write_bytes(b"12")
    assert "image small: not whole (disk.raw has 2 bytes, wanted 4) in" in build()
    (tmp_path / "small" / "disk.raw").unlink()
    assert "not whole (disk.raw is missing)" in build()
