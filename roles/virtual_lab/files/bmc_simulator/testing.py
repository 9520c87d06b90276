# Help for tests: simulated BMCs on loopback, with free ports, for the time of a `with` block.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Example::

with running(2, behaviour={"power_lag_s": 0.1}) as lab:
    bmc = lab["gpu01"]                      # address, port, url, username, password, fingerprint
    lab.set_behaviour("gpu01", busy_every_n=3)
    lab.state("gpu01")["power"]
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .control import Control, ControlError
from .firmware import make_image

USERNAME, PASSWORD = "admin", "factory-secret"
PACKAGE_PARENT = pathlib.Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Bmc:
    """Where one BMC of a running simulator answers, and its first account."""

    name: str
    serial: str
    address: str
    port: int
    ipmi_port: int | None
    username: str
    password: str
    fingerprint: str | None
    url: str


def node_config(number: int = 1, lab: str = "test", **changes: Any) -> dict[str, Any]:
    """A node of lab.json as the lab would describe it; `bmc` and `behaviour` are merged, other keys replace."""
    name = f"gpu{number:02d}"
    config: dict[str, Any] = {
        "name": name,
        "serial": f"LAB-{lab}-{number:04d}",
        "rack": "r1",
        "slot": f"u{number:02d}",
        "driver": "none",
        "bmc": {
            "address": "127.0.0.1",
            "port": 0,
            "ipmi_port": 0,
            "protocols": ["redfish"],
            "accounts": [{"username": USERNAME, "password": PASSWORD, "role": "Administrator"}],
            "session_limit": 8,
        },
        "cpus": 2,
        "memory_mib": 1024,
        "firmware": "uefi",
        "nics": [
            {
                "slot": f"nic{index}",
                "mac": f"52:54:{number >> 8:02x}:77:{index:02x}:{number & 255:02x}",
                "bridge": bridge,
            }
            for index, bridge in enumerate(("prov", "rail0", "rail1"))
        ],
        "disks": [
            {"slot": "disk0", "serial": f"{lab[:8]}{number:04d}D0", "size": "8 GiB", "type": "nvme"},
            {"slot": "disk1", "serial": f"{lab[:8]}{number:04d}D1", "size": "4 GiB", "type": "ssd"},
        ],
        "gpu_profile": "h100x8",
        "fault": None,
        "behaviour": {"power_lag_s": 0.05, "graceful_off_s": 0.05, "task_seconds": 0.3, "manager_reset_s": 0.3},
    }
    for key, value in changes.items():
        config[key] = {**config[key], **value} if key in ("bmc", "behaviour") else value
    return config


# an image that the simulated update service takes: firmware_image("BIOS", "2.0", accepts=[">=1.5"])
firmware_image = make_image


def _bmc(entry: dict[str, Any], account: dict[str, Any]) -> Bmc:
    return Bmc(
        entry["name"],
        entry["serial"],
        entry["address"],
        entry["port"],
        entry["ipmi_port"],
        account["username"],
        account["password"],
        entry["fingerprint"],
        f"http{'s' if entry['tls'] else ''}://{entry['address']}:{entry['port']}",
    )


class Lab:
    """A running simulator: its BMCs by name, and its control socket."""

    def __init__(self, process: subprocess.Popen, directory: pathlib.Path, config: dict[str, Any]):
        self.process, self.directory, self.config = process, directory, config
        self.control = Control(pathlib.Path(config["run_dir"]) / "bmc.sock")

    @property
    def bmcs(self) -> list[Bmc]:
        accounts = {node["name"]: node["bmc"]["accounts"][0] for node in self.config["nodes"]}
        return [_bmc(entry, accounts[entry["name"]]) for entry in self.control.call("nodes")]

    def __getitem__(self, name: str) -> Bmc:
        return next(bmc for bmc in self.bmcs if bmc.name == name)

    def state(self, node: str) -> dict[str, Any]:
        return self.control.call("state", node=node)

    def set_behaviour(self, node: str | None = None, **values: Any) -> None:
        self.control.call("set_behaviour", node=node, values=values)

    def reset_behaviour(self, node: str | None = None) -> None:
        self.control.call("reset_behaviour", node=node)

    def stats(self, node: str) -> dict[str, int]:
        return self.control.call("stats", node=node)[node]

    def requests(self, node: str, sessions: bool = False) -> list[dict[str, Any]]:
        """Write requests that the BMC received; opening and closing sessions only if asked for."""
        return [entry for entry in self.control.call("requests", node=node) if sessions or not entry.get("session")]

    def events(self, node: str) -> list[dict[str, Any]]:
        return self.control.call("events", node=node)

    def wait(self, node: str, holds: Callable[[dict[str, Any]], bool], deadline_s: float = 10.0) -> dict[str, Any]:
        """Wait until the node's state is as wanted; the error shows the last state."""
        end = time.monotonic() + deadline_s
        while not holds(state := self.state(node)):
            if time.monotonic() > end:
                raise TimeoutError(f"{node} did not get there in {deadline_s} s, last state: {state}")
            time.sleep(0.02)
        return state

    def stop(self, number: int = signal.SIGTERM, deadline_s: float = 30.0) -> int:
        """End the simulator; returns its exit status. Killed if it does not end in time, which is an error."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise TimeoutError(f"the simulator (pid {self.process.pid}) did not end in {deadline_s} s") from None


class FleetLab(Lab):
    """A running fleet."""

    @property
    def ca_path(self) -> str:
        """The authority that a client has to trust."""
        return str(pathlib.Path(self.config["dir"]) / "ca.pem")

    @property
    def inventory(self) -> str:
        """An Ansible inventory file of the fleet (it names the CA and a secret store, which are beside it)."""
        return str(pathlib.Path(self.config["dir"]) / "inventory.json")

    @functools.cached_property
    def bmcs(self) -> list[Bmc]:
        account = (self.config.get("accounts") or [{"username": USERNAME, "password": PASSWORD}])[0]
        return [_bmc(entry, account) for entry in self.endpoints]

    @property
    def endpoints(self) -> list[dict[str, Any]]:
        """As endpoints.json has them: with rack and the names of the faults that a BMC was dealt."""
        path = pathlib.Path(self.config.get("run_dir") or self.config["dir"]) / "endpoints.json"
        return json.loads(path.read_text(encoding="utf-8"))

    def counters(self, node: str) -> dict[str, int]:
        return self.control.call("counters", node=node)[node]

    def images(self) -> dict[str, list[dict[str, Any]]]:
        """Images that arrived whole, by BMC."""
        return self.control.call("images")

    def totals(self) -> dict[str, Any]:
        return self.control.call("totals")


def start(
    config: dict[str, Any],
    directory: pathlib.Path,
    deadline_s: float = 30.0,
    arguments: tuple[str, ...] = (),
    prefix: tuple[str, ...] = (),
) -> Lab:
    """Start the simulator for a lab.json; `prefix` goes in front of the command (to enter a network namespace)."""
    path = directory / "lab.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    path.chmod(0o600)
    process, log = _launch(["--config", str(path), *arguments], directory, prefix)
    lab = Lab(process, directory, config)
    _wait_ready(lab, log, deadline_s)
    return lab


def _launch(
    arguments: list[str], directory: pathlib.Path, prefix: tuple[str, ...] = ()
) -> tuple[subprocess.Popen, pathlib.Path]:
    log = directory / "simulator.log"
    environment = {
        **os.environ,
        "PYTHONPATH": f"{PACKAGE_PARENT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep),
    }
    command = [
        *prefix,
        sys.executable,
        "-m",
        "bmc_simulator",
        *arguments,
        "--die-with",
        str(os.getpid()),
    ]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
    return process, log


def _wait_ready(lab: Lab, log: pathlib.Path, deadline_s: float) -> None:
    process = lab.process
    end = time.monotonic() + deadline_s
    while True:
        with contextlib.suppress(OSError, ControlError):
            answer = lab.control.call("ping")
            # another simulator of the same run directory would answer too
            if answer["ready"] and answer["pid"] == process.pid:
                return
        if process.poll() is not None or time.monotonic() > end:
            if process.poll() is None:
                process.kill()
                process.wait()
            raise RuntimeError(
                f"the simulator did not start (exit {process.returncode}):\n{log.read_text(errors='replace')[-4000:]}"
            )
        time.sleep(0.02)


@contextlib.contextmanager
def running(
    nodes: int | list[dict[str, Any]] = 1,
    *,
    behaviour: dict[str, Any] | None = None,
    directory: str | pathlib.Path | None = None,
    **lab: Any,
) -> Iterator[Lab]:
    """A simulator with this many default nodes, or these. `behaviour` is merged into each node, `lab` into lab.json.

    The directory is a new temporary one, removed afterwards, unless it is given.
    """
    configs = [node_config(number) for number in range(1, nodes + 1)] if isinstance(nodes, int) else nodes
    if behaviour:
        configs = [{**config, "behaviour": {**config.get("behaviour", {}), **behaviour}} for config in configs]
    place = pathlib.Path(directory or tempfile.mkdtemp(prefix="bmcsim-"))
    config = {"name": "test", "dir": str(place / "lab"), "run_dir": str(place / "run"), "nodes": configs, **lab}
    try:
        started = start(config, place)
        try:
            yield started
        finally:
            started.stop()
    finally:
        if directory is None:
            shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def fleet(
    count: int = 1,
    *,
    address: str | None = None,
    port: int | None = None,
    behaviour: dict[str, Any] | None = None,
    faults: list[dict[str, Any]] | None = None,
    groups: list[dict[str, Any]] | None = None,
    directory: str | pathlib.Path | None = None,
    deadline_s: float = 120.0,
    **more: Any,
) -> Iterator[FleetLab]:
    """A fleet in a process of its own, for the time of a `with` block.

    `groups` and `faults` as in the description of a fleet; without `groups`, one of `count` BMCs, for which `more` holds
    further keys (profile, power, firmware ...). Keys of the description itself: seed, accounts, session_limit.
    """
    place = pathlib.Path(directory or tempfile.mkdtemp(prefix="bmcfleet-"))
    if address is None:
        # two processes that start a fleet each must not meet
        address = f"127.{100 + os.getpid() % 100}.{os.getpid() // 100 % 200}.1"
    config: dict[str, Any] = {key: more.pop(key) for key in ("seed", "accounts", "session_limit") if key in more}
    group = {"address": address, "port": port, "behaviour": behaviour, **more}
    config["groups"] = groups or [{"count": count, **{key: value for key, value in group.items() if value is not None}}]
    config.update(dir=str(place / "fleet"), faults=faults or [])
    try:
        path = place / "fleet.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        path.chmod(0o600)
        config["run_dir"] = config["dir"]
        process, log = _launch(["fleet", str(path)], place)
        started = FleetLab(process, place, config)
        try:
            _wait_ready(started, log, deadline_s)
            yield started
        finally:
            started.stop()
    finally:
        if directory is None:
            shutil.rmtree(place, ignore_errors=True)
