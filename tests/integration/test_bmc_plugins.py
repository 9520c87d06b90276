# The bmc_* tasks as a user runs them: real ansible-playbook runs against simulated BMCs, in the controller and sent with delegate_to.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from controller import PLAYBOOK, Directory

from bmc_simulator import testing

PASSWORD = testing.PASSWORD


class Controller(Directory):
    """A directory with an inventory of two nodes, a registry that knows them, a secret store; `play` runs tasks over them."""

    def __init__(self, lab, directory):
        accounts = {
            "factory": {"username": testing.USERNAME, "password": PASSWORD},
            "long": {"username": "admin", "password": "x" * 24},
        }
        super().__init__(directory, accounts)
        self.lab, self.registry = lab, self.open_registry()
        hosts = {}
        for bmc in lab.bmcs:
            hosts[bmc.name] = {
                "bmc_address": bmc.address,
                "bmc_port": bmc.port,
                "bmc_protocol": "redfish",
                "bmc_credential": "factory",
                "bmc_fingerprint": bmc.fingerprint,
            }
            there = {"bmc_address": bmc.address, "bmc_port": bmc.port}
            self.registry.save_node(bmc.serial, "test", state="manageable", name=bmc.name, **there)
        far = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory = {"nodes": {"hosts": hosts}, "gateways": {"hosts": {"gateway": far}}}
        (directory / "hosts.yml").write_text(yaml.safe_dump(inventory))

    def play(self, *tasks, hosts="gpu01", arguments=(), variables=None):
        """(exit status, output, {registered name: result of the last task for the host})."""
        out = self.directory / "results.json"
        out.unlink(missing_ok=True)
        keep = {
            "name": "Keep the results",
            "ansible.builtin.copy": {
                "content": "{{ result | default({}) | to_json }}",
                "dest": str(out),
                "mode": "0600",
            },
            "delegate_to": "localhost",
            "check_mode": False,
            "vars": {"ansible_python_interpreter": sys.executable},
        }
        tasks = [{"name": f"Task {number}", **task, "register": "result"} for number, task in enumerate(tasks)]
        play = [
            {"name": "Test", "hosts": hosts, "gather_facts": False, "vars": variables or {}, "tasks": [*tasks, keep]}
        ]
        (self.directory / "play.yml").write_text(yaml.safe_dump(play))
        status, text = self.ansible_playbook(self.directory / "hosts.yml", self.directory / "play.yml", *arguments)
        return status, text, json.loads(out.read_text()) if out.exists() else None


@pytest.fixture(scope="module")
def lab():
    with testing.running(2) as running:
        yield running


@pytest.fixture
def controller(lab, tmp_path):
    lab.reset_behaviour()
    return Controller(lab, tmp_path)


POWER = "aicluster.baremetal.bmc_power"


def count(lab):
    return len(lab.requests("gpu01"))


def test_check_then_do_then_nothing(controller, lab):
    before = count(lab)
    task = {"aicluster.baremetal.bmc_boot": {"target": "pxe", "mode": "uefi"}}
    status, output, result = controller.play(task, arguments=["--check", "--diff"])
    assert status == 0 and result["changed"] and '+boot.target: "pxe"' in output and count(lab) == before
    status, output, result = controller.play(task)
    assert status == 0 and result["changed"] and result["source"] == "redfish" and count(lab) == before + 1
    status, output, result = controller.play(task)
    assert status == 0 and not result["changed"] and count(lab) == before + 1


def test_sent_with_delegate_to(controller, lab):
    before = count(lab)
    status, output, result = controller.play({POWER: {"state": "on"}, "delegate_to": "gateway"}, arguments=["-vvv"])
    assert status == 0 and result["changed"] and result["after"] == {"power": "on"}, output
    assert "AnsiballZ_bmc_power" in output and PASSWORD not in output and PASSWORD not in json.dumps(result)
    status, output, result = controller.play({POWER: {"state": "on"}, "delegate_to": "gateway"}, arguments=["--check"])
    assert status == 0 and not result["changed"]
    assert count(lab) == before + 1


def test_localhost_is_the_controller(controller):
    status, output, result = controller.play(
        {"aicluster.baremetal.bmc_info": {"sections": ["system"]}, "delegate_to": "localhost"}, arguments=["-vvv"]
    )
    assert status == 0 and result["info"]["system"]["serial"] == "LAB-test-0001" and "AnsiballZ_bmc_info" not in output


def test_no_secret_in_the_loudest_output(controller):
    task = {"aicluster.baremetal.bmc_account": {"username": "monitor", "credential": "new", "role": "ReadOnly"}}
    path = pathlib.Path(controller.environment["AICLUSTER_SECRETS"])
    path.write_text(path.read_text() + "new: {username: monitor, password: Monitor-Pass-1}\n")
    for arguments in (["-vvvv", "--diff", "--check"], ["-vvvv", "--diff"], ["-vvvv", "--diff"]):
        status, output, result = controller.play(task, arguments=arguments)
        assert status == 0, output
        assert "Monitor-Pass-1" not in output + json.dumps(result) and PASSWORD not in output + json.dumps(result)
    assert not result["changed"]
    status, output, result = controller.play(
        {"aicluster.baremetal.bmc_account": {"username": "monitor", "state": "absent"}}
    )
    assert status == 0 and result["changed"]


def test_errors_name_the_host_and_the_next_step(controller, lab):
    status, output, result = controller.play(
        {POWER: {"state": "on", "bmc_credential": "nobody"}, "ignore_errors": True}
    )
    assert result["failed"] and result["error"]["code"] == "secret_not_found"
    status, output, result = controller.play(
        {POWER: {"state": "on", "bmc_fingerprint": "ab" * 32}, "ignore_errors": True}
    )
    assert (
        result["error"]["code"] == "certificate_changed"
        and result["error"]["host"] == "gpu01"
        and result["error"]["next_step"]
    )
    status, output, result = controller.play(
        {POWER: {"state": "on", "bmc_protocol": "ipmi", "bmc_credential": "long"}, "ignore_errors": True}
    )
    assert result["error"]["code"] == "invalid_input" and "x" * 24 not in output + json.dumps(result)
    status, output, result = controller.play({POWER: {"state": "sideways"}})
    assert status != 0 and "sideways" in output


def test_a_fenced_out_attempt_writes_nothing(controller, lab):
    """The host's fencing number is old: no write leaves, here or on the delegate; reads and check mode are free."""
    controller.registry.transition("gpu01", "manageable", "available", "test")
    first = controller.registry.begin("gpu01", "deploy", actor="test")
    controller.registry.finish("gpu01", first.attempt, first.fencing, "fail", "test", reason="test")
    second = controller.registry.begin("gpu01", "deploy", actor="test", retry_failed=True)
    assert second.fencing > first.fencing
    before, old = count(lab), {"aicluster_attempt": first.attempt, "aicluster_fencing": first.fencing}
    flip = "off" if lab.state("gpu01")["power"] == "On" else "on"
    for delegate in ({}, {"delegate_to": "gateway"}):
        status, output, result = controller.play(
            {POWER: {"state": flip}, "ignore_errors": True, **delegate}, variables=old
        )
        assert result["failed"] and result["error"]["code"] == "fenced_out", output
    status, output, result = controller.play({POWER: {"state": flip}}, variables=old, arguments=["--check"])
    assert status == 0 and result["changed"]
    assert count(lab) == before
    new = {"aicluster_attempt": second.attempt, "aicluster_fencing": second.fencing}
    status, output, result = controller.play({POWER: {"state": flip}}, variables=new)
    assert status == 0 and result["changed"] and count(lab) == before + 1


def test_discovery_from_a_delegate(tmp_path):
    # it takes the BMCs over, and their old password with them: not the ones of the other tests
    with testing.running(2) as fresh:
        _discover_from_a_delegate(Controller(fresh, tmp_path), fresh)


def _discover_from_a_delegate(controller, lab):
    ranges = [f"{bmc.address}:{bmc.port}" for bmc in lab.bmcs]
    task = {
        "aicluster.baremetal.bmc_discover": {
            "ranges": ranges,
            "ipmi_port": 0,
            "factory_credentials": ["factory"],
            "expected": [],
        },
        "delegate_to": "gateway",
    }
    before = count(lab)
    status, output, result = controller.play(task, arguments=["--check"])
    assert status == 0 and result["changed"] and count(lab) == before
    status, output, result = controller.play(task, arguments=["-vvv"])
    assert status == 0 and result["changed"] and not result["problems"], output
    stored = yaml.safe_load(pathlib.Path(controller.environment["AICLUSTER_SECRETS"]).read_text())
    passwords = [entry["password"] for reference, entry in stored.items() if reference.startswith("bmc/")]
    assert len(passwords) == 2 and not any(word in output for word in [*passwords, PASSWORD])
    status, output, result = controller.play(task)
    assert status == 0 and not result["changed"]


def test_check_mode_before_there_is_a_registry_shows_every_row(tmp_path):
    """The first thing that a careful user does: look what would be written, before anything is made."""
    with testing.running(1) as fresh:
        _look_first(Controller(fresh, tmp_path), fresh)


def _look_first(controller, lab):
    task = {
        "aicluster.baremetal.bmc_discover": {
            "ranges": [f"{bmc.address}:{bmc.port}" for bmc in lab.bmcs],
            "ipmi_port": 0,
            "factory_credentials": ["factory"],
            "expected": [{"serial": "LAB-test-0001", "name": "gpu01", "rack": "r1"}],
        }
    }
    missing = controller.directory / "new" / "registry.db"
    controller.environment["AICLUSTER_REGISTRY"] = f"sqlite:///{missing}"
    before = count(lab)
    status, output, result = controller.play(task, arguments=["--check", "--diff"])
    assert status == 0 and result["changed"] and count(lab) == before and not missing.parent.exists(), output
    for line in ("+gpu01: state:", "+gpu01: bmc_address:", "+gpu01: facts.system:", "+expected LAB-test-0001:"):
        assert line in output, line
    task["aicluster.baremetal.bmc_discover"]["password_length"] = 4
    status, output, result = controller.play(task, arguments=["--check"])
    assert status == 2 and "wanted: 12 to 20; seen: 4" in output
    del task["aicluster.baremetal.bmc_discover"]["password_length"]
    controller.environment["AICLUSTER_SECRETS"] = str(controller.directory / "nowhere.yml")
    status, output, result = controller.play(task, arguments=["--check"])
    assert status == 2 and "nowhere.yml: the secret store does not exist" in output and "next: make it" in output


def changes(output):
    """Tasks that changed something, without the one that keeps the results."""
    return sum(line.startswith("changed: [") and "localhost" not in line for line in output.splitlines())


def test_settings_of_server_and_bmc_as_a_user_runs_them(controller, lab, tmp_path):
    """A BIOS profile from a file, virtual media, an event destination: checked, done, and nothing the second time; here and on a delegate."""
    profile = tmp_path / "bios.yml"
    attributes = lab.state("gpu01")["bios"]
    name = next(key for key, value in attributes.items() if value in ("Enabled", "Disabled"))
    wanted = "Disabled" if attributes[name] == "Enabled" else "Enabled"
    profile.write_text(yaml.safe_dump({"attributes": {name: wanted}}))
    tasks = [
        {"aicluster.baremetal.bmc_bios": {"profile": str(profile)}},
        {"aicluster.baremetal.bmc_virtual_media": {"image": "http://127.0.0.1:9/rescue.iso"}, "delegate_to": "gateway"},
        {"aicluster.baremetal.bmc_settings": {"event_destinations": [{"destination": "https://127.0.0.1:9/events"}]}},
        {"aicluster.baremetal.bmc_log": {"limit": 5}},
    ]
    before = count(lab)
    status, output, result = controller.play(*tasks, arguments=["--check", "--diff"])
    assert status == 0 and count(lab) == before and f'+bios.{name}: "{wanted}"' in output, output
    assert changes(output) == 3 and result["logs"]
    for changed in (3, 0):
        status, output, result = controller.play(*tasks)
        assert status == 0 and changes(output) == changed, output
    assert count(lab) == before + 3 and lab.state("gpu01")["bios_pending"] == {name: wanted}


def test_a_new_certificate_is_pinned_at_once(controller, lab, tmp_path):
    """In the registry, and for the rest of the run: the next task of the same play finds its BMC."""
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=gpu02-bmc -keyout key.pem -out certificate.pem"
    )
    key = subprocess.run(command.split(), capture_output=True, check=False, cwd=tmp_path)
    assert key.returncode == 0, key.stderr
    files = {"certificate_file": str(tmp_path / "certificate.pem"), "private_key_file": str(tmp_path / "key.pem")}
    serial = next(bmc.serial for bmc in lab.bmcs if bmc.name == "gpu02")
    variables = {"aicluster_serial": serial}
    install = {"aicluster.baremetal.bmc_certificate": files}
    status, output, result = controller.play(install, hosts="gpu02", variables=variables, arguments=["--check"])
    assert status == 0 and result["changed"] and not controller.registry.node(serial)["bmc_fingerprint"]
    assert result["pinned"] and "bmc_fingerprint" in result["msg"] and "certificate" in result["msg"]
    status, output, result = controller.play(install, {POWER: {"state": "on"}}, hosts="gpu02", variables=variables)
    assert status == 0 and result["after"] == {"power": "on"}, output
    assert "PRIVATE KEY" not in output
    pinned = controller.registry.node(serial)["bmc_fingerprint"]
    # the inventory of this test still has the old pin, as after a crash before it was recorded
    before = len(lab.requests("gpu02"))
    status, output, result = controller.play(install, hosts="gpu02", variables=variables)
    assert status == 0 and result["fingerprint"] == pinned and result["before"] == result["after"]
    assert result["pinned"] and result["msg"] == "nothing to change" and len(lab.requests("gpu02")) == before
    # the certificate is there and the registry has the old pin: recording the new one is the change, which check mode tells
    old = "0" * 64
    controller.registry.save_node(serial, "test", bmc_fingerprint=old)
    for arguments, shown in ((["--check", "--diff"], old), (["--diff"], pinned)):
        status, output, result = controller.play(
            install, {POWER: {"state": "on"}}, hosts="gpu02", variables=variables, arguments=arguments
        )
        assert status == 0 and result["after"] == {"power": "on"} and changes(output) == 1, output
        assert controller.registry.node(serial)["bmc_fingerprint"] == shown and len(lab.requests("gpu02")) == before
        assert f'-bmc_fingerprint: "{old}"' in output and f'+bmc_fingerprint: "{pinned}"' in output
    variables["bmc_fingerprint"] = pinned
    status, output, result = controller.play(install, hosts="gpu02", variables=variables, arguments=["--diff"])
    assert status == 0 and not result["changed"] and "pinned" not in result, output


def test_what_takes_down_or_destroys_wants_a_word(controller, lab):
    """An AC cycle of a shared chassis and the erasure of a drive: shown without consent, refused without it, done with it; on a delegate too."""
    lab.set_behaviour("gpu01", volume_task_s=0.2)
    drive = next(disk["serial"] for disk in lab.config["nodes"][0]["disks"] if disk["type"] == "ssd")
    cycle = {"state": "ac_cycle"}
    erase = {"state": "erased", "drives": [drive]}
    shared = {"aicluster_siblings": ["gpu02"]}
    before = count(lab)
    for module, options, words in (
        (POWER, cycle, "gpu02"),
        ("aicluster.baremetal.bmc_storage", erase, drive),
    ):
        status, output, result = controller.play({module: options}, arguments=["--check", "--diff"], variables=shared)
        assert status == 0 and result["changed"] and result["consent_required"] and count(lab) == before, output
        status, output, result = controller.play({module: options}, variables=shared)
        assert status != 0 and "consent" in output and words in output and count(lab) == before
    serial = lab["gpu01"].serial
    status, output, result = controller.play({POWER: {**cycle, "consent": serial}}, variables=shared)
    assert status == 0 and result["after"] == {"power": "on"} and result["siblings"] == ["gpu02"], output
    task = {"aicluster.baremetal.bmc_storage": {**erase, "consent": drive}, "delegate_to": "gateway"}
    status, output, result = controller.play(task)
    assert status == 0 and result["after"]["drives"][0]["erased"], output
    assert {"ac_cycle", "drive_erased"} <= {entry["event"] for entry in lab.events("gpu01")}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_play_that_is_stopped_leaves_no_session_behind(controller, number):
    """The workers outlive their controller by as long as their BMCs need to delete the sessions."""
    lab = controller.lab
    lab.set_behaviour(delay_s=0.7)
    task = {"aicluster.baremetal.bmc_info": {}}
    path = controller.directory / "stopped.yml"
    path.write_text(yaml.safe_dump([{"hosts": "nodes", "gather_facts": False, "tasks": [task]}]))
    names = [bmc.name for bmc in lab.bmcs]
    with (controller.directory / "output.log").open("w") as log:
        process = subprocess.Popen(
            [PLAYBOOK, "-i", controller.directory / "hosts.yml", path],
            env=controller.environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background has it ignored
        )
    try:
        for name in names:
            lab.wait(name, lambda state: state["sessions"] == 1, 60)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does it
        else:
            process.send_signal(number)
        assert process.wait(60) != 0
        for name in names:
            lab.wait(name, lambda state: state["sessions"] == 0, 30)
    finally:
        process.kill()
        process.wait()
        lab.reset_behaviour()


def test_wrong_options_and_hosts_are_named(controller):
    """Each refusal begins with the host and says what to do: options of the task, the host's variables, and what a delegate says."""
    wrong = [
        ({POWER: {"stat": "on"}}, None, "gpu01: stat: there is no such option"),
        ({POWER: {"state": "on", "timeout": "abc"}}, None, "gpu01: timeout: the option has another kind of value"),
        ({POWER: {"state": "on"}}, {"bmc_port": "abc"}, "gpu01: bmc_port: there is no such port"),
        ({POWER: {"state": "on"}}, {"bmc_protocol": "smoke"}, "gpu01: bmc_protocol: there is no such protocol"),
        (
            {"aicluster.baremetal.bmc_account": {"username": "x", "password": "Other-Pass-1", "role": "operatorr"}}
            | {"delegate_to": "gateway"},
            None,
            "gpu01: role: ",
        ),
    ]
    for task, variables, words in wrong:
        status, output, _result = controller.play(task, variables=variables)
        assert status != 0 and words in output and "; next: " in output and "<class" not in output, output
