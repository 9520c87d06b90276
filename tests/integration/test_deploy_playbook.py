# The deploy playbook against simulated BMCs, with a stand-in for the boot service, the ramdisk and ssh: what it sends, in which order, and what is on record.
# The real thing, with machines that boot, is the suite `lab` and the acceptance points.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))
import conftest  # noqa: E402  makes the checkout and the simulator importable

assert conftest.ROOT == ROOT

from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry  # noqa: E402
from bmc_simulator import testing  # noqa: E402

ROOT_UUID = "11111111-2222-3333-4444-555555555555"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NA"
BOOT = ["dhcp", "loader", "kernel", "ramdisk", "disk_chosen", "writing", "written", "seeded", "boot_order", "done"]
SSH = f"""#!/bin/sh
for word; do case $word in HostKeyAlias=gpu*) node=${{word#HostKeyAlias=gpu}};; esac; done
echo product_serial=LAB-test-00$node
echo root_uuid={ROOT_UUID}
echo command_line=root=UUID={ROOT_UUID}
echo uptime=3
echo hostname=gpu$node
echo kernel=test
"""


class Boots(threading.Thread):
    """Stands in for the boot service and the ramdisks: keeps reservations, and boots each node that its BMC has switched on after it was noted.

    `plans`: {node: [(step, seconds after the step before)]}, by default BOOT at once; a step ("failed", 0.2, "why") is the ramdisk's own failure.
    """

    def __init__(self, lab, url, plans=None):
        super().__init__(daemon=True)
        self.lab, self.registry, self.plans = lab, open_registry(url), plans or {}
        self.ended = threading.Event()
        self.under_way = {}  # (attempt, boots of it) -> [[time, node, step, detail], ...]

    def run(self):
        while not self.ended.wait(0.1):
            for node in self.registry.nodes(state="deploying"):
                self.look(node)
            for steps in self.under_way.values():
                while steps and time.monotonic() >= steps[0][0]:
                    self.take(*steps.pop(0)[1:])

    def look(self, node):
        events = self.registry.boot_events(node["name"], node["attempt"])
        if self.registry.pending_grant(node["provision_mac"]) and "reserved" not in [row["step"] for row in events]:
            self.registry.boot_event(node["name"], node["attempt"], "reserved", None, "boot-service")
        starts = len([row for row in events if row["step"] == "power_on"])
        if not starts or (node["attempt"], starts) in self.under_way:
            return
        if self.lab.state(node["name"])["power"] == "On":
            moment, steps = time.monotonic(), []
            for step, after, *detail in self.plans.get(node["name"], [(step, 0) for step in BOOT]):
                moment += after
                steps.append([moment, node["name"], step, (detail or [None])[0]])
            self.under_way[node["attempt"], starts] = steps

    def take(self, name, step, detail):
        node = self.registry.node(name)
        if step == "loader":
            grant = self.registry.pending_grant(node["provision_mac"])
            self.registry.consume_grant(None, node["provision_mac"], grant=grant["id"])
        if step == "seeded":
            self.registry.pin_host_key(name, HOST_KEY, "boot-service")
        self.registry.boot_event(name, node["attempt"], step, detail, "test")

    def __exit__(self, *_error):
        self.ended.set()
        self.join(10)
        self.registry.close()

    def __enter__(self):
        self.start()
        return self


class Site:
    """Nodes with simulated BMCs, a registry in which they are available, an image, and the playbook."""

    def __init__(self, lab, directory):
        self.lab, self.directory = lab, directory
        collections = directory / "collections" / "ansible_collections" / "aicluster"
        collections.mkdir(parents=True)
        (collections / "baremetal").symlink_to(ROOT)
        self.url = f"sqlite:///{directory}/registry.db"
        self.registry = open_registry(self.url, migrate=True)
        self.names = [bmc.name for bmc in lab.bmcs]
        self.hosts = {}
        for number, bmc in enumerate(lab.bmcs, 1):
            self.hosts[bmc.name] = {
                "ansible_host": f"192.0.2.{number}",
                "bmc_address": bmc.address,
                "bmc_port": bmc.port,
                "bmc_credential": "factory",
                "bmc_fingerprint": bmc.fingerprint,
                "aicluster_rack": "r1",
            }
            columns = {"provision_ip": f"192.0.2.{number}", "provision_mac": f"52:54:00:77:00:{number:02x}"}
            self.registry.save_node(
                bmc.serial, "test", state="manageable", name=bmc.name, provision_prefix=24, **columns
            )
            self.registry.transition(bmc.name, "manageable", "available", "test")
        image = directory / "images" / "test"
        image.mkdir(parents=True)
        for file in ("disk.raw", "vmlinuz", "deploy.img"):
            (image / file).write_bytes(bytes(512))
        manifest = {"name": "test", "sha256": "0" * 64, "size_bytes": 512, "root_uuid": ROOT_UUID}
        (image / "manifest.json").write_text(json.dumps(manifest))
        (directory / "bin").mkdir()
        (directory / "bin" / "ssh").write_text(SSH)
        (directory / "bin" / "ssh").chmod(0o755)
        secrets = directory / "secrets.yml"
        secrets.write_text(yaml.safe_dump({"factory": {"username": testing.USERNAME, "password": testing.PASSWORD}}))
        secrets.chmod(0o600)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "AICLUSTER_"))},
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
            "ANSIBLE_COLLECTIONS_PATH": str(directory / "collections"),
            "ANSIBLE_HOME": str(directory / "home"),
            "ANSIBLE_FORKS": "10",
            "ANSIBLE_NOCOLOR": "1",
            "AICLUSTER_REGISTRY": self.url,
            "AICLUSTER_SECRETS": str(secrets),
            "AICLUSTER_KNOWN_HOSTS": str(directory / "known_hosts"),
            "AICLUSTER_BMC_GUARD": "off",
        }

    def start(self, *arguments, **more):
        (self.directory / "hosts.yml").write_text(yaml.safe_dump({"nodes": {"hosts": self.hosts}}))
        options = {
            "deploy_image": "test",
            "deploy_image_store": str(self.directory / "images"),
            "deploy_ssh_public_keys": ["ssh-ed25519 AAAA test"],
            **more,
        }
        program = pathlib.Path(sys.executable).with_name("ansible-playbook")
        command = [program, "-i", self.directory / "hosts.yml", "aicluster.baremetal.deploy", "-e", json.dumps(options)]
        return subprocess.Popen(
            [*command, *arguments],
            env=self.environment,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments, **more):
        """(exit status, output, {host: (changed, failed)})."""
        process = self.start(*arguments, **more)
        try:
            text, _none = process.communicate(timeout=240)
        finally:
            process.kill()
            process.wait()
        recap = re.findall(r"^(gpu\d+) .*changed=(\d+) .*failed=(\d+)", text, re.M)
        return process.returncode, text, {name: (int(changed), int(failed)) for name, changed, failed in recap}

    def state(self, name):
        return self.registry.node(name)["state"]

    def steps(self, name):
        return [row["step"] for row in self.registry.boot_events(name)]

    def sent(self, name):
        """What the BMC was told: method and the last word of the path."""
        return [(entry["method"], entry["path"].rsplit("/", 1)[-1]) for entry in self.lab.requests(name)]


@contextlib.contextmanager
def site_of(nodes, tmp_path):
    with testing.running(nodes, behaviour={"power_lag_s": 0.2}) as lab:
        yield Site(lab, tmp_path)


def test_nodes_are_started_together_and_each_ends_by_itself(tmp_path):
    nodes = [testing.node_config(number) for number in (1, 2, 3, 4, 5)]
    nodes[1]["bmc"]["protocols"] = ["redfish", "ipmi"]
    slow = [(step, 6 if step == "written" else 0) for step in BOOT]
    broken = [*((step, 0) for step in BOOT[:4]), ("failed", 0, "gpu03: no disk fits")]
    with site_of(nodes, tmp_path) as site, Boots(site.lab, site.url, {"gpu01": slow, "gpu03": broken}) as boots:
        site.hosts["gpu02"].update(bmc_protocol="ipmi", bmc_port=site.lab["gpu02"].ipmi_port, bmc_fingerprint="")
        site.hosts["gpu04"]["bmc_credential"] = "nowhere"
        # one that runs is restarted, and has its own boot target
        site.hosts["gpu05"]["deploy_boot_target"] = "uefi_http"
        site.lab.control.call("power", node="gpu05", action="On")
        site.lab.wait("gpu05", lambda state: state["power"] == "On")

        status, text, recap = site.run("--check", "--diff")
        assert status == 2 and recap["gpu04"][1] == 1 and recap["gpu01"][1] == 0, text
        assert "gpu01 boot.target" in text and 'gpu01 power: "on' in text
        assert not any(site.sent(name) for name in site.names) and not any(site.steps(name) for name in site.names)
        assert {site.state(name) for name in site.names} == {"available"}

        status, text, recap = site.run()
        assert status == 2, text
        states = {name: site.state(name) for name in site.names}
        good, bad = "deployed", "deploying_failed"
        assert states == dict(zip(site.names, (good, good, bad, bad, good))), text
        assert {name: failed for name, (_changed, failed) in recap.items()} == dict(zip(site.names, (0, 0, 1, 1, 0)))
        assert text.count("TASK [aicluster.baremetal.deploy : Nodes that have to boot are started together") == 1
        reasons = {name: site.registry.attempts(name)[-1]["reason"] for name in ("gpu03", "gpu04")}
        assert "no disk fits" in reasons["gpu03"] and "nowhere" in reasons["gpu04"] and "gpu04" in reasons["gpu04"]
        ends = {name: site.registry.attempts(name)[-1]["ended"] for name in site.names}
        assert ends["gpu03"] < ends["gpu01"] and ends["gpu02"] < ends["gpu01"], (
            "they were recorded with the slowest node"
        )
        assert site.sent("gpu01") == [("PATCH", "1"), ("POST", "ComputerSystem.Reset")] and site.sent("gpu04") == []
        bodies = [entry["body"] for entry in site.lab.requests("gpu05")]
        assert bodies[0]["Boot"]["BootSourceOverrideTarget"] == "UefiHttp" and bodies[1]["ResetType"] == "ForceRestart"
        assert site.steps("gpu01").count("power_on") == 1 and site.steps("gpu04") == ["reserved"]
        assert all(site.lab.state(name)["sessions"] == 0 for name in site.names)

        before = {name: site.sent(name) for name in site.names}
        status, text, recap = site.run()
        assert status == 0 and not any(changed for changed, _failed in recap.values()), text
        assert {name: site.sent(name) for name in site.names} == before

        boots.plans.clear()
        site.hosts["gpu04"]["bmc_credential"] = "factory"
        status, text, recap = site.run("-l", "gpu03", deploy_retry_failed=True)
        assert status == 0 and site.state("gpu03") == good and site.state("gpu04") == bad, text
        status, text, recap = site.run("-l", "gpu04", deploy_retry_failed=True)
        assert status == 0 and site.state("gpu04") == good, text
        assert site.registry.verify_audit()["ok"]


def test_a_write_that_nothing_vouches_for_is_no_pass(tmp_path):
    """No access log shows a whole transfer to either node; gpu01's ramdisk said that the checksum was right, gpu02's did not."""
    silent = [(step, 0) for step in BOOT if step != "written"]
    with site_of(2, tmp_path) as site, Boots(site.lab, site.url, {"gpu02": silent}):
        status, text, _recap = site.run()
        assert status == 2 and [site.state(name) for name in site.names] == ["deployed", "deploying_failed"], text
        assert "sent the whole image to this node: could not be tested" in site.registry.attempts("gpu02")[-1]["reason"]
        found = [
            item
            for name in site.names
            for item in site.registry.evidence(name)
            if item["check"] == "deploy.image_bytes"
        ]
        assert [(item["outcome"], item["gates"]) for item in found] == [
            ("could_not_test", False),
            ("could_not_test", True),
        ]


def test_a_killed_run_is_taken_up_and_nothing_is_sent_twice(tmp_path):
    """gpu01 is being written when the controller is killed, gpu02 is on its way to its boot question, gpu03's BMC was not yet told to switch."""
    plans = {
        "gpu01": [(step, 12 if step == "written" else 0) for step in BOOT],
        "gpu02": [(step, 60 if step == "loader" else 0) for step in BOOT],
    }
    with site_of(3, tmp_path) as site, Boots(site.lab, site.url, plans) as boots:
        # two of one group, and the third one's turn does not come before the kill
        process = site.start(deploy_stagger=[{"by": "bmc_credential", "batch": 2, "pause": 60}])
        try:
            end = time.monotonic() + 120
            while "writing" not in site.steps("gpu01") or "dhcp" not in site.steps("gpu02"):
                assert time.monotonic() < end and process.poll() is None, process.communicate()[0]
                time.sleep(0.1)
            process.send_signal(signal.SIGKILL)
            process.wait()
        finally:
            process.kill()
            process.wait()
        for name in site.names:
            site.lab.wait(name, lambda state: state["sessions"] == 0, 20)
        sent = {name: site.sent(name) for name in site.names}
        assert len(sent["gpu01"]) == 2 and len(sent["gpu02"]) == 2 and sent["gpu03"] == [], sent
        old = {name: site.registry.node(name)["fencing"] for name in site.names}
        boots.plans.pop("gpu02")
        status, text, _recap = site.run()
        assert status == 0, text
        assert {site.state(name) for name in site.names} == {"deployed"}
        assert all(site.registry.node(name)["fencing"] > old[name] for name in site.names)
        assert site.sent("gpu01") == sent["gpu01"] and site.steps("gpu01").count("writing") == 1
        # its boot did not get to its question, so it was started anew; the override was used up by the boot
        assert site.sent("gpu02") == 2 * sent["gpu02"] and site.steps("gpu02").count("power_on") == 2
        assert len(site.sent("gpu03")) == 2 and site.steps("gpu03").count("power_on") == 1


def test_a_wave_begins_when_the_one_before_has_ended_and_one_that_fails_wholly_ends_the_run(tmp_path):
    with site_of(3, tmp_path) as site, Boots(site.lab, site.url) as boots:
        boots.plans["gpu02"] = [("dhcp", 0), ("failed", 0, "gpu02: no")]
        status, text, _recap = site.run(deploy_serial=1)
        assert status == 2, text
        assert [site.state(name) for name in site.names] == ["deployed", "deploying_failed", "deploying"], text
        (first, second) = (site.registry.boot_events(name) for name in ("gpu01", "gpu02"))
        on = next(row["time"] for row in second if row["step"] == "power_on")
        assert max(row["time"] for row in first) <= on and site.sent("gpu03") == []


def test_a_call_that_is_wrong_for_all_takes_no_node_and_sends_nothing(tmp_path):
    with site_of(2, tmp_path) as site, Boots(site.lab, site.url):
        status, text, recap = site.run(deploy_stagger=[{"by": "aicluster_rack", "batch": 0}])
        assert status == 2 and "batch of at least 1" in text, text
        for name in site.names:
            assert site.sent(name) == [] and site.state(name) == "available", text
            assert recap[name][1] == 1 and not site.registry.attempts(name)
