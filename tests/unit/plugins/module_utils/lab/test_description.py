# What a lab is made of: defaults, merging, refusals.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab.description import (
    describe,
    expected_servers,
    simulator_view,
)
from bmc_simulator.schema import SchemaError, check_lab

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
            "gpu09": {"cpus": 9},
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
        ({"nodes": [{"cpu": 2}]}, "unknown node option"),
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
