# The inventory against the simulator: the same whatever the BMC does, partial where it fails.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import (
    connect,
    operations,
    settings,
    transform,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import TransportError
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.wire import Wire
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from .scripted import serving


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


V1 = "/redfish/v1"


def collection(*names):
    return {"Members": [{"@odata.id": name} for name in names]}


def test_a_service_without_a_system_tells_what_it_can():
    """Cray's chassis controller: no Systems, a manager without a version, which the firmware inventory has."""
    answers = {
        f"GET {V1}/": {
            "Managers": {"@odata.id": f"{V1}/Managers"},
            "UpdateService": {"@odata.id": f"{V1}/UpdateService"},
        },
        f"GET {V1}/Managers": collection(f"{V1}/Managers/BMC"),
        f"GET {V1}/Managers/BMC": {"@odata.id": f"{V1}/Managers/BMC", "Id": "BMC"},
        f"GET {V1}/UpdateService": {
            "FirmwareInventory": {"@odata.id": f"{V1}/F"},
            "Actions": {"#UpdateService.SimpleUpdate": {"target": "/simple"}},
        },
        f"GET {V1}/F": collection(f"{V1}/F/Recovery", f"{V1}/F/BMC"),
        f"GET {V1}/F/BMC": {"Id": "BMC", "Version": "cc.1.6"},
        f"GET {V1}/F/Recovery": {"Id": "Recovery", "Version": "cc.1.3"},
    }
    with serving(answers) as (_script, where):
        found = operations.info(where, any_service=True)
        with pytest.raises(errors.NotFound):  # to discover it is no server
            operations.info(where)
    assert found["bmc"]["id"] == "BMC" and found["bmc"]["firmware"] == "cc.1.6"
    assert found["system"]["id"] is None and found["system"]["power"] == "unknown" and found["memory"] == []
    assert found["offers"] == {"reset_types": [], "update_methods": ["simple"]} and len(found["firmware"]) == 2
    assert any("no computer system" in text for text in found["warnings"])


def test_the_serial_is_the_box_and_not_a_board():
    """GB200: the system has no serial and links the BMC's board; the tray is another chassis, which links the system."""
    system = {"@odata.id": f"{V1}/Systems/S", "Id": "S", "Links": {"Chassis": [{"@odata.id": f"{V1}/Chassis/Board"}]}}
    mine = {"ComputerSystems": [{"@odata.id": f"{V1}/Systems/S"}]}
    board = {"@odata.id": f"{V1}/Chassis/Board", "Id": "Board", "ChassisType": "Component", "SerialNumber": "board"}
    tray = {
        "@odata.id": f"{V1}/Chassis/Tray",
        "Id": "Tray",
        "ChassisType": "Shelf",
        "SerialNumber": "tray",
        "Links": mine,
    }
    answers = {
        f"GET {V1}/": {"Systems": {"@odata.id": f"{V1}/Systems"}, "Chassis": {"@odata.id": f"{V1}/Chassis"}},
        f"GET {V1}/Systems": {"Members": [system]},
        f"GET {V1}/Systems/S": system,
        f"GET {V1}/Chassis": collection(f"{V1}/Chassis/Board", f"{V1}/Chassis/Tray"),
        f"GET {V1}/Chassis/Board": board,
        f"GET {V1}/Chassis/Tray": tray,
    }
    with serving(answers) as (script, where):
        operations.info(where, ["bmc"])
        assert not script.count("GET", f"{V1}/Chassis")  # nobody asked for the serial
        assert operations.info(where, ["system"])["system"]["serial"] == "tray"
    with serving({**answers, f"GET {V1}/Chassis": collection(f"{V1}/Chassis/Board")}) as (_script, where):
        found = operations.info(where, ["system"])
    assert found["system"]["serial"] == "board" and "Component" in found["warnings"][0]


def test_an_error_in_the_place_of_a_resource():
    """Intel S2600: 32 links to one drive, and an error with the status 200 where it leads."""
    gone = {
        "error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.1.0.ResourceMissingAtURI", "Message": "not found"}]}
    }
    system = {"@odata.id": f"{V1}/Systems/S", "Id": "S", "Storage": {"@odata.id": f"{V1}/St"}}
    answers = {
        f"GET {V1}/Systems": {"Members": [system]},
        f"GET {V1}/Systems/S": system,
        f"GET {V1}/St": {
            "Members": [{"Id": "1", "@odata.id": "/s", "Drives": [{"@odata.id": "/d"}] * 32, "Name": "x"}]
        },
        "GET /d": gone,
        "GET /other": {"error": {"code": "Base.1.0.GeneralError", "message": "later"}},
    }
    with serving(answers) as (_script, where):
        found = operations.info(where, ["drives"])
        with connect(where) as client:
            with pytest.raises(errors.Refused) as caught:
                client.get("/d")
            assert caught.value.status == 404 and "HTTP 200" in caught.value.seen
            with pytest.raises(errors.Refused) as caught:
                client.get("/other")
            assert caught.value.code == "bmc_failed"
            assert client.look("/other").body  # a task's monitor gives the answer of the work itself
    assert found["drives"] == [] and any("drive" in text for text in found["warnings"])


def test_what_the_other_modules_change_can_be_read(bmc, there):
    found = operations.info(there, ["accounts", "settings", "media"])
    assert {"username": bmc["gpu01"].username, "role": "Administrator", "enabled": True, "locked": False} in found[
        "accounts"
    ]
    assert set(found["settings"]) == set(settings.NAMES) and found["settings"]["event_destinations"] == []
    assert isinstance(found["settings"]["hostname"], str) and isinstance(found["settings"]["ipmi_over_lan"], bool)
    assert found["media"] and all(not device["inserted"] for device in found["media"]) and not found["warnings"]


def test_settings_that_a_bmc_does_not_show_are_null():
    replies = {
        "GET /redfish/v1/Systems": {"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]},
        "GET /redfish/v1/Systems/1": {
            "@odata.id": "/redfish/v1/Systems/1",
            "Links": {"ManagedBy": [{"@odata.id": "/m"}]},
        },
        "GET /m": {"@odata.id": "/m", "NetworkProtocol": {"@odata.id": "/n"}},
        "GET /n": {"HostName": "bmc1", "NTP": None, "IPMI": {"ProtocolEnabled": False}},
    }
    with serving(replies) as (script, where):
        found = operations.info(where, ["settings"])["settings"]
    assert script.count("GET", "/n") == 1  # three settings are in it
    assert found["hostname"] == "bmc1" and found["ipmi_over_lan"] is False
    assert {found[name] for name in ("ntp_servers", "ntp_enabled", "dns_servers", "secure_boot")} == {None}
