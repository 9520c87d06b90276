# The fleet module as a user runs it: real ansible-playbook runs over simulated BMCs, with hosts that fail, and the playbook that fails exactly those.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from controller import Directory

from bmc_simulator import testing

NAMES = ["gpu01", "gpu02", "gpu03", "gpu04"]


class Controller(Directory):
    """Four nodes with their BMCs in an inventory, a registry and a secret store; `run` plays one fleet task and then fleet_failures."""

    def __init__(self, lab, directory):
        accounts = {"factory": {"username": testing.USERNAME, "password": testing.PASSWORD}}
        accounts |= {f"new-{name}": {"username": "second", "password": f"Another-{name}-1"} for name in NAMES}
        super().__init__(directory, accounts, AICLUSTER_BMC_GUARD="off")
        self.lab, self.registry = lab, self.open_registry()
        self.hosts = {}
        for number, bmc in enumerate(lab.bmcs):
            self.hosts[bmc.name] = {
                "bmc_address": bmc.address,
                "bmc_port": bmc.port,
                "bmc_credential": "factory",
                "bmc_fingerprint": bmc.fingerprint,
                "aicluster_rack": f"r{number % 2}",
                "templated_address": "{{ bmc_address }}",
            }
            self.registry.save_node(bmc.serial, "test", state="manageable", name=bmc.name)

    def run(self, *arguments, overrides=None, when=None, serial=None, **options):
        """(exit status, output, the registered result or {}, hosts that a last play reached)."""
        out = self.directory / "result.json"
        out.unlink(missing_ok=True)
        hosts = {name: {**values, **(overrides or {}).get(name, {})} for name, values in self.hosts.items()}
        (self.directory / "hosts.yml").write_text(yaml.safe_dump({"nodes": {"hosts": hosts}}))
        task = {
            "name": "All at once",
            "aicluster.baremetal.fleet": options,
            "run_once": True,
            "register": "fleet_result",
        }
        if when:
            task["when"] = when
        keep = {
            "name": "Keep the result",
            "ansible.builtin.copy": {"content": "{{ fleet_result | to_json }}", "dest": str(out), "mode": "0600"},
            "delegate_to": "localhost",
            "run_once": True,
            "check_mode": False,
            "changed_when": False,
            "vars": {"ansible_python_interpreter": sys.executable, "ansible_connection": "local"},
        }
        last = {"name": "Who is left", "ansible.builtin.debug": {"msg": "left {{ inventory_hostname }}"}}
        play = {"hosts": "nodes", "gather_facts": False}
        plays = [
            {"name": "Fleet", **play, **({"serial": serial} if serial else {}), "tasks": [task, keep]},
            {"ansible.builtin.import_playbook": "aicluster.baremetal.fleet_failures"},
            {"name": "Afterwards", **play, "tasks": [last]},
        ]
        (self.directory / "play.yml").write_text(yaml.safe_dump(plays))
        status, text = self.ansible_playbook(self.directory / "hosts.yml", self.directory / "play.yml", *arguments)
        assert testing.PASSWORD not in text and "Another-" not in text
        result = json.loads(out.read_text()) if out.exists() else {}
        return status, text, result, re.findall(r"left (\w+)", text)


@pytest.fixture(scope="module")
def lab():
    with testing.running(4, behaviour={"power_lag_s": 0.2}) as found:
        yield found


@pytest.fixture
def controller(lab, tmp_path):
    lab.reset_behaviour()
    lab.set_behaviour(power_lag_s=0.2)
    return Controller(lab, tmp_path)


def power(lab):
    return {name: lab.state(name)["power"] for name in NAMES}


def off(lab):
    for name in NAMES:
        lab.control.call("power", node=name, action="ForceOff")
        lab.wait(name, lambda state: state["power"] == "Off")


def test_power_check_mode_act_again(controller):
    off(controller.lab)
    options = {
        "operation": "power",
        "options": {"state": "on"},
        "stagger": [{"by": "aicluster_rack", "batch": 1, "pause": 0.5}],
    }
    status, text, result, left = controller.run("--check", "--diff", **options)
    assert status == 0, text
    assert result["counts"]["changed"] == 4 and set(power(controller.lab).values()) == {"Off"}
    assert 'gpu03 power: "on"' in result["diff"]["after"]
    status, text, result, left = controller.run(**options)
    assert status == 0, text
    assert set(power(controller.lab).values()) == {"On"} and result["changed_hosts"] == NAMES
    assert result["results"]["gpu02"]["before"] == {"power": "off"} and sorted(left) == NAMES
    status, text, result, left = controller.run(**options)
    assert status == 0 and not result["changed"] and result["counts"]["ok"] == 4 and result["failing"] == []
    assert "changed=0" in text and "changed=1" not in text
    assert all(controller.lab.state(name)["sessions"] == 0 for name in NAMES)


def test_exactly_the_hosts_that_failed_are_failed(controller):
    overrides = {"gpu02": {"bmc_fingerprint": "0" * 64}, "gpu03": {"bmc_credential": "nowhere"}}
    status, text, result, left = controller.run(operation="health", overrides=overrides)
    assert status == 2
    assert result["failed_hosts"] == ["gpu02", "gpu03"] and result["failing"] == ["gpu02", "gpu03", "gpu01"]
    assert result["results"]["gpu02"]["error"]["code"] == "certificate_changed"
    assert result["results"]["gpu03"]["error"]["code"] == "secret_not_found"
    assert sorted(left) == ["gpu01", "gpu04"]
    assert recap(text) == {"gpu01": "0", "gpu02": "1", "gpu03": "1", "gpu04": "0"}


def recap(text):
    return dict(re.findall(r"^(gpu\d+) .*failed=(\d)", text, re.M))


@pytest.mark.parametrize(
    "bad, left",
    [
        (["gpu03"], ["gpu02", "gpu04"]),
        (["gpu04"], ["gpu02", "gpu03"]),
        # a whole batch: the one that keeps the run alive is in another batch
        (["gpu02", "gpu03"], ["gpu04"]),
        (["gpu03", "gpu04"], ["gpu02"]),
    ],
)
def test_batches_and_a_limit(controller, bad, left):
    """As AWX runs it: --limit, which localhost is not in, and serial."""
    overrides = {name: {"bmc_credential": "nowhere"} for name in bad}
    before = controller.lab.stats("gpu01").get("requests", 0)
    status, text, _result, seen = controller.run(
        "--limit",
        "gpu02,gpu03,gpu04",
        operation="info",
        options={"sections": ["system"]},
        overrides=overrides,
        serial=2,
    )
    assert status == 2 and sorted(seen) == left, text
    assert recap(text) == {name: str(int(name in bad)) for name in NAMES[1:]}
    assert controller.lab.stats("gpu01").get("requests", 0) == before, "outside the limit nothing is asked"


def test_hosts_that_were_not_chosen_go_on_when_all_chosen_ones_fail(controller):
    status, text, result, left = controller.run(
        operation="info", hosts=["gpu01"], overrides={"gpu01": {"bmc_credential": "nowhere"}}
    )
    assert status == 2 and result["failing"] == ["gpu01", "gpu02"] and sorted(left) == NAMES[1:], text


def test_the_run_stops_at_too_many_failures_and_says_how_far_it_is(controller):
    controller.lab.set_behaviour(delay_s=0.6)
    options = {"operation": "health", "concurrency": 1, "progress": 0.5, "max_fail_percentage": 0, "canary": 1}
    status, text, result, left = controller.run(overrides={"gpu01": {"bmc_credential": "nowhere"}}, **options)
    assert status == 2 and result["failed_hosts"] == ["gpu01"] and result["not_tried_hosts"] == NAMES[1:], text
    assert "more than 0 %" in result["results"]["gpu02"]["error"]["seen"] and left == []
    status, text, result, _left = controller.run(operation="info", concurrency=1, progress=0.5)
    assert status == 0 and re.search(r"fleet info: [123] of 4 \(\d+ %\), .* a second, about .* left", text), text


def test_two_hosts_on_one_bmc(controller):
    shared = {key: controller.hosts["gpu01"][key] for key in ("bmc_port", "bmc_fingerprint")}
    before = {name: controller.lab.stats(name).get("requests", 0) for name in NAMES}
    status, text, result, left = controller.run(
        operation="info", options={"sections": ["system"]}, overrides={"gpu02": shared}
    )
    assert status == 2 and result["failed_hosts"] == ["gpu01", "gpu02"] and sorted(left) == ["gpu03", "gpu04"]
    assert controller.lab.stats("gpu01").get("requests", 0) == before["gpu01"], "nothing was sent to the shared BMC"


def test_two_hosts_on_one_bmc_in_two_batches(controller):
    """With `serial`; the other one is seen by what the inventory says, and read properly before anybody is refused."""
    shared = {key: controller.hosts["gpu01"][key] for key in ("bmc_port", "bmc_fingerprint")}
    written_otherwise = {
        **shared,
        "bmc_address": "{{ templated }}",
        "templated": controller.hosts["gpu01"]["bmc_address"],
    }
    before = {name: controller.lab.stats(name).get("requests", 0) for name in NAMES}
    options = {"operation": "info", "options": {"sections": ["system"]}}
    for other in (shared, written_otherwise):
        status, text, _result, left = controller.run(overrides={"gpu04": other}, serial=2, **options)
        assert status == 2 and recap(text) == {"gpu01": "1", "gpu02": "0", "gpu03": "0", "gpu04": "1"}, text
        assert sorted(left) == ["gpu02", "gpu03"]
    assert controller.lab.stats("gpu01").get("requests", 0) == before["gpu01"], "nothing was sent to the shared BMC"
    systems = {"gpu01": {"bmc_system_id": "1"}, "gpu04": {**shared, "bmc_system_id": "2"}}
    status, text, _result, _left = controller.run(overrides=systems, serial=3, **options)
    assert recap(text)["gpu01"] == "0", text
    # a record that the registry leaves out is in nobody's way
    controller.registry.transition("gpu04", "manageable", "available", "test")
    status, text, _result, _left = controller.run(
        overrides={"gpu04": shared}, serial=3, states=["manageable"], **options
    )
    assert status == 0, text


def test_wrong_calls_are_refused_before_anything_is_sent(controller):
    before = {name: controller.lab.stats(name).get("requests", 0) for name in NAMES}
    on = {"operation": "power", "options": {"state": "on"}}
    wrong = [
        ({"hosts": ["gpu01", "gpu0l"]}, (), "no such host in the inventory; nothing was sent", "seen: gpu0l;"),
        ({"hosts": ["gpu01", "gpu02"]}, ("--limit", "gpu01"), "the run is limited to other hosts", "seen: gpu02;"),
        ({"stagger": [{"by": "aicluster_rak", "batch": 1}]}, (), "no host has this variable", "seen: aicluster_rak;"),
        ({"concurrency": 0}, (), "concurrency: this number makes no sense", "wanted: 1 or more; seen: 0;"),
        ({"max_fail_percentage": 500}, (), "max_fail_percentage: this number", "wanted: 0 to 100; seen: 500;"),
    ]
    for options, arguments, *words in wrong:
        status, text, result, _left = controller.run(*arguments, **on, **options)
        assert status == 2 and not result and all(word in text for word in [*words, "next: "]), text
    assert {name: controller.lab.stats(name).get("requests", 0) for name in NAMES} == before
    status, text, result, _left = controller.run(hosts=[], **on)
    assert status == 0 and "there is nothing to do" in text, text


def test_hosts_without_a_rack_are_one_group(controller):
    """A host that nobody put into a rack must not escape the limit of racks."""
    off(controller.lab)
    overrides = {name: {"aicluster_rack": ""} for name in NAMES[:3]}
    stagger = [{"by": "aicluster_rack", "batch": 1, "pause": 1.5}]
    status, text, result, _left = controller.run(
        overrides=overrides, operation="power", options={"state": "on"}, stagger=stagger
    )
    assert status == 0 and "3 of 4 hosts are in no group" in text and result["seconds"] >= 3, text


def test_a_secret_without_password_is_not_sent(controller):
    accounts = yaml.safe_load(controller.secrets.read_text())
    accounts["typo"] = {"username": testing.USERNAME, "passwd": testing.PASSWORD}
    controller.secrets.write_text(yaml.safe_dump(accounts))
    before = controller.lab.stats("gpu02").get("requests", 0)
    status, text, result, _left = controller.run(operation="info", overrides={"gpu02": {"bmc_credential": "typo"}})
    assert status == 2 and result["failed_hosts"] == ["gpu02"], text
    error = result["results"]["gpu02"]["error"]
    assert error["code"] == "no_account" and "passwd, username" in error["seen"] and error["next_step"]
    assert "failed: gpu02: typo in " in text  # said by the task itself
    options = {"operation": "account", "options": {"username": "second", "credential": "typo"}, "hosts": ["gpu01"]}
    status, text, result, _left = controller.run(**options)
    assert result["results"]["gpu01"]["error"]["code"] == "no_account", text
    assert controller.lab.stats("gpu02").get("requests", 0) == before


def test_a_condition_and_a_value_for_a_name_are_refused(controller):
    status, text, _result, _left = controller.run(operation="info", when="inventory_hostname is defined")
    assert status == 2 and "would count for all hosts" in text
    status, text, _result, _left = controller.run(operation="info", variables={"address": "{{ bmc_address }}"})
    assert status == 2 and "not the name of a variable" in text
    status, text, result, _left = controller.run(
        operation="health", variables={"address": "templated_address"}, hosts=["gpu01", "gpu04"]
    )
    assert status == 0 and sorted(result["results"]) == ["gpu01", "gpu04"], text


def test_inventories_go_to_a_file_and_the_registry(controller):
    path = controller.directory / "inventory.jsonl"
    options = {"operation": "info", "record": True, "output": str(path), "states": ["manageable"]}
    controller.registry.transition("gpu04", "manageable", "available", "test")
    status, text, result, _left = controller.run("--check", **options)
    assert status == 0 and result["counts"]["changed"] == 3 and not path.exists(), text
    status, text, result, _left = controller.run(**options)
    assert status == 0, text
    assert result["changed_hosts"] == NAMES[:3] and result["skipped_hosts"] == ["gpu04"]
    assert "info" not in result["results"]["gpu01"]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(line["host"] for line in lines) == NAMES[:3]
    assert lines[0]["info"]["system"]["serial"].startswith("LAB-test-")
    node = controller.registry.node("gpu01")
    assert node["facts"]["system"]["serial"] == node["serial"] and node["parts"]
    status, text, result, _left = controller.run(**options)
    assert status == 0 and not result["changed"], "the second look finds nothing new"


def test_each_host_has_its_own_new_password(controller):
    overrides = {name: {"next": f"new-{name}"} for name in NAMES}
    options = {"operation": "account", "options": {"username": "second"}, "options_from": {"credential": "next"}}
    status, text, result, _left = controller.run(overrides=overrides, **options)
    assert status == 0 and result["changed_hosts"] == NAMES, text
    status, text, result, _left = controller.run(overrides=overrides, **options)
    assert status == 0 and not result["changed"], text
    mixed = {**overrides, "gpu02": {"next": "new-gpu01"}}
    status, text, result, _left = controller.run("--check", overrides=mixed, **options)
    assert status == 0 and result["changed_hosts"] == ["gpu02"], text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_leaves_no_session_behind(controller, number):
    lab = controller.lab
    lab.set_behaviour(delay_s=0.5)
    (controller.directory / "hosts.yml").write_text(yaml.safe_dump({"nodes": {"hosts": controller.hosts}}))
    task = {"aicluster.baremetal.fleet": {"operation": "info"}, "run_once": True}
    (controller.directory / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "nodes", "gather_facts": False, "tasks": [task]}])
    )
    program = pathlib.Path(sys.executable).with_name("ansible-playbook")
    process = subprocess.Popen(
        [program, "-i", controller.directory / "hosts.yml", controller.directory / "play.yml"],
        env=controller.environment,
        stdout=(controller.directory / "output.log").open("w"),
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background has it ignored
    )
    try:
        try:
            for name in NAMES:
                lab.wait(name, lambda state: state["sessions"] == 1, 120)
        except TimeoutError:
            pytest.fail(f"no session was opened: {(controller.directory / 'output.log').read_text()}")
        process.send_signal(number)
        assert process.wait(60) != 0
        for name in NAMES:
            lab.wait(name, lambda state: state["sessions"] == 0, 30)
    finally:
        process.kill()
        process.wait()


def test_ipmi_beside_redfish(tmp_path):
    nodes = [testing.node_config(number) for number in (1, 2, 3)]
    for node in nodes[:2]:
        node["bmc"]["protocols"] = ["redfish", "ipmi"]
    with testing.running(nodes, behaviour={"power_lag_s": 0.2}) as lab:
        controller = Controller(lab, tmp_path)
        over_ipmi = {name: {"bmc_protocol": "ipmi", "bmc_fingerprint": ""} for name in NAMES[:2]}
        over_ipmi[NAMES[0]]["bmc_port"] = lab[NAMES[0]].ipmi_port
        over_ipmi[NAMES[1]]["bmc_ipmi_port"] = lab[NAMES[1]].ipmi_port  # and bmc_port stays that of Redfish
        status, text, result, _left = controller.run(
            operation="power", options={"state": "on"}, overrides=over_ipmi, timeout=120
        )
        assert status == 0, text
        assert [result["results"][name]["source"] for name in NAMES[:3]] == ["ipmi", "ipmi", "redfish"]
        assert result["changed_hosts"] == NAMES[:3]
        assert {lab.state(name)["power"] for name in NAMES[:3]} == {"On"}


def test_the_playbook_writes_to_nodes_that_were_chosen_only(controller):
    off(controller.lab)
    (controller.directory / "hosts.yml").write_text(yaml.safe_dump({"nodes": {"hosts": controller.hosts}}))

    def play(operation, options, *arguments):
        given = json.dumps({"fleet_operation": operation, "fleet_options": options})
        inventory, playbook = controller.directory / "hosts.yml", "aicluster.baremetal.fleet"
        status, text = controller.ansible_playbook(inventory, playbook, "-e", given, *arguments)
        return status, " ".join(text.split())

    # of one that writes nothing is sent; one that nobody knows is not taken for one that reads
    for operation, options in (("power", {"state": "on"}), ("log", {"state": "cleared"}), ("nothing", {})):
        status, text = play(operation, options)
        assert status == 2 and f"fleet_operation {operation} writes to BMCs, and no nodes are chosen" in text, text
    assert "writes to BMCs" in play("power", {"state": "on"}, "-e", "all_nodes=false")[1]
    assert set(power(controller.lab).values()) == {"Off"}
    assert play("health", {"power": "off"})[0] == 0
    assert "argument 'all_nodes'" in play("power", {"state": "on"}, "-e", "all_nodes=perhaps")[1]
    status, text = play("power", {"state": "on"}, "-l", "gpu02")
    assert status == 0, text
    assert power(controller.lab) == {name: "On" if name == "gpu02" else "Off" for name in NAMES}
    status, text = play("power", {"state": "on"}, "-e", "all_nodes=true")
    assert status == 0 and set(power(controller.lab).values()) == {"On"}, text


def test_what_reads_is_what_the_operations_say(controller):
    """The playbook's list of operations that read, against the write requests that they send."""
    (controller.directory / "hosts.yml").write_text(yaml.safe_dump({"nodes": {"hosts": controller.hosts}}))
    for operation in ("info", "sensors", "firmware_info", "log"):
        before = {name: len(writes(controller.lab, name)) for name in NAMES}
        arguments = ("aicluster.baremetal.fleet", "-e", f"fleet_operation={operation}")
        status, text = controller.ansible_playbook(controller.directory / "hosts.yml", *arguments)
        assert status == 0, text
        assert {name: len(writes(controller.lab, name)) for name in NAMES} == before, operation


def writes(lab, name):
    return [entry for entry in lab.requests(name) if "/SessionService/" not in entry["path"]]
