# The firmware doors as a user runs them: real ansible-playbook runs against simulated BMCs; check mode, the run, a second run, a node that fails.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))
import conftest  # noqa: E402  makes the checkout and the simulator importable

assert conftest.ROOT == ROOT

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import process  # noqa: E402
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry  # noqa: E402
from bmc_simulator import testing  # noqa: E402

NODES = ("gpu01", "gpu02", "gpu03")
WANTED = {"BMC": "1.0.0", "BIOS": "2.0", "CPLD": "1.0.0"}


class Controller:
    """A directory with three nodes that are available, a baseline for their BIOS, and the playbook."""

    def __init__(self, lab, directory):
        self.lab, self.directory = lab, directory
        collections = directory / "collections" / "ansible_collections" / "aicluster"
        collections.mkdir(parents=True)
        (collections / "baremetal").symlink_to(ROOT)
        self.registry = open_registry(f"sqlite:///{directory}/registry.db", migrate=True)
        secrets = directory / "secrets.yml"
        secrets.write_text(yaml.safe_dump({"bmc": {"username": testing.USERNAME, "password": testing.PASSWORD}}))
        secrets.chmod(0o600)
        for bmc in lab.bmcs:
            self.registry.save_node(
                bmc.serial,
                "test",
                name=bmc.name,
                state="manageable",
                platform="p",
                rack="r1",
                bmc_address=bmc.address,
                bmc_port=bmc.port,
                bmc_protocol="redfish",
                bmc_credential="bmc",
                bmc_fingerprint=bmc.fingerprint,
            )
            self.registry.transition(bmc.name, "manageable", "available", "test")
        image = directory / "bios.bin"
        image.write_bytes(testing.firmware_image("BIOS", "2.0", size=300_000))
        bios = {
            "inventory": "^BIOS$",
            "wanted": "2.0",
            "image": {"path": "bios.bin", "sha256": hashlib.sha256(image.read_bytes()).hexdigest()},
            "activation": "host_reboot",
        }
        platform = {"pause_s": 0, "settle_s": 1, "components": {"bios": bios}}
        self.baseline = directory / "baseline.yml"
        self.baseline.write_text(yaml.safe_dump({"schema": 1, "name": "b1", "platforms": {"p": platform}}))
        (directory / "registry.aicluster.yml").write_text("plugin: aicluster.baremetal.registry\n")
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "AICLUSTER_"))},
            "ANSIBLE_COLLECTIONS_PATH": str(directory / "collections"),
            "ANSIBLE_HOME": str(directory / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "AICLUSTER_REGISTRY": f"sqlite:///{directory}/registry.db",
            "AICLUSTER_SECRETS": str(secrets),
            "AICLUSTER_KNOWN_HOSTS": str(directory / "known_hosts"),
        }

    def run(self, playbook, *arguments):
        """(exit status, output, {host: (changed, failed)})."""
        options = {
            "firmware_baseline_path": str(self.baseline),
            "firmware_baseline_limits": {"poll": 0.2, "activate": 15},
        }
        command = [sys.executable, "-m", "ansible.cli.playbook", "-i", str(self.directory / "registry.aicluster.yml")]
        command += [str(playbook), "-e", json.dumps(options), *arguments]
        done = subprocess.run(
            command, cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        text = done.stdout + done.stderr
        recap = re.findall(r"^(\S+)\s*: ok=\d+\s+changed=(\d+)\s+unreachable=\d+\s+failed=(\d+)", text, re.MULTILINE)
        return done.returncode, text, {host: (int(changed), int(failed)) for host, changed, failed in recap}

    def play(self, *tasks, hosts="gpu01"):
        path = self.directory / "play.yml"
        path.write_text(yaml.safe_dump([{"hosts": hosts, "gather_facts": False, "tasks": list(tasks)}]))
        return self.run(path)

    def bios(self):
        return {name: self.lab.state(name)["firmware"]["BIOS"] for name in NODES}

    def states(self):
        return {row["name"]: row["state"] for row in self.registry.nodes()}


@pytest.fixture
def controller(tmp_path):
    with testing.running(3) as lab:
        found = Controller(lab, tmp_path)
        yield found
        found.registry.close()


def test_the_playbook(controller):
    playbook = ROOT / "playbooks" / "firmware.yml"
    status, text, _recap = controller.run(playbook, "--check", "--diff")
    assert status == 0, text
    assert "push bios 1.0.0 -> 2.0 (bios.bin)" in text and 'firmware.bios: "2.0"' in text
    assert set(controller.bios().values()) == {"1.0.0"} and set(controller.states().values()) == {"available"}

    # gpu02's flash fails. The canary is gpu01; after gpu02's failure nobody else begins, and with one node at a time that is gpu03.
    controller.lab.set_behaviour("gpu02", task_fails=True)
    status, text, recap = controller.run(playbook, "-e", "firmware_baseline_limit=1")
    assert status == 2, text
    assert controller.bios() == {"gpu01": "2.0", "gpu02": "1.0.0", "gpu03": "1.0.0"}
    assert controller.states() == {"gpu01": "available", "gpu02": "updating_failed", "gpu03": "available"}
    assert {host for host, (_changed, failed) in recap.items() if failed} == {"gpu02", "gpu03"}
    assert "the BMC could not write the image" in text and "the run was stopped" in text

    controller.lab.reset_behaviour("gpu02")
    status, text, recap = controller.run(playbook)
    assert status == 0, text
    assert controller.bios() == {"gpu01": "2.0", "gpu02": "1.0.0", "gpu03": "2.0"}  # a failed one waits for a word
    status, text, recap = controller.run(playbook, "-e", "firmware_baseline_retry=true")
    assert status == 0 and set(controller.bios().values()) == {"2.0"}, text
    assert set(controller.states().values()) == {"available"}

    status, text, recap = controller.run(playbook)
    assert status == 0 and all(changed == 0 and failed == 0 for changed, failed in recap.values()), text


def test_an_attempt_of_a_dead_controller_is_taken_over(controller):
    """The inventory still gives the dead attempt's fencing number to the run."""
    me = process.this_controller()
    dead = dataclasses.replace(me, started=me.started + 1)
    assert controller.registry.begin("gpu02", "firmware", dead, actor="dead").selected
    status, text, _recap = controller.run(ROOT / "playbooks" / "firmware.yml", "-l", "gpu02")
    assert status == 0 and controller.bios()["gpu02"] == "2.0" and controller.states()["gpu02"] == "available", text


def test_the_tasks(controller):
    options = {"baseline": str(controller.baseline), "limits": {"poll": 0.2, "activate": 15}}
    info = {"aicluster.baremetal.bmc_firmware_info": {}, "register": "info"}
    one = {"aicluster.baremetal.bmc_firmware": options, "register": "result"}
    verify = {"ansible.builtin.include_role": {"name": "aicluster.baremetal.firmware_baseline", "tasks_from": "verify"}}
    said = {
        "ansible.builtin.assert": {
            "that": [
                "info.inventory | map(attribute='id') | list == ['BIOS', 'BMC', 'CPLD']",
                "info.methods == ['multipart', 'push', 'simple']",
                "result.changed",
                "result.state == 'active'",
                "result.steps[0].pushes == 1",
            ]
        }
    }
    status, text, recap = controller.play(info, one, said, verify)
    assert status == 0 and controller.bios() == {"gpu01": "2.0", "gpu02": "1.0.0", "gpu03": "1.0.0"}, text
    status, text, recap = controller.play(verify, hosts="gpu02")
    assert status == 2 and "push bios 1.0.0 -> 2.0" in text
    status, text, recap = controller.play({**one, "delegate_to": "gpu02"})
    assert status == 2 and "firmware is sent from the controller only" in text
    rollout = {"aicluster.baremetal.firmware_rollout": options, "when": "true"}
    status, text, recap = controller.play(rollout)
    assert status == 2 and "no `when`" in text
