# The inventory against the simulator: the same whatever the BMC does, partial where it fails.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect, operations, transform
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import TransportError
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.wire import Wire
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors


@pytest.mark.parametrize(
    "behaviour",
    [
        {},
        {"no_query_support": True},
        {"paging": 2},
        {"two_systems": "hgx_first"},
        {"redirect_slash": True},
        {"busy_every_n": 9},
    ],
)
def test_info_is_the_same_whatever_the_bmc_does(bmc, there, behaviour):
    plain = operations.info(there)
    bmc.set_behaviour("gpu01", **behaviour)
    found = operations.info(there, deadline_s=60)
    assert (
        len(plain["gpus"]) == 8
        and len(plain["nics"]) == 3
        and plain["processors"]
        and plain["memory"]
        and plain["drives"]
        and plain["firmware"]
    )
    assert plain["system"]["serial"] == "LAB-test-0001"
    for section in ("nics", "drives", "memory", "processors"):
        assert found[section] == plain[section], section
    assert len(found["gpus"]) == 8
    assert {item["id"] for item in plain["firmware"]} <= {item["id"] for item in found["firmware"]}
    assert bmc.state("gpu01")["sessions"] == 0


def test_info_by_section(bmc, there):
    found = operations.info(there, ["system"])
    assert "gpus" not in found and found["system"]["manufacturer"]
    with pytest.raises(errors.InvalidInput):
        operations.info(there, ["everything"])


def test_a_section_that_fails_is_a_warning(bmc, there):
    bmc.set_behaviour("gpu01", faults=[{"method": "GET", "path": ".*/Memory.*", "status": 404, "times": -1}])
    found = operations.info(there)
    assert (
        found["memory"] == []
        and any("memory" in text.lower() for text in found["warnings"])
        and len(found["nics"]) == 3
    )


KEYS = [
    "Id",
    "Name",
    "Status",
    "Links",
    "Members",
    "SerialNumber",
    "Boot",
    "Actions",
    "PowerState",
    "Manufacturer",
    "Model",
    "Processors",
    "Memory",
    "Storage",
    "Drives",
    "MACAddress",
]


@pytest.mark.parametrize("switch", ["drop_properties", "null_properties"])
@pytest.mark.parametrize("key", KEYS)
def test_no_missing_or_null_property_is_a_traceback(bmc, there, switch, key):
    bmc.set_behaviour("gpu01", **{switch: [key]})
    try:
        assert operations.info(there)["system"] is not None
    except errors.BaremetalError as error:
        assert error.message


def test_speed_of_one_call_counts_its_requests(bmc, there):
    """A power call that changes nothing is three reads: root, systems, system. No session, no login, no write."""
    with connect(there) as client:
        client.read_power()
        assert [method for method, unused, unused2 in client.sent] == ["GET"] * 3


def test_two_systems_that_could_be_the_host_are_an_error_with_their_ids():
    system = {"Actions": {"#ComputerSystem.Reset": {}}, "Boot": {}}
    with pytest.raises(errors.Conflict) as caught:
        transform.choose_system([{**system, "Id": "A"}, {**system, "Id": "B"}])
    assert "A, B" in str(caught.value)
    assert transform.choose_system([{**system, "Id": "A"}, {**system, "Id": "B"}], "b")["Id"] == "B"


def test_an_info_limit_is_above_zero(there):
    with pytest.raises(errors.InvalidInput):
        operations.info(there, deadline_s=0)


def test_a_slow_firmware_list_is_waited_for_once(bmc, there):
    bmc.set_behaviour("gpu01", slow_path=".*/FirmwareInventory$", slow_s=2.5, no_query_support=True)
    impatient = replace(there, read_timeout=1.0)
    found = operations.info(impatient, ["firmware"])
    assert found["firmware"] and not found["warnings"]


def test_a_slow_resource_is_asked_for_twice_at_most(bmc, there):
    bmc.set_behaviour("gpu01", slow_path=".*/Memory$", slow_s=3, no_query_support=True)
    with connect(replace(there, read_timeout=0.5)) as client:
        client.system()
        with pytest.raises(errors.Unreachable):
            client.get("/redfish/v1/Systems/1/Memory")
        assert [path for unused, path, unused2 in client.sent].count("/redfish/v1/Systems/1/Memory") <= 2


# ---- the sections that are read when they are named ---------------------------------------------------------------------------
def test_power_thermal_bios_storage_logs(bmc, there):
    found = operations.info(there, ["power", "thermal", "bios", "storage", "logs"])
    assert set(found["power"]) == {"consumed_watts", "capacity_watts", "supplies"}
    assert set(found["thermal"]) == {"temperatures", "fans"}
    assert found["bios"]["attributes"] and found["bios"]["pending"] == {}
    assert {item["id"] for item in found["storage"]} and all(
        set(item) == {"id", "controllers", "volumes", "drives"} for item in found["storage"]
    )
    assert any(item["log"] == "Systems/1/SEL" for item in found["logs"])
    assert not found["warnings"] and "gpus" not in found


def test_a_slow_section_costs_the_others_nothing(bmc, there):
    bmc.set_behaviour("gpu01", slow_path=".*/Memory(/.*)?$", slow_s=10, no_query_support=True)
    began = time.monotonic()
    found = operations.info(
        replace(there, read_timeout=30.0, timeout=60.0), ["memory", "nics", "processors"], section_s=1.5
    )
    assert found["memory"] == [] and found["nics"] and found["processors"] and time.monotonic() - began < 8
    assert any(text.startswith("memory: not read") for text in found["warnings"])
    with pytest.raises(errors.InvalidInput):
        operations.info(there, section_s=0)


def test_a_section_without_time_for_another_try_is_no_unreachable_bmc(bmc, there):
    """Its connections are refused for a moment: the section ends at its own limit, the others are read."""

    class Flaky(Wire):
        def exchange(self, method, path, *args, **kwargs):
            if "/Memory" in path:
                raise TransportError("no answer to the connection", False)
            return super().exchange(method, path, *args, **kwargs)

    found = operations.info(replace(there, transport=Flaky), ["memory", "nics"], section_s=1.5)
    assert found["memory"] == [] and found["nics"]
    assert any(text.startswith("memory: not read") for text in found["warnings"])
    with pytest.raises(errors.Unreachable):
        operations.info(replace(there, transport=Flaky), ["memory", "nics"], deadline_s=20, section_s=15)
