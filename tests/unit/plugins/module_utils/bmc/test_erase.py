# Erasing drives: only what nothing uses, only with each drive's own serial number, sent once and followed to its end.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import erase, operations, redfish
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import AnswerLost
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from bmc_simulator import testing

from .conftest import endpoint, writes
from .scripted import serving

SERVER = "LAB-test-0001"


# ---- the simulator --------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def shared():
    disks = [{"slot": f"disk{n}", "serial": f"SN{n}", "size": "4 GiB", "type": "ssd"} for n in range(3)]
    with testing.running([testing.node_config(disks=disks)]) as lab:
        yield lab


@pytest.fixture
def lab(shared):
    shared.reset_behaviour("gpu01")
    shared.set_behaviour("gpu01", volume_task_s=0.2)
    yield shared
    shared.reset_behaviour("gpu01")
    operations.storage(endpoint(shared), "boot", "absent", consent=SERVER, interval=0.05)


def erased(lab):
    return [entry["slot"] for entry in lab.events("gpu01") if entry["event"] == "drive_erased"]


def test_erased_and_followed(lab):
    there, before, had = endpoint(lab), len(writes(lab)), len(erased(lab))
    planned = operations.erase(there, ["SN0", "disk2"], check=True)
    assert planned.changed and planned.more["consent_required"] and len(writes(lab)) == before
    assert "SN0" in planned.plan.diff()["before"] and "erased" in planned.plan.diff()["after"]
    assert planned.more["needs_consent"] == ["SN0", "SN2"] and "needs consent: [SN0, SN2]" in planned.as_result()["msg"]
    done = operations.erase(there, ["SN0", "disk2"], consent=["SN2", "SN0"], interval=0.05)
    assert done.changed and done.plan.diff() == planned.plan.diff() and done.after == planned.after
    assert writes(lab)[before:] == ["POST Drive.SecureErase"] * 2 and erased(lab)[had:] == ["disk0", "disk2"]
    assert lab.state("gpu01")["sessions"] == 0 and not done.warnings


@pytest.mark.parametrize("given", [None, [], ["SN1"], [SERVER], ["SN0", "SN1"], ["SN0", "SN0"]])
def test_the_word_is_for_exactly_these_drives(lab, given):
    there, before = endpoint(lab), len(writes(lab))
    for check in (True, False) if given else (False,):
        with pytest.raises(errors.Refused) as caught:
            operations.erase(there, ["SN0"], consent=given, check=check)
        assert caught.value.code == "consent_required" and "consent: [SN0]" in caught.value.next_step
    assert len(writes(lab)) == before


def test_a_drive_of_a_volume_is_refused(lab):
    there = endpoint(lab)
    operations.storage(there, "boot", level="RAID1", drives=["SN0", "SN1"], consent=SERVER, interval=0.05)
    before = len(writes(lab))
    for check in (True, False):
        with pytest.raises(errors.Conflict) as caught:
            operations.erase(there, ["SN2", "SN1"], consent=["SN1", "SN2"], check=check)
        assert caught.value.code == "drive_in_use" and "volume boot" in caught.value.seen
    assert len(writes(lab)) == before


def test_a_bmc_that_shows_no_progress(lab, monkeypatch):
    """It may have done it or not; a drive must not leave the house on that. What is known of the others is in the error."""
    monkeypatch.setattr(erase, "SHOWS_S", 0.2)
    lab.set_behaviour("gpu01", accept_and_do_nothing=["volume"])
    for drives in (["SN0"], ["SN0", "SN1"]):
        before = len(writes(lab))
        with pytest.raises(errors.DeadlineExceeded) as caught:
            operations.erase(endpoint(lab), drives, consent=drives, interval=0.05)
        assert caught.value.code == "erase_not_seen" and "must not be taken for erased" in str(caught.value)
        assert writes(lab)[before:] == ["POST Drive.SecureErase"]
    assert caught.value.seen.endswith("drive disk0: unknown, drive disk1: not begun")


def test_a_lost_answer_is_not_sent_again(lab, monkeypatch):
    monkeypatch.setattr(erase, "SHOWS_S", 0.2)
    before = len(writes(lab))
    lab.set_behaviour("gpu01", answer_lost_after_post=1)
    with pytest.raises(AnswerLost):
        operations.erase(endpoint(lab), ["SN0"], consent=["SN0"], interval=0.05)
    assert writes(lab)[before:].count("POST Drive.SecureErase") == 1


def test_the_fence_is_asked(lab):
    def fence():
        raise errors.FencedOut("no")

    with pytest.raises(errors.FencedOut):
        operations.erase(endpoint(lab), ["SN0"], consent=["SN0"], fence=fence)


# ---- shapes ------------------------------------------------------------------------------------------------------------------
def answers(action="usual", volumes=None, **drive):
    if action == "usual":
        action = {"target": "/d/0/erase"}
    return {
        "GET /s": {"Members": [{"@odata.id": "/s/1"}]},
        "GET /redfish/v1/": {"Systems": {"@odata.id": "/s"}},
        "GET /s/1": {"@odata.id": "/s/1", "Id": "1", "Storage": {"@odata.id": "/st"}, "SerialNumber": SERVER},
        "GET /st": {"Members": [{"@odata.id": "/st/1"}]},
        "GET /st/1": {
            "@odata.id": "/st/1",
            "Id": "RAID",
            "Name": "x",
            "Drives": [{"@odata.id": "/d/0"}],
            **(volumes or {}),
        },
        "GET /d/0": {
            "@odata.id": "/d/0",
            "Id": "0",
            "SerialNumber": "SN0",
            "Actions": {"#Drive.SecureErase": action} if action else {},
            **drive,
        },
        "POST /d/0/erase": (204, None),
    }


def test_what_a_drive_takes():
    action = {"target": "/d/0/erase", "SanitizationType@Redfish.AllowableValues": ["BlockErase", "Overwrite"]}
    busy = {**answers(action)["GET /d/0"], "Operations": [{"Operation": "Sanitize", "PercentageComplete": 40}]}
    replies = answers(action)
    idle = replies["GET /d/0"]
    replies["GET /d/0"] = [idle, idle, busy, busy, (404, {}), idle]
    with serving(replies) as (script, where):
        with pytest.raises(errors.Unsupported) as caught:
            operations.erase(where, ["0"], "CryptographicErase", check=True)
        assert caught.value.code == "erase_not_offered" and caught.value.seen == "BlockErase, Overwrite"
        done = operations.erase(where, ["0"], "Overwrite", 3, consent=["SN0"], interval=0.01)
        posts = [
            body for method, unused, body in script.seen if method == "POST" and body and "SanitizationType" in body
        ]
        assert posts == [{"SanitizationType": "Overwrite", "OverwritePasses": 3}]
        assert done.after == {"drives": [{"id": "0", "serial": "SN0", "erased": True}]}


@pytest.mark.parametrize("meanwhile", [(503, {}), (404, {}), "not readable"])
def test_a_drive_that_cannot_be_read_for_a_moment_is_no_sign(monkeypatch, meanwhile):
    monkeypatch.setattr(erase, "SHOWS_S", 0.2)
    monkeypatch.setattr(redfish, "BACKOFF", ())
    replies = answers()
    replies["GET /d/0"] = [replies["GET /d/0"], meanwhile, meanwhile, replies["GET /d/0"]]
    with serving(replies) as (script, where), pytest.raises(errors.DeadlineExceeded) as caught:
        operations.erase(where, ["0"], consent=["SN0"], interval=0.01)
    assert caught.value.code == "erase_not_seen" and script.count("POST", "/d/0/erase") == 1


def test_a_drive_that_is_busy_is_left_alone():
    """What it does already would be taken for the erasure."""
    with serving(answers(Operations=[{"Operation": "Format"}])) as (script, where):
        for check in (True, False):
            with pytest.raises(errors.Conflict) as caught:
                operations.erase(where, ["0"], consent=["SN0"], check=check)
            assert caught.value.code == "drive_busy" and caught.value.seen == "Format"
        assert script.count("POST", "/d/0/erase") == 0


def test_a_drive_without_the_action():
    with serving(answers(None)) as (script, where):
        with pytest.raises(errors.Unsupported) as caught:
            operations.erase(where, ["SN0"], check=True)
    assert caught.value.code == "erase_not_offered" and "nvme" in caught.value.next_step


def test_a_job_that_waits_for_a_restart():
    replies = answers()
    replies["POST /d/0/erase"] = (202, None, {"Location": "/redfish/v1/TaskService/Tasks/JID_1"})
    replies["GET /redfish/v1/TaskService/Tasks/JID_1"] = {"@odata.id": "/x", "JobState": "Scheduled"}
    with serving(replies) as (unused, where):
        planned = operations.erase(where, ["0"], apply_time="OnReset", consent=["SN0"], check=True)
        done = operations.erase(where, ["0"], apply_time="OnReset", consent=["SN0"], interval=0.01)
        told = operations.erase(where, ["0"], consent=["SN0"], interval=0.01)
    assert done.changed and done.more["reboot_required"] and not done.after["drives"][0]["erased"]
    assert done.after == planned.after and done.more == planned.more and done.plan.diff() == planned.plan.diff()
    assert told.changed and told.more["reboot_required"] and not told.after["drives"][0]["erased"]


@pytest.mark.parametrize(
    ("volume", "refused"),
    [
        ({"Name": "os", "RAIDType": "RAID1"}, True),
        ({"Name": "os"}, True),  # nobody knows what it is
        ({"Name": "os", "RAIDType": "None", "VolumeType": "RawDevice"}, False),
        ({"Name": "ns1", "NVMeNamespaceProperties": {"NamespaceId": "1"}}, False),
        ((503, {}), True),
        ((404, {}), False),
    ],
)
@pytest.mark.parametrize("by_drive", [True, False])
def test_which_volumes_are_a_use(monkeypatch, volume, refused, by_drive):
    if isinstance(volume, dict):
        volume = {"@odata.id": "/v/1", "Id": "1", **volume, "Links": {"Drives": [{"@odata.id": "/d/0"}]}}
    links = {"Links": {"Volumes": [{"@odata.id": "/v/1"}]}} if by_drive else {}
    replies = answers(volumes=None if by_drive else {"Volumes": {"@odata.id": "/v"}}, **links)
    replies.update({"GET /v": {"Members": [{"@odata.id": "/v/1"}]}, "GET /v/1": volume})
    with serving(replies, timeout=3.0) as (script, where):
        if refused:
            with pytest.raises(errors.BaremetalError):
                operations.erase(where, ["0"], consent=["SN0"], deadline_s=3.0, interval=0.01)
        else:
            monkeypatch.setattr(erase, "SHOWS_S", 0.05)
            with pytest.raises(errors.DeadlineExceeded):
                operations.erase(where, ["0"], consent=["SN0"], interval=0.01)
        assert script.count("POST", "/d/0/erase") == (0 if refused else 1)


def test_a_spare_is_a_use():
    with serving(answers(HotspareType="Dedicated")) as (unused, where):
        with pytest.raises(errors.Conflict):
            operations.erase(where, ["0"], check=True)


def test_another_drive_in_its_place():
    replies = answers()
    drive = replies["GET /d/0"]
    replies["GET /d/0"] = [
        drive,
        {**drive, "Operations": [{"Operation": "Sanitize"}]},
        {**drive, "SerialNumber": "SN9"},
    ]
    with serving(replies) as (unused, where):
        with pytest.raises(errors.Conflict) as caught:
            operations.erase(where, ["0"], consent=["SN0"], interval=0.01)
    assert caught.value.code == "drive_changed"


@pytest.mark.parametrize("wrong", [{"drives": []}, {"method": "Magnet"}, {"controller": "PERC"}, {"drives": ["7"]}])
def test_what_cannot_be(wrong):
    with serving(answers()) as (script, where):
        with pytest.raises((errors.InvalidInput, errors.NotFound)):
            operations.erase(where, **{"drives": ["0"], "consent": ["SN0"], **wrong})
        assert script.count("POST", "/d/0/erase") == 0


@pytest.mark.parametrize("value", [None, [], "x", 5, {}, [None, 3, {"@odata.id": None}]])
@pytest.mark.parametrize("name", ["Links", "Actions", "Operations", "Status", "SerialNumber"])
def test_odd_drives_are_no_traceback(name, value):
    replies = answers(**{name: value})
    with serving(replies) as (unused, where):
        try:
            operations.erase(where, ["0"], check=True)
        except errors.BaremetalError:
            pass
