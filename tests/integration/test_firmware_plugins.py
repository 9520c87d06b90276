# The firmware doors as a user runs them: real ansible-playbook runs against simulated BMCs; check mode, the run, a second run, a node that fails.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import simulated_firmware_tools as simulated
from controller import PLAYBOOK, ROOT, Directory

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import process
from bmc_simulator import testing

NODES = ("gpu01", "gpu02", "gpu03")


class Controller(Directory):
    """A directory with nodes that are available, four in a rack, a baseline for their BIOS, and the playbook."""

    def __init__(self, lab, directory):
        super().__init__(directory, {"bmc": {"username": testing.USERNAME, "password": testing.PASSWORD}})
        self.lab, self.registry = lab, self.open_registry()
        for number, bmc in enumerate(lab.bmcs):
            self.registry.save_node(
                bmc.serial,
                "test",
                name=bmc.name,
                state="manageable",
                platform="p",
                rack=f"r{1 + number // 4}",
                bmc_address=bmc.address,
                bmc_port=bmc.port,
                bmc_protocol="redfish",
                bmc_credential="bmc",
                bmc_fingerprint=bmc.fingerprint,
            )
            self.registry.transition(bmc.name, "manageable", "available", "test")
        image = self.image("bios.bin", testing.firmware_image("BIOS", "2.0", size=300_000))
        bios = {"inventory": "^BIOS$", "wanted": "2.0", "image": image, "activation": "host_reboot"}
        self.baseline = directory / "baseline.yml"
        self.write_baseline(bios=bios)
        (directory / "registry.aicluster.yml").write_text("plugin: aicluster.baremetal.registry\n")

    def image(self, name, content):
        (self.directory / name).write_bytes(content)
        return {"path": name, "sha256": hashlib.sha256(content).hexdigest()}

    def write_baseline(self, **components):
        platform = {"pause_s": 0, "settle_s": 1, "components": components}
        self.baseline.write_text(yaml.safe_dump({"schema": 1, "name": "b1", "platforms": {"p": platform}}))

    def run(self, playbook, *arguments):
        """(exit status, output, {host: (changed, failed)})."""
        options = {
            "firmware_baseline_path": str(self.baseline),
            "firmware_baseline_limits": {"poll": 0.2, "activate": 15},
        }
        status, text = self.ansible_playbook(
            self.directory / "registry.aicluster.yml", playbook, "-e", json.dumps(options), *arguments
        )
        recap = re.findall(r"^(\S+)\s*: ok=\d+\s+changed=(\d+)\s+unreachable=\d+\s+failed=(\d+)", text, re.MULTILINE)
        return status, text, {host: (int(changed), int(failed)) for host, changed, failed in recap}

    def play(self, *tasks, hosts="gpu01"):
        path = self.directory / "play.yml"
        path.write_text(yaml.safe_dump([{"hosts": hosts, "gather_facts": False, "tasks": list(tasks)}]))
        return self.run(path)

    def bios(self):
        return {bmc.name: self.lab.state(bmc.name)["firmware"]["BIOS"] for bmc in self.lab.bmcs}

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


def test_only_nodes_that_are_asked_and_have_redfish(controller):
    inventory, playbook = controller.directory / "registry.aicluster.yml", ROOT / "playbooks" / "firmware.yml"
    variables = controller.directory / "host_vars"
    variables.mkdir()

    def run(book=playbook, **baselines):
        """With a baseline for the hosts that have one here, as their own variable."""
        for path in variables.glob("*.yml"):
            path.unlink()
        for name, path in baselines.items():
            (variables / f"{name}.yml").write_text(yaml.safe_dump({"firmware_baseline_path": str(path)}))
        limits = json.dumps({"firmware_baseline_limits": {"poll": 0.2, "activate": 15}})
        return controller.ansible_playbook(inventory, book, "-e", limits)

    controller.registry.save_node(controller.lab["gpu02"].serial, "test", bmc_protocol="ipmi")
    site = controller.directory / "site.yml"
    wanted = {
        "ansible.builtin.import_playbook": "aicluster.baremetal.firmware",
        "vars": {"firmware_baseline_required": False},
    }
    site.write_text(yaml.safe_dump([wanted]))
    status, text = run()
    assert status == 2 and "no baseline is named" in text, text
    status, text = run(site)
    assert status == 0 and "firmware: skipped, no baseline is named" in text, text
    status, text = run(gpu01=controller.baseline, gpu03=controller.directory / "other.yml")
    assert status == 2 and "one run brings nodes to one baseline" in text, text
    assert not any(controller.lab.requests(name, sessions=True) for name in NODES), (
        "a BMC was asked though nothing is to be done"
    )
    status, text = run(site, gpu01=controller.baseline, gpu02=controller.baseline)
    assert status == 0 and "gpu02: its BMC is driven by ipmi, and firmware by plan needs Redfish" in text, text
    assert controller.bios() == {"gpu01": "2.0", "gpu02": "1.0.0", "gpu03": "1.0.0"}
    assert not any(controller.lab.requests(name, sessions=True) for name in ("gpu02", "gpu03"))


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


@pytest.fixture
def two_racks(tmp_path):
    with testing.running(8) as lab:
        found = Controller(lab, tmp_path)
        yield found
        found.registry.close()


def test_consent_of_all_nodes_comes_before_the_first_node(two_racks):
    """Check mode says for each node what is missing; the run says it once for all of them and touches nobody."""
    playbook, serials = ROOT / "playbooks" / "firmware.yml", {bmc.name: bmc.serial for bmc in two_racks.lab.bmcs}
    image = two_racks.image("bios.bin", testing.firmware_image("BIOS", "2.0", size=300_000))
    two_racks.write_baseline(
        bios={"inventory": "^BIOS$", "wanted": "2.0", "image": image, "activation": "host_reboot", "can_brick": True}
    )

    def run(consent, *arguments):
        return two_racks.run(playbook, "-e", json.dumps({"firmware_baseline_consent": consent}), *arguments)

    last = list(serials)[-1]
    without_last = [serial for name, serial in serials.items() if name != last]
    status, text, _recap = run(without_last[1:], "--check", "--diff")
    assert status == 0 and "consent is missing for 2 nodes" in text, text
    for name in (list(serials)[0], last):
        assert f"{name} # !  bios: can brick, needs consent for {serials[name]}" in text, text
    assert text.count("# !") == 2
    status, text, recap = run(without_last)
    assert status == 2 and text.count("FAILED!") == 1 and "consent is missing for 1 of the nodes" in text, text
    assert f"{last}: consent: " in text and serials[last] in text and "firmware_baseline_consent" in text
    assert "not tried" not in text
    assert set(two_racks.bios().values()) == {"1.0.0"} and set(two_racks.states().values()) == {"available"}
    assert not any(two_racks.registry.attempts(name) for name in serials)
    status, text, recap = run(list(serials.values()))
    assert status == 0 and set(two_racks.bios().values()) == {"2.0"}, text
    status, text, recap = run([])  # nothing is left that wants it
    assert status == 0 and all(changed == 0 and failed == 0 for changed, failed in recap.values()), text


def test_a_wrong_image_file_takes_no_node(controller):
    """It is no fault of the nodes: all stay as they are, and not one more of them is used up by each run."""
    playbook = ROOT / "playbooks" / "firmware.yml"
    (controller.directory / "bios.bin").write_bytes(b"another file")
    status, text, _recap = controller.run(playbook, "--check")
    assert status == 0 and "a real run would refuse gpu01: image " in text and "2 more nodes" in text, text
    for _again in range(2):
        status, text, _recap = controller.run(playbook)
        assert status == 2 and "the image is not the one that the baseline means" in text, text
        assert set(controller.states().values()) == {"available"}
        assert not any(controller.registry.attempts(name) for name in NODES)


def at_once(spans):
    """The most of these (begin, end) that overlap anywhere."""
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _end in spans)


def test_a_canary_then_so_many_percent_of_each_rack(two_racks):
    playbook = ROOT / "playbooks" / "firmware.yml"
    status, text, _recap = two_racks.run(playbook, "-e", "firmware_baseline_limit=50%")
    assert status == 0 and set(two_racks.bios().values()) == {"2.0"}, text
    spans = {}
    for row in two_racks.registry.nodes():
        [attempt] = two_racks.registry.attempts(row["name"])
        spans[row["name"]] = (row["rack"], attempt["started"], attempt["ended"])
    canary, *others = sorted(spans.values(), key=lambda span: span[1])
    assert all(canary[2] <= begun for _rack, begun, _ended in others)
    for rack in ("r1", "r2"):
        assert at_once([(begun, ended) for where, begun, ended in others if where == rack]) == 2  # half of four


def test_nodes_of_one_chassis_go_one_after_the_other(controller):
    """Also where the limits would let all of them begin: what they share has one owner at a time."""
    options = {"aicluster_siblings": [bmc.name for bmc in controller.lab.bmcs], "firmware_baseline_canary": 0}
    options["firmware_baseline_limit"] = "100%"
    status, text, _recap = controller.run(ROOT / "playbooks" / "firmware.yml", "-e", json.dumps(options))
    assert status == 0 and set(controller.bios().values()) == {"2.0"}, text
    attempts = [controller.registry.attempts(bmc.name)[-1] for bmc in controller.lab.bmcs]
    assert at_once([(attempt["started"], attempt["ended"]) for attempt in attempts]) == 1


def test_the_first_server_that_gets_worse_ends_the_rollout(two_racks):
    playbook = ROOT / "playbooks" / "firmware.yml"
    two_racks.lab.set_behaviour(None, health_after_update="Critical")
    status, text, recap = two_racks.run(playbook)
    assert status == 2 and "not as healthy as it was before" in text and "the run was stopped" in text, text
    assert sorted(two_racks.bios().values()) == ["1.0.0"] * 7 + ["2.0"]
    [canary] = [name for name, version in two_racks.bios().items() if version == "2.0"]
    states = two_racks.states()
    assert states.pop(canary) == "updating_failed" and set(states.values()) == {"available"}
    first, *_rest = two_racks.registry.why(canary)
    assert "system: OK -> Critical" in first["text"] and "firmware_retry_failed=true" in first["next_step"]
    # without a canary those that are under way together are the most that can be hit
    two_racks.lab.reset_behaviour(canary)
    two_racks.lab.set_behaviour(None, health_after_update="Critical")
    status, text, recap = two_racks.run(playbook, "-e", "firmware_baseline_canary=0", "-e", "firmware_baseline_limit=1")
    assert status == 2 and 2 <= list(two_racks.bios().values()).count("2.0") <= 3, text


# ---- by tools on the node -------------------------------------------------------------------------------------------------------------------
IN_BAND = {"ansible_connection": "local", "ansible_become": False}


class Tools:
    """The simulated tools of gpu01, and a baseline for its BIOS by the BMC and its NIC, drive and GPU by them."""

    def __init__(self, controller):
        self.controller = controller
        lab = controller.lab
        path, self.file = simulated.install(controller.directory, lab.control.path, "gpu01")
        controller.environment["PATH"] = f"{path}:{controller.environment['PATH']}"
        controller.environment["SIMULATED_NODE"] = str(self.file)
        more = {"activation": "host_reboot"}
        self.components = {
            "bios": {
                "inventory": "^BIOS$",
                "wanted": "2.0",
                "image": controller.image("bios.bin", testing.firmware_image("BIOS", "2.0", size=300_000)),
                **more,
            },
            "nic": {
                "path": "nic",
                "inventory": "^0000:",
                "psid": ["MT_0000000838"],
                "wanted": "28.39.3004",
                "image": controller.image("nic.bin", simulated.image("nic", "28.39.3004", "MT_0000000838")),
                **more,
            },
            "drive": {
                "path": "nvme",
                "inventory": "^SIMDRIVE",
                "rule": "exact",
                "wanted": "GDC5702Q",
                "image": controller.image("drive.bin", simulated.image("drive", "GDC5702Q")),
                **more,
            },
            "vbios": {
                "path": "gpu_vbios",
                "inventory": "^0+:",
                "rule": "dotted_hex",
                "wanted": "96.00.68.00.01",
                "image": controller.image("vbios.rom", simulated.image("gpu", "96.00.68.00.01")),
                "oem": {"command": [simulated.VBIOS_TOOL, "{device}", "{image}"]},
                "can_brick": True,
                **more,
            },
        }
        controller.write_baseline(**self.components)

    @property
    def state(self):
        return json.loads(self.file.read_text())

    def change(self, **values):
        self.file.write_text(json.dumps({**self.state, **values}))

    def task(self, **more):
        limits = {"poll": 0.2, "activate": 15, "blind": 3, "effect": 5}
        consent = [self.controller.lab["gpu01"].serial]
        options = {
            "baseline": str(self.controller.baseline),
            "in_band": True,
            "limits": limits,
            "consent": consent,
            **more,
        }
        return {"aicluster.baremetal.bmc_firmware": options, "vars": IN_BAND, "register": "result"}

    def run(self, *arguments, **more):
        said = {"ansible.builtin.debug": {"msg": "steps {{ result.steps | to_json }} {{ result.msg }}"}}
        return self.controller.play(self.task(**more), said)

    def start(self):
        """A controller of its own, to be killed."""
        path = self.controller.directory / "play.yml"
        path.write_text(yaml.safe_dump([{"hosts": "gpu01", "gather_facts": False, "tasks": [self.task()]}]))
        command = [str(PLAYBOOK), "-i", str(self.controller.directory / "registry.aicluster.yml"), str(path)]
        return subprocess.Popen(
            command,
            cwd=self.controller.directory,
            env=self.controller.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@pytest.fixture
def tools(controller):
    return Tools(controller)


NEW = {"nic": "28.39.3004", "drive": "GDC5702Q", "gpu": "96.00.68.00.01"}


def test_nic_drive_and_gpu_by_their_tools_share_the_bios_restart(tools):
    status, text, _recap = tools.run()
    assert status == 0, text
    state = tools.state
    assert {name: state[name]["running"] for name in NEW} == NEW and state["boots"] == 1  # one restart for all four
    assert sorted(state["written"]) == sorted([name, version] for name, version in NEW.items())
    assert tools.controller.bios()["gpu01"] == "2.0"
    burnt = [call for call in state["calls"] if "burn" in call]
    assert (
        len(burnt) == 1 and burnt[0][:4] == ["mstflint", "-d", "0000:18:00.0", "-i"] and burnt[0][5:] == ["-y", "burn"]
    )
    calls = len(state["calls"])
    status, text, recap = tools.run()
    assert status == 0 and recap["gpu01"] == (0, 0) and tools.state["written"] == state["written"], text
    assert len(tools.state["calls"]) > calls  # it looked


def test_a_nic_of_another_board_is_not_burnt(tools):
    tools.components["nic"]["image"] = tools.controller.image(
        "nic.bin", simulated.image("nic", "28.39.3004", "MT_OTHER")
    )
    tools.controller.write_baseline(nic=tools.components["nic"])
    status, text, _recap = tools.run()
    assert status == 2 and "another board" in text and "nothing was burnt" in text, text
    assert tools.state["written"] == [] and not [call for call in tools.state["calls"] if "burn" in call]
    codes = {entry["code"]: entry for entry in tools.controller.registry.why("gpu01")}
    assert (
        "another board" in codes["firmware_parked"]["text"] and "PSID" in codes["firmware_parked"]["next_step"].upper()
    )


def test_consent_is_for_one_serial_number(tools):
    status, text, _recap = tools.run(consent=["SOME-OTHER"])
    assert status == 2 and "wants consent for this serial number" in text and tools.state["written"] == [], text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nic", "gpu"])
def test_killed_while_the_tool_writes_and_run_again(tools, kind):
    """The tool goes on when its controller dies; a NIC shows what was written, a GPU shows nothing until the restart. No device is written twice."""
    name = {"nic": "nic", "gpu": "vbios"}[kind]
    tools.controller.write_baseline(**{name: tools.components[name]})
    tools.change(slow_s=3)
    child = tools.start()
    try:
        end = time.monotonic() + 60
        while not tools.state["written"] and time.monotonic() < end and child.poll() is None:
            time.sleep(0.05)
    finally:
        child.kill()  # it alone, as a crash does
        child.wait()
    assert tools.state["written"] == [[kind, NEW[kind]]]
    [step] = tools.controller.registry.firmware_plan("gpu01")["steps"]
    assert step["state"] == "pushing"  # nobody wrote down that it was done
    tools.change(slow_s=0)
    status, text, _recap = tools.run()
    assert status == 0 and tools.state[kind]["running"] == NEW[kind], text
    assert tools.state["written"] == [[kind, NEW[kind]]]
