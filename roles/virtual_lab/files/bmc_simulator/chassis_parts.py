# Power supplies, fans and sensors of a simulated chassis: readings follow the power state, in the new schemas, the old ones, or both.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from . import hardware
from .node import Node
from .resources import C, Json, collection, kind, link, ok, resource

POWER, THERMAL, SENSORS = f"{C}/PowerSubsystem", f"{C}/ThermalSubsystem", f"{C}/Sensors"
SUPPLIES, FANS = ("PSU0", "PSU1"), ("FAN0", "FAN1", "FAN2", "FAN3")


def sensors(node: Node) -> dict[str, tuple[str, str, float | None, str, float | None]]:
    """Id: reading type, units, reading, physical context, upper critical threshold. What is off has no reading, but the inlet."""
    on = node.driver.running
    gpus = hardware.GPU_PROFILES[node.config["gpu_profile"]].count if node.config["gpu_profile"] else 0
    watts = 350.0 + 90.0 * gpus if on else 35.0
    out: dict[str, tuple[str, str, float | None, str, float | None]] = {
        "Inlet_Temp": ("Temperature", "Cel", 23.0, "Intake", 45.0),
        "CPU0_Temp": ("Temperature", "Cel", 48.0 if on else None, "CPU", 95.0),
        "Total_Power": ("Power", "W", watts, "PowerSupply", None),
    }
    for index in range(gpus):
        out[f"GPU{index}_Temp"] = ("Temperature", "Cel", 41.0 + index if on else None, "GPU", 92.0)
    for name in FANS:
        out[f"{name}_Speed"] = ("Rotational", "RPM", 9600.0 if on else 0.0, "Fan", None)
    return out


def _new(node: Node) -> bool:
    return node.behaviour.sensor_schemas != "old"


def _old(node: Node) -> bool:
    return node.behaviour.sensor_schemas != "new"


def chassis_links(node: Node) -> Json:
    """What the chassis resource says of all this."""
    out: Json = {}
    if _new(node):
        out.update(
            PowerSubsystem=link(POWER),
            ThermalSubsystem=link(THERMAL),
            Sensors=link(SENSORS),
            EnvironmentMetrics=link(f"{C}/EnvironmentMetrics"),
        )
    if _old(node):
        out.update(Power=link(f"{C}/Power"), Thermal=link(f"{C}/Thermal"))
    return out


@resource(SENSORS)
def sensor_collection(node: Node, path: str) -> Json | None:
    return collection(path, "Sensor", list(sensors(node))) if _new(node) else None


@resource(SENSORS + "/{sensor}")
def sensor_resource(node: Node, path: str, sensor: str) -> Json | None:
    row = sensors(node).get(sensor)
    if row is None or not _new(node):
        return None
    reading_type, units, reading, context, limit = row
    body = {
        "@odata.id": path,
        "@odata.type": kind("Sensor"),
        "Id": sensor,
        "Name": sensor.replace("_", " "),
        "ReadingType": reading_type,
        "ReadingUnits": units,
        "Reading": reading,
        "PhysicalContext": context,
        "Status": ok("Enabled" if reading is not None else "UnavailableOffline"),
    }
    if limit is not None:
        body["Thresholds"] = {"UpperCritical": {"Reading": limit}}
    return body


def _excerpt(node: Node, sensor: str) -> Json:
    return {"DataSourceUri": f"{SENSORS}/{sensor}", "Reading": sensors(node)[sensor][2]}


@resource(f"{C}/EnvironmentMetrics")
def environment_metrics(node: Node, path: str) -> Json | None:
    if not _new(node):
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("EnvironmentMetrics"),
        "Id": "EnvironmentMetrics",
        "Name": "Chassis Environment Metrics",
        "TemperatureCelsius": _excerpt(node, "Inlet_Temp"),
        "PowerWatts": _excerpt(node, "Total_Power"),
    }


@resource(POWER)
def power_subsystem(node: Node, path: str) -> Json | None:
    if not _new(node):
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("PowerSubsystem"),
        "Id": "PowerSubsystem",
        "Name": "Power Subsystem",
        "CapacityWatts": 6000,
        "PowerSupplies": link(f"{path}/PowerSupplies"),
        "Status": ok(),
    }


@resource(f"{POWER}/PowerSupplies")
def supply_collection(node: Node, path: str) -> Json | None:
    return collection(path, "PowerSupply", list(SUPPLIES)) if _new(node) else None


@resource(POWER + "/PowerSupplies/{supply}")
def supply_resource(node: Node, path: str, supply: str) -> Json | None:
    if supply not in SUPPLIES or not _new(node):
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("PowerSupply"),
        "Id": supply,
        "Name": supply,
        "Manufacturer": hardware.MANUFACTURER,
        "Model": "VPSU-3000",
        "SerialNumber": f"{node.config['serial']}-{supply}",
        "PowerCapacityWatts": 3000,
        "Status": ok(),
    }


@resource(THERMAL)
def thermal_subsystem(node: Node, path: str) -> Json | None:
    if not _new(node):
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("ThermalSubsystem"),
        "Id": "ThermalSubsystem",
        "Name": "Thermal Subsystem",
        "Fans": link(f"{path}/Fans"),
        "ThermalMetrics": link(f"{path}/ThermalMetrics"),
        "Status": ok(),
    }


@resource(f"{THERMAL}/ThermalMetrics")
def thermal_metrics(node: Node, path: str) -> Json | None:
    if not _new(node):
        return None
    rows = [name for name, row in sensors(node).items() if row[0] == "Temperature"]
    return {
        "@odata.id": path,
        "@odata.type": kind("ThermalMetrics"),
        "Id": "ThermalMetrics",
        "Name": "Thermal Metrics",
        "TemperatureReadingsCelsius": [{**_excerpt(node, name), "DeviceName": name} for name in rows],
        "TemperatureReadingsCelsius@odata.count": len(rows),
    }


@resource(f"{THERMAL}/Fans")
def fan_collection(node: Node, path: str) -> Json | None:
    return collection(path, "Fan", list(FANS)) if _new(node) else None


@resource(THERMAL + "/Fans/{fan}")
def fan_resource(node: Node, path: str, fan: str) -> Json | None:
    if fan not in FANS or not _new(node):
        return None
    speed = sensors(node)[f"{fan}_Speed"][2]
    return {
        "@odata.id": path,
        "@odata.type": kind("Fan"),
        "Id": fan,
        "Name": fan,
        "PhysicalContext": "Chassis",
        "SpeedPercent": {
            "DataSourceUri": f"{SENSORS}/{fan}_Speed",
            "Reading": 60.0 if speed else 0.0,
            "SpeedRPM": speed,
        },
        "Status": ok(),
    }


@resource(f"{C}/Power")
def old_power(node: Node, path: str) -> Json | None:
    if not _old(node):
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("Power"),
        "Id": "Power",
        "Name": "Power",
        "PowerControl": [
            {
                "@odata.id": f"{path}#/PowerControl/0",
                "MemberId": "0",
                "Name": "Server Power Control",
                "PowerConsumedWatts": sensors(node)["Total_Power"][2],
                "PowerCapacityWatts": 6000,
            }
        ],
        "PowerSupplies": [
            {
                "@odata.id": f"{path}#/PowerSupplies/{index}",
                "MemberId": str(index),
                "Name": supply,
                "Model": "VPSU-3000",
                "SerialNumber": f"{node.config['serial']}-{supply}",
                "PowerCapacityWatts": 3000,
                "Status": ok(),
            }
            for index, supply in enumerate(SUPPLIES)
        ],
    }


@resource(f"{C}/Thermal")
def old_thermal(node: Node, path: str) -> Json | None:
    if not _old(node):
        return None
    rows = sensors(node)
    temperatures = [(name, row) for name, row in rows.items() if row[0] == "Temperature"]
    return {
        "@odata.id": path,
        "@odata.type": kind("Thermal"),
        "Id": "Thermal",
        "Name": "Thermal",
        "Temperatures": [
            {
                "@odata.id": f"{path}#/Temperatures/{index}",
                "MemberId": str(index),
                "Name": name.replace("_", " "),
                "ReadingCelsius": row[2],
                "UpperThresholdCritical": row[4],
                "PhysicalContext": row[3],
                "Status": ok("Enabled" if row[2] is not None else "UnavailableOffline"),
            }
            for index, (name, row) in enumerate(temperatures)
        ],
        "Fans": [
            {
                "@odata.id": f"{path}#/Fans/{index}",
                "MemberId": str(index),
                "Name": fan,
                "Reading": int(rows[f"{fan}_Speed"][2]),
                "ReadingUnits": "RPM",
                "Status": ok(),
            }
            for index, fan in enumerate(FANS)
        ],
    }
