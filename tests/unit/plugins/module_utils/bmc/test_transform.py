# Pure shapes: small hand-written resources, with the oddities that real BMCs show; and the outside corpus where it is at hand.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import transform
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

RESET = {"#ComputerSystem.Reset": {"target": "/x"}}


def host(name, **more):
    return {"Id": name, "@odata.id": f"/redfish/v1/Systems/{name}", "Actions": RESET, "Boot": {}, **more}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    "other",
    [
        {"Id": "HGX_Baseboard_0"},
        {"Id": "HGX_Baseboard_0", "Actions": RESET, "Boot": {}},
        {"Id": "Bluefield", "Actions": RESET},
    ],
)
def test_the_host_among_others(order, other):
    systems = [host("System_0", Manufacturer=None, Model=None), other][::order]
    assert transform.choose_system(systems)["Id"] == "System_0"


def test_a_lone_system_is_taken_as_it_is():
    assert transform.choose_system([{"@odata.id": "/redfish/v1/Systems/odd"}])["@odata.id"].endswith("odd")


def test_known_ids_decide_between_equals_and_unknown_ones_do_not():
    assert transform.choose_system([host("Aux"), host("Self")])["Id"] == "Self"
    with pytest.raises(errors.Conflict):
        transform.choose_system([host("Node0"), host("1")])
    with pytest.raises(errors.NotFound):
        transform.choose_system([host("1")], "7")


def test_the_manager_by_its_own_word_when_the_link_is_missing():
    mine = {"Id": "BMC", "Links": {"ManagerForServers": [{"@odata.id": "/redfish/v1/systems/1/"}]}}
    system = host("1")
    assert transform.choose_manager([{"Id": "HMC"}, mine], system) is mine
    assert transform.choose_manager([{"Id": "A"}, {"Id": "B"}], system) is None


@pytest.mark.parametrize(
    ("page", "count"),
    [
        ({"Members": None}, 0),
        ({}, 0),
        ({"Members": []}, 0),
        ({"Members": [{}, {}]}, 2),
        ({"Members": {"@odata.id": "/a"}}, 1),
    ],
)
def test_members(page, count):
    assert len(transform.members_of(page)) == count


def test_paths_are_compared_without_case_slash_and_query():
    assert transform.same_path("/redfish/v1/Systems/1/") == transform.same_path("/redfish/v1/systems/1?$expand=.")


def test_the_serial_of_a_dell_is_its_service_tag():
    system = {"SerialNumber": "CNBOARD123", "SKU": "ABC1234", "Manufacturer": "Dell Inc."}
    assert transform.system_facts(system, {})["serial"] == "ABC1234"
    system["Manufacturer"] = "Supermicro"
    assert transform.system_facts(system, {})["serial"] == "CNBOARD123"
    assert transform.system_facts({"SerialNumber": " "}, {"SerialNumber": "CH1"})["serial"] == "CH1"


@pytest.mark.parametrize(
    ("boot", "wanted"),
    [
        ({}, ("none", "disabled", None)),
        (
            {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once", "BootSourceOverrideMode": "UEFI"},
            ("pxe", "once", "uefi"),
        ),
        ({"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Disabled"}, ("none", "disabled", None)),
        (
            {"BootSourceOverrideTarget": None, "BootSourceOverrideEnabled": None, "BootSourceOverrideMode": None},
            ("none", "disabled", None),
        ),
        (
            {
                "BootSourceOverrideTarget": "CD/DVD",
                "BootSourceOverrideEnabled": "Continuous",
                "BootSourceOverrideMode": "Legacy",
            },
            ("cd", "persistent", "legacy"),
        ),
    ],
)
def test_boot_words(boot, wanted):
    found = transform.boot({"Boot": boot})
    assert (found["target"], found["enabled"], found["mode"]) == wanted


@pytest.mark.parametrize(
    ("value", "word"),
    [("On", "on"), ("Off", "off"), ("PoweringOff", "powering_off"), (None, "unknown"), ("Strange", "unknown")],
)
def test_power_words(value, word):
    assert transform.power_word(value) == word


def test_a_vendor_is_found_without_vendor_in_the_root():
    assert transform.bmc_identity({"Oem": {"Supermicro": {}}}, {}, {})["vendor"] == "Supermicro"
    assert transform.bmc_identity({}, {}, {"Manufacturer": "Intel"})["vendor"] == "Intel"
    assert transform.bmc_identity({"Oem": None}, {}, {})["vendor"] is None


def test_absent_parts_are_not_there():
    absent = {"Status": {"State": "Absent"}, "CapacityMiB": 1024, "ProcessorType": "CPU", "Id": "1"}
    assert (
        transform.memory([absent]) == [] and transform.processors([absent]) == [] and transform.drives([absent]) == []
    )
    assert transform.memory([{"CapacityMiB": None}]) == []


def test_network_interfaces():
    found = transform.nics(
        [
            {"Id": "1", "MACAddress": "AA-BB-CC-00-11-22"},
            {"Id": "2", "PermanentMACAddress": "aa:bb:cc:00:11:23", "MACAddress": "02:00:00:00:00:01"},
            {"Id": "3", "MACAddress": "00:00:00:00:00:00"},
            {"Id": "4", "MACAddress": "AA:BB:CC:00:11:22"},
            {"Id": "ToManager", "MACAddress": "0a:00:00:00:00:01"},
            {"Id": "5", "MACAddress": "Not Available"},
            {"Id": "VLAN7", "EthernetInterfaceType": "Virtual", "MACAddress": "AA:BB:CC:00:11:22"},
            {"Id": "VLAN8", "EthernetInterfaceType": "Virtual"},
        ]
    )
    # every port of the server is there, also without an address (Cray EX) and where the BMC gives two the same (Gigabyte H262)
    assert [(nic["slot"], nic["mac"]) for nic in found] == [
        ("1", "aa:bb:cc:00:11:22"),
        ("2", "aa:bb:cc:00:11:23"),
        ("3", None),
        ("4", "aa:bb:cc:00:11:22"),
        ("5", None),
    ]


def test_gpus_are_counted_once():
    gpu = {"ProcessorType": "GPU", "Id": "GPU_1", "Model": "H100", "SerialNumber": "1"}
    assert len(transform.gpus([gpu, dict(gpu), {**gpu, "SerialNumber": "2"}, {"ProcessorType": "CPU"}])) == 2
    # Cray EX gives all of its eight the serial 00000000000000
    zeros = [{**gpu, "Id": f"GPU{number}", "SerialNumber": "00000000000000"} for number in range(8)]
    assert [(found["slot"], found["serial"]) for found in transform.gpus(zeros)][-1] == ("GPU7", None)
    assert len(transform.gpus(zeros)) == 8
    assert not transform.gpus([gpu], {"1"})  # another system showed it


def test_drives_that_only_simple_storage_knows():
    """DGX H100 has nothing in Storage, and the BMC's own virtual media among the devices."""
    devices = [
        {"Name": "NVMe_Device0_NSID1", "Model": "X", "CapacityBytes": 1920383410176, "Status": {"State": "Enabled"}},
        {"Name": "USB_Device2_PortA", "Model": "Virtual Cdrom Device", "CapacityBytes": 2048},
        {"Name": "SATA Bay 3", "Status": {"State": "Absent"}},
        None,
    ]
    found = transform.simple_drives([{"Devices": devices}, {"Devices": None}, {}])
    assert found == [
        {"slot": "NVMe_Device0_NSID1", "model": "X", "serial": None, "size_bytes": 1920383410176, "type": "nvme"}
    ]


def test_ways_of_an_update_service():
    service = {
        "HttpPushUri": "/push",
        "MultipartHttpPushUri": "",
        "Actions": {"#UpdateService.SimpleUpdate": {"target": "/simple"}},
    }
    assert transform.update_ways(service) == {"push": "/push", "simple": "/simple"}
    assert transform.update_ways({"Actions": None}) == {} == transform.update_ways(None)


def test_the_box_that_holds_a_system():
    """GB200: the system links the BMC's board; of many chassis one is the tray."""
    system = {"@odata.id": "/redfish/v1/Systems/System_0"}
    mine = {"Links": {"ComputerSystems": [system]}}
    board = {**mine, "ChassisType": "Component", "SerialNumber": "b"}
    tray = {**mine, "ChassisType": "Shelf", "SerialNumber": "t"}
    other = {"ChassisType": "Shelf", "SerialNumber": "o", "Links": {"ComputerSystems": [{"@odata.id": "/x"}]}}
    assert transform.is_board(board) and not transform.is_board(tray)
    assert transform.box_of([board, other, tray], system) is tray
    assert transform.box_of([board, other], system) is None
    assert transform.box_of([tray, {**tray, "SerialNumber": "u"}], system) is None  # no guess
    found = transform.pcie_gpus(
        [
            {"Id": "a", "Name": "NVIDIA H100 PCIe"},
            {"Id": "b", "Name": "Ethernet adapter"},
            {"Id": "c", "Description": "MI300X accelerator"},
        ]
    )
    assert [item["slot"] for item in found] == ["a", "c"]


def test_place():
    place = {"Location": {"Placement": {"Rack": "r1", "RackOffset": 7, "RackOffsetUnits": "EIA_310"}}}
    assert transform.location(place) == {"rack": "r1", "slot": "u07"}
    assert transform.location({"Location": None}) == {"rack": None, "slot": None}
