# What a lab is made of: defaults, merging, refusals.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
import re

import ansible.template
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab.description import (
    FAULT_KINDS,
    GPU_PROFILES,
    describe,
    expected_servers,
    simulator_view,
)
from bmc_simulator import hardware
from bmc_simulator.schema import SchemaError, check_lab

ROOT = pathlib.Path(__file__).resolve().parents[5]
ACCOUNTS = [{"username": "admin", "password": "x", "role": "Administrator"}]


def lab(**options):
    return describe("aicl", "/var/lib/aicluster/aicl", "/run/aicluster/aicl", **options)


def test_default_lab_follows_the_architecture():
    description = lab()
    first, second = description["nodes"]
    assert [first["name"], second["name"]] == ["gpu01", "gpu02"]
    assert first["serial"] == "LAB-aicl-0001" and second["slot"] == "u02"
    assert second["bmc"]["address"] == "10.77.0.12" and second["provision_ip"] == "10.77.1.12"
    assert [nic["mac"] for nic in second["nics"]] == ["52:54:00:77:00:02", "52:54:00:77:01:02", "52:54:00:77:02:02"]
    assert [nic["bridge"] for nic in first["nics"]] == ["prov", "rail0", "rail1"] and first["nics"][0][
        "tap"
    ] == "gpu01n0"
    assert description["namespaces"] == {part: f"aicl-{part}" for part in ("ctl", "oob", "net", "slurm")}


def test_the_same_options_give_the_same_description():
    assert lab(nodes=8) == lab(nodes="8")


@pytest.mark.parametrize("count", range(1, 9))
def test_the_simulator_takes_every_size(count):
    checked = check_lab(simulator_view(lab(nodes=count), ACCOUNTS))
    assert [node["name"] for node in checked["nodes"]] == [f"gpu{i:02d}" for i in range(1, count + 1)]


def test_the_simulator_check_can_refuse():
    view = simulator_view(lab(), ACCOUNTS)
    view["nodes"][1]["nics"][0]["mac"] = view["nodes"][0]["nics"][0]["mac"]
    with pytest.raises(SchemaError, match="mac"):
        check_lab(view)


def test_node_beats_settings_beats_defaults():
    nodes = lab(
        nodes=[{}, {"cpus": 4}, {}],
        node_defaults={"cpus": 3, "memory_mib": 2048},
        node_settings={
            "gpu02": {"cpus": 8, "memory_mib": 512},
            "gpu03": {"fault": "gpu3_ecc_dbe"},
            "gpu08": {"cpus": 9},
        },
    )["nodes"]
    assert [(node["cpus"], node["memory_mib"], node["fault"]) for node in nodes] == [
        (3, 2048, None),
        (4, 512, None),
        (3, 2048, "gpu3_ecc_dbe"),
    ]


def test_nspawn_nodes_have_addresses_and_a_root():
    node = lab(nodes=[{"driver": "nspawn", "root": "/srv/root"}])["nodes"][0]
    assert [nic["address"] for nic in node["nics"]] == ["10.77.1.11/24", "10.77.2.11/24", "10.77.3.11/24"]
    with pytest.raises(InvalidInput, match="operating system"):
        lab(nodes=[{"driver": "nspawn"}])


def test_expected_servers_name_how_each_is_driven():
    rows = expected_servers(lab(node_settings={"gpu02": {"protocol": "ipmi"}}))
    assert [(row["name"], row["bmc_protocol"], row["rack"], row["slot"]) for row in rows] == [
        ("gpu01", "redfish", "r1", "u01"),
        ("gpu02", "ipmi", "r1", "u02"),
    ]


@pytest.mark.parametrize(
    ("options", "thing"),
    [
        ({"nodes": 0}, "virtual_lab_nodes"),
        ({"nodes": 9}, "virtual_lab_nodes"),
        ({"nodes": "many"}, "virtual_lab_nodes"),
        ({"nodes": True}, "virtual_lab_nodes"),
        ({"nodes": ["gpu01"]}, r"virtual_lab_nodes\[1\]"),
        ({"nodes": [{"cpu": 2}]}, r"virtual_lab_nodes\[1\]: unknown option.*wanted.*cpus.*seen: cpu"),
        ({"nodes": [{"name": "a-name-too-long"}]}, "not a node name"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "share"),
        ({"nodes": [{"driver": "vmware"}]}, "driver"),
        ({"nodes": [{"cpus": 0}]}, "cpus"),
        ({"nodes": [{"memory_mib": "lots"}]}, "memory_mib"),
        ({"nodes": [{"disks": []}]}, "NIC or disk"),
        ({"nodes": [{"disks": [{"size": "8 GX"}]}]}, "size"),
        ({"nodes": [{"disks": [{"size": 1048577}]}]}, "size"),
        ({"nodes": [{"nics": [{"mac": "52:54"}]}]}, "mac"),
        ({"nodes": [{"nics": [{"bridge": "br0"}]}]}, "bridge"),
        ({"nodes": [{"nics": [{"mac": "52:54:00:77:00:02"}]}, {}]}, "share one MAC"),
        ({"node_defaults": {"cpu": 2}}, "virtual_lab_node_defaults: unknown option.*seen: cpu"),
        ({"node_settings": {"gpu01": {"cpu": 2}}}, "virtual_lab_node_settings, node gpu01: unknown option.*seen: cpu"),
        ({"node_settings": {"gpu07": {"cpu": 2}}}, "virtual_lab_node_settings, node gpu07: unknown option.*seen: cpu"),
        ({"node_settings": {"gpu07": {"fault": "gpu3_ecc"}}}, "node gpu07, fault"),
        ({"node_settings": {"gpu2": {"cpus": 2}}}, "virtual_lab_node_settings.*wanted: gpu01, gpu02.*seen: gpu2"),
        ({"node_settings": {"gpu01": [1]}}, "virtual_lab_node_settings, node gpu01"),
        ({"nodes": [{"name": "gpu_1"}]}, "node name"),
        ({"nodes": [{"gpu_profile": "gtx1080"}]}, "gpu_profile.*wanted: .*h100x8.*seen: gtx1080"),
        ({"nodes": [{"fault": "gpu3_on_fire"}]}, "fault.*wanted: .*ecc_dbe.*seen: gpu3_on_fire"),
        ({"nodes": [{"fault": "gpu8_ecc_dbe"}]}, "fault.*N from 0 to 7.*seen: gpu8_ecc_dbe"),
        ({"nodes": [{"gpu_profile": None, "fault": "gpu0_ecc_dbe"}]}, "fault.*none without GPUs"),
        ({"nodes": [{"protocols": ["redfish"], "protocol": "ipmi"}]}, "protocol.*wanted: one of protocols: redfish"),
        ({"nodes": [{"protocols": ["snmp"]}]}, "protocols"),
        ({"nodes": [{"session_limit": 0}]}, "session_limit"),
        ({"nodes": [{"disks": [{"capacity": "8 GiB"}]}]}, "disk 0: unknown option.*seen: capacity"),
        ({"nodes": [{"nics": [{"network": "prov"}]}]}, "nic 0: unknown option.*seen: network"),
        ({"nodes": 99}, "virtual_lab_nodes: .*wanted: 1 to 8; seen: 99"),
        ({"nodes": "abc"}, "virtual_lab_nodes: .*wanted: a number from 1 to 8.*seen: abc"),
        ({"network": "10.77.0"}, "virtual_lab_network"),
        ({"network": "10.999"}, "virtual_lab_network"),
    ],
)
def test_refusals_name_the_option(options, thing):
    with pytest.raises(InvalidInput, match=thing):
        lab(**options)


@pytest.mark.parametrize("name", ["Aicl", "1lab", "a-b", "", "averyverylongname", "a b", "../x"])
def test_bad_lab_names(name):
    with pytest.raises(InvalidInput, match="virtual_lab_name"):
        describe(name, "/var/lib/aicluster/x", "/run/aicluster/x")


@pytest.mark.parametrize("path", ["/", "/var", "relative/path", ""])
def test_bad_places(path):
    with pytest.raises(InvalidInput, match="virtual_lab_dir"):
        describe("aicl", path, "/run/aicluster/x")


def test_profiles_and_faults_are_those_of_the_instruments_and_of_the_simulator():
    files = pathlib.Path(__file__).resolve().parents[5] / "roles/lab_instruments/files"
    assert {path.stem for path in files.glob("profiles/*.profile")} == set(GPU_PROFILES)
    # the simulator knows more of them: its fleet needs no instruments on a node
    assert {name: hardware.GPU_PROFILES[name].count for name in GPU_PROFILES} == GPU_PROFILES
    assert set(re.findall(r"gpu\[0-9\]_([a-z_]+)", (files / "setup").read_text())) == set(FAULT_KINDS)


@pytest.mark.parametrize(
    ("behaviour", "awaited"),
    [
        ({}, True),
        ({"unreachable": "no"}, True),
        ({"unreachable": "silent"}, False),
        ({"unreachable": "refuse"}, False),
        ({"delay_s": 1}, True),
        ({"delay_s": 30}, False),
    ],
)
def test_a_bmc_that_is_described_as_silent_is_not_waited_for(behaviour, awaited):
    nodes = lab(nodes=[{}, {"driver": "none", "behaviour": behaviour}])["nodes"]
    assert [node["awaited"] for node in nodes] == [True, awaited]
    assert "awaited" not in simulator_view(lab(), [])["nodes"][0]  # a word of the lab, not of the simulator's schema


def test_the_addresses_that_the_role_waits_for_leave_it_out():
    """The role's own expression, over the option example of docs/lab.md."""
    variables = yaml.safe_load((ROOT / "roles/virtual_lab/vars/main.yml").read_text())
    nodes = lab(nodes=[{}, {"driver": "none", "behaviour": {"unreachable": "silent"}}])["nodes"]
    given = {"virtual_lab_network": "10.77", "virtual_lab_slurm_root": "", "virtual_lab_description": {"nodes": nodes}}
    trust = getattr(ansible.template, "trust_as_template", str)  # ansible-core before 2.19 trusts every text
    templar = ansible.template.Templar(loader=DataLoader(), variables=given)
    assert templar.template(trust(variables["virtual_lab_endpoints"])) == [
        "https://10.77.0.5/",
        "https://10.77.0.11/redfish/v1/",
    ]
