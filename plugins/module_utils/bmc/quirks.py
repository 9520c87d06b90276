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
}

# `match`: regular expressions (case does not matter) for vendor, product, manager, firmware of transform.bmc_identity, or manufacturer of the system;
# all that are given must match somewhere.
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
)


def of_system(system):
    """The switches for a system resource (its Manufacturer)."""
    maker = system.get("Manufacturer") if isinstance(system, dict) else None
    return switches_for({"manufacturer": maker})


def switches_for(identity):
    """{switch: value} for a BMC; `identity` has any of vendor, product, manager, firmware, manufacturer. Later rows win."""
    found = {name: default for name, (_meaning, default) in SWITCHES.items()}
    for row in QUIRKS:
        if all(
            re.search(pattern, str(identity.get(key) or ""), re.IGNORECASE) for key, pattern in row["match"].items()
        ):
            found.update(row["switches"])
    return found
