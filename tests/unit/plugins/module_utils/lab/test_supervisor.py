# The lab's programs under a real supervisord, in directories of this test's own.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab.processes import command_line
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab.supervisor import OWNER_VARIABLE, Supervisor

pytest.importorskip("supervisor")


class Lab:
    def __init__(self, base):
        self.directory, self.run = base / "state", base / "run"
        for path in (self.directory / "log", self.directory / "supervisor.d", self.run):
            path.mkdir(parents=True)
        (self.directory / "supervisord.conf").write_text(
            f"[supervisord]\nlogfile={self.directory}/log/supervisord.log\npidfile={self.run}/supervisord.pid\n"
            f'environment={OWNER_VARIABLE}="{self.directory}"\n'
            f"[unix_http_server]\nfile={self.run}/supervisor.sock\n[rpcinterface:supervisor]\n"
            "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n"
            f"[include]\nfiles={self.directory}/supervisor.d/*.conf\n"
        )
        self.supervisor = Supervisor(str(self.directory), str(self.run))

    def program(self, name, code="import time; time.sleep(600)"):
        (self.directory / "supervisor.d" / f"{name}.conf").write_text(
            f"[program:{name}]\ncommand={sys.executable} -c '{code}'\nstartsecs=1\nstartretries=0\nredirect_stderr=true\n"
        )

    def start(self):
        todo = self.supervisor.plan_start()
        return todo, self.supervisor.start(todo, 15)


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path)
    yield made
    made.supervisor.stop()
    assert made.supervisor.everything() == []


def gone(pid):
    return not command_line(pid)


def test_started_once_then_unchanged_then_gone(lab):
    lab.program("one")
    todo, programs = lab.start()
    assert todo.changed and programs["one"]["state"] == "RUNNING"
    assert not lab.supervisor.plan_start().changed
    pid = programs["one"]["pid"]
    assert lab.supervisor.plan_stop().changed
    assert pid in lab.supervisor.stop()
    assert gone(pid) and not lab.supervisor.plan_stop().changed


def test_added_changed_and_removed_programs_are_followed(lab):
    lab.program("one")
    lab.program("two")
    first = lab.start()[1]
    lab.program("one", "import time; time.sleep(601)")
    (lab.directory / "supervisor.d" / "two.conf").unlink()
    lab.program("three")
    todo, second = lab.start()
    assert {change.thing for change in todo.changes} == {"program one", "program two", "program three"}
    assert set(second) == {"one", "three"} and second["one"]["pid"] != first["one"]["pid"]
    assert gone(first["two"]["pid"]) and not lab.supervisor.plan_start().changed


def test_a_program_that_does_not_stay_up_is_named_with_the_end_of_its_log(lab):
    lab.program("good")
    lab.program("bad", "raise SystemExit(chr(110) + chr(111))")
    with pytest.raises(BaremetalError, match="(?s)bad: Exited too quickly.*no"):
        lab.start()


def test_a_program_that_crashes_later_again_and_again_is_named_too(lab):
    lab.program("slow", "import time; time.sleep(1.5); raise SystemExit(chr(110) + chr(111))")
    config = lab.directory / "supervisor.d" / "slow.conf"
    config.write_text(config.read_text() + "autorestart=true\n")
    lab.start()
    watch = lab.supervisor.crash_watch()
    with pytest.raises(BaremetalError, match="slow"):
        for _round in range(100):
            watch()
            time.sleep(0.1)


def test_programs_that_outlived_their_supervisord_are_ended_first(lab):
    lab.program("one")
    orphan = lab.start()[1]["one"]["pid"]
    os.kill(int((lab.run / "supervisord.pid").read_text()), signal.SIGKILL)
    time.sleep(0.3)
    assert not gone(orphan)
    todo, programs = lab.start()
    assert todo.changes[0].thing == "processes of an earlier run"
    assert gone(orphan) and programs["one"]["pid"] != orphan


def test_another_labs_programs_are_left_alone(lab, tmp_path):
    other = Lab(tmp_path / "other")
    try:
        lab.program("one")
        other.program("one")
        lab.start()
        pid = other.start()[1]["one"]["pid"]
        lab.supervisor.stop()
        assert not gone(pid)
    finally:
        other.supervisor.stop()
    assert gone(pid)
