# How BMCs differ from each other, as data: which BMC (match) behaves in which way (switches), and who reported it (source). One test for each row.
# A Python literal and no YAML file, because modules that are sent to another host take only Python files with them.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

# switch: (meaning, value where no row says anything else)
SWITCHES = {
    "serial": ("property of the system that the operating system reads as the system's serial", "SerialNumber"),
    "cd_targets": ("Redfish names of the boot target cd, best first", ("Cd", "CD/DVD", "UsbCd")),
    "reserved_slots": (
        "ids of account slots that stay empty, where new accounts take a free slot instead of being posted",
        (),
    ),
    "expand": ("$expand may be asked for where the service root offers it", True),
    "bios_settings": ("names below Bios where pending BIOS settings are looked for when Bios has no link to them", ()),
    "media_by_patch": ("virtual media are inserted and ejected by PATCH at once, without trying the actions", False),
    "reset_time_counts": ("LastResetTime moves with a restart, and not only when the power goes off and on", True),
    "firmware_list_s": ("seconds that the firmware inventory may take", 60.0),
}

# `match`: regular expressions (case does not matter) for vendor, product, manager (its model), manufacturer and model (of the system), which must match
# somewhere; `firmware_from` and `firmware_before`: bounds of the BMC's firmware version. All that are given must fit. Later rows win.
QUIRKS = (
    {
        "match": {"manufacturer": "^dell"},
        "switches": {"serial": "SKU"},
        "source": "Dell iDRAC: SKU is the service tag, which SMBIOS gives as the system serial; SerialNumber is the main board's (R750 tree, iDRAC 6.00.30)",
    },
    {
        "match": {"manufacturer": "supermicro"},
        "switches": {"cd_targets": ("UsbCd", "Cd", "CD/DVD")},
        "source": "sushy: Supermicro lists Cd and UsbCd, and virtual media boots only by UsbCd",
    },
    {
        "match": {"manufacturer": "^dell"},
        "switches": {"reserved_slots": ("1",)},
        "source": "Dell iDRAC 9: accounts are sixteen fixed slots, POST answers 405, slot 1 is reserved",
    },
    {
        "match": {"manufacturer": "^lenovo", "model": "GB300"},
        "switches": {"expand": False},
        "source": "nv-redfish#118, infra-controller#4100: $expand drops Id, Name and ChassisType on Lenovo GB300",
    },
    {
        "match": {"vendor": "^ami"},
        "switches": {"bios_settings": ("SD", "Settings")},
        "source": "community.general#6434, Redfish-Tacklebox#55: AMI MegaRAC without a SettingsObject link has its settings at Bios/SD (Gigabyte H262 tree)",
    },
    {
        "match": {"manufacturer": "^lenovo"},
        "switches": {"media_by_patch": True},
        "source": "sushy release note virtual-media-fallback: Lenovo XCC has no InsertMedia action that works, Image and Inserted are set by PATCH",
    },
    {
        "match": {"vendor": "^ami", "manufacturer": "nvidia"},
        "switches": {"firmware_list_s": 240.0},
        "source": "infra-controller#1584 and #6419: the firmware inventory of a DGX H100 takes two to three minutes",
    },
    {
        "match": {"manager": "^openbmc"},
        "switches": {"reset_time_counts": False},
        "source": "openbmc/bmcweb systems.hpp, getLastResetTime: it is the chassis' last power operation, which a ForceRestart (a warm reboot) does not touch",
    },
)
# How a BMC takes mains (ac_cycle) or standby power (aux_cycle) away, best first. No identity is matched: the action that a BMC shows is the sign.
# `where`: whose action; `types`: values of ResetType; `body`: sent beside it; `off_first`: refused while the server is on.
POWER_CYCLES = (
    {
        "kind": "ac_cycle",
        "where": "chassis",
        "action": "DellOemChassis.ExtendedReset",
        "types": ("PowerCycle",),
        "body": {"FinalPowerState": "On"},
        "source": "dell/iDRAC-Redfish-Scripting, ServerVirtualAcPowerCycleREDFISH; FullPowerCycle does not reach the GPU baseboard (KB 000355295)",
    },
    {
        "kind": "ac_cycle",
        "where": "system",
        "action": "LenovoComputerSystem.SystemReset",
        "types": ("ACPowerCycle",),
        "source": "libredfish, lenovo.rs: ACPowercycle of XCC (SR670 V2 tree)",
    },
    {
        "kind": "ac_cycle",
        "where": "system",
        "action": "OemSystemExtensions.Reset",
        "types": ("ACCycle",),
        "source": "libredfish, supermicro.rs: ACPowercycle; newer boards show it in the system, older ones have none",
    },
    {
        "kind": "ac_cycle",
        "where": "system",
        "action": "ComputerSystem.Reset",
        "types": ("FullPowerCycle",),
        "source": "DSP0268, Resource.ResetType: FullPowerCycle removes the input power",
    },
    {
        "kind": "ac_cycle",
        "where": "chassis",
        "action": "Chassis.Reset",
        "types": ("FullPowerCycle",),
        "source": "DSP0268, Resource.ResetType; PowerCycle of a chassis leaves the standby power on and does not count",
    },
    {
        "kind": "aux_cycle",
        "where": "chassis",
        "action": "NvidiaChassis.AuxPowerReset",
        "types": ("AuxPowerCycle",),
        "off_first": True,
        "source": "infra-controller#909: 400 unless the chassis is off; libredfish, nvidia_gb200.rs (BMC_0)",
    },
    {
        "kind": "aux_cycle",
        "where": "system",
        "action": "HpeComputerSystemExt.SystemReset",
        "types": ("AuxCycle",),
        "off_first": True,
        "source": "libredfish, hpe.rs: AuxCycle wants the server off (DL385 Gen10 Plus tree)",
    },
)
MATCH_KEYS = ("vendor", "product", "manager", "manufacturer", "model", "firmware", "firmware_from", "firmware_before")


def version_key(text):
    """The numbers of a version, for comparing within one vendor: "iLO 5 v2.72" -> (5, 2, 72) is why bounds look at the last dotted part only."""
    dotted = re.findall(r"\d+(?:\.\d+)+", str(text or ""))
    plain = dotted[-1] if dotted else next(iter(re.findall(r"\d+", str(text or ""))), "")
    return tuple(int(part) for part in plain.split(".") if part)


def fits(match, identity):
    """True where a BMC with this identity is meant by the row. A bound on a firmware that is not known does not fit: nothing is assumed."""
    for key, wanted in match.items():
        if key in ("firmware_from", "firmware_before"):
            have = version_key(identity.get("firmware"))
            if not have or (have < version_key(wanted)) == (key == "firmware_from"):
                return False
        elif not re.search(wanted, str(identity.get(key) or ""), re.IGNORECASE):
            return False
    return True


def switches_for(identity):
    """{switch: value} for a BMC; `identity` has any of vendor, product, manager, firmware, manufacturer, model."""
    found = {name: default for name, (_meaning, default) in SWITCHES.items()}
    for row in QUIRKS:
        if fits(row["match"], identity):
            found.update(row["switches"])
    return found


def of_system(system):
    """The switches that a system resource alone decides (its Manufacturer and Model)."""
    system = system if isinstance(system, dict) else {}
    return switches_for({"manufacturer": system.get("Manufacturer"), "model": system.get("Model")})


def identity_of(root, manager, system):
    """What rows are matched against, from the resources as they came; each may be {} where it was not read."""

    def word(resource, key):
        value = resource.get(key) if isinstance(resource, dict) else None
        return value if isinstance(value, str) else None

    oem = root.get("Oem") if isinstance(root, dict) else None
    names = " ".join(str(key) for key in oem) if isinstance(oem, dict) else ""
    return {
        "vendor": word(root, "Vendor") or names or word(manager, "Manufacturer") or word(system, "Manufacturer"),
        "product": word(root, "Product"),
        "manager": word(manager, "Model"),
        "firmware": word(manager, "FirmwareVersion"),
        "manufacturer": word(system, "Manufacturer"),
        "model": word(system, "Model"),
    }
