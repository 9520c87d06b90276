# What each tree of the outside test set lets an operator do, read off the trees by hand: where a thing is asked for, in which words, and what is not there.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Part of point 1. A text in the place of an offer is the code of the error with which the operation has to be refused, in check mode and without:
`unsupported` where the tree shows that the thing is not offered, `not_found` where what it links to is not in the capture or there is no system at all.

boot      place: the resource that lists the override's targets. cd: the word for it. mode: its BootSourceOverrideMode, None where that is null, "" where
          there is none. refused: targets that it does not list. persistent: Continuous is allowed. present: the override that is set (target, enabled).
order     the resource where the boot order is written, that is the settings object of the system where that has a Boot of its own
bios      (where settings are written, attribute, its value, another value, whether the settings object wants the apply time OnReset), or (code, attribute,
          value)
media     {kind: (device, its path, insert, eject)}, each by "action" or by "patch"
cycles    {ac_cycle, aux_cycle: the action and its ResetType}, as far as there are any
firmware  (id of a row of the inventory, its version, {way: where an image is sent}); the ways in the order in which they are to be preferred
What `bmc_power` may send is in corpus_facts.yml (reset_types)."""

from __future__ import annotations

V1 = "/redfish/v1"
SIMPLE = f"{V1}/UpdateService/Actions/UpdateService.SimpleUpdate"
NO_MEDIA = dict.fromkeys(("cd", "usb", "floppy"), "unsupported")
NO_SYSTEM = dict.fromkeys(("power", "boot", "order", "bios", "media", "firmware"), "not_found")


def boot(place, refused=(), cd="Cd", mode="UEFI", persistent=True, present=("none", "disabled")):
    return {"place": place, "refused": refused, "cd": cd, "mode": mode, "persistent": persistent, "present": present}


def media(kinds, device, path, insert="action", eject="action"):
    return dict.fromkeys(kinds, (device, path, insert, eject))


DELL = f"{V1}/Systems/System.Embedded.1"
OFFERS = {
    "dell-idrac9-libredfish": {
        "system": DELL,
        "boot": boot(DELL),
        "order": DELL,
        "bios": (f"{DELL}/Bios/Settings", "BootSeqRetry", "Enabled", "Disabled", True),
        "media": {**media(("cd", "usb"), "1", f"{DELL}/VirtualMedia/1"), "floppy": "unsupported"},
        "firmware": (
            "Current-159-1.8.2__BIOS.Setup.1-1",
            "1.8.2",
            {
                "multipart": f"{V1}/UpdateService/MultipartUpload",
                "push": f"{V1}/UpdateService/FirmwareInventory",
                "simple": SIMPLE,
            },
        ),
    },
    "dmtf-public-rackmount1": {
        "system": f"{V1}/Systems/437XR1138R2",
        "boot": boot(f"{V1}/Systems/437XR1138R2", ("uefi_http",), present=("pxe", "once")),
        "order": "unsupported",
        "bios": (f"{V1}/Systems/437XR1138R2/Bios/Settings", "ProcHyperthreading", "Enabled", "Disabled", False),
        # each of its devices holds somebody's image
        "media": dict.fromkeys(("cd", "usb", "floppy"), "media_in_use"),
        "firmware": (
            "BMC",
            "1.45.455b66-rev4",
            {"push": "/FWUpdate", "simple": f"{V1}/UpdateService/Actions/SimpleUpdate"},
        ),
    },
    "gigabyte-ami-crayrie": {
        "system": f"{V1}/Systems/Self",
        "boot": boot(f"{V1}/Systems/Self", mode="Legacy"),
        "order": f"{V1}/Systems/Self",
        # @Redfish.Settings without a SettingsObject, and nothing below Bios: the resource itself
        "bios": (f"{V1}/Systems/Self/Bios", "GBT0001", "Enabled", "Disabled", False),
        # no MediaTypes; the device's name says what it is
        "media": {**NO_MEDIA, **media(("cd",), "CD1", f"{V1}/Managers/Self/VirtualMedia/CD1")},
        "firmware": ("BIOS", "C27", {"simple": f"{V1}/UpdateService/Actions/SimpleUpdate"}),
    },
    "hpe-cray-cmm-crayrie": NO_SYSTEM,
    "hpe-cray-ex235a-mi250x-crayrie": {
        "system": f"{V1}/Systems/Node0",
        # Boot has an order and no override at all
        "boot": "unsupported",
        "order": f"{V1}/Systems/Node0",
        # an attribute is an object (current_value, default_value, ...), which no rule of Redfish says how to write
        "bios": ("unsupported", "DF Cstates Control", "Enabled"),
        "media": NO_MEDIA,
        "firmware": ("Node0.BIOS", "ex235a.bios-1.3.6", {"simple": f"{V1}/UpdateService/Actions/SimpleUpdate"}),
    },
    "hpe-ilo-libredfish": {
        "system": f"{V1}/Systems/1",
        "boot": boot(f"{V1}/Systems/1"),
        "order": f"{V1}/Systems/1",
        # in Oem.Hpe.Actions
        "cycles": {"aux_cycle": "HpeComputerSystemExt.SystemReset AuxCycle"},
        # the link is in lower case and has a slash at its end
        "bios": (f"{V1}/systems/1/bios/settings", "AcpiHpet", "Enabled", "Disabled", False),
        "media": {
            **media(("usb", "floppy"), "1", f"{V1}/Managers/1/VirtualMedia/1"),
            **media(("cd",), "2", f"{V1}/Managers/1/VirtualMedia/2"),
        },
        # HttpPushUri is /cgi-bin/uploadFile, the form of its web page and no plain push
        "firmware": ("2", "A42 v2.60 (08/11/2022)", {"simple": SIMPLE}),
    },
    "intel-s2600-crayrie": {
        "system": f"{V1}/Systems/QSBP74100021",
        "boot": boot(f"{V1}/Systems/QSBP74100021", ("uefi_http",), mode="Legacy"),
        "order": "unsupported",
        "bios": (f"{V1}/Systems/QSBP74100021/Bios/Settings", "QuietBoot", 0, 1, False),
        "media": NO_MEDIA,
        # an update service without an inventory: nothing could be compared or verified
        "firmware": "plan_incomplete",
    },
    "lambda-gpu_info_unknown_multi-partial": {
        "system": f"{V1}/Systems/1",
        # its own action, and FullPowerCycle among the reset types
        "cycles": {"ac_cycle": "OemSystemExtensions.Reset ACCycle"},
        "boot": boot(f"{V1}/Systems/1", ("uefi_http",), cd="UsbCd", mode="Legacy"),
        "order": f"{V1}/Systems/1",
        "bios": "not_found",
        "media": NO_MEDIA,
        "firmware": "not_found",
    },
    "lambda-powershelf_delta-partial": NO_SYSTEM,
    "lenovo-xcc-libredfish": {
        "system": f"{V1}/Systems/1",
        "cycles": {"ac_cycle": "LenovoComputerSystem.SystemReset ACPowerCycle"},
        # BootSourceOverrideEnabled may be Once or Disabled, not Continuous
        "boot": boot(f"{V1}/Systems/1", ("uefi_http",), persistent=False),
        "order": f"{V1}/Systems/1/Pending",
        "bios": (f"{V1}/Systems/1/Bios/Pending", "DevicesandIOPorts_SerialPortAccessMode", "Shared", "Dedicated", True),
        "media": media(("cd", "usb", "floppy"), "EXT1", f"{V1}/Systems/1/VirtualMedia/EXT1", "patch", "patch"),
        "firmware": ("UEFI", "22J-1.51", {"multipart": "/mfwupdate", "push": "/fwupdate", "simple": SIMPLE}),
    },
    "nvidia-bluefield-dpu-libredfish": {
        "system": f"{V1}/Systems/Bluefield",
        "boot": boot(f"{V1}/Systems/Bluefield", ("disk", "cd", "bios")),
        "order": f"{V1}/Systems/Bluefield/Settings",
        "bios": (f"{V1}/Systems/Bluefield/Bios/Settings", "DisableI2c1", False, True, False),
        "media": NO_MEDIA,
        "firmware": (
            "BMC_Firmware",
            "BF-24.10-10",
            {
                "multipart": f"{V1}/UpdateService/update-multipart",
                "push": f"{V1}/UpdateService/update",
                "simple": SIMPLE,
            },
        ),
    },
    "nvidia-dgx-h100-viking-libredfish": {
        "system": f"{V1}/Systems/DGX",
        # the system lists no targets, its settings object does
        "boot": boot(f"{V1}/Systems/DGX/SD", mode=None),
        "order": f"{V1}/Systems/DGX/SD",
        "bios": (f"{V1}/Systems/DGX/Bios/SD", "ARIEnable", "Enable", "Disable", False),
        "media": NO_MEDIA,
        "firmware": (
            "CPLDMB_0",
            "0.2.1.8",
            {
                "multipart": f"{V1}/UpdateService/upload",
                "simple": f"{V1}/UpdateService/Actions/SimpleUpdate",
            },
        ),
    },
    "nvidia-gb200-libredfish": {
        "system": f"{V1}/Systems/System_0",
        # of the chassis BMC_0
        "cycles": {"aux_cycle": "NvidiaChassis.AuxPowerReset AuxPowerCycle"},
        "boot": boot(f"{V1}/Systems/System_0", ("uefi_http",), mode=""),
        "order": f"{V1}/Systems/System_0/Settings",
        "bios": (f"{V1}/Systems/System_0/Bios/Settings", "EmbeddedUefiShell", "Enabled", "Disabled", False),
        "media": {**media(("cd", "usb"), "USB2", f"{V1}/Managers/BMC_0/VirtualMedia/USB2"), "floppy": "unsupported"},
        "firmware": (
            "FW_BMC_0",
            "GB200Nvl-24.12-8",
            {"multipart": f"{V1}/UpdateService/update-multipart", "push": f"{V1}/UpdateService/update"},
        ),
    },
    "nvidia-gbswitch-libredfish": {
        "system": f"{V1}/Systems/System_0",
        "boot": boot(f"{V1}/Systems/System_0", ("uefi_http",)),
        "order": "unsupported",
        "bios": "unsupported",
        "media": NO_MEDIA,
        "firmware": (
            "MGX_FW_BMC_0",
            "88.0002.1950",
            {"multipart": f"{V1}/UpdateService/update-multipart", "push": f"{V1}/UpdateService/update"},
        ),
    },
    "supermicro-libredfish": {
        "system": f"{V1}/Systems/1",
        "boot": boot(f"{V1}/Systems/1", cd="UsbCd"),
        "order": f"{V1}/Systems/1",
        "bios": (f"{V1}/Systems/1/Bios/SD", "AES_NI_3C75", "Enable", "Disable", False),
        # InsertMedia is there and EjectMedia is not
        "media": media(
            ("cd", "usb", "floppy"), "VirtualMedia1", f"{V1}/Managers/1/VirtualMedia/VirtualMedia1", "action", "patch"
        ),
        "firmware": (
            "BIOS",
            "BIOS Date: 08/04/2023 Ver 1.4",
            {"multipart": f"{V1}/UpdateService/upload", "simple": SIMPLE},
        ),
    },
    "supermicro-x10-spyroot": {
        "system": f"{V1}/Systems/1",
        "boot": boot(f"{V1}/Systems/1", ("uefi_http",), cd="UsbCd", mode=""),
        "order": "unsupported",
        "bios": "unsupported",
        "media": NO_MEDIA,
        "firmware": "not_found",
    },
}
