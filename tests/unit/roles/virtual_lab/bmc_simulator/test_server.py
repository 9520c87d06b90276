# The simulator process: start, refusals, the set of nodes, the end.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest
from bmc_http import S, ask

from bmc_simulator.control import ControlError
from bmc_simulator.testing import PACKAGE_PARENT, node_config, running, start


def command(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_PARENT)}
    return subprocess.run(
        [sys.executable, "-m", "bmc_simulator", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )


def test_a_wrong_description_ends_at_once_and_says_where(tmp_path):
    path = tmp_path / "lab.json"
    path.write_text(
        json.dumps({"name": "x", "dir": "/tmp/a", "run_dir": "/tmp/b", "nodes": [node_config(colour="red")]})
    )
    result = command("--config", str(path))
    assert result.returncode == 2 and "nodes[0].colour: unknown key" in result.stderr
    assert not pathlib.Path("/tmp/b/bmc.sock").exists()


def test_check_only(tmp_path):
    path = tmp_path / "lab.json"
    path.write_text(json.dumps({"name": "x", "dir": "/tmp/a", "run_dir": "/tmp/b", "nodes": [node_config()]}))
    result = command(str(path), "--check")
    assert result.returncode == 0 and "1 nodes" in result.stdout


def test_a_taken_port_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"gpu01 cannot listen on 127.0.0.1 port {port}"):
            with running([node_config(bmc={"port": port})], directory=tmp_path):
                pass


def test_two_simulators_do_not_share_a_lab(tmp_path):
    with running(1, directory=tmp_path) as lab:
        with pytest.raises(RuntimeError, match="another simulator is running"):
            start(lab.config, tmp_path / "lab")
        assert lab.control.call("ping")["ready"]


def test_after_a_crash_the_next_one_starts_and_knows_the_power(tmp_path):
    with running(1, directory=tmp_path) as lab:
        lab.control.call("power", node="gpu01", action="On")
        lab.wait("gpu01", lambda state: state["power"] == "On")
        lab.process.send_signal(signal.SIGKILL)
        lab.process.wait()
        again = start(lab.config, tmp_path)
        try:
            assert again.state("gpu01")["power"] == "On"
        finally:
            again.stop()


def test_the_end_leaves_nothing_in_the_run_directory(tmp_path):
    with running(2, directory=tmp_path) as lab:
        assert len(json.loads((tmp_path / "run/endpoints.json").read_text())) == 2
        assert lab.stop() == 0
    assert list((tmp_path / "run").iterdir()) == []


def test_it_ends_with_the_process_that_started_it(tmp_path):
    # the parent starts a simulator, says its process id, and is killed
    script = (
        "import sys, pathlib, time; from bmc_simulator.testing import *; import bmc_simulator.testing as T\n"
        f"d = pathlib.Path({str(tmp_path)!r})\n"
        "lab = T.start({'name': 'x', 'dir': str(d / 'lab'), 'run_dir': str(d / 'run'), 'nodes': [node_config()]}, d)\n"
        "print(lab.process.pid, flush=True); time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_PARENT)}
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        pid = int(parent.stdout.readline())
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the simulator outlived its parent")


def test_nodes_are_replaced_and_others_left_alone():
    with running(2) as lab:
        kept, config = lab["gpu01"], lab.config["nodes"]
        result = lab.control.call("replace_nodes", nodes=[config[0], node_config(3)])
        assert result == {"removed": ["gpu02"], "added": ["gpu03"]}
        assert ask(kept, "GET", S).status == 200
        with pytest.raises(ControlError, match="nodes\\[0\\].colour"):
            lab.control.call("replace_nodes", nodes=[node_config(colour="red")])
        assert [entry["name"] for entry in lab.control.call("nodes")] == ["gpu01", "gpu03"]
