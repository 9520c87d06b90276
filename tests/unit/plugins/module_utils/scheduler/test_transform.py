# Readers of Slurm output: hand-written samples here, recorded ones from the corpus where it is there.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import tarfile

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler import transform

ROOT = pathlib.Path(__file__).resolve().parents[5]
CORPUS = pathlib.Path(os.environ.get("AICLUSTER_CORPUS") or ROOT.parent / "shared" / "corpus")

TEXT = """NodeName=gpu07 Arch=x86_64 CoresPerSocket=48
   CPUAlloc=96 CPUEfctv=192 CPUTot=192 CPULoad=3.10
   Gres=gpu:h100:8(S:0-1)
   NodeAddr=10.0.0.7 NodeHostName=gpu07 Version=23.11.4
   OS=Linux 6.1.0 State=odd SMP
   RealMemory=2000000 AllocMem=0 FreeMem=190 Sockets=2 Boards=1
   State=MIXED+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu
   BootTime=2026-01-01T00:00:00 SlurmdStartTime=2026-01-01T00:01:00
   Reason=aicluster:health: rail3 State=down, see why [slurm@2026-01-02T03:04:05]
"""
ONE_LINE = (
    "NodeName=gpu08 CoresPerSocket=2  CPUAlloc=0 CPUTot=2 Gres=gpu:8 NodeAddr=10.0.0.8 OS=Linux 6.1 #1 SMP  RealMemory=900 "
    "Sockets=1 Boards=1 State=DOWN*+DRAIN ThreadsPerCore=1 SlurmdStartTime=None Reason=bad PSU [root@2026-01-02T03:04:05]"
)


@pytest.mark.parametrize(
    "words, base, flags",
    [
        ("IDLE", "IDLE", []),
        ("IDLE+DRAIN", "IDLE", ["DRAIN"]),
        ("DOWN*+DRAIN", "DOWN", ["DRAIN", "NOT_RESPONDING"]),
        ("IDLE+NOT_RESPONDING", "IDLE", ["NOT_RESPONDING"]),
        ("drained$", "IDLE", ["DRAIN", "MAINTENANCE"]),
        ("draining", "ALLOCATED", ["DRAIN"]),
        (["IDLE", "DRAIN", "INVALID_REG"], "IDLE", ["DRAIN", "INVALID_REG"]),
        (["idle", "DRAIN"], "IDLE", ["DRAIN"]),
        ("FUTURE", "FUTURE", []),
        ("", "UNKNOWN", []),
    ],
)
def test_states(words, base, flags):
    assert transform.state_of(words) == (base, flags)


def test_text_record():
    (node,) = transform.nodes(TEXT)
    assert (
        node["name"] == "gpu07"
        and node["cpus"] == 192
        and node["alloc_cpus"] == 96
        and node["gres"] == "gpu:h100:8(S:0-1)"
    )
    assert node["reason"] == "aicluster:health: rail3 State=down, see why"
    assert (node["drained"], node["drain_owner"], node["reason_user"]) == (True, "health", "slurm")
    assert node["base"] == "MIXED" and node["registered"] and node["real_memory_mib"] == 2000000


def test_one_line_record_and_foreign_drain():
    (node,) = transform.nodes(ONE_LINE)
    assert node["drain_owner"] == "user:root" and node["reason"] == "bad PSU" and not node["registered"]
    assert node["flags"] == ["DRAIN", "NOT_RESPONDING"] and node["real_memory_mib"] == 900 and node["sockets"] == 1


def test_reason_of_a_node_that_is_not_drained_is_nobodys_drain():
    (node,) = transform.nodes(TEXT.replace("MIXED+DRAIN", "DOWN"))
    assert not node["drained"] and node["drain_owner"] is None


@pytest.mark.parametrize(
    "state", ['"state": "idle", "state_flags": ["DRAIN"]', '"state": ["IDLE", "DRAIN"]', '"state": "IDLE+DRAIN"']
)
def test_json_of_both_generations(state):
    text = (
        '{"nodes": [{"name": "gpu01", STATE, "reason": "aicluster:enroll: attempt 1", "cpus": 8, "slurmd_start_time": '
        '{"set": true, "infinite": false, "number": 17}}]}'
    )
    (node,) = transform.nodes(text.replace("STATE", state))
    assert node["drained"] and node["drain_owner"] == "enroll" and node["registered"] and node["cpus"] == 8


@pytest.mark.parametrize("text", ["{", '{"nodes": null}', '{"nodes": [{"state": "idle"}]}', "{}"])
def test_broken_json_is_an_error_and_not_an_empty_cluster(text):
    with pytest.raises(InvalidInput):
        transform.nodes(text)


def test_jobs():
    text = "12|RUNNING|alice|a|b job\n13|COMPLETING|bob|x\n\n"
    assert transform.jobs(text) == [
        {"id": "12", "state": "RUNNING", "user": "alice", "name": "a|b job"},
        {"id": "13", "state": "COMPLETING", "user": "bob", "name": "x"},
    ]
    assert transform.jobs("") == []


def test_hardware():
    seen = transform.hardware(
        "NodeName=gpu01 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=960\nUpTime=0-0"
    )
    assert seen == {
        "name": "gpu01", "cpus": 2, "boards": 1, "sockets": 1, "cores": 2, "threads": 1, "real_memory_mib": 960,
    }  # fmt: skip
    for bad in ("", "slurmd: error", "NodeName=gpu01 CPUs=2 RealMemory=10"):
        with pytest.raises(InvalidInput):
            transform.hardware(bad)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    archive = CORPUS / "service-samples.tar.xz"
    if not archive.is_file():
        pytest.skip(f"corpus not found at {CORPUS} (set AICLUSTER_CORPUS)")
    target = tmp_path_factory.mktemp("corpus")
    with tarfile.open(archive) as tar:
        tar.extractall(target, [m for m in tar.getmembers() if m.name.startswith("slurm/")], filter="data")
    return target / "slurm"


@pytest.mark.parametrize("name", ["22.05/rest-nodes.json", "24.11/node.json"])
def test_recorded_nodes(corpus, name):
    found = transform.nodes((corpus / name).read_text())
    assert [node["name"] for node in found] == ["gpu01", "gpu02", "gpu03", "gpu04"]
    assert all(node["base"] == "IDLE" and not node["drained"] and node["gres"] == "gpu:h200:8" for node in found)
    assert all(node["cpus"] == 8 and node["registered"] for node in found)


def test_recorded_drained_node_and_jobs(corpus):
    (node,) = transform.nodes((corpus / "22.05/node-drained.txt").read_text())
    assert node["drain_owner"] == "user:root" and node["reason"] == "ECC: svc test"
    (job, *_rest) = transform.jobs((corpus / "22.05/squeue.json").read_text())
    assert job["id"].isdigit() and job["state"]


def test_recorded_hardware():
    archive = CORPUS / "tool-output.tar.xz"
    if not archive.is_file():
        pytest.skip(f"corpus not found at {CORPUS} (set AICLUSTER_CORPUS)")
    with tarfile.open(archive) as tar:
        (member,) = [m for m in tar.getmembers() if m.name.endswith("slurmd-C/h100_a100_h200_nodes.txt")]
        lines = tar.extractfile(member).read().decode().splitlines()
    found = [transform.hardware(line) for line in lines if line.startswith("NodeName=")]
    assert len(found) == 3 and all(item["sockets"] == 2 and item["cpus"] >= 64 for item in found)
