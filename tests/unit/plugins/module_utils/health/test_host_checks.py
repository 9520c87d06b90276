# Checks of the server beside its GPUs: the real tools where they are installed, prepared answers where a fault is needed.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.health import host_checks
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.plan import read_plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.system import Ran, System


def plan(**parts):
    return read_plan({"schema": 1, **parts})


def seen(**parts):
    base = {
        "container": None,
        "virtual": False,
        "unreadable": [],
        "serial": "S1",
        "cpu": {"threads": 8},
        "memory_bytes": 16 * 2**30 - 2**28,
    }
    return {**base, "disks": [{"serial": "D1"}, {"serial": "D" * 20}], "nics": {"eth0": "52:54:00:00:00:01"}, **parts}


EXPECTED = {
    "serial": "S1",
    "cpus": 8,
    "memory_bytes": 16 * 2**30,
    "disk_serials": ["D1", "D" * 24],
    "macs": ["52:54:00:00:00:01"],
}


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, set()),
        ({"serial": "S2"}, {"identity"}),
        ({"cpu": {"threads": 4}}, {"hardware_cpus"}),
        ({"memory_bytes": 14 * 2**30}, {"hardware_memory"}),
        ({"disks": [{"serial": "D1"}]}, {"hardware_disks"}),
        ({"nics": {}}, {"hardware_nics"}),
    ],
)
def test_hardware(change, failing):
    items = host_checks.check_hardware(plan(expected=EXPECTED), seen(**change))
    assert {item["check"] for item in items if item["outcome"] == "fail"} == failing
    assert {item["outcome"] for item in items if item["check"] not in failing} == {"pass"}


def test_hardware_without_expectations_or_facts():
    assert {item["outcome"] for item in host_checks.check_hardware(plan(), seen())} == {"could_not_test"}
    blind = host_checks.check_hardware(
        plan(expected=EXPECTED), seen(serial=None, cpu=None, memory_bytes=None, disks=None)
    )
    assert {item["check"] for item in blind if item["outcome"] == "could_not_test"} >= {
        "identity",
        "hardware_cpus",
        "hardware_memory",
        "hardware_disks",
    }
    assert {
        item["outcome"]
        for item in host_checks.check_hardware(plan(expected=EXPECTED), seen(container="systemd-nspawn"))
    } == {"not_applicable"}


@pytest.mark.skipif(not shutil.which("stress-ng"), reason="stress-ng is not installed")
def test_load_for_real():
    items = host_checks.check_stress(
        plan(seconds=1, cpu_method="int64", memory_method="zero-one", memory_rate="8 MiB"), System()
    )
    assert [(item["check"], item["outcome"]) for item in items] == [("cpu_stress", "pass"), ("memory_stress", "pass")]
    assert all(item["value"] > 0 for item in items)


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_disk_for_real(tmp_path):
    (item,) = host_checks.check_disk(plan(seconds=1, disk_path=str(tmp_path), disk_size="4 MiB"), System())
    assert item["outcome"] == "pass" and item["value"] > 0, item
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
def test_network_for_real():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    network = {"peer": "127.0.0.1", "port": port, "seconds": 1, "wait_s": 0}
    # nobody listens: could not test, never a pass
    assert host_checks.check_network(plan(network=network), System())[0]["outcome"] == "could_not_test"
    server = subprocess.Popen(["iperf3", "-s", "-B", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL)
    try:
        for _turn in range(50):
            (item,) = host_checks.check_network(plan(network=network), System())
            if item["outcome"] == "pass":
                break
            time.sleep(0.1)
        assert item["outcome"] == "pass" and item["value"] > 1e6, item
        (item,) = host_checks.check_network(plan(network=network, limits={"network_floor": 1e15}), System())
        assert item["outcome"] == "fail" and "below" in item["detail"]
    finally:
        server.kill()
        server.wait()


class Answers(System):
    """Prepared answers by program name; files by path."""

    def __init__(self, **answers):
        self.answers, self.files, self.asked, self.slept = answers, {}, [], 0

    def run(self, argv, timeout_s, stdin=None):
        self.asked.append(argv)
        answer = self.answers.get(argv[0].replace("-", "_"), Ran(None, "", "", f"{argv[0]}: not installed", 0))
        return answer.pop(0) if isinstance(answer, list) else answer

    def read(self, path):
        return self.files.get(path, super().read(path))

    def sleep(self, seconds):
        self.slept += 1

    def container(self):
        return None


def test_tools_that_are_missing_or_broken():
    for answers in (
        {},
        {"stress_ng": Ran(3, "", "", "", 0), "fio": Ran(1, "", "fio: no", "", 0), "iperf3": Ran(1, "", "", "", 0)},
    ):
        system = Answers(**answers)
        items = (
            host_checks.check_stress(plan(), system)
            + host_checks.check_disk(plan(disk_path="/tmp"), system)
            + host_checks.check_network(plan(network={"peer": "x"}), system)
        )
        assert [item["outcome"] for item in items] == ["could_not_test"] * 4
    assert host_checks.check_network(plan(), Answers())[0]["outcome"] == "could_not_test"


def test_a_wrong_result_fails():
    wrong = Ran(2, "", "stress-ng: fail:  [77] cpu: int64: checksum is wrong\n", "", 1)
    item = host_checks.check_stress(
        plan(groups=["stress"], checks={"memory_stress": {"enabled": False}}), Answers(stress_ng=wrong)
    )[0]
    assert item["outcome"] == "fail" and "checksum is wrong" in item["detail"]
    report = {
        "jobs": [{"error": 84, "write": {"io_bytes": 5, "bw_bytes": 1e9}, "read": {"io_bytes": 5, "bw_bytes": 1e9}}]
    }
    item = host_checks.check_disk(
        plan(disk_path="/tmp"), Answers(fio=Ran(1, json.dumps(report), "verify: bad magic header\n", "", 1))
    )[0]
    assert item["outcome"] == "fail" and "bad magic" in item["detail"]
    report["jobs"][0]["error"] = 0
    report["jobs"][0]["write"]["bw_bytes"] = 1000
    assert (
        host_checks.check_disk(plan(disk_path="/tmp"), Answers(fio=Ran(0, json.dumps(report), "", "", 1)))[0]["outcome"]
        == "fail"
    )
    report["jobs"][0].update(write={"io_bytes": 5, "bw_bytes": 1e9}, read={"io_bytes": 0})
    assert (
        host_checks.check_disk(plan(disk_path="/tmp"), Answers(fio=Ran(0, json.dumps(report), "", "", 1)))[0]["outcome"]
        == "could_not_test"
    )


def test_the_size_ends_the_disk_test():
    """With a run time beside the size, fio writes all of it on a slow machine and then skips the reading back: seen as "verified 0 bytes"."""
    system = Answers()
    host_checks.check_disk(plan(disk_path="/tmp", seconds=1), system)
    (argv,) = system.asked
    assert any(word.startswith("--size=") for word in argv) and not any(word.startswith("--runtime") for word in argv)


def test_disk_without_room(tmp_path):
    assert "free" in host_checks.check_disk(plan(disk_path=str(tmp_path), disk_size="900 TiB"), System())[0]["detail"]
    assert host_checks.check_disk(plan(disk_path=str(tmp_path / "no")), System())[0]["outcome"] == "could_not_test"


def test_network_waits_while_busy_and_knows_the_link():
    busy = Ran(1, json.dumps({"error": "error - the server is busy running a test. try again later"}), "", "", 0)
    good = Ran(0, json.dumps({"end": {"sum_received": {"bits_per_second": 7.9e9, "bytes": 1}}}), "", "", 0)
    system = Answers(iperf3=[busy, good], ip=Ran(0, "10.0.0.1 dev eth7 src 10.0.0.2", "", "", 0))
    system.files["/sys/class/net/eth7/speed"] = "10000\n"
    item = host_checks.check_network(plan(network={"peer": "10.0.0.1"}), system)[0]
    # 80 percent of the link's rate is the limit: 7.9 of 10 Gbit/s is too slow
    assert system.slept == 1 and item["limit"] == 8e9 and item["outcome"] == "fail"


TRACKING = "0A4D0101,10.77.1.1,3,1.1,{},0.000001,0.00002,1.2,0.0,0.1,0.0002,0.0003,64.0,Normal\n"


@pytest.mark.parametrize(
    ("servers", "answer", "offset", "wanted"),
    [
        ([], None, 0, ["not_applicable", "pass"]),
        (["a"], Ran(0, TRACKING.format("0.00001"), "", "", 0), 0, ["pass", "pass"]),
        (["a"], Ran(0, TRACKING.format("-0.5"), "", "", 0), 0, ["fail", "pass"]),
        (
            ["a"],
            Ran(0, "00000000,,0,0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n", "", "", 0),
            0,
            ["fail", "pass"],
        ),
        (["a"], Ran(1, "506 Cannot talk to daemon", "", "", 0), -90, ["fail", "fail"]),
        ([], None, 90, ["not_applicable", "could_not_test"]),
        (["a"], Ran(None, "", "", "chronyc: not installed", 0), 0, ["could_not_test", "pass"]),
    ],
)
def test_clock(servers, answer, offset, wanted):
    system = Answers(**({"chronyc": answer} if answer else {}))
    items = host_checks.check_clock(
        plan(time={"servers": servers, "controller": 1000.0, "wait_s": 0}), system, 1000.5 + offset
    )
    assert [item["outcome"] for item in items] == wanted
    assert host_checks.check_clock(plan(), system, 1.0)[1]["outcome"] == "could_not_test"


def test_kernel_log_window():
    text = "3,1,5000000,-;blk_update_request: I/O error, dev sda, sector 1\n3,2,9000000,-;watchdog: BUG: soft lockup - CPU#1 stuck\n"
    before = host_checks.check_kernel(plan(), None, text, 10.0, seen())
    assert [item["outcome"] for item in before] == ["pass", "pass"]
    during = host_checks.check_kernel(plan(), None, text, 4.0, seen())
    assert during[0]["outcome"] == "fail" and during[0]["value"] == 2 and "sda" in during[0]["detail"]
    # a virtual machine stalls with its host
    assert host_checks.check_kernel(plan(), None, text, 4.0, seen(virtual=True))[0]["value"] == 1
    assert {item["outcome"] for item in host_checks.check_kernel(plan(), None, None, 4.0, seen())} == {"could_not_test"}
    assert {item["outcome"] for item in host_checks.check_kernel(plan(), None, None, 4.0, seen(container="x"))} == {
        "not_applicable"
    }


def test_fio_leaves_nothing_where_it_was_started():
    # fio keeps a *-verify.state file in its working directory when its time ends before the file is full
    answers = Answers(fio=Ran(1, "", "fio: no", "", 0))
    host_checks.check_disk(plan(disk_path="/tmp"), answers)
    assert all("--verify_state_save=0" in argv for argv in answers.asked) and answers.asked
