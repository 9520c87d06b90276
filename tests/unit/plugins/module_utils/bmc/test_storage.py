# Volumes: what is found, what wants consent, what is sent; never a volume made twice or rebuilt.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import operations, redfish, storage
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import HttpError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from bmc_simulator import testing

from .conftest import endpoint, writes
from .scripted import serving

SERIAL = "LAB-test-0001"


# ---- pure ---------------------------------------------------------------------------------------------------------------
def volume(name, level="RAID1", drives=("/d/0", "/d/1"), **more):
    return storage.volume_facts(
        {
            "@odata.id": f"/v/{name}",
            "Id": name,
            "Name": name,
            "RAIDType": level,
            "Links": {"Drives": [{"@odata.id": path} for path in drives]},
            **more,
        }
    )


def drive(number, serial=None):
    return {"@odata.id": f"/d/{number}", "Id": str(number), "SerialNumber": serial}


def test_shapes():
    old = storage.volume_facts(
        {"@odata.id": "/v/1", "VolumeType": "Mirrored", "Drives": [{"@odata.id": "/D/0/"}], "Links": None}
    )
    assert old["level"] == "RAID1" and old["drives"] == ["/d/0"] and not old["raw"]
    assert storage.volume_facts({"VolumeType": "RawDevice"})["raw"]
    assert storage.volume_facts({}) == {
        "id": "",
        "uri": "",
        "name": "",
        "level": None,
        "drives": [],
        "bytes": None,
        "raw": False,
    }


def test_which_volume():
    two = [drive(0), drive(1)]
    assert storage.find_volume([volume("boot")], "boot", "RAID1", two)["name"] == "boot"
    assert storage.find_volume([volume("SR Volume 1")], "boot", "RAID1", two)["name"] == "SR Volume 1"
    assert storage.find_volume([volume("x", "RAID0")], "boot", "RAID1", two) is None
    assert storage.find_volume([volume("boot", VolumeType="RawDevice", RAIDType=None)], "other", "RAID1", two) is None
    assert storage.find_volume([volume("boot")], "boot", None, [])["name"] == "boot"
    for other in (volume("boot", "RAID0"), volume("boot", drives=("/d/0", "/d/2"))):
        with pytest.raises(errors.Conflict) as caught:
            storage.find_volume([other], "boot", "RAID1", two)
        assert caught.value.code == "volume_differs"


def test_which_controller():
    able, plain = {"Id": "RAID", "Volumes": {"@odata.id": "/v"}}, {"Id": "NVMe"}
    assert (
        storage.choose_controller([plain, able]) is able and storage.choose_controller([plain, able], "nvme") is plain
    )
    for items, kind in (
        ([plain], errors.Unsupported),
        ([able, {**able, "Id": "RAID2"}], errors.Conflict),
        ([], errors.Unsupported),
    ):
        with pytest.raises(kind):
            storage.choose_controller(items)
    with pytest.raises(errors.NotFound):
        storage.choose_controller([able], "x")


def test_which_drives():
    drives = [drive(0, "S0"), drive(1, "S1")]
    assert [item["Id"] for item in storage.choose_drives(drives, ["s1", "0"])] == ["1", "0"]
    for names, kind in ((["9"], errors.NotFound), (["0", "S0"], errors.InvalidInput)):
        with pytest.raises(kind):
            storage.choose_drives(drives, names)


@pytest.mark.parametrize(
    ("level", "count"), [("RAID1", 1), ("RAID1", 3), ("RAID5", 2), ("RAID10", 5), ("RAID99", 2), ("RAID0", 0)]
)
def test_levels(level, count):
    with pytest.raises(errors.InvalidInput):
        storage.check_level(level, count, [])


def test_a_level_that_the_controller_does_not_have():
    storage.check_level("RAID1", 2, ["RAID1"])
    with pytest.raises(errors.Unsupported):
        storage.check_level("RAID5", 3, ["RAID0", "RAID1"])


# ---- the simulator --------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def shared():
    disks = [{"slot": f"disk{n}", "serial": f"SN{n}", "size": "4 GiB", "type": "ssd"} for n in range(4)]
    with testing.running([testing.node_config(disks=disks)]) as lab:
        yield lab


@pytest.fixture
def lab(shared):
    shared.reset_behaviour("gpu01")
    yield shared
    shared.reset_behaviour("gpu01")
    for name in ("boot", "scratch"):
        operations.storage(endpoint(shared), name, "absent", consent=SERIAL, interval=0.05)


MIRROR = {"name": "boot", "level": "RAID1", "drives": ["SN0", "disk1"]}


@pytest.mark.parametrize("behaviour", [{}, {"volume_task_s": 0.5}, {"no_query_support": True, "paging": 1}])
def test_made_once_and_removed(lab, behaviour):
    there, before = endpoint(lab), len(writes(lab))
    lab.set_behaviour("gpu01", **behaviour)
    planned = operations.storage(there, **MIRROR, check=True)
    assert planned.changed and planned.more["consent_required"] and len(writes(lab)) == before
    shown = planned.as_result(diff=True)
    assert shown["needs_consent"] == [SERIAL] and shown["msg"].endswith(f"needs consent: [{SERIAL}]")
    assert f"# needs consent: [{SERIAL}]" in shown["diff"]["after"]
    consented = operations.storage(there, **MIRROR, consent=SERIAL, check=True).as_result(diff=True)
    assert consented["needs_consent"] == [] and "consent" not in str(consented["diff"]) + consented["msg"]
    done = operations.storage(there, **MIRROR, consent=SERIAL, interval=0.05)
    assert done.changed and done.plan.diff() == planned.plan.diff() and done.after == planned.after
    assert not operations.storage(there, **MIRROR).changed
    assert not operations.storage(there, **{**MIRROR, "name": "SR Volume"}).changed
    gone = operations.storage(there, "boot", "absent", consent=SERIAL, interval=0.05)
    assert gone.changed and not operations.storage(there, "boot", "absent").changed
    assert len(writes(lab)) - before == 2 and lab.state("gpu01")["sessions"] == 0


def test_nothing_is_sent_without_consent(lab):
    there, before = endpoint(lab), len(writes(lab))
    for consent in (None, "", "LAB-test-0002"):
        with pytest.raises(errors.Refused) as caught:
            operations.storage(there, **MIRROR, consent=consent)
        assert caught.value.code == "consent_required" and SERIAL in caught.value.next_step
    with pytest.raises(errors.Refused):
        operations.storage(there, **MIRROR, consent="LAB-test-0002", check=True)
    assert len(writes(lab)) == before


def test_what_is_there_is_never_rebuilt(lab):
    there = endpoint(lab)
    operations.storage(there, **MIRROR, consent=SERIAL, interval=0.05)
    before = len(writes(lab))
    for wrong in (
        {"level": "RAID0"},
        {"drives": ["disk2", "disk3"]},
        {"name": "scratch", "level": "RAID0", "drives": ["disk1", "disk2"]},
    ):
        with pytest.raises(errors.Conflict):
            operations.storage(there, **{**MIRROR, **wrong}, consent=SERIAL)
    assert len(writes(lab)) == before


def test_a_lost_answer_makes_no_second_volume(lab):
    there, before = endpoint(lab), len(writes(lab))
    lab.set_behaviour("gpu01", answer_lost_after_post=1)
    done = operations.storage(there, **MIRROR, consent=SERIAL, interval=0.05)
    assert done.changed and any("lost" in text for text in done.warnings) and len(writes(lab)) - before == 1


def test_accepted_and_not_done(lab, monkeypatch):
    monkeypatch.setattr(storage, "VERIFY_S", 0.4)
    lab.set_behaviour("gpu01", accept_and_do_nothing=["volume"])
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.storage(endpoint(lab), **MIRROR, consent=SERIAL, interval=0.1)
    assert caught.value.code == "accepted_not_moved" and caught.value.seen == "no such volume"


def test_the_fence_is_asked(lab):
    def fence():
        raise errors.FencedOut("a newer attempt owns the node")

    before = len(writes(lab))
    with pytest.raises(errors.FencedOut):
        operations.storage(endpoint(lab), **MIRROR, consent=SERIAL, fence=fence)
    assert len(writes(lab)) == before


@pytest.mark.parametrize("wrong", [{"name": ""}, {"state": "gone"}, {"level": None}, {"drives": []}, {"deadline_s": 0}])
def test_what_cannot_be(there, wrong):
    with pytest.raises(errors.InvalidInput):
        operations.storage(there, **{**MIRROR, **wrong})


# ---- other controllers ----------------------------------------------------------------------------------------------------
def controller(create, volumes, headers=None):
    system = {
        "@odata.id": "/redfish/v1/Systems/1",
        "Id": "1",
        "SerialNumber": SERIAL,
        "Storage": {"@odata.id": "/storage"},
        "Links": {},
    }
    place = {
        "@odata.id": "/storage/1",
        "Id": "1",
        "Name": "x",
        "Volumes": {"@odata.id": "/v"},
        "Drives": [{"@odata.id": "/d/0"}, {"@odata.id": "/d/1"}],
    }
    return serving(
        {
            "GET /redfish/v1/Systems": {"Members": [system]}, "GET /redfish/v1/Systems/1": system, "GET /storage": {"Members": [place]},
            "GET /d/0": drive(0), "GET /d/1": drive(1), "GET /v": lambda body: (200, {"Members": volumes}, headers or {}), "POST /v": create,
            "GET /job/1": {"JobState": "Scheduled"},
        }
    )  # fmt: skip


def test_an_old_service_says_what_it_does_not_know():
    volumes = []

    def create(body):
        for name in ("Links", "RAIDType", "Name"):
            if name in body:
                return (
                    400,
                    {
                        "error": {
                            "@Message.ExtendedInfo": [{"MessageId": "Base.1.0.PropertyUnknown", "MessageArgs": [name]}]
                        }
                    },
                )
        volumes.append({"@odata.id": "/v/1", "Id": "1", "Name": "Virtual Disk 1", **body})
        return (201, None, {"Location": "/v/1"})

    with controller(create, volumes) as (script, where):
        done = operations.storage(where, "boot", level="RAID1", drives=["0", "1"], consent=SERIAL, interval=0.05)
    assert done.changed and [body for method, path, body in script.seen if (method, path) == ("POST", "/v")][-1] == {
        "VolumeType": "Mirrored", "Drives": [{"@odata.id": "/d/0"}, {"@odata.id": "/d/1"}], "DisplayName": "boot",
    }  # fmt: skip


def test_a_job_that_waits_for_a_restart():
    job = {"@odata.id": "/job/1", "@odata.type": "#DellJob.v1_0_0.DellJob", "JobState": "Scheduled"}
    wanted = {"level": "RAID1", "drives": ["0", "1"], "consent": SERIAL, "apply_time": "OnReset", "interval": 0.05}
    with controller((202, job), []) as (script, where):
        planned = operations.storage(where, "boot", **wanted, check=True)
        done = operations.storage(where, "boot", **wanted)
    assert done.changed and done.more["reboot_required"] and done.after == {"volume": None}
    assert (planned.changed, planned.after, planned.more) == (done.changed, done.after, done.more)
    assert planned.plan.diff() == done.plan.diff()


def test_a_service_that_makes_none():
    with controller((405, {}), [], {"Allow": "GET, HEAD"}) as (script, where), pytest.raises(errors.Unsupported):
        operations.storage(where, "boot", level="RAID1", drives=["0", "1"], consent=SERIAL)
    assert not script.count("POST", "/v")


@pytest.mark.parametrize(
    "members", [None, [None], [{}], [{"@odata.id": "/v/1", "Id": "1", "Name": None, "Links": 7, "RAIDType": []}]]
)
def test_odd_volumes_are_no_traceback(members):
    with controller((405, {}), members) as (unused, where):
        assert operations.storage(where, "boot", level="RAID1", drives=["0", "1"], check=True).changed


MADE = {"@odata.id": "/v/1", "Id": "1", "Name": "boot", "RAIDType": "RAID1", "Links": {"Drives": [{"@odata.id": "/d/0"}, {"@odata.id": "/d/1"}]}}  # fmt: skip


@pytest.mark.parametrize("what", ["GET /v", "GET /v/1"])
def test_volumes_that_cannot_be_read_are_not_taken_for_gone(monkeypatch, what):
    monkeypatch.setattr(storage, "VERIFY_S", 0.3)
    monkeypatch.setattr(redfish, "BACKOFF", ())
    volumes = [{"@odata.id": "/v/1"}]

    def broken(body):
        return (500, {})

    with controller((405, {}), volumes) as (script, where):
        script.answers["GET /v/1"] = MADE
        good = script.answers[what]

        def drop(body):
            script.answers[what] = broken
            return (204, None)

        script.answers["DELETE /v/1"] = drop
        with pytest.raises(errors.DeadlineExceeded) as caught:
            operations.storage(where, "boot", "absent", consent=SERIAL, interval=0.05)
        assert caught.value.code == "accepted_not_moved" and "HTTP 500" in caught.value.seen
        for state in ({"state": "absent"}, {"level": "RAID1", "drives": ["0", "1"]}):
            with pytest.raises(HttpError):  # nor for absent before anything was sent
                operations.storage(where, "boot", **state, consent=SERIAL, interval=0.05)
        assert script.count("DELETE", "/v/1") == 1 and not script.count("POST", "/v")
        script.answers[what] = good
        script.answers["DELETE /v/1"] = lambda body: (volumes.clear(), (204, None))[1]
        assert operations.storage(where, "boot", "absent", consent=SERIAL, interval=0.05).changed
