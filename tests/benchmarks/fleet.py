#!/usr/bin/env python
# What one operation on many BMCs costs: community.general, the per-host module, and fleet, in one run against the same simulator on this machine.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Measures "switch off what is off already": verified TLS, cold connections, the simulator counts that each BMC was asked as often by each of them.

    python tests/benchmarks/fleet.py [--hosts 200] [--more 2000] [--most 10000] [--without-rivals] [--json FILE]

Every figure is the wall time of a whole ansible-playbook run. Cost per BMC of a per-host module: (run over H hosts - run of an empty play over them) / H.
Cost of fleet: the slope of the whole run between H and M hosts, because it costs nearly nothing until there are many; so it bears what an inventory of more
hosts costs Ansible, which the others are not charged with. That share is printed apart. The runs of the others last long enough to even out what else the
machine does; the short ones of fleet and the empty play are made ROUNDS times, before, between and after the others, and the median slope counts.
Memory: the proportional set size (PSS) of all processes of the run together, its highest value.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))
import conftest  # noqa: E402  makes the checkout and the simulator importable

assert conftest.ROOT == ROOT

from bmc_simulator import testing  # noqa: E402

FORKS = 20
# The release of the ansible package whose community.general is measured (11.4.x).
RIVAL = "ansible==12.3.0"
SAMPLE_S = 0.5
ROUNDS = 3

FLEET = {
    "name": "All at once",
    "aicluster.baremetal.fleet": {"operation": "power", "options": {"state": "off"}, "progress": 0},
    "run_once": True,
    "register": "fleet_result",
}
SAY = {
    "name": "Say it",
    "ansible.builtin.debug": {
        "msg": "RESULT={{ fleet_result.counts | default({}) | combine({'seconds': fleet_result.seconds | default(0)}) | to_json }}"
    },
    "run_once": True,
}
PER_HOST = {"name": "Each host", "aicluster.baremetal.bmc_power": {"state": "off"}}
NOTHING = {"name": "Nothing", "ansible.builtin.debug": {"msg": "nothing"}, "run_once": True}


def rival_task(account):
    return {
        "name": "Each host",
        "community.general.redfish_command": {
            "category": "Systems",
            "command": "PowerForceOff",
            "baseuri": "{{ bmc_address }}:{{ bmc_port }}",
            "username": account.username,
            "password": account.password,
            "validate_certs": True,
            "ca_path": "{{ bmc_ca_path }}",
            "timeout": 60,
        },
        "vars": {"ansible_python_interpreter": sys.executable},
    }


class RivalMissing(Exception):
    """community.general could not be had."""


def fetch_rival():
    """A directory with the collection community.general; made once below .cache."""
    place = ROOT / ".cache" / "rivals"
    found = place / "ansible_collections" / "community" / "general"
    if not (found / "plugins" / "modules" / "redfish_command.py").exists():
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--only-binary",
                ":all:",
                RIVAL,
                "-d",
                folder,
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            wheels = list(pathlib.Path(folder).glob("*.whl"))
            if not wheels:
                raise RivalMissing(f"pip download {RIVAL}: {done.stderr.strip().splitlines()[-1:]}")
            with zipfile.ZipFile(wheels[0]) as archive:
                names = [
                    name for name in archive.namelist() if name.startswith("ansible_collections/community/general/")
                ]
                archive.extractall(place, names)
    return place


class Memory(threading.Thread):
    """The highest PSS in MiB of a process and all that descend from it."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.over = pid, 0.0, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(SAMPLE_S):
            self.peak = max(self.peak, sum(map(self._pss, self._tree())) / 1024)

    def _tree(self):
        found, todo = [], [self.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    todo += map(int, pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split())
                    break  # only the main thread forks here; a listing of 200 threads would cost more than it measures
            except OSError:
                pass
        return found

    @staticmethod
    def _pss(pid):
        try:
            return int(
                re.search(r"^Pss:\s+(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M).group(1)
            )
        except (OSError, AttributeError):
            return 0


class Bench:
    """A fleet of simulated BMCs and runs over the first of them."""

    def __init__(self, lab, folder, environment=None):
        self.lab, self.folder = lab, folder
        self.inventory = json.loads(pathlib.Path(lab.inventory).read_text())
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "AICLUSTER_"))},
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
            **(environment or {}),
        }
        collections = folder / "collections" / "ansible_collections" / "aicluster"
        collections.mkdir(parents=True)
        (collections / "baremetal").symlink_to(ROOT)

    def _simulator_cpu(self):
        """Seconds of CPU time that the simulator has used."""
        fields = pathlib.Path(f"/proc/{self.lab.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def play(self, count, *tasks, more=(), memory=False):
        """Run the tasks over the first `count` BMCs; {wall, cpu, simulator_cpu, pss, requests: [min, max] of a BMC, in_flight, sessions_left, result}."""
        hosts = dict(list(self.inventory["nodes"]["hosts"].items())[:count])
        assert len(hosts) == count, f"the simulator has only {len(hosts)} BMCs"
        inventory, play = self.folder / "hosts.json", self.folder / "play.yml"
        inventory.write_text(json.dumps({"nodes": {**self.inventory["nodes"], "hosts": hosts}}))
        play.write_text(json.dumps([{"hosts": "nodes", "gather_facts": False, "tasks": list(tasks)}]))
        self.lab.control.call("reset_stats")
        environment = {**self.environment}
        environment["ANSIBLE_COLLECTIONS_PATH"] = os.pathsep.join([str(self.folder / "collections"), *map(str, more)])
        log = self.folder / "output.log"
        served, before, begun = self._simulator_cpu(), os.times(), time.monotonic()
        with log.open("w") as output:
            process = subprocess.Popen(
                [
                    str(pathlib.Path(sys.executable).with_name("ansible-playbook")),
                    "-i",
                    inventory,
                    "-f",
                    str(FORKS),
                    play,
                ],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            watch = Memory(process.pid) if memory else None
            try:
                status = process.wait(1800)
            finally:
                process.kill()
        wall, after, served = time.monotonic() - begun, os.times(), self._simulator_cpu() - served
        if watch:
            watch.over.set()
            watch.join()
        text = log.read_text()
        if status:
            raise RuntimeError(f"ansible-playbook ended with {status}:\n{text[-3000:]}")
        rows = self.lab.control.call("counters", touched=True).values()
        told = re.search(r"RESULT=({.*?})", text)
        return {
            "hosts": count,
            "wall": round(wall, 2),
            "cpu": round(
                after.children_user + after.children_system - before.children_user - before.children_system, 2
            ),
            "simulator_cpu": round(served, 2),
            "pss": round(watch.peak) if watch else None,
            "asked": len(rows),
            "requests": [
                min((row["requests"] for row in rows), default=0),
                max((row["requests"] for row in rows), default=0),
            ],
            "connections": max((row["connections"] for row in rows), default=0),
            "in_flight": max((row["in_flight_peak"] for row in rows), default=0),
            "sessions_left": sum(row["sessions_left"] for row in rows),
            "result": json.loads(told.group(1).replace('\\"', '"')) if told else None,
        }


def say(name, run):
    """One line for each run as it ends: a measurement of minutes that says nothing looks like one that hangs."""
    print(f"{name:20} " + ", ".join(f"{key} {value}" for key, value in run.items() if value is not None), flush=True)
    return run


def compare(bench, hosts, more_hosts, rival=True, fleet=None):
    """The three ways beside each other. Costs in ms for each BMC."""
    fleet = FLEET if fleet is None else fleet
    found, rounds = {}, []

    def run(name, *arguments, **options):
        found[name] = say(name, bench.play(*arguments, **options))
        return found[name]["wall"]

    def short_runs():
        step = {
            name: run(f"{name}, more", more_hosts, task) - run(name, hosts, task)
            for name, task in (("start", NOTHING), ("fleet", fleet))
        }
        rounds.append({name: 1000 * seconds / (more_hosts - hosts) for name, seconds in step.items()})
        rounds[-1]["start of few"] = found["start"]["wall"]

    def median(name):
        return statistics.median(each[name] for each in rounds)

    others = {"bmc_power": ((hosts, PER_HOST), {})}
    if rival:
        others["community.general"] = ((hosts, rival_task(bench.lab.bmcs[0])), {"more": [fetch_rival()]})
    walls = {}
    short_runs()
    for name, (arguments, options) in others.items():
        walls[name] = run(name, *arguments, **options)
        short_runs()
    while len(rounds) < ROUNDS:
        short_runs()
    start = median("start of few")
    costs = {"fleet": median("fleet"), **{name: 1000 * (wall - start) / hosts for name, wall in walls.items()}}
    return {
        "runs": found,
        "ms": {name: round(value, 2) for name, value in costs.items()},
        "fleet_ms": [round(each["fleet"], 2) for each in rounds],
        "start_s": round(start, 2),
        "start_ms": round(median("start"), 2),
    }


def slow(count, seconds, concurrency):
    """A fleet whose BMCs take `seconds` for each answer: how long it took against the total wait divided by the concurrency."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        with testing.fleet(count, behaviour={"delay_s": seconds}) as lab:
            bench = Bench(lab, pathlib.Path(folder))
            options = {**FLEET["aicluster.baremetal.fleet"], "concurrency": concurrency}
            run = bench.play(count, {**FLEET, "aicluster.baremetal.fleet": options}, SAY)
    waited = run["requests"][1] * count * seconds
    return {**run, "ideal": round(waited / concurrency, 2), "took": run["result"]["seconds"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--more", type=int, default=2000)
    parser.add_argument("--most", type=int, default=10000)
    parser.add_argument("--without-rivals", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        with testing.fleet(max(options.most, options.more)) as lab:
            bench = Bench(lab, pathlib.Path(folder))
            found = compare(bench, options.hosts, options.more, not options.without_rivals)
            if options.most:
                found["runs"]["fleet, most"] = say("fleet, most", bench.play(options.most, FLEET, SAY, memory=True))
    found["slow"] = say("slow answers", slow(600, 1.0, 100))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    ms = found["ms"]
    print("ms for each BMC: " + ", ".join(f"{name} {value:.2f}" for name, value in ms.items()))
    print(
        "fleet is " + ", ".join(f"{ms[name] / ms['fleet']:.0f} x cheaper than {name}" for name in ms if name != "fleet")
    )


if __name__ == "__main__":
    main()
