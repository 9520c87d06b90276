# Virtual media: which device, which requests, and what BMCs ask for or refuse.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import media, operations, redfish
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import HttpError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from .conftest import endpoint, writes
from .scripted import serving

IMAGE, OTHER = "http://127.0.0.1:9/images/rescue.iso", "http://127.0.0.1:9/images/other.iso"


def device(name="1", image=None, types=("CD", "DVD"), **more):
    return media.device_facts(
        {
            "@odata.id": f"/m/{name}",
            "Id": name,
            "MediaTypes": list(types),
            "Image": image,
            "Inserted": bool(image),
            **more,
        }
    )


# ---- pure ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("resource", "image", "inserted"),
    [
        ({"Image": "", "Inserted": False}, None, False),
        ({"Image": "None", "ImageName": "None", "Inserted": False, "MediaTypes": None, "Id": "CD1"}, None, False),
        ({"Image": None, "ImageName": "a.iso", "Inserted": True}, "a.iso", True),
        ({"Image": IMAGE, "ConnectedVia": "URI"}, IMAGE, True),
        ({"Image": IMAGE, "ConnectedVia": "NotConnected"}, None, False),
        ({}, None, False),
        ({"Inserted": None, "Image": 7, "MediaTypes": "CD"}, "7", True),
    ],
)
def test_shapes(resource, image, inserted):
    facts = media.device_facts(resource)
    assert (facts["image"], facts["inserted"]) == (image, inserted)
    if resource.get("Id") == "CD1":
        assert facts["types"] == ["CD"]


@pytest.mark.parametrize(
    ("have", "same"),
    [
        (IMAGE, True),
        ("127.0.0.1:9/images/rescue.iso", True),
        ("http://user:word@127.0.0.1:9/images/rescue.iso", True),
        ("rescue.iso", True),
        (OTHER, False),
        (None, False),
    ],
)
def test_the_same_image(have, same):
    assert media.same_image(have, IMAGE) is same


def test_which_device():
    stick, free, full = device("USB", types=("USBStick",)), device("A"), device("B", OTHER)
    assert media.choose_device([stick, full, free], IMAGE, "cd")["id"] == "A"
    assert media.choose_device([free, device("C", IMAGE)], IMAGE, "cd")["id"] == "C"
    assert media.choose_device([stick, full], IMAGE, "usb")["id"] == "USB"
    assert media.choose_device([stick, full], IMAGE, "cd", "b")["id"] == "B"
    with pytest.raises(errors.Conflict) as caught:
        media.choose_device([stick, full], IMAGE, "cd")
    assert OTHER in caught.value.seen
    with pytest.raises(errors.NotFound):
        media.choose_device([stick], IMAGE, "cd", "x")
    with pytest.raises(errors.Unsupported):
        media.choose_device([], IMAGE, "cd")


# ---- the simulator --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "behaviour",
    [
        {},
        {"media_patch_only": True},
        {"media_needs": ["TransferProtocolType", "TransferMethod"]},
        {"media_needs": ["UserName", "Password"]},
        {"etag_required": True, "media_patch_only": True},
        {"no_query_support": True, "two_systems": "hgx_first"},
    ],
)
def test_inserted_replaced_ejected(fresh, behaviour):
    there = endpoint(fresh)
    fresh.set_behaviour("gpu01", **behaviour)
    planned = operations.media(there, IMAGE, check=True)
    assert planned.changed and not writes(fresh)
    done = operations.media(there, IMAGE, interval=0.05)
    assert done.changed and done.after == planned.after == {"Cd": {"image": IMAGE, "inserted": True}}
    assert done.plan.diff() == planned.plan.diff()
    before = len(writes(fresh))
    assert not operations.media(there, IMAGE).changed and len(writes(fresh)) == before
    with pytest.raises(errors.Conflict):
        operations.media(there, OTHER)
    assert operations.media(there, OTHER, device="Cd", interval=0.05).changed
    assert not operations.media(there, IMAGE, state="ejected").changed
    assert operations.media(there, state="ejected", interval=0.05).after == {"Cd": {"image": None, "inserted": False}}
    assert not operations.media(there, state="ejected").changed
    assert fresh.state("gpu01")["sessions"] == 0


def test_accepted_and_not_shown(fresh):
    fresh.set_behaviour("gpu01", accept_and_do_nothing=["media"])
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.media(endpoint(fresh), IMAGE, deadline_s=2, interval=0.2)
    assert caught.value.code == "accepted_not_moved" and "inserted: False" in caught.value.seen


def test_a_lost_answer_is_decided_by_reading(fresh):
    fresh.set_behaviour("gpu01", answer_lost_after_post=1)
    done = operations.media(endpoint(fresh), IMAGE, interval=0.05)
    assert done.changed and any("lost" in text for text in done.warnings)
    assert writes(fresh) == ["POST VirtualMedia.InsertMedia"]


def test_not_licensed(fresh):
    fresh.set_behaviour("gpu01", license_required=["media"])
    with pytest.raises(errors.BaremetalError) as caught:
        operations.media(endpoint(fresh), IMAGE)
    assert caught.value.code == "license_required"


def test_the_fence_and_what_cannot_be(bmc, there):
    def fence():
        raise errors.FencedOut("a newer attempt owns the node")

    before = len(writes(bmc))
    with pytest.raises(errors.FencedOut):
        operations.media(there, IMAGE, fence=fence)
    for wrong in (
        {"image": "/tmp/x.iso"},
        {"image": None},
        {"image": IMAGE, "state": "maybe"},
        {"image": IMAGE, "kind": "tape"},
        {"image": IMAGE, "deadline_s": 0},
    ):
        with pytest.raises(errors.InvalidInput):
            operations.media(there, **wrong)
    assert len(writes(bmc)) == before


def test_a_password_is_never_shown(fresh):
    fresh.set_behaviour("gpu01", faults=[{"method": "POST", "path": ".*InsertMedia", "status": 500, "times": -1}])
    with pytest.raises(errors.BaremetalError) as caught:
        operations.media(endpoint(fresh), IMAGE, username="share", password="Share-12345")
    assert "Share-12345" not in str(caught.value)


# ---- another BMC: the action makes a task -----------------------------------------------------------------------------------
def test_an_insertion_that_is_a_task():
    system = {"@odata.id": "/redfish/v1/Systems/1", "Id": "1", "VirtualMedia": {"@odata.id": "/vm"}, "Links": {}}
    place = {
        "@odata.id": "/vm/1",
        "Id": "1",
        "Name": "x",
        "MediaTypes": ["CD"],
        "Image": None,
        "Inserted": False,
        "Actions": {"#VirtualMedia.InsertMedia": {"target": "/vm/1/insert"}},
    }

    def insert(body):
        place.update(Image=body["Image"], Inserted=True)
        return (202, None, {"Location": "/redfish/v1/TaskMonitors/1"})

    answers = {
        "GET /redfish/v1/Systems": {"Members": [system]}, "GET /redfish/v1/Systems/1": system, "GET /vm": {"Members": [{"@odata.id": "/vm/1"}]},
        "GET /vm/1": lambda body: place, "POST /vm/1/insert": insert, "GET /redfish/v1/TaskMonitors/1": [(202, None), (204, None)],
    }  # fmt: skip
    with serving(answers) as (script, where):
        assert operations.media(where, IMAGE, interval=0.05).changed
        assert script.count("POST", "/vm/1/insert") == 1


def test_devices_that_cannot_be_read_are_not_taken_for_empty(monkeypatch):
    monkeypatch.setattr(redfish, "BACKOFF", ())
    system = {"@odata.id": "/redfish/v1/Systems/1", "Id": "1", "VirtualMedia": {"@odata.id": "/vm"}, "Links": {}}
    answers = {
        "GET /redfish/v1/Systems": {"Members": [system]},
        "GET /vm": {"Members": [{"@odata.id": "/vm/1"}]},
        "GET /vm/1": (500, {}),
    }
    with serving(answers) as (unused, where), pytest.raises(HttpError):
        operations.media(where, state="ejected")
