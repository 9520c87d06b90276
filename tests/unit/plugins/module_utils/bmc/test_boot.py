# The boot override against the simulator: every kind of boot mode, and BMCs that accept and do not show it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import operations
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from .conftest import writes
from .scripted import serving


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


@pytest.mark.parametrize("deadline_s", [1, 4])
def test_what_the_bmc_shows_instead_is_in_the_error(bmc, off, deadline_s):
    """Also when the time ends in the middle of a read, as it does whenever the operation's own limit is the shorter one."""
    bmc.set_behaviour("gpu01", boot_once_sticks=True)
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.boot(off, "pxe", mode="uefi", deadline_s=deadline_s, interval=0.3)
    assert caught.value.seen == "pxe, persistent, uefi" and caught.value.code == "accepted_not_moved"
    assert "permanent" in caught.value.message and "target: none" in caught.value.next_step
    bmc.set_behaviour("gpu01", boot_once_sticks=False, accept_and_do_nothing=["boot"])
    operations.power(off, "off", interval=0.05)
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.boot(off, "disk", deadline_s=deadline_s, interval=0.3)
    assert caught.value.seen.startswith("pxe, ") and "does not show it" in caught.value.message


def test_a_boot_limit_is_above_zero(off):
    with pytest.raises(errors.InvalidInput):
        operations.boot(off, "pxe", deadline_s=0)


URL = "http://10.0.0.1/boot.efi"


def test_the_url_of_uefi_http():
    system = {
        "@odata.id": "/redfish/v1/Systems/1", "Id": "1",
        "Boot": {"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled", "HttpBootUri": ""},
    }  # fmt: skip

    def take(body):
        system["Boot"].update(body["Boot"])
        return (204, None)

    answers = {
        "GET /redfish/v1/Systems": {"Members": [system]},
        "GET /redfish/v1/Systems/1": lambda body: system,
        "PATCH /redfish/v1/Systems/1": take,
    }
    with serving(answers) as (script, where):
        planned = operations.boot(where, "uefi_http", http_uri=URL, check=True)
        done = operations.boot(where, "uefi_http", http_uri=URL, interval=0.05)
        assert done.changed and done.after["http_uri"] == URL and done.plan.diff() == planned.plan.diff()
        assert not operations.boot(where, "uefi_http", http_uri=URL).changed and script.count("PATCH") == 1
        del system["Boot"]["HttpBootUri"]
        for check in (True, False):
            with pytest.raises(errors.Unsupported):
                operations.boot(where, "uefi_http", http_uri=URL, check=check)
        for wrong in ({"target": "pxe", "http_uri": URL}, {"target": "uefi_http", "http_uri": "boot.efi"}):
            with pytest.raises(errors.InvalidInput):
                operations.boot(where, **wrong)


def test_taking_the_override_away_foretells_everything_that_is_written():
    from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.boot import plan_boot

    plan = plan_boot({"target": "pxe", "enabled": "once", "mode": "uefi"}, "none", "disabled")
    assert {(change.thing, change.before, change.after) for change in plan.changes} == {
        ("boot.target", "pxe", "none"),
        ("boot.enabled", "once", "disabled"),
    }
    assert not plan_boot({"target": "none", "enabled": "once", "mode": None}, "none", "disabled").changed


def test_the_mode_stays_when_the_override_is_taken_away(bmc, off):
    bmc.set_behaviour("gpu01", boot_mode="required")
    operations.boot(off, "pxe", mode="uefi", interval=0.05)
    operations.boot(off, "none", interval=0.05)
    assert bmc.state("gpu01")["override"]["mode"] == "UEFI"


@pytest.mark.parametrize(
    ("have", "options", "said"),
    [
        # Cray EX235a: an order and no override at all
        ({"BootOrder": ["PXE-IP4"]}, {}, "no boot override"),
        # Lenovo XCC: once only
        (
            {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideEnabled@Redfish.AllowableValues": ["Once"]},
            {"once": False},
            "Once",
        ),
        # DGX H100: UEFI only, and no mode is shown until one is set
        (
            {"BootSourceOverrideMode": None, "BootSourceOverrideMode@Redfish.AllowableValues": ["UEFI"]},
            {"mode": "legacy"},
            "UEFI",
        ),
    ],
)
def test_an_override_that_the_bmc_does_not_offer(have, options, said):
    """What the BMC says beforehand is refused beforehand, so that check mode does not promise what is then refused."""
    system = {"@odata.id": "/redfish/v1/Systems/1", "Id": "1", "Boot": have}
    answers = {"GET /redfish/v1/Systems": {"Members": [system]}, "GET /redfish/v1/Systems/1": system}
    with serving(answers) as (script, where):
        for check in (True, False):
            with pytest.raises(errors.Unsupported) as caught:
                operations.boot(where, "pxe", check=check, **options)
            assert said in str(caught.value) and caught.value.next_step
        assert not script.count("PATCH")
        assert not operations.boot(where, "none").changed  # that there is none is already so
