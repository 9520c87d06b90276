# The discover stage where list, records and hardware contradict each other: what one server has is given to no other, and every contradiction is named.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import operations
from bmc_simulator import testing

from .conftest import endpoint
from .test_discover import World, row

MACS = ["52:54:00:77:00:01", "52:54:00:77:00:02"]


@pytest.fixture
def world(tmp_path):
    """Two BMCs; cheaper than the three of test_discover."""
    configs = [testing.node_config(number, bmc={"address": f"127.0.8.4{number}"}) for number in (1, 2)]
    with testing.running(configs) as lab:
        yield World(lab, tmp_path)


def test_what_the_list_gives_and_another_node_has_is_that_nodes_problem_and_a_swap_works(world):
    world.registry.save_node("S-9", "test", name="other", provision_ip="10.0.0.9")
    rows = [row(1, provision_ip="10.0.0.9", provision_prefix="24"), row(2, provision_ip="10.0.0.2")]
    checked = world.run(check=True, expected=rows)
    report = world.run(expected=rows)
    for found in (checked, report):
        assert [(problem["code"], problem["host"]) for problem in found["problems"]] == [("conflict", "gpu01")]
        assert "provision_ip 10.0.0.9 belongs to other" in found["problems"][0]["msg"]
    assert report["reasons"].keys() == {"gpu01"}
    nodes = {node["name"]: node for node in world.registry.nodes()}
    assert nodes["gpu01"]["state"] == "manageable" and nodes["gpu01"]["provision_ip"] is None
    assert nodes["gpu02"]["state"] == "available"
    assert "other has the provision_ip" in report["bmcs"][0]["pending"]
    assert world.works(1, world.password(1))

    world.registry.transition("S-9", "registered", "retired", "test", consent="S-9")
    assert not world.run(expected=rows)["problems"]
    assert world.registry.node("gpu01")["state"] == "available"

    rows = [
        row(1, provision_ip="10.0.0.2", provision_mac=MACS[1]),
        row(2, provision_ip="10.0.0.9", provision_mac=MACS[0]),
    ]
    assert not world.run(check=True, expected=rows)["problems"]
    report = world.run(expected=rows)
    assert not report["problems"]
    for node, ip, mac in zip(world.registry.nodes(names=["gpu01", "gpu02"]), ("10.0.0.2", "10.0.0.9"), MACS[::-1]):
        assert (node["provision_ip"], node["provision_mac"]) == (ip, mac)
        # It is no NIC of its own: taken, because BMCs do not list every card, but said.
        assert any(
            f"{node['name']}: its provision_mac {mac} is none" in text for text in report["warnings_of_discovery"]
        )
    assert not world.run(expected=rows)["changed"]


def test_a_record_whose_bmc_address_another_server_answers_at_loses_it_by_name(world):
    there = world.lab["gpu01"]
    world.registry.save_node("S-9", "test", name="other", bmc_address=there.address, bmc_port=there.port)
    for check in (True, False, False):
        report = world.run(check=check)
        assert [problem["host"] for problem in report["problems"]] == ["other"]
        assert "other" in report["reasons"]
    assert not report["changed"]
    assert world.registry.node("other")["bmc_address"] is None
    assert world.registry.node("gpu01")["bmc_address"] == there.address
    assert "another server answers at the address of its BMC" in str(world.registry.why("other"))


def test_no_password_is_set_where_the_record_is_refused(world):
    world.registry.save_node("S-9", "test", name="gpu01")
    report = world.run()
    assert [(problem["code"], problem["host"]) for problem in report["problems"]] == [("conflict", "gpu01")]
    assert world.works(1, testing.PASSWORD)


def test_a_listed_bmc_address_that_is_another_ones_is_said_with_both(world):
    """Two rows with their addresses swapped: both servers are found, none where the list says."""
    rows = [row(1, bmc_address="127.0.8.42"), row(2, bmc_address="127.0.8.41")]
    for check in (True, False, False):
        report = world.run(check=check, expected=rows)
        for number, listed in ((1, 2), (2, 1)):
            words = f"gpu0{number}: serial LAB-test-000{number} answers at BMC address 127.0.8.4{number}, .* says 127.0.8.4{listed};"
            assert any(re.match(words, text) for text in report["warnings_of_discovery"])
    assert not report["problems"] and not report["changed"]
    rows = [row(1, bmc_address="127.0.8.41"), row(2, bmc_address="bmc2.example")]
    assert not any("answers at" in text for text in world.run(expected=rows)["warnings_of_discovery"])


def test_a_serial_in_another_case_is_named_for_both_rows(world):
    rows = [{**row(1), "serial": "lab-TEST-0001"}, row(2)]
    for check in (True, False):
        report = world.run(check=check, expected=rows)
        assert [entry["serial"] for entry in report["missing"]] == ["lab-TEST-0001"]
        assert [entry["serial"] for entry in report["unexpected"]] == ["LAB-test-0001"]
        words = r"gpu01: the listed serial lab-TEST-0001 \(missing\) differs from LAB-test-0001 \(lab-test-0001, not listed\) only in case"
        assert [bool(re.match(words, text)) for text in report["warnings_of_discovery"] if "case" in text] == [True]
    assert not any("case" in text for text in world.run(expected=[row(1), row(2)])["warnings_of_discovery"])


def test_a_refused_password_names_entry_store_and_address(world):
    world.run()
    there = world.lab["gpu01"]
    operations.account(endpoint(world.lab, "gpu01", password=world.password(1)), testing.USERNAME, "Somebody-elses-1")
    report = world.run()
    text = f"password of entry `bmc/LAB-test-0001` in {world.store}.*next: .*BMC at {there.address} port {there.port}.*run discover again"
    assert [bool(re.search(text, problem["msg"])) for problem in report["problems"]] == [True]
    steps = [entry["next_step"] for entry in world.registry.why("gpu01") if "bmc_access" in entry["text"]]
    assert len(steps) == 1
    for word in ("`bmc/LAB-test-0001`", str(world.store), there.address, "run discover again"):
        assert word in steps[0]
    assert world.password(1) not in str(report) + str(steps)


def test_a_lost_bmc_is_neither_another_host_nor_missing(world):
    world.run()
    world.registry.save_node("LAB-test-0001", "test", bmc_port=9)
    ranges = ["127.0.8.41:9", f"127.0.8.42:{world.lab['gpu02'].port}", "127.0.8.49:9"]
    report = world.run(ranges=ranges)
    assert [problem["host"] for problem in report["problems"]] == ["gpu01"] and report["missing"] == []
    assert report["lost"] == ["127.0.8.41"] and [other["address"] for other in report["others"]] == ["127.0.8.49"]
    assert "3 addresses asked: 1 BMCs (1 read), 1 lost BMCs, 1 other hosts, 0 silent; 0 missing" in report["msg"]
