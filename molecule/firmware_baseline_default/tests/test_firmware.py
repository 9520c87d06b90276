# What came of the rollout: what the BMCs run and were sent, and what the registry has of it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import sys

import pytest

testinfra_hosts = ["local://"]
LAB = os.environ["MOLECULE_LAB_DIR"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, f"{ROOT}/roles/virtual_lab/files")

from bmc_simulator.control import Control  # noqa: E402

OLD, NEW = "1.0.0", "1.1.0"


@pytest.fixture(scope="module")
def twin():
    return Control(f"{LAB}/twin/bmc.sock")


def rows(host, statement):
    database = f"{LAB}/molecule-firmware_baseline_default.db"
    program = (
        "import json, sqlite3, sys; print(json.dumps(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall()))"
    )
    return json.loads(host.check_output(f"{sys.executable} -c '{program}' {database} \"{statement}\""))


@pytest.mark.parametrize("node", ["sim00001", "sim00002"])
def test_baseline_runs_and_each_image_was_sent_once(twin, node):
    assert twin.call("state", node=node)["firmware"] == {"BMC": NEW, "BIOS": NEW, "CPLD": OLD}
    images = [row["components"] for row in twin.call("images")[node]]
    # one each, in the order that the baseline wants, also after the second run
    assert images == [{"BMC": NEW}, {"BIOS": NEW}]


def test_node_without_redfish_was_not_asked_for_anything(twin):
    assert twin.call("counters", node="sim00003")["sim00003"]["requests"] == 0


def test_nothing_is_left_open_at_the_bmcs(twin):
    totals = twin.call("totals")
    assert totals["sessions_left"]["sum"] == 0 and totals["in_flight_peak"]["max"] <= 2


def test_power_is_as_it_was(twin):
    assert {twin.call("state", node=node)["power"] for node in ("sim00001", "sim00002")} == {"Off"}


def test_nodes_are_available_with_one_passed_attempt_and_its_evidence(host):
    assert rows(host, "SELECT DISTINCT state FROM nodes") == [["available"]]
    attempts = rows(host, "SELECT n.name, a.stage, a.outcome FROM attempts a JOIN nodes n USING (serial) ORDER BY 1")
    assert attempts == [["sim00001", "firmware", "pass"], ["sim00002", "firmware", "pass"]]
    evidence = rows(host, "SELECT n.name, e.outcome, e.value FROM evidence e JOIN nodes n USING (serial) ORDER BY 1")
    assert [row[:2] for row in evidence] == [["sim00001", "pass"], ["sim00002", "pass"]]
    assert all(json.loads(row[2]) == {"bios": NEW, "bmc": NEW} for row in evidence)
