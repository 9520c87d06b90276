# The boot order: which options an entry means, where the order is set, and what is pending.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import boot_order, operations
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from .scripted import serving

OPTIONS = [
    {"BootOptionReference": "Boot0001", "DisplayName": "UEFI Samsung 1", "UefiDevicePath": "PciRoot(0x15)/Pci(0x0,0x0)/NVMe(0x1,00-00)/HD(1,GPT)"},
    {"BootOptionReference": "Boot0002", "DisplayName": "UEFI: PXE IPv4 Nvidia Network Adapter - 94:6D:AE:AA:2A:18", "Alias": "Pxe"},
    {"BootOptionReference": "Boot0003", "DisplayName": "Slot 5", "Alias": "None", "UefiDevicePath": "Pci(0x1,0x1)/MAC(B83FD2D7F74A,0x1)/IPv4(0.0.0.0)"},
    {"BootOptionReference": "Boot0004", "DisplayName": "Slot 5", "UefiDevicePath": "Pci(0x1,0x1)/MAC(B83FD2D7F74A,0x1)/IPv4(0.0.0.0)/Uri()"},
    {"Id": "Boot0005", "Name": "Virtual CD"},
]  # fmt: skip
PRESENT = ["Boot0005", "Boot0004", "Boot0003", "Boot0002", "Boot0001"]


@pytest.mark.parametrize(
    ("order", "first"),
    [
        (["Boot0003"], ["Boot0003"]), (["disk"], ["Boot0001"]), (["pxe"], ["Boot0003", "Boot0002"]), (["uefi_http", "disk"], ["Boot0004", "Boot0001"]),
        (["94-6d-ae-aa-2a-18"], ["Boot0002"]), (["B83FD2D7F74A"], ["Boot0004", "Boot0003"]), (["samsung"], ["Boot0001"]), (["cd", "cd"], ["Boot0005"]),
    ],
)  # fmt: skip
def test_which_options(order, first):
    found = boot_order.resolve(order, PRESENT, [boot_order.option_facts(item) for item in OPTIONS])
    assert found[: len(first)] == first and sorted(found) == sorted(PRESENT)
    assert [ref for ref in found if ref not in first] == [ref for ref in PRESENT if ref not in first]


def test_an_unknown_option_lists_those_that_are_there():
    with pytest.raises(errors.NotFound) as caught:
        boot_order.resolve(["floppy"], PRESENT, [boot_order.option_facts(item) for item in OPTIONS])
    assert "Boot0001 (UEFI Samsung 1)" in caught.value.seen


def bmc(system, **more):
    system = {"@odata.id": "/redfish/v1/Systems/1", "Id": "1", **system}
    options = {
        "Members": [
            {"@odata.id": f"/o/{number}", "Name": "x", "Id": "x", **item} for number, item in enumerate(OPTIONS)
        ]
    }
    return serving(
        {
            "GET /redfish/v1/Systems": {"Members": [system]},
            "GET /redfish/v1/Systems/1": lambda body: system,
            "GET /options": options,
            **more,
        }
    )


BOOT = {"BootOrder": list(PRESENT), "BootOptions": {"@odata.id": "/options"}}


def test_set_once():
    boot = {**BOOT, "BootOrder": list(PRESENT)}

    def take(body):
        boot["BootOrder"] = body["Boot"]["BootOrder"]
        return (204, None)

    with bmc({"Boot": boot}, **{"PATCH /redfish/v1/Systems/1": take}) as (script, where):
        planned = operations.boot_order(where, ["disk"], check=True)
        done = operations.boot_order(where, ["disk"], interval=0.05)
        assert done.changed and done.plan.diff() == planned.plan.diff() and done.after == planned.after
        assert boot["BootOrder"][0] == "Boot0001" and not done.more["reboot_required"]
        assert not operations.boot_order(where, ["disk"]).changed and script.count("PATCH") == 1


def test_a_pending_order():
    """NVIDIA and Lenovo keep the order in the system's settings object; it counts from the next start on."""
    later = {"Boot": {"BootOrder": list(PRESENT)}}

    def take(body):
        later["Boot"] = body["Boot"]
        return (204, None)

    system = {"Boot": BOOT, "@Redfish.Settings": {"SettingsObject": {"@odata.id": "/later"}}}
    with bmc(system, **{"GET /later": lambda body: later, "PATCH /later": take}) as (script, where):
        done = operations.boot_order(where, ["disk"], interval=0.05)
        assert done.changed and done.more["reboot_required"] and done.after["order"] == PRESENT
        again = operations.boot_order(where, ["disk"])
        assert (
            not again.changed and again.more["reboot_required"] and not script.count("PATCH", "/redfish/v1/Systems/1")
        )


def test_accepted_and_not_shown(monkeypatch):
    monkeypatch.setattr(boot_order, "VERIFY_S", 0.3)
    with (
        bmc({"Boot": BOOT}, **{"PATCH /redfish/v1/Systems/1": (204, None)}) as (unused, where),
        pytest.raises(errors.DeadlineExceeded) as caught,
    ):
        operations.boot_order(where, ["disk"], interval=0.05)
    assert caught.value.code == "accepted_not_moved" and caught.value.seen == ", ".join(PRESENT)


@pytest.mark.parametrize("boot", [None, {}, {"BootOrder": None}, {"BootOrder": []}, 7])
def test_no_order(boot):
    with bmc({"Boot": boot}) as (unused, where), pytest.raises(errors.Unsupported):
        operations.boot_order(where, ["disk"])


@pytest.mark.parametrize("wrong", [{"order": []}, {"order": ["disk"], "deadline_s": 0}])
def test_what_cannot_be(there, wrong):
    with pytest.raises(errors.InvalidInput):
        operations.boot_order(there, **wrong)
