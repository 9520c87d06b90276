# slurm.conf: lines (pure), and putting a configuration in place with a real slurmctld.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import subprocess
import sys
import tempfile

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import (
    BaremetalError,
    InvalidInput,
    NotFound,
    Refused,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler import config

HARDWARE = {"cpus": 2, "boards": 1, "sockets": 1, "cores": 2, "threads": 1, "real_memory_mib": 1000}


def test_lines_carry_the_whole_topology_and_promise_less_memory():
    line, gres = config.node_lines("gpu01", "10.77.1.11", HARDWARE, 8, "h100")
    for word in (
        "NodeName=gpu01", "NodeAddr=10.77.1.11", "CPUs=2", "Boards=1", "SocketsPerBoard=1", "CoresPerSocket=2",
        "ThreadsPerCore=1", "RealMemory=970", "Gres=gpu:h100:8", "State=UNKNOWN",
    ):  # fmt: skip
        assert word in line.split()
    assert gres == "NodeName=gpu01 Name=gpu Type=h100 File=/dev/nvidia[0-7]"
    assert config.node_lines("cpu01", "10.0.0.1", HARDWARE)[1] == ""
    assert config.node_lines("gpu01", "10.0.0.1", HARDWARE, 1)[1].endswith("File=/dev/nvidia0")


@pytest.mark.parametrize("name", ["gpu[01-02]", "gpu01 State=DOWN", "", "a\nb"])
def test_a_name_cannot_smuggle_options(name):
    with pytest.raises(InvalidInput):
        config.node_lines(name, "10.0.0.1", HARDWARE)


def test_split_and_render_come_back_to_the_same_text():
    nodes = {"gpu02": "NodeName=gpu02 CPUs=2", "gpu01": "NodeName=gpu01 CPUs=2"}
    text = config.render("ClusterName=x\nNodeName=DEFAULT CPUs=1", nodes, "PartitionName=gpu Nodes=ALL")
    assert config.split(text)[0] == nodes
    assert (
        config.render("ClusterName=x\nNodeName=DEFAULT CPUs=1", config.split(text)[0], "PartitionName=gpu Nodes=ALL")
        == text
    )
    assert "PartitionName" not in config.render("ClusterName=x", {}, "PartitionName=gpu Nodes=ALL")


def test_a_node_that_this_run_does_not_know_is_kept():
    present = {"gpu01": "old", "gpu02": "of another run", "gpu03": "gone"}
    assert config.merge(present, {"gpu01": "new"}, ["gpu03"]) == {"gpu01": "new", "gpu02": "of another run"}


def test_scratch_shares_nothing_with_the_real_controller():
    text = "SlurmctldHost=real(10.0.0.1)\nStateSaveLocation=/var/spool\nSlurmUser=slurm\nAccountingStorageHost=db\nSelectType=select/cons_tres\n"
    scratch = config.scratch_text(text, "/run/x", "here")
    for word in ("real(", "/var/spool", "SlurmUser=slurm", "AccountingStorageHost"):
        assert word not in scratch
    assert "SelectType=select/cons_tres" in scratch and "StateSaveLocation=/run/x/state" in scratch


class Acted(config.Controller):
    """A Controller whose commands are answered here: `rc` of the restart, and which daemon answers afterwards."""

    def __init__(self, directory, **options):
        super().__init__(directory, ["restart", "slurmctld"], start_seconds=0.2, **options)
        self.rc, self.renews, self.told, self.boots, self.calls, self.tried = 0, True, 0, 1, [], True

    def _command(self, argv, seconds=30, **options):
        self.calls.append(" ".join(argv))
        if argv[0] == "restart":
            self.boots += self.renews
            return self.rc, "" if self.rc == 0 else "Job for slurmctld.service failed."
        if argv[1:] == ["show", "config"]:
            return 0, f"Configuration data\nBOOT_TIME               = 2026-01-01T00:00:{self.boots:02}\nX = 1\n"
        if argv[1] == "reconfigure":
            return self.told, "" if self.told == 0 else "slurm_reconfigure error"
        if "node" in argv:
            return 0, "\n".join(f"NodeName={name} x" for name in config.split(self._read("slurm.conf") or "")[0])
        return 0, "Slurmctld(primary) at here is UP"

    def validate(self, files):
        return self.tried

    def put(self, head, check=False, more=None):
        return self.ensure(
            head, "PartitionName=gpu Nodes=ALL", {"gpu01": "NodeName=gpu01 CPUs=2"}, {}, check=check, more=more
        )


@pytest.fixture
def acted(tmp_path, monkeypatch):
    monkeypatch.setattr(config.time, "sleep", lambda seconds: None)
    controller = Acted(tmp_path / "slurm")
    controller.put("ClusterName=x")
    return controller


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ({"rc": 1}, "slurm_restart_failed", "seen: Job for slurmctld.service failed."),
        ({"renews": False}, "deadline_exceeded", "the daemon that answers was started at 2026-01-01T00:00:02"),
        ({"told": 1}, "deadline_exceeded", "scontrol reconfigure ended with status 1: slurm_reconfigure error"),
    ],
)
def test_a_restart_that_did_nothing_is_not_taken_for_one(acted, fault, code, words):
    before = {path.name: path.read_text() for path in acted.dir.iterdir() if not path.name.endswith(".previous")}
    vars(acted).update(fault)
    with pytest.raises(BaremetalError) as error:
        acted.put("ClusterName=y", more={"cgroup.conf": "CgroupPlugin=autodetect"})
    assert error.value.code == code and words in str(error.value)
    assert "put back" in error.value.next_step
    after = {path.name: path.read_text() for path in acted.dir.iterdir() if not path.name.endswith(".previous")}
    assert after == before, "the files, the stamp, and no file that was not there"
    vars(acted).update(rc=0, renews=True, told=0)
    plan, done = acted.put("ClusterName=y")
    assert plan.changed and done == "restarted" and not acted.put("ClusterName=y")[0].changed


def test_the_error_says_when_the_way_back_failed_too_and_when_there_was_none(acted, tmp_path):
    acted.rc = 5
    with pytest.raises(Refused) as error:
        acted.put("ClusterName=y")
    assert "the restart with them ended with status 5" in error.value.next_step
    first = Acted(tmp_path / "first")
    first.rc = 1
    with pytest.raises(Refused) as error:
        first.put("ClusterName=x")
    assert "there was no configuration before" in error.value.next_step and "put back" not in error.value.next_step


def test_check_mode_makes_nothing_and_says_whether_it_tried(tmp_path):
    controller = Acted(tmp_path / "slurm")
    plan, done = controller.put("ClusterName=x", check=True)
    assert plan.changed and done == "validated" and not list(tmp_path.iterdir())
    controller.dir.mkdir()
    controller.tried = False
    assert controller.put("ClusterName=x", check=True)[1] is None and not list(controller.dir.iterdir())
    assert controller.put("ClusterName=x")[1] == "restarted"
    times = {path.name: path.stat().st_mtime_ns for path in controller.dir.iterdir()}
    assert controller.put("ClusterName=y", check=True)[0].changed
    assert {path.name: path.stat().st_mtime_ns for path in controller.dir.iterdir()} == times


def test_a_host_without_slurmctld_is_said_in_words(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    controller = config.Controller(tmp_path)
    controller.environment["PATH"] = str(tmp_path)
    with pytest.raises(NotFound) as error:
        controller.validate({"slurm.conf": "ClusterName=x\n"})
    assert error.value.code == "slurmctld_missing" and error.value.next_step


# with a real slurmctld

RESTART = """
import os, pathlib, signal, subprocess, sys, time
directory = pathlib.Path(sys.argv[1])
pid = directory / "pid"
if pid.exists():
    old = int(pid.read_text())
    try:
        os.kill(old, signal.SIGTERM)
        for _ in range(100):
            if not os.path.exists(f"/proc/{old}"): break
            if open(f"/proc/{old}/stat").read().rpartition(")")[2].split()[0] == "Z": break
            time.sleep(0.05)
    except ProcessLookupError:
        pass
out = open(directory / "daemon.out", "ab")
child = subprocess.Popen(["slurmctld", "-D", "-f", str(directory / "slurm.conf")], stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
pid.write_text(str(child.pid))
with open(directory / "restarts", "a") as log: log.write("x")
"""


class Place:
    """A directory as /etc/slurm, and a restart command that keeps slurmctld's pid in it."""

    def __init__(self, slurm, directory):
        self.slurm, self.dir = slurm, directory
        port = __import__("real_slurm")._free_ports(1)[0]
        lines = [
            line.replace(str(slurm.dir / "state"), str(directory / "state")) for line in slurm.conf.read_text().splitlines()
            if not line.startswith(("NodeName", "PartitionName", "SlurmctldPort", "SlurmctldPidFile"))
        ]  # fmt: skip
        self.head = "\n".join([*lines, f"SlurmctldPort={port}", f"SlurmctldPidFile={directory}/slurmctld.pid"])
        (directory / "state").mkdir()
        self.warnings = []
        self.controller = config.Controller(
            directory,
            [sys.executable, "-c", RESTART, str(directory)],
            start_seconds=15,
            scratch_seconds=15,
            warn=self.warnings.append,
        )

    def ensure(self, names, head=None, check=False, remove=()):
        nodes = {name: f"NodeName={name} NodeAddr=127.0.0.9 CPUs=2 RealMemory=100 State=UNKNOWN" for name in names}
        partitions = "PartitionName=gpu Nodes=ALL Default=YES State=UP"
        return self.controller.ensure(head or self.head, partitions, nodes, dict.fromkeys(names, ""), remove, check)

    @property
    def restarts(self):
        path = self.dir / "restarts"
        return len(path.read_text()) if path.exists() else 0

    def known(self):
        done = subprocess.run(
            ["scontrol", "-o", "show", "node"],
            env=self.controller.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return sorted(
            line.split()[0].split("=")[1] for line in done.stdout.splitlines() if line.startswith("NodeName=")
        )


@pytest.fixture
def place(slurm):
    import os
    import pathlib
    import signal

    with tempfile.TemporaryDirectory(prefix="aicl-slurm-conf-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        yield Place(slurm, directory)
        if (directory / "pid").exists():
            pid = int((directory / "pid").read_text())
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.kill(pid, number)
                    slurm.wait("slurmctld gone", lambda: not os.path.exists(f"/proc/{pid}"), 5)
                except (ProcessLookupError, AssertionError):
                    continue


@pytest.mark.root
def test_real_first_configuration_second_run_and_a_node_more(place):
    plan, done = place.ensure(["gpu01"], check=True)
    assert plan.changed and done == "validated" and not (place.dir / "slurm.conf").exists()
    assert place.ensure(["gpu01"])[1] == "restarted"
    assert place.known() == ["gpu01"] and place.restarts == 1 and not place.warnings
    plan, done = place.ensure(["gpu01"])
    assert not plan.changed and done is None and place.restarts == 1
    assert place.ensure(["gpu02"])[1] == "restarted"
    assert place.known() == ["gpu01", "gpu02"]
    place.ensure(["gpu01"], remove=["gpu02"])
    assert place.known() == ["gpu01"]


@pytest.mark.root
@pytest.mark.parametrize(
    "bad, word",
    [
        ("NoSuchOption=1", "NoSuchOption"),
        ("SelectType=select/nonsense", "nonsense"),
        ("TopologyPlugin=topology/nonsense", "nonsense"),
    ],
)
def test_real_broken_configuration_never_replaces_the_running_one(place, bad, word):
    place.ensure(["gpu01"])
    before = (place.dir / "slurm.conf").read_text()
    head = "\n".join(line for line in place.head.splitlines() if line.split("=")[0] not in bad) + "\n" + bad
    with pytest.raises(Refused) as error:
        place.ensure(["gpu01", "gpu02"], head=head)
    assert error.value.code == "slurm_config_invalid" and word in str(error.value)
    assert (place.dir / "slurm.conf").read_text() == before and place.restarts == 1 and place.known() == ["gpu01"]


@pytest.mark.root
def test_real_node_that_slurm_would_leave_out_silently(place):
    with pytest.raises(Refused) as error:
        place.controller.ensure(place.head, "PartitionName=gpu Nodes=ALL", {"nowhere": "NodeName=nowhere CPUs=2"}, {})
    assert "nowhere" in str(error.value)


@pytest.mark.root
def test_real_killed_between_write_and_restart(place):
    place.ensure(["gpu01"])
    observed = place.controller.observe()
    wanted = place.controller.wanted(
        observed,
        place.head,
        "PartitionName=gpu Nodes=ALL Default=YES State=UP",
        {"gpu02": "NodeName=gpu02 NodeAddr=127.0.0.9 CPUs=2 State=UNKNOWN"},
        {},
    )
    for name, text in wanted.items():
        place.controller._write(name, text)
    assert place.known() == ["gpu01"]
    plan, done = place.controller.ensure(
        place.head,
        "PartitionName=gpu Nodes=ALL Default=YES State=UP",
        {"gpu02": "NodeName=gpu02 NodeAddr=127.0.0.9 CPUs=2 State=UNKNOWN"},
        {},
    )
    assert plan.changed and done == "restarted" and place.known() == ["gpu01", "gpu02"]


@pytest.mark.root
def test_real_controller_that_does_not_come_up_gets_its_old_files_back(place):
    place.ensure(["gpu01"])
    before = (place.dir / "slurm.conf").read_text()
    # Fine for the scratch daemon, which has a state directory of its own; not for the real one.
    head = place.head.replace(f"StateSaveLocation={place.dir}/state", "StateSaveLocation=/proc/nowhere")
    place.controller.start_seconds = 3
    with pytest.raises(BaremetalError):
        place.ensure(["gpu01"], head=head)
    assert (place.dir / "slurm.conf").read_text() == before
    place.slurm.wait("old controller back", place.controller.up, 15)


@pytest.mark.root
def test_real_restart_that_leaves_the_old_daemon(place):
    place.ensure(["gpu01"])
    before = (place.dir / "slurm.conf").read_text()
    stamp = place.controller.stamp.read_text()
    working = place.controller.restart_command
    place.controller.start_seconds = 2
    for command, word in (
        (["true"], "the daemon that answers was started at"),
        (["sh", "-c", "echo no; exit 4"], "status 4"),
    ):
        place.controller.restart_command = command
        with pytest.raises(BaremetalError, match=word):
            place.ensure(["gpu01"], head=place.head + "\nSlurmdTimeout=77")
        assert (place.dir / "slurm.conf").read_text() == before and place.controller.stamp.read_text() == stamp
    place.controller.restart_command, place.controller.start_seconds = working, 15
    assert place.ensure(["gpu01"], head=place.head.replace("SlurmdTimeout=30", "SlurmdTimeout=77"))[1] == "restarted"
