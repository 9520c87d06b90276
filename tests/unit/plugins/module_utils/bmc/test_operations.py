# Power, boot, account and info against the simulator: plan, one write, read back, unchanged second time; and BMCs that accept and do nothing.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect, operations, transform
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from .conftest import endpoint


def writes(lab):
    return [f"{entry['method']} {entry['path'].rsplit('/', 1)[-1]}" for entry in lab.requests("gpu01")]


@pytest.fixture
def off(bmc, there):
    operations.power(there, "off", interval=0.05)
    operations.boot(there, "none", interval=0.05)
    return there


# ---- power ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("present", "wanted", "changed"),
    [
        ("on", "on", False),
        ("off", "on", True),
        ("on", "off", True),
        ("off", "off", False),
        ("off", "graceful", False),
        ("on", "reset", True),
        ("off", "cycle", True),
    ],
)
def test_plan_power(present, wanted, changed):
    assert operations.plan_power(present, wanted).changed is changed


def test_power_writes_once_and_verifies(bmc, off):
    before = len(writes(bmc))
    planned = operations.power(off, "on", check=True)
    assert planned.changed and planned.after == {"power": "on"} and len(writes(bmc)) == before
    done = operations.power(off, "on", interval=0.05)
    assert done.changed and done.plan.diff() == planned.plan.diff() and bmc.state("gpu01")["power"] == "On"
    assert not operations.power(off, "on").changed
    assert writes(bmc)[before:] == ["POST ComputerSystem.Reset"]


@pytest.mark.parametrize("action", ["reset", "cycle"])
def test_restart_ends_on(bmc, off, action):
    operations.power(off, "on", interval=0.05)
    assert operations.power(off, action, interval=0.05).changed
    assert bmc.state("gpu01")["power"] == "On"


def test_a_restart_that_was_accepted_and_not_done(bmc, off, monkeypatch):
    """With LastResetTime it is an error; without any sign (that property is taken away) the result says what was not verified."""
    operations.power(off, "on", interval=0.05)
    monkeypatch.setattr(operations, "RESTART_MARK_S", 0.5)
    monkeypatch.setitem(operations.RESTART_SHOWS_S, "reset", 0.3)
    bmc.set_behaviour("gpu01", accept_and_do_nothing=["power"])
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.power(off, "reset", interval=0.05)
    assert caught.value.code == "accepted_not_moved"
    bmc.set_behaviour("gpu01", drop_properties=["LastResetTime"])
    assert any("no sign" in text for text in operations.power(off, "reset", interval=0.05).warnings)


def test_cycle_is_off_and_on_where_the_bmc_has_none(bmc, off):
    bmc.set_behaviour("gpu01", reset_types=["On", "ForceOff"])
    operations.power(off, "on", interval=0.05)
    before = len(writes(bmc))
    operations.power(off, "cycle", interval=0.05)
    assert len(writes(bmc)) - before == 2 and bmc.state("gpu01")["power"] == "On"


def test_nothing_is_invented_for_a_missing_reset_type(bmc, off):
    bmc.set_behaviour("gpu01", reset_types=["On", "ForceOff"])
    operations.power(off, "on", interval=0.05)
    for check in (True, False):
        with pytest.raises(errors.Unsupported) as caught:
            operations.power(off, "reset", check=check)
        assert "ForceOff" in str(caught.value)
        with pytest.raises(errors.Unsupported):
            operations.power(off, "graceful", check=check)
    assert operations.power(off, "graceful", fallback="force", interval=0.05).after == {"power": "off"}


def test_graceful_becomes_forced_only_when_asked(bmc, off):
    bmc.set_behaviour("gpu01", graceful_ignored=True)
    operations.power(off, "on", interval=0.05)
    with pytest.raises(errors.DeadlineExceeded):
        operations.power(off, "graceful", deadline_s=1, interval=0.1)
    assert bmc.state("gpu01")["power"] == "On"
    done = operations.power(off, "graceful", fallback="force", graceful_s=0.5, interval=0.1)
    assert any("fallback" in text for text in done.warnings) and bmc.state("gpu01")["power"] == "Off"


@pytest.mark.parametrize(
    "behaviour",
    [
        {"no_allowable_values": True},
        {"no_allowable_values": True, "no_action_info": True},
        {"intermediate_power_states": True, "power_lag_s": 0.5},
    ],
)
def test_power_without_inline_values_and_with_lag(bmc, off, behaviour):
    bmc.set_behaviour("gpu01", **behaviour)
    assert operations.power(off, "on", interval=0.05).changed
    assert operations.power(off, "off", interval=0.05).changed


def test_accepted_but_not_moved(bmc, off):
    bmc.set_behaviour("gpu01", accept_and_do_nothing=["power"])
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.power(off, "on", deadline_s=1, interval=0.2)
    assert caught.value.code == "accepted_not_moved" and caught.value.seen == "off"


def test_a_lost_answer_is_decided_by_the_power_state(bmc, off):
    before = len(writes(bmc))
    bmc.set_behaviour("gpu01", answer_lost_after_post=1)
    done = operations.power(off, "on", interval=0.05)
    assert done.changed and any("lost" in text for text in done.warnings)
    assert writes(bmc)[before:] == ["POST ComputerSystem.Reset"]


# ---- boot -------------------------------------------------------------------------------------------------------------------
def test_boot_is_set_once(bmc, off):
    before = len(writes(bmc))
    planned = operations.boot(off, "pxe", mode="uefi", check=True)
    assert planned.changed and len(writes(bmc)) == before
    done = operations.boot(off, "pxe", mode="uefi", interval=0.05)
    assert done.after["target"] == "pxe" and done.after["enabled"] == "once" and done.after["mode"] == "uefi"
    assert not operations.boot(off, "pxe", mode="uefi").changed
    assert operations.boot(off, "pxe", once=False, interval=0.05).after["enabled"] == "persistent"
    assert operations.boot(off, "none", interval=0.05).after["target"] == "none"
    assert not operations.boot(off, "none").changed
    assert writes(bmc)[before:] == ["PATCH 1"] * 3


@pytest.mark.parametrize("kind", ["absent", "read_only", "required", "optional"])
def test_every_kind_of_boot_mode(bmc, off, kind):
    bmc.set_behaviour("gpu01", boot_mode=kind)
    done = operations.boot(off, "uefi_http", mode="uefi", interval=0.05)
    assert done.after["target"] == "uefi_http"
    assert done.after["mode"] == (None if kind == "absent" else "uefi")
    assert not operations.boot(off, "uefi_http", mode="uefi").changed


def test_a_read_only_mode_that_differs_is_an_error(bmc, off):
    bmc.set_behaviour("gpu01", boot_mode="read_only")
    with pytest.raises(errors.BaremetalError) as caught:
        operations.boot(off, "pxe", mode="legacy", deadline_s=5)
    assert "read-only" in str(caught.value)


@pytest.mark.parametrize("check", [True, False])
def test_a_target_that_is_not_offered(bmc, off, check):
    bmc.set_behaviour("gpu01", boot_targets=["None", "Pxe", "Hdd"])
    with pytest.raises(errors.Unsupported) as caught:
        operations.boot(off, "uefi_http", check=check)
    assert "Pxe" in caught.value.seen


def test_accepted_boot_that_is_not_shown(bmc, off):
    bmc.set_behaviour("gpu01", accept_and_do_nothing=["boot"])
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.boot(off, "pxe", deadline_s=1, interval=0.2)
    assert caught.value.code == "accepted_not_moved"


def test_supermicro_boots_virtual_media_as_usbcd():
    place = {
        "Manufacturer": "Supermicro",
        "Boot": {"BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Cd", "UsbCd"]},
    }
    assert operations.boot_body(place, "cd", "once", None)["Boot"]["BootSourceOverrideTarget"] == "UsbCd"
    place["Manufacturer"] = "Dell Inc."
    assert operations.boot_body(place, "cd", "once", None)["Boot"]["BootSourceOverrideTarget"] == "Cd"


def test_a_null_mode_is_not_sent_back():
    place = {"Boot": {"BootSourceOverrideMode": None}}
    assert "BootSourceOverrideMode" not in operations.boot_body(place, "pxe", "once", None)["Boot"]
    assert operations.boot_body(place, "pxe", "once", "uefi")["Boot"]["BootSourceOverrideMode"] == "UEFI"


# ---- account ----------------------------------------------------------------------------------------------------------------
def test_account_is_created_changed_and_removed(fresh):
    there = endpoint(fresh)
    arguments = {"password": "Monitor-12345", "role": "ReadOnly"}
    planned = operations.account(there, "monitor", check=True, **arguments)
    assert planned.changed and not fresh.requests("gpu01")
    assert "Monitor-12345" not in str(planned.plan.diff())
    assert operations.account(there, "monitor", **arguments).after == {
        "username": "monitor",
        "role": "ReadOnly",
        "enabled": True,
    }
    assert not operations.account(there, "monitor", **arguments).changed
    done = operations.account(there, "monitor", role="Operator", password="Another-12345")
    assert done.changed and operations.can_log_in(there, "monitor", "Another-12345")
    assert operations.account(there, "monitor", state="absent").changed
    assert not operations.account(there, "monitor", state="absent").changed
    assert [entry["method"] for entry in fresh.requests("gpu01")] == ["POST", "PATCH", "DELETE"]


def test_our_own_password_can_be_rotated(fresh):
    there = endpoint(fresh)
    assert operations.account(there, there.username, "Rotated-12345").changed
    assert not operations.can_log_in(there, there.username, there.password)
    renewed = there.with_account(there.username, "Rotated-12345")
    assert not operations.account(renewed, there.username, "Rotated-12345").changed


def test_a_rotation_whose_answer_was_lost_is_decided_by_logging_in(fresh):
    there = endpoint(fresh)
    fresh.set_behaviour("gpu01", faults=[{"method": "PATCH", "path": ".*Accounts.*", "drop": True, "times": 1}])
    done = operations.account(there, there.username, "Rotated-12345", password_right=False)
    assert done.changed and any("log" in text for text in done.warnings)
    assert operations.can_log_in(there, there.username, "Rotated-12345")


def test_a_password_that_is_accepted_and_not_taken(fresh):
    fresh.set_behaviour("gpu01", accept_and_do_nothing=["account"])
    there = endpoint(fresh)
    with pytest.raises(errors.BaremetalError):
        operations.account(there, there.username, "Rotated-12345", deadline_s=3)
    assert operations.can_log_in(there, there.username, there.password)


def test_a_new_account_needs_a_password(bmc, there):
    with pytest.raises(errors.InvalidInput):
        operations.account(there, "nobody", role="ReadOnly")


# ---- info -------------------------------------------------------------------------------------------------------------------
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
