# Power draw, power supplies, temperatures and fans, from the schemas that a BMC has: PowerSubsystem and ThermalSubsystem, then the older Power and Thermal.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from . import transform

MOST_CHASSIS = 8
MOST_SENSORS = 400


# ---- pure ---------------------------------------------------------------------------------------------------------------------------------
def health_of(resource):
    return transform.text(resource, "Status", "Health") or None


def name_of(resource):
    return (
        transform.text(resource, "Name")
        or transform.text(resource, "DeviceName")
        or transform.text(resource, "FanName")
        or transform.text(resource, "MemberId")
        or transform.text(resource, "Id")
        or transform.text(resource, "DataSourceUri").rstrip("/").rsplit("/", 1)[-1]
    )


def supply_facts(resource):
    """{slot, model, serial, firmware, watts, health} of a PowerSupply, old or new."""
    watts = transform.number(resource, "PowerOutputWatts")
    if watts is None:
        watts = transform.number(resource, "LastPowerOutputWatts")
    return {
        "slot": name_of(resource),
        "model": transform.text(resource, "Model") or None,
        "serial": transform.text(resource, "SerialNumber") or None,
        "firmware": transform.text(resource, "FirmwareVersion") or None,
        "watts": watts,
        "health": health_of(resource),
    }


def temperature_facts(resource):
    """{name, celsius, critical, health}; the reading is None where the BMC gives none (server off, an excerpt without it): the sensor is kept."""
    value = transform.number(resource, "ReadingCelsius")
    if value is None:
        value = transform.number(resource, "Reading")
    critical = transform.number(resource, "UpperThresholdCritical")
    if critical is None:
        critical = transform.number(resource, "Thresholds", "UpperCritical", "Reading")
    return {"name": name_of(resource), "celsius": value, "critical": critical, "health": health_of(resource)}


def fan_facts(resource):
    """{name, speed, unit, health}; unit RPM or Percent."""
    speed, unit = transform.number(resource, "Reading"), transform.text(resource, "ReadingUnits") or None
    if speed is None:
        speed, unit = transform.number(resource, "SpeedPercent", "SpeedRPM"), "RPM"
    if speed is None:
        speed, unit = transform.number(resource, "SpeedPercent", "Reading"), "Percent"
    return {
        "name": name_of(resource),
        "speed": speed,
        "unit": unit if speed is not None else None,
        "health": health_of(resource),
    }


def merged(*lists):
    """One list by name; what is known first wins, what it lacks comes from the later ones."""
    found = {}
    for items in lists:
        for item in items:
            key = item.get("name") or item.get("slot")
            if not key:
                continue
            have = found.setdefault(key, dict(item))
            for word, value in item.items():
                if have.get(word) is None:
                    have[word] = value
    return list(found.values())


def ipmi_health(row):
    """OK, Warning or Critical from a row of the IPMI client, None where the sensor has no reading."""
    if row["health"] is None:
        return None
    return "Critical" if row["health"] & 6 else ("Warning" if row["health"] else "OK")


def ipmi_thermal(rows):
    """{temperatures, fans} from the sensors of IPMI; they say no thresholds in their readings."""
    return {
        "temperatures": [
            {"name": row["name"], "celsius": row["value"], "critical": None, "health": ipmi_health(row)}
            for row in rows
            if row["type"] == "Temperature"
        ],
        "fans": [
            {
                "name": row["name"],
                "speed": row["value"],
                "unit": None if row["value"] is None else ("Percent" if "%" in row["units"] else "RPM"),
                "health": ipmi_health(row),
            }
            for row in rows
            if row["type"] == "Fan"
        ],
    }


def ipmi_power(rows, watts=None):
    """{consumed_watts, capacity_watts, supplies} from the sensors of IPMI; `watts` is what DCMI says, else a sensor of the whole server does."""
    whole = re.compile(r"total|sys|pwr.?consum|^(pwr|power)$|power.?meter", re.IGNORECASE)
    if watts is None:
        watts = next(
            (
                row["value"]
                for row in rows
                if row["type"] == "Power" and row["value"] is not None and whole.search(row["name"])
            ),
            None,
        )
    supplies = [
        {
            "slot": row["name"],
            "model": None,
            "serial": None,
            "firmware": None,
            "watts": None,
            "health": ipmi_health(row),
        }
        for row in rows
        if row["type"] == "Power Supply"
    ]
    return {"consumed_watts": watts, "capacity_watts": None, "supplies": supplies}


# ---- reading --------------------------------------------------------------------------------------------------------------------------------
def chassis_of(client):
    """The chassis of the host's system (GPU trays have dozens of others, whose sensors the host's chassis shows too)."""
    uris = transform.links(client.system(), "Links", "Chassis")[:MOST_CHASSIS]
    return [item for item in (client.optional(uri, "a chassis") for uri in uris) if item]


def power(client):
    """{consumed_watts, capacity_watts, supplies} of the host's chassis."""
    consumed, capacity, new, old = [], [], [], []
    for chassis in chassis_of(client):
        subsystem = client.optional(transform.link(chassis, "PowerSubsystem"), None) or {}
        new += [
            supply_facts(item)
            for item in client.members(transform.link(subsystem, "PowerSupplies"), None)
            if transform.present(item)
        ]
        capacity.append(transform.number(subsystem, "CapacityWatts"))
        metrics = client.optional(transform.link(chassis, "EnvironmentMetrics"), None) or {}
        consumed.append(transform.number(metrics, "PowerWatts", "Reading"))
        page = client.optional(transform.link(chassis, "Power"), None) or {}
        old += [supply_facts(item) for item in transform.items(page, "PowerSupplies") if transform.present(item)]
        for control in transform.items(page, "PowerControl"):
            consumed.append(transform.number(control, "PowerConsumedWatts"))
            capacity.append(transform.number(control, "PowerCapacityWatts"))
    return {"consumed_watts": _first(consumed), "capacity_watts": _first(capacity), "supplies": merged(new, old)}


def thermal(client):
    """{temperatures, fans} of the host's chassis."""
    temperatures, fans, old_temperatures, old_fans = [], [], [], []
    for chassis in chassis_of(client):
        subsystem = client.optional(transform.link(chassis, "ThermalSubsystem"), None) or {}
        fans += [
            fan_facts(item)
            for item in client.members(transform.link(subsystem, "Fans"), None)
            if transform.present(item)
        ]
        metrics = client.optional(transform.link(subsystem, "ThermalMetrics"), None) or {}
        temperatures += [temperature_facts(item) for item in transform.items(metrics, "TemperatureReadingsCelsius")]
        page = client.optional(transform.link(chassis, "Thermal"), None) or {}
        old_temperatures += [
            temperature_facts(item) for item in transform.items(page, "Temperatures") if transform.present(item)
        ]
        old_fans += [fan_facts(item) for item in transform.items(page, "Fans") if transform.present(item)]
    return {
        "temperatures": merged(temperatures, old_temperatures)[:MOST_SENSORS],
        "fans": merged(fans, old_fans)[:MOST_SENSORS],
    }


def _first(values):
    return next((value for value in values if value is not None), None)
