# A fleet of BMCs in one process: who answers where, verified TLS, faults over a share, counters.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import pathlib
import socket
import ssl
import stat
import time

import pytest
from bmc_http import WORKER, S, ask

from bmc_simulator.fleet import Fleet
from bmc_simulator.schema import SchemaError
from bmc_simulator.testing import fleet

# away from the addresses of a fleet that somebody runs by hand
FIRST = f"127.{WORKER}.7.1"


@pytest.fixture(scope="module")
def shared_fleet():
    with fleet(count=150, address=FIRST, behaviour={"power_lag_s": 0.02}) as running:
        yield running


def test_every_bmc_has_its_own_address_and_serial(shared_fleet):
    bmcs = shared_fleet.bmcs
    assert len({(bmc.address, bmc.port) for bmc in bmcs}) == len({bmc.serial for bmc in bmcs}) == 150
    assert ask(bmcs[149], "GET", S).json["SerialNumber"] == bmcs[149].serial


def test_certificates_are_signed_for_their_addresses(shared_fleet):
    context = ssl.create_default_context(cafile=shared_fleet.ca_path)
    for bmc in (shared_fleet.bmcs[0], shared_fleet.bmcs[63], shared_fleet.bmcs[64], shared_fleet.bmcs[149]):
        with socket.create_connection((bmc.address, bmc.port), timeout=10) as raw:
            with context.wrap_socket(raw, server_hostname=bmc.address) as connection:
                assert connection.getpeercert()["subject"]


def test_counters_tell_what_each_bmc_was_asked(shared_fleet):
    bmc, name = shared_fleet.bmcs[10], shared_fleet.bmcs[10].name
    shared_fleet.control.call("reset_stats", node=name)
    made = ask(bmc, "POST", "/redfish/v1/SessionService/Sessions", {"UserName": bmc.username, "Password": bmc.password})
    ask(bmc, "POST", f"{S}/Actions/ComputerSystem.Reset", {"ResetType": "On"})
    row = shared_fleet.counters(name)
    assert (row["requests"], row["posts"], row["sessions_made"], row["sessions_left"]) == (2, 1, 1, 1)
    ask(bmc, "DELETE", made.headers["Location"])
    row = shared_fleet.counters(name)
    assert (row["sessions_deleted"], row["sessions_left"], row["in_flight_peak"]) == (1, 0, 1)
    assert shared_fleet.wait(name, lambda state: state["power"] == "On")


def test_a_bmc_that_restarts_refuses_connections_for_a_while(shared_fleet):
    bmc = shared_fleet.bmcs[20]
    shared_fleet.set_behaviour(bmc.name, manager_reset_s=0.5)
    assert (
        ask(bmc, "POST", "/redfish/v1/Managers/BMC/Actions/Manager.Reset", {"ResetType": "ForceRestart"}).status == 204
    )
    with pytest.raises(ConnectionRefusedError):
        end = time.monotonic() + 5
        while time.monotonic() < end:
            with socket.create_connection((bmc.address, bmc.port), timeout=5):
                time.sleep(0.02)
    shared_fleet.wait(bmc.name, lambda _state: _answers(bmc))
    assert ask(bmc, "GET", S).status == 200


def _answers(bmc):
    try:
        with socket.create_connection((bmc.address, bmc.port), timeout=1):
            return True
    except OSError:
        return False


def test_files_for_users(shared_fleet):
    directory = pathlib.Path(shared_fleet.ca_path).parent
    inventory = json.loads((directory / "inventory.json").read_text())["nodes"]
    assert len(inventory["hosts"]) == 150 and inventory["vars"]["bmc_credential"] == "fleet"
    secrets = directory / "secrets.yml"
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600 and "fleet" in json.loads(secrets.read_text())


def test_faults_are_dealt_by_seed_and_do_not_overlap(tmp_path):
    description = {
        "dir": str(tmp_path),
        "groups": [{"count": 100}],
        "faults": [
            {"name": "busy", "behaviour": {"busy_every_n": 7}, "share": 0.02},
            {"name": "lag", "behaviour": {"power_lag_s": 9}, "count": 3},
            {"name": "named", "behaviour": {"paging": 5}, "nodes": ["sim00005"]},
        ],
    }
    one, two, other = Fleet(description), Fleet(description), Fleet({**description, "seed": 2})
    names = [f"sim{number:05d}" for number in range(1, 101)]
    assert [one.faults_of(name) for name in names] == [two.faults_of(name) for name in names]
    assert [one.faults_of(name) for name in names] != [other.faults_of(name) for name in names]
    dealt = [name for name in names if set(one.faults_of(name)) & {"busy", "lag"}]
    assert len(dealt) == 5 and "named" in one.faults_of("sim00005")
    faulty = next(name for name in names if "busy" in one.faults_of(name))
    group = one.groups[0]
    assert group.fleet.behaviour_of(group, int(faulty[3:]))["busy_every_n"] == 7
    # a healthy BMC shares the switches of its group
    healthy = next(name for name in names if not one.faults_of(name))
    assert group.fleet.behaviour_of(group, int(healthy[3:])) is group.behaviour


@pytest.mark.parametrize(
    "value, complaint",
    [
        ({"groups": []}, "dir: is missing"),
        ({"dir": "/tmp/x", "groups": [{"count": 1, "colour": "red"}]}, r"groups\[0\].colour: unknown key"),
        ({"dir": "/tmp/x", "groups": [{"count": 1, "address": "10.0.0.1"}]}, "stays on loopback"),
        ({"dir": "/tmp/x", "groups": [{"count": 1, "behaviour": {"nonsense": 1}}]}, "unknown behaviour 'nonsense'"),
        ({"dir": "/tmp/x", "faults": [{"behaviour": {"paging": "x"}}]}, r"faults\[0\]: behaviour paging"),
    ],
)
def test_wrong_descriptions_name_the_place(value, complaint):
    with pytest.raises(SchemaError, match=complaint):
        Fleet(value)
