# lab.json: what is refused, and that the refusal names the place.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest

from bmc_simulator.schema import SchemaError, check_lab, load_lab, parse_size
from bmc_simulator.testing import node_config


def lab(*nodes, **changes):
    return {"name": "test", "dir": "/tmp/x", "run_dir": "/tmp/y", "nodes": list(nodes or [node_config()]), **changes}


def problems(value):
    with pytest.raises(SchemaError) as error:
        check_lab(value)
    return error.value.problems


def test_defaults_are_filled_in():
    checked = check_lab(lab())
    assert checked["cpu"] == "Nehalem" and checked["net_namespace"] is None
    assert checked["nodes"][0]["bmc"]["tls"] is True
    assert len(checked["nodes"][0]["uuid"]) == 36


def test_same_serial_gives_same_uuid():
    assert check_lab(lab())["nodes"][0]["uuid"] == check_lab(lab())["nodes"][0]["uuid"]


@pytest.mark.parametrize(
    "change, where, what",
    [
        ({"colour": "red"}, "nodes[0].colour", "unknown key"),
        ({"cpus": "2"}, "nodes[0].cpus", "wants whole number"),
        ({"cpus": True}, "nodes[0].cpus", "wants whole number"),
        ({"cpus": 0}, "nodes[0].cpus", "1 to 256"),
        ({"driver": "kvm"}, "nodes[0].driver", "qemu, nspawn, none"),
        ({"name": "GPU 1"}, "nodes[0].name", "lower case"),
        ({"bmc": {"address": "10.77.0"}}, "nodes[0].bmc.address", "wants an IP address"),
        ({"bmc": {"accounts": []}}, "nodes[0].bmc.accounts", "at least one account"),
        ({"bmc": {"protocols": ["ssh"]}}, "nodes[0].bmc.protocols", "redfish or ipmi"),
        ({"behaviour": {"slow": 1}}, "nodes[0].behaviour", "unknown behaviour 'slow'"),
        ({"behaviour": {"power_lag_s": "1"}}, "nodes[0].behaviour", "power_lag_s: wants a number"),
        ({"gpu_profile": "gtx1080"}, "nodes[0].gpu_profile", "h100x8"),
        ({"driver": "nspawn"}, "nodes[0].root", "needed by the nspawn driver"),
        ({"disks": [{"slot": "d", "serial": "x", "size": "8 apples"}]}, "nodes[0].disks[0].size", "wants a size"),
        ({"disks": [{"slot": "d", "serial": "x" * 21, "size": "8 GiB"}]}, "nodes[0].disks[0].serial", "20 characters"),
        ({"nics": [{"slot": "nic0"}]}, "nodes[0].nics[0].mac", "is missing"),
    ],
)
def test_a_fault_is_refused_and_named(change, where, what):
    assert any(problem.startswith(where) and what in problem for problem in problems(lab(node_config(**change))))


def test_all_faults_are_told_at_once():
    assert len(problems(lab(node_config(cpus="x", firmware="efi"), colour="red"))) == 3


@pytest.mark.parametrize("key", ["name", "serial"])
def test_two_nodes_share_nothing(key):
    two = node_config(2)
    two[key] = node_config(1)[key]
    assert any(problem.startswith(f"nodes[1].{key}: duplicate {key}") for problem in problems(lab(node_config(1), two)))


def test_two_bmcs_share_no_address():
    nodes = [node_config(number, bmc={"address": "10.77.0.11", "port": 443}) for number in (1, 2)]
    assert problems(lab(*nodes)) == ["nodes[1].bmc: duplicate tcp address 10.77.0.11:443 (first used at nodes[0].bmc)"]


def test_two_nics_share_no_mac():
    two = node_config(2)
    two["nics"] = node_config(1)["nics"]
    assert any("duplicate mac" in problem for problem in problems(lab(node_config(1), two)))


def test_a_file_that_is_no_json(tmp_path):
    path = tmp_path / "lab.json"
    path.write_text("{")
    with pytest.raises(SchemaError, match="is not JSON"):
        load_lab(path)
    with pytest.raises(SchemaError, match="cannot be read"):
        load_lab(tmp_path / "none.json")


def test_the_checked_form_checks_again():
    checked = check_lab(lab())
    assert check_lab(json.loads(json.dumps(checked))) == checked


@pytest.mark.parametrize(
    "text, size", [("8 GiB", 8 * 2**30), ("1.5 KiB", 1536), ("100", 100), (7, 7), ("2TB", 2 * 10**12)]
)
def test_sizes(text, size):
    assert parse_size(text) == size
