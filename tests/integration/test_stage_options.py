# Options that no stage can work with are refused before a node is taken, node by node; what a stage leaves alone is said; no registry is no success.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import pathlib
import re
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from controller import Directory

KEY = "ssh-ed25519 AAAA test"
GOOD = {"deploy_image": "test", "deploy_ssh_public_keys": [KEY]}
# (stage, options, words of the refusal; none: not refused)
CASES = [
    ("deploy", {}, []),
    ("deploy", {"deploy_image": "nosuch"}, ["deploy_image: ", "image nosuch", "nosuch/manifest.json", "next: build"]),
    ("deploy", {"deploy_image": 5}, ["deploy_image: ", "5/manifest.json"]),
    ("deploy", {"deploy_image": ""}, ["deploy_image: no image is named", "next: run again with -e deploy_image="]),
    ("deploy", {"deploy_image": "../../etc"}, ["deploy_image: ", "letters, digits", "../../etc"]),
    ("deploy", {"deploy_image": ["a"]}, ["deploy_image: ", "seen: ", "a"]),
    (
        "deploy",
        {"deploy_disk": {"min_size": "8 potatoes"}},
        ["deploy_disk: ", "8 potatoes", "wanted: for example 400 GiB"],
    ),
    ("deploy", {"deploy_disk": {"min_size": "2TB", "max_size": "1TB"}}, ["deploy_disk: ", "2TB to 1TB"]),
    ("deploy", {"deploy_disk": {"max_size": "100"}}, ["deploy_disk: ", "larger than the largest disk"]),
    ("deploy", {"deploy_disk": {"kind": "ssd"}}, ["deploy_disk: ", "kind"]),
    ("deploy", {"deploy_ssh_public_keys": ["notakey"]}, ["deploy_ssh_public_keys: ", "seen: notakey"]),
    ("deploy", {"deploy_ssh_public_keys": []}, ["deploy_ssh_public_keys: no SSH public key is given"]),
    ("deploy", {"deploy_limits": {"dhpc": 4}}, ["deploy_limits: ", "no such boot step", "seen: dhpc", "reserved, "]),
    ("deploy", {"deploy_limits": {"dhcp": -4}}, ["deploy_limits: ", "seen: -4"]),
    ("deploy", {"deploy_limits": {"dhcp": "soon"}}, ["deploy_limits: ", "seen: soon"]),
    ("deploy", {"deploy_limits": {"reserved": 0}}, ["deploy_limits: ", "limit for reserved"]),
    ("deploy", {"deploy_limits": {"reserved": 5, "dhcp": "7"}}, []),
    ("deploy", {"deploy_rails": [{"network": "10.77.2.0/99"}]}, ["deploy_rails: ", "10.77.2.0/99", "10.77.2.0/24"]),
    ("deploy", {"deploy_rails": [{"network": "10.77.2.0/24", "mtu": 9000}, {}]}, []),
    ("deploy", {"deploy_gateway": "10.0.0"}, ["deploy_gateway: ", "10.0.0"]),
    ("deploy", {"deploy_nameservers": ["dns"]}, ["deploy_nameservers: ", "dns"]),
    ("deploy", {"deploy_user_data": {"users": []}}, ["deploy_user_data: ", "must not set users"]),
    ("deploy", {"deploy_stagger": [{"by": "nosuch", "batch": 1}]}, ["deploy_stagger: ", "no host has this", "nosuch"]),
    ("deploy", {"deploy_stagger": [{"by": "aicluster_rack", "batch": 0}]}, ["deploy_stagger: ", "batch of at least 1"]),
    ("deploy", {"deploy_stagger": [{"by": "aicluster_rack", "batch": 1}]}, []),
    ("deploy", {"deploy_boot_target": "floppy"}, ["deploy_boot_target: ", "seen: floppy", "pxe, uefi_http"]),
    (
        "deploy",
        {"deploy_image": "{{ nothing_of_that_name }}"},
        ["deploy_image: cannot be worked out", "nothing_of_that"],
    ),
    # of another stage, only what is set and is wrong for any node
    ("software", {"deploy_image": "nosuch", "deploy_ssh_public_keys": []}, []),
    ("software", {"deploy_disk": {"min_size": "8 potatoes"}}, ["deploy_disk: "]),
    ("software", {}, []),
    (
        "software",
        {"software_roles": ["nosuch.role.x"]},
        ["software_roles: there is no such role", "seen: nosuch.role.x"],
    ),
    ("software", {"software_roles": ["nowhere"]}, ["software_roles: there is no such role", "seen: nowhere"]),
    ("software", {"software_roles": ["aicluster.baremetal.os_image"]}, ["software_roles: ", "tasks/expect.yml"]),
    ("burn_in", {}, []),
    ("burn_in", {"burn_in_checks": {"nosuch": {}}}, ["burn_in_checks: ", "unknown check", "seen: nosuch"]),
    ("burn_in", {"burn_in_limits": {"nosuch": 1}}, ["burn_in_limits: ", "unknown limit", "seen: nosuch"]),
    ("burn_in", {"burn_in_limits": {"clock_offset_s": "much"}}, ["burn_in_limits: ", "seen: much"]),
    ("burn_in", {"burn_in_disk_size": "much"}, ["burn_in_disk_size: ", "much"]),
    ("burn_in", {"burn_in_memory_fraction": 2}, ["burn_in_memory_fraction: ", "at most 0.95"]),
    (
        "deploy",
        {"deploy_gateway": "x", "burn_in_limits": {"nosuch": 1}},
        ["2 options of the stages", "deploy_gateway: ", "burn_in_limits: "],
    ),
]


class Site(Directory):
    def __init__(self, directory, **hosts):
        super().__init__(directory, {})
        self.registry = self.open_registry()
        self.hosts = {"gpu01": {"aicluster_rack": "r1"}, **hosts}
        for name in self.hosts:
            self.registry.save_node(f"S-{name}", "test", state="manageable", name=name)
            self.registry.transition(name, "manageable", "available", "test")
        image = directory / "images" / "test"
        image.mkdir(parents=True)
        for file in ("disk.raw", "vmlinuz", "deploy.img"):
            (image / file).write_bytes(bytes(512))
        manifest = {"name": "test", "sha256": "0" * 64, "size_bytes": 512, "root_uuid": "1" * 36}
        (image / "manifest.json").write_text(json.dumps(manifest))
        self.inventory = directory / "hosts.yml"

    def play(self, playbook, *arguments, **options):
        options = {"deploy_image_store": str(self.directory / "images"), **options}
        self.inventory.write_text(yaml.safe_dump({"nodes": {"hosts": self.hosts}}))
        return self.ansible_playbook(self.inventory, playbook, *arguments, "-e", json.dumps(options))

    def state(self, name):
        return self.registry.node(name)["state"], len(self.registry.attempts(name))


def test_what_is_refused_and_in_which_words(tmp_path):
    site = Site(tmp_path)
    tasks = [
        {
            "aicluster.baremetal.stage_options": {"stage": stage},
            "vars": {**(GOOD if stage == "deploy" else {}), **given},
            "register": f"found_{number}",
            "ignore_errors": True,
        }
        for number, (stage, given, _words) in enumerate(CASES)
    ]
    found = "{{ [" + ", ".join(f"found_{number}" for number in range(len(CASES))) + "] }}"
    tasks.append({"ansible.builtin.copy": {"dest": str(tmp_path / "found.json"), "content": found, "mode": "0600"}})
    local = {"ansible_python_interpreter": sys.executable}
    plays = [{"hosts": "nodes", "gather_facts": False, "connection": "local", "tasks": tasks, "vars": local}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(plays))
    status, text = site.play(tmp_path / "play.yml")
    assert status == 0, text
    results = json.loads((tmp_path / "found.json").read_text())
    assert len(results) == len(CASES)
    for (stage, given, words), result in zip(CASES, results):
        said = result.get("msg", "")
        assert bool(words) == result["failed"], (stage, given, said)
        assert all(word in said for word in words), (stage, given, said)
        assert not words or (said.startswith("gpu01: ") and "; next: " in said and "<class" not in said), said
        assert not result["changed"]


def test_an_option_of_one_node_stops_that_node_only_and_before_its_attempt(tmp_path):
    site = Site(tmp_path, gpu02={"deploy_disk": {"min_size": "8 potatoes"}})
    status, text = site.play("aicluster.baremetal.deploy", **GOOD)
    assert status == 2 and "gpu02: deploy_disk: " in text, text
    assert site.state("gpu02") == ("available", 0)
    # it got further: its address is not known
    assert site.state("gpu01") == ("deploying_failed", 1)


@pytest.mark.parametrize("stage", ["software", "burn_in", "enroll"])
def test_a_stage_says_what_it_leaves_alone(tmp_path, stage):
    site = Site(tmp_path, **{f"gpu{number:02}": {} for number in range(2, 26)})
    site.registry.save_node("S-gpu26", "test", state="manageable", name="gpu26")
    site.hosts["gpu26"] = {}
    status, text = site.play(f"aicluster.baremetal.{stage}", "--check", **GOOD)
    assert status == 0, text
    assert (
        re.search("25 nodes are left alone: state available; .*: gpu01, gpu02, gpu03", text) and " and 5 more" in text
    ), text
    assert re.search("1 node is left alone: state manageable; .*: gpu26", text)
    assert text.count("left alone: state available") == 1 and "changed=1" not in text


def test_the_reason_of_a_task_that_is_not_ours_names_node_stage_task_and_next_step(tmp_path):
    from ansible_collections.aicluster.baremetal.plugins.filter.failure_reason import failure_reason

    own = {"msg": "gpu01: boot: no DHCP request; next: look", "error": {"code": "boot_no_dhcp"}}
    assert failure_reason(own, "gpu01", "deploy", "x") == own["msg"]
    foreign = {"msg": "One or more items failed", "results": [{"failed": False}, {"failed": True, "msg": "no\n space"}]}
    assert failure_reason(foreign, "gpu01", "deploy", "Write it") == (
        "gpu01: deploy: task 'Write it' failed: no space; "
        "next: remove the cause, then run the stage again with deploy_retry_failed=true"
    )
    silent = failure_reason({"stderr": "a\nout of space\n"}, "gpu01", "software")
    assert silent.startswith("gpu01: software: out of space; next: ")
    assert "without a message" in failure_reason(None, "gpu01", "software", "x")


PLAYBOOKS = ("deploy", "software", "burn_in", "enroll", "firmware", "drain", "resume")


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_no_registry_is_no_success(tmp_path, playbook):
    site = Directory(tmp_path, {})
    (tmp_path / "nodes.aicluster.yml").write_text("plugin: aicluster.baremetal.registry\n")
    site.environment["AICLUSTER_REGISTRY"] = "postgresql+psycopg://nobody@127.0.0.1:1/none"
    arguments = ("-e", json.dumps({"owner": "alice", "reason": "test", "all_nodes": True}))
    status, text = site.ansible_playbook(
        tmp_path / "nodes.aicluster.yml", f"aicluster.baremetal.{playbook}", *arguments
    )
    assert status == 2 and "the registry database cannot be used" in text, text
    # a limit that names no host is an error of ansible-playbook itself
    limited = ("-l", "gpu01", *arguments)
    status, _text = site.ansible_playbook(tmp_path / "nodes.aicluster.yml", f"aicluster.baremetal.{playbook}", *limited)
    assert status != 0
    del site.environment["AICLUSTER_REGISTRY"]
    status, text = site.ansible_playbook(
        tmp_path / "nodes.aicluster.yml", f"aicluster.baremetal.{playbook}", *arguments
    )
    assert status == 2 and "the registry is not set" in text, text


def test_a_registry_without_nodes_is_no_error_and_nothing_changes(tmp_path):
    site = Directory(tmp_path, {})
    site.open_registry().close()
    (tmp_path / "nodes.aicluster.yml").write_text("plugin: aicluster.baremetal.registry\n")
    status, text = site.ansible_playbook(tmp_path / "nodes.aicluster.yml", "aicluster.baremetal.deploy")
    assert status == 0 and re.search(r"localhost .*ok=1 +changed=0 .*failed=0", text), text


def test_an_option_of_the_firmware_playbook_is_checked_by_its_type(tmp_path):
    site = Site(tmp_path)
    for option in ("firmware_retry_failed", "firmware_baseline_downgrade"):
        status, text = site.play(
            "aicluster.baremetal.firmware", firmware_baseline_path="/nowhere", **{option: "perhaps"}
        )
        assert status == 2 and f"{option}: wanted: bool; seen: perhaps; next:" in text, text


@pytest.mark.parametrize(
    ("option", "value", "seen"), [("limit", "lots", "lots"), ("concurrency", 0, "0"), ("canary", -1, "-1")]
)
def test_a_refused_number_of_the_firmware_playbook_is_named_as_the_user_wrote_it(tmp_path, option, value, seen):
    site = Site(tmp_path)
    variable = f"firmware_baseline_{option}"
    status, text = site.play("aicluster.baremetal.firmware", firmware_baseline_path="/nowhere", **{variable: value})
    assert status == 2 and variable in text and f"seen: {seen}; next: correct" in text, text


def test_an_unknown_operation_and_an_unknown_delegate_are_named(tmp_path):
    site = Site(tmp_path)
    status, text = site.play("aicluster.baremetal.fleet", fleet_operation="pwer", all_nodes=True)
    assert (
        status == 2 and "operation: there is no such value" in text and "seen: pwer; next: correct operation" in text
    ), text
    options = {"discover_ranges": ["127.0.8.99"], "discover_delegate": "nosuchhost", "discover_factory_credentials": []}
    status, text = site.play("aicluster.baremetal.discover", **options)
    assert status == 2 and "the delegate is no host of the inventory" in text and "seen: nosuchhost" in text, text
