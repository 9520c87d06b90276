# make demo refuses what it cannot do before it builds anything, and says at its end what it came to.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

DEMO = pathlib.Path(__file__).resolve().parents[2] / ".ci" / "demo"


@pytest.mark.parametrize("nodes", ["99", "0", "9", "abc", "2 "])
def test_a_number_of_servers_that_no_lab_has(nodes):
    env = {**os.environ, "NODES": nodes, "LAB": "optcheck"}
    done = subprocess.run([str(DEMO)], env=env, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2 and f"NODES={nodes} " in done.stderr and "wanted: 1 to 8" in done.stderr
    assert not (DEMO.parents[1] / ".demo" / "optcheck.times").exists()


def test_a_name_that_no_lab_has():
    env = {**os.environ, "LAB": "No_Lab"}
    done = subprocess.run([str(DEMO)], env=env, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2 and "LAB=No_Lab" in done.stderr


def outcome(path):
    script = DEMO.with_name("demo-outcome")
    return subprocess.run([sys.executable, str(script), str(path)], capture_output=True, text=True, check=False)


def test_the_end_says_of_every_node_what_became_of_it(tmp_path):
    pytest.importorskip("sqlalchemy")
    from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry

    path = tmp_path / "registry.db"
    with open_registry(f"sqlite:///{path}", migrate=True) as registry:
        assert outcome(path).returncode == 1 and "no node was found" in outcome(path).stderr
        job = {"check": "slurm_first_job", "outcome": "pass", "value": "gpu01", "simulated": True}
        job["detail"] = {"command": "hostname", "gres": "gpu:8", "exit_status": 0}
        for name, stages in (("gpu01", ("deploy", "software", "burn_in", "enroll")), ("gpu02", ("deploy", "software"))):
            registry.save_node(f"S-{name}", "me", name=name, state="manageable")
            registry.transition(name, "manageable", "available", "me")
            for stage in stages:
                begin = registry.begin(name, stage, actor="me")
                if stage == "enroll":
                    registry.record_evidence(name, begin.attempt, [job], "me")
                registry.finish(name, begin.attempt, begin.fencing, "pass", "me")
        registry.acquire_lease("gpu01", "slurm", "me")
        assert outcome(path).returncode == 1 and "gpu02 is burn_in; wanted:" in outcome(path).stderr
        begin = registry.begin("gpu02", "burn_in", actor="me")
        registry.finish("gpu02", begin.attempt, begin.fencing, "fail", "me", "GPU 3: ECC")
    done = outcome(path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "gpu01 is active in Slurm; its first job ran on gpu01 (srun -N1 --gres=gpu:8 hostname -> gpu01; simulated GPUs)",
        "gpu02 is quarantined: GPU 3: ECC",
    ]


def test_the_total_is_the_time_of_the_command(tmp_path):
    times = tmp_path / "times"
    times.write_text("image\t1.0\nsite\t0.0\ndeploy\t2.5\nimage\t0.5\n")
    function = re.search(r"^table\(\) \{.*?^\}", DEMO.read_text(), re.MULTILINE | re.DOTALL).group(0)
    script = (
        f"times={times}; started=$(awk -v b=$EPOCHREALTIME 'BEGIN {{ printf \"%.6f\", b - 10 }}')\n{function}\ntable"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    rows = dict(re.findall(r"^  (\w+) +([\d.]+)$", done.stdout, re.MULTILINE))
    assert list(rows) == ["image", "deploy", "between", "total"] and rows["image"] == "1.5"
    assert float(rows["total"]) >= 10 and float(rows["between"]) == pytest.approx(float(rows["total"]) - 4, abs=0.11)
