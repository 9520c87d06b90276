# A node that goes away in the middle of a stage: the attempt ends with a reason in the registry, other nodes go on, and the run fails.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import pathlib
import sys

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from controller import Directory

# In the place of ssh: node-check answers with the lines of its host's file, one a call, HOST.knows has
# a word of a command and its answer; all else finds nobody, or a shell where HOST.up exists.
SSH = """#!/usr/bin/env python3
import pathlib, subprocess, sys
here = pathlib.Path(__file__).parent
host, command = next((name, word) for name, word in zip(sys.argv[1:], sys.argv[2:]) if name.startswith("192.0.2."))
answers = here / host
if "node-check" in command:
    lines = answers.read_text().splitlines(keepends=True)
    if lines:
        answers.write_text("".join(lines[1:]))
        sys.stdin.read()
        sys.stdout.write(lines[0])
        sys.exit(0)
elif (here / (host + ".knows")).exists() and (here / (host + ".knows")).read_text().split("\\n", 1)[0] in command:
    sys.stdout.write((here / (host + ".knows")).read_text().split("\\n", 1)[1])
    sys.exit(0)
elif (here / (host + ".up")).exists():
    sys.exit(subprocess.run(["sh", "-c", command], check=False).returncode)
sys.stderr.write(f"ssh: connect to host {host} port 22: No route to host\\n")
sys.exit(255)
"""
GOOD = {"check": "package:chrony", "outcome": "pass"}
BAD = {"check": "package:chrony", "outcome": "fail", "detail": "chrony is not installed"}


def answer(suite, item):
    return json.dumps({"suite": suite, "outcome": item["outcome"], "different": [], "items": [item]}) + "\n"


class Site(Directory):
    def __init__(self, directory, stage, *names):
        super().__init__(directory, {}, ANSIBLE_PIPELINING="1")
        self.stage, self.registry, self.hosts, self.others = stage, self.open_registry(), {}, {}
        self.programs = directory / "programs"
        self.programs.mkdir()
        (self.programs / "ssh").write_text(SSH)
        (self.programs / "ssh").chmod(0o755)
        for number, name in enumerate(names, 1):
            address = f"192.0.2.{number}"
            self.hosts[name] = {"ansible_host": address, "ansible_ssh_executable": str(self.programs / "ssh")}
            self.registry.save_node(f"S{number}", "test", state="manageable", name=name)
            self.registry.transition(name, "manageable", "available", "test")
            stages = ("deploy", "software", "burn_in", "enroll")
            for past in stages[: stages.index(stage)]:
                begun = self.registry.begin(name, past, actor="test")
                self.registry.record_evidence(name, begun.attempt, [{"check": "cpu", "outcome": "pass"}], "test")
                self.registry.finish(name, begun.attempt, begun.fencing, "pass", "test")
            self.answers(name)

    def answers(self, name, *lines, up=False):
        address = self.hosts[name]["ansible_host"]
        (self.programs / address).write_text("".join(lines))
        if up:
            (self.programs / f"{address}.up").touch()

    def play(self, **options):
        groups = {"nodes": {"hosts": self.hosts}, "slurm_controllers": {"hosts": self.others}}
        (self.directory / "hosts.yml").write_text(yaml.safe_dump(groups))
        arguments = (f"aicluster.baremetal.{self.stage}", "-e", json.dumps(options))
        return self.ansible_playbook(self.directory / "hosts.yml", *arguments)

    def left(self, name):
        """State of the node, whether its newest attempt is over, and why."""
        newest = self.registry.attempts(name)[-1]
        assert newest["stage"] == self.stage
        return self.registry.node(name)["state"], newest["ended"] is not None, newest["reason"]


def test_a_node_that_goes_away_between_two_tasks_is_recorded_and_the_others_go_on(tmp_path):
    site = Site(tmp_path, "software", "gpu01", "gpu02")
    site.answers("gpu01", answer("verify", BAD))
    site.answers("gpu02", answer("verify", GOOD))
    status, text = site.play()
    assert status == 2, text
    state, ended, reason = site.left("gpu01")
    assert state == "configuring_failed" and ended
    assert "gpu01: software: gpu01 cannot be reached any more: " in reason and "No route to host" in reason
    assert "; noticed at: " in reason and "run the stage again with software_retry_failed=true" in reason
    assert site.left("gpu02") == ("burn_in", True, None)
    assert "cannot be reached any more" in site.registry.why("gpu01")[0]["text"]
    # with the node back, the next run takes it again
    site.answers("gpu01", answer("verify", GOOD))
    status, text = site.play(software_retry_failed=True)
    assert status == 0 and site.left("gpu01")[0] == "burn_in", text


def test_a_node_that_never_answers(tmp_path):
    site = Site(tmp_path, "software", "gpu01")
    status, text = site.play()
    assert status == 2, text
    state, ended, reason = site.left("gpu01")
    assert state == "configuring_failed" and ended and "No route to host" in reason and "boot timeline" in reason
    assert "any more" not in reason


def test_a_role_that_fails_on_a_node_that_answers_keeps_its_own_reason(tmp_path):
    site = Site(tmp_path, "software", "gpu01")
    site.answers("gpu01", answer("verify", BAD), up=True)
    tasks = tmp_path / "roles" / "broken" / "tasks"
    tasks.mkdir(parents=True)
    (tasks / "main.yml").write_text("- ansible.builtin.raw: echo out of space >&2; exit 3\n")
    (tasks / "expect.yml").write_text("- ansible.builtin.set_fact: {broken_wanted: {schema: 1}}\n")
    site.environment["ANSIBLE_ROLES_PATH"] = str(tmp_path / "roles")
    status, text = site.play(software_roles=["broken"])
    assert status == 2, text
    state, ended, reason = site.left("gpu01")
    assert state == "configuring_failed" and ended
    assert reason.startswith("gpu01: software: task '") and "non-zero return code: out of space" in reason
    assert reason.endswith("; next: remove the cause, then run the stage again with software_retry_failed=true")


def test_a_task_that_was_missed_does_not_pass(tmp_path):
    """The node was away for one task only: what that was to do is still missing, and the comparison says so."""
    site = Site(tmp_path, "software", "gpu01")
    site.answers("gpu01", *[answer("verify", BAD)] * 3)
    tasks = tmp_path / "roles" / "mine" / "tasks"
    tasks.mkdir(parents=True)
    (tasks / "main.yml").write_text("- ansible.builtin.raw: apt-get install chrony\n")
    (tasks / "expect.yml").write_text("- ansible.builtin.set_fact: {mine_wanted: {schema: 1}}\n")
    site.environment["ANSIBLE_ROLES_PATH"] = str(tmp_path / "roles")
    status, text = site.play(software_roles=["mine"])
    state, ended, reason = site.left("gpu01")
    assert status == 2 and state == "configuring_failed" and ended and reason, text


def test_a_burn_in_of_a_node_that_is_away_says_so(tmp_path):
    site = Site(tmp_path, "burn_in", "gpu01")
    status, text = site.play()
    assert status == 2, text
    state, ended, reason = site.left("gpu01")
    assert state == "burn_in_failed" and ended and "No route to host" in reason


def test_a_slurm_controller_that_goes_away_while_it_is_configured(tmp_path):
    site = Site(tmp_path, "enroll", "gpu01", "gpu02")
    site.others["slurm01"] = {"ansible_host": "192.0.2.9", "ansible_ssh_executable": str(site.programs / "ssh")}
    (site.programs / "192.0.2.9").write_text("")
    (site.programs / "192.0.2.9.knows").write_text("/bin/sh -c true\n")
    hardware = "NodeName=x CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=1000"
    for name in ("gpu01", "gpu02"):
        site.answers(name, up=True)
        probe = f"slurmd -C\n{hardware}\n@gpus\n@model\n@simulated\n"
        (site.programs / f"{site.hosts[name]['ansible_host']}.knows").write_text(probe)
    status, text = site.play()
    assert status == 2, text
    for name in ("gpu01", "gpu02"):
        state, ended, reason = site.left(name)
        assert state == "enrolling_failed" and ended, reason
        assert f"{name}: enroll: slurm01 cannot be reached any more: " in reason, reason
        assert "No route to host" in reason and "unknown" not in reason
