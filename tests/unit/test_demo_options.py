# make demo refuses what it cannot do before it builds anything.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import subprocess

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
