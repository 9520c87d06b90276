# Sensors in the old and the new schema, and both at once.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import operations, sensors

from .scripted import serving


@pytest.mark.parametrize(
    ("resource", "celsius", "critical"),
    [
        ({"Name": "Inlet", "ReadingCelsius": 23, "UpperThresholdCritical": 42}, 23, 42),
        ({"DeviceName": "Inlet", "Reading": 23.5, "Thresholds": {"UpperCritical": {"Reading": 42}}}, 23.5, 42),
        ({"DataSourceUri": "/redfish/v1/Chassis/1/Sensors/Inlet", "Reading": None}, None, None),
        ({"Name": "Inlet", "Thresholds": 7, "ReadingCelsius": "hot"}, None, None),
    ],
)
def test_temperatures(resource, celsius, critical):
    facts = sensors.temperature_facts(resource)
    assert facts["name"] == "Inlet" and (facts["celsius"], facts["critical"]) == (celsius, critical)


@pytest.mark.parametrize(
    ("resource", "speed", "unit"),
    [
        ({"Name": "Fan 1", "Reading": 6000, "ReadingUnits": "RPM"}, 6000, "RPM"),
        ({"Name": "Fan 1", "SpeedPercent": {"Reading": 40, "SpeedRPM": 6100}}, 6100, "RPM"),
        ({"FanName": "Fan 1", "SpeedPercent": {"Reading": 40}}, 40, "Percent"),
        ({"Name": "Fan 1", "Reading": None, "ReadingUnits": "RPM"}, None, None),
    ],
)
def test_fans(resource, speed, unit):
    facts = sensors.fan_facts(resource)
    assert facts["name"] == "Fan 1" and (facts["speed"], facts["unit"]) == (speed, unit)


def test_merged_by_name():
    assert sensors.merged(
        [{"name": "a", "celsius": None, "critical": 5}],
        [{"name": "a", "celsius": 1, "critical": 9}, {"name": "b"}, {"name": ""}],
    ) == [
        {"name": "a", "celsius": 1, "critical": 5},
        {"name": "b"},
    ]


def link(path):
    return {"@odata.id": path}


def test_new_and_old_schema_together():
    system = {"@odata.id": "/redfish/v1/Systems/1", "Id": "1", "Links": {"Chassis": [link("/c")]}}
    chassis = {
        "@odata.id": "/c",
        "PowerSubsystem": link("/p"),
        "ThermalSubsystem": link("/t"),
        "EnvironmentMetrics": link("/e"),
        "Power": link("/old/p"),
        "Thermal": link("/old/t"),
    }
    answers = {
        "GET /redfish/v1/Systems": {"Members": [system]}, "GET /redfish/v1/Systems/1": system, "GET /c": chassis,
        "GET /p": {"CapacityWatts": 9000, "PowerSupplies": link("/p/s")}, "GET /e": {"PowerWatts": {"Reading": 4321}},
        "GET /p/s": {"Members": [{"@odata.id": "/p/s/0", "Id": "0", "Name": "PSU 0", "Model": "M"}]},
        "GET /t": {"Fans": link("/t/f"), "ThermalMetrics": link("/t/m")}, "GET /t/f": {"Members": None},
        "GET /t/m": {"TemperatureReadingsCelsius": [{"DeviceName": "Inlet", "Reading": 23}, None]},
        "GET /old/p": {"PowerControl": [{"PowerConsumedWatts": 1}], "PowerSupplies": [{"Name": "PSU 0", "SerialNumber": "S0", "PowerOutputWatts": 700}]},
        "GET /old/t": {"Temperatures": [{"Name": "Inlet", "UpperThresholdCritical": 42}, {"Name": "Gone", "Status": {"State": "Absent"}}], "Fans": "none"},
    }  # fmt: skip
    with serving(answers) as (unused, where):
        found = operations.info(where, ["power", "thermal"])
    assert found["power"]["consumed_watts"] == 4321 and found["power"]["capacity_watts"] == 9000
    assert found["power"]["supplies"] == [
        {"slot": "PSU 0", "model": "M", "serial": "S0", "firmware": None, "watts": 700, "health": None}
    ]
    assert found["thermal"] == {
        "temperatures": [{"name": "Inlet", "celsius": 23, "critical": 42, "health": None}],
        "fans": [],
    }
