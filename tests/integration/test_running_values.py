# What roles do on a live machine whose files are right and which runs with something else; systemctl is a stand-in that keeps its values in files.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import pathlib
import sys
import time

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from controller import Directory

KEY = pathlib.Path("/proc/sys/net/ipv4/conf/lo/arp_announce")
SYSTEMCTL = """#!/usr/bin/env python3
import pathlib, sys, time
here, words = pathlib.Path(__file__).parent, sys.argv[1:]
if "--property" in words:
    print((here / words[words.index("--property") + 1]).read_text().strip())
elif words[0] == "show":
    print("LoadState=loaded\\nActiveState=active\\nSubState=running\\nUnitFileState=enabled")
elif words[0] in ("restart", "daemon-reexec"):
    with open(here / "log", "a") as log:
        print(*words, file=log)
    if words[0] == "daemon-reexec":
        (here / "DefaultLimitMEMLOCK").write_text("infinity")
        (here / "DefaultLimitNOFILE").write_text("1048576")
    elif "sysctl" in words[1]:
        pathlib.Path("KEY").write_text("2")
    else:
        (here / "ActiveEnterTimestamp").write_text(time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))
"""
PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: aicluster.baremetal.node_base, tasks_from: activate}
      vars: {node_base_written: {paths: "{{ written | default([]) }}"}}
"""

pytestmark = pytest.mark.skipif(not os.access(KEY, os.W_OK), reason="needs a network namespace of its own")


class Node(Directory):
    def __init__(self, directory):
        super().__init__(directory, {})
        self.programs = directory / "programs"
        self.programs.mkdir()
        (self.programs / "systemctl").write_text(SYSTEMCTL.replace("KEY", str(KEY)))
        (self.programs / "systemctl").chmod(0o755)
        (self.programs / "DefaultLimitMEMLOCK").write_text("infinity")
        (self.programs / "DefaultLimitNOFILE").write_text("1048576")
        self.config = directory / "chrony.conf"
        self.config.write_text("server x")
        self.started(+60)
        (directory / "play.yml").write_text(PLAY)
        self.environment["PATH"] = f"{self.programs}:{self.environment['PATH']}"

    def started(self, seconds):
        moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time.time() + seconds))
        (self.programs / "ActiveEnterTimestamp").write_text(moment)

    def run(self, *arguments, **options):
        """What the service manager was told."""
        (self.programs / "log").write_text("")
        given = {
            "node_base_sysctls": {"net.ipv4.conf.lo.arp_announce": 2, "no.such.key": 1},
            "node_base_time_servers": ["192.0.2.1"],
            "node_base_time_config": str(self.config),
            "ansible_python_interpreter": sys.executable,
            **options,
        }
        status, text = self.ansible_playbook(
            "localhost,", self.directory / "play.yml", "-e", json.dumps(given), *arguments
        )
        assert status == 0, text
        told = (self.programs / "log").read_text().split("\n")[:-1]
        return told, int(text.split("changed=")[1].split()[0])


@pytest.fixture(name="node")
def _node(tmp_path):
    before = KEY.read_text()
    KEY.write_text("2")
    yield Node(tmp_path)
    KEY.write_text(before)


def test_a_node_that_runs_with_what_its_files_say_is_left_alone(node):
    assert node.run() == ([], 0)


def test_each_drifted_setting_is_put_right_once(node):
    def drift():
        KEY.write_text("0")
        (node.programs / "DefaultLimitNOFILE").write_text("1024")
        node.started(-3600)

    drift()
    assert node.run("--check") == ([], 3)  # foretold, not done
    assert node.run() == (["restart chrony.service", "daemon-reexec", "restart systemd-sysctl.service"], 3)
    assert KEY.read_text().strip() == "2"
    assert node.run() == ([], 0)
    KEY.write_text("1")
    assert node.run()[0] == ["restart systemd-sysctl.service"]


def test_what_this_run_wrote_is_activated_and_foretold(node):
    written = ["/etc/sysctl.d/90-aicluster.conf", "/etc/security/limits.d/90-aicluster.conf"]
    assert node.run("--check", written=written) == ([], 1)
    assert node.run(written=written)[0] == ["restart systemd-sysctl.service"]


def test_an_image_tree_has_nothing_to_restart():
    tasks = yaml.safe_load((pathlib.Path(__file__).resolve().parents[2] / "roles/node_base/tasks/main.yml").read_text())
    (activate,) = [task for task in tasks if task.get("ansible.builtin.include_tasks") == "activate.yml"]
    assert activate["when"] == "not (aicluster_image_build | default(false) | bool)"


def test_programs_of_the_boot_server_that_a_killed_run_left_with_old_files(node):
    (node.directory / "boot").mkdir()
    (node.directory / "play.yml").write_text(
        PLAY.replace("node_base, tasks_from: activate", "boot_server, tasks_from: stale")
    )
    options = {"boot_server_dir": str(node.directory / "boot")}
    assert node.run(**options) == ([], 0)
    for name in ("nginx.conf", "boot-service.pyz"):
        (node.directory / "boot" / name).write_text("x")
    assert node.run(**options) == ([], 0)  # they were started later
    node.started(-3600)
    assert node.run("--check", **options) == ([], 1)
    assert node.run(**options)[0] == ["restart aicluster-nginx.service", "restart aicluster-boot-service.service"]
    assert node.run(**options) == ([], 0)
