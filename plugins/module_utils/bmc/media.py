# Virtual media: an image that the BMC shows to its server as a CD or a USB stick. Inserted, replaced and ejected, and read back.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from urllib.parse import urlsplit

from ..core.deadline import Deadline
from ..core.errors import Conflict, InvalidInput, NotFound, Unsupported
from ..core.plan import Change, Plan
from . import connect, tasks, transform
from .endpoint import check_seconds
from .errors import AnswerLost, HttpError
from .result import Result, known_identity, read_until

MEDIA_TYPES = {"cd": ("CD", "DVD"), "usb": ("USBStick",), "floppy": ("Floppy",)}
SCHEMES = ("http", "https", "nfs", "cifs", "smb", "ftp", "tftp", "sftp", "scp")
# Parameters that some BMCs want in InsertMedia and others refuse (sushy notes transfer-protocol, insertmedia-credentials): sent when the refusal names them.
ON_DEMAND = ("TransferProtocolType", "TransferMethod", "UserName", "Password")
MOST_TRIES = 5


# ---- pure ---------------------------------------------------------------------------------------------------------------------------------
def device_facts(resource):
    """{id, uri, types, image, inserted, insert, eject} of a VirtualMedia resource; "" and "None" mean no image (iLO, AMI)."""
    image = transform.text(resource, "Image") or transform.text(resource, "ImageName")
    image = None if image.lower() in ("", "none", "null") else image
    inserted = resource.get("Inserted")
    if not isinstance(inserted, bool):
        inserted = image is not None and transform.text(resource, "ConnectedVia") != "NotConnected"
    types = transform.strings(resource.get("MediaTypes"))
    identity = transform.text(resource, "Id") or transform.text(resource, "@odata.id").rstrip("/").rsplit("/", 1)[-1]
    return {
        "id": identity,
        "uri": transform.text(resource, "@odata.id"),
        "types": types
        or [word for words in MEDIA_TYPES.values() for word in words if identity.upper().startswith(word.upper())],
        "image": image if inserted else None,
        "inserted": inserted,
        "insert": transform.text(resource, "Actions", "#VirtualMedia.InsertMedia", "target"),
        "eject": transform.text(resource, "Actions", "#VirtualMedia.EjectMedia", "target"),
    }


def same_image(have, wanted):
    """BMCs show the URL as it was given, without its scheme, without user name and password, or only the file's name."""
    if not have or not wanted:
        return False

    def plain(url):
        return re.sub(r"^[a-z]+://", "", re.sub(r"//[^/@]*@", "//", url.strip()), flags=re.IGNORECASE).rstrip("/")

    return plain(have) == plain(wanted) or have == wanted.rsplit("/", 1)[-1]


def choose_device(devices, image, kind, name=None, host=None):
    """The device for an image: the named one, else the one that has it, else a free one of the kind. Somebody else's image is never thrown out unnamed."""
    if name:
        for device in devices:
            if device["id"].lower() == name.lower():
                return device
        raise NotFound(
            "the BMC has no such virtual device",
            host=host,
            thing="device",
            wanted=name,
            seen=", ".join(device["id"] for device in devices) or "none at all",
            next_step="name one of these, or leave device out",
        )
    fitting = [device for device in devices if set(device["types"]) & set(MEDIA_TYPES[kind]) or not device["types"]]
    if not fitting:
        raise Unsupported(
            "the BMC has no virtual device of this kind",
            host=host,
            thing="media_type",
            wanted=kind,
            seen=", ".join(f"{device['id']} ({'/'.join(device['types'])})" for device in devices) or "no virtual media",
            next_step="choose another media_type; some BMCs show virtual media only when remote media are switched on or licensed",
        )
    for device in fitting:
        if device["inserted"] and same_image(device["image"], image):
            return device
    for device in fitting:
        if not device["inserted"]:
            return device
    raise Conflict(
        "every virtual device of this kind holds another image",
        host=host,
        thing="device",
        wanted=image,
        seen=", ".join(f"{device['id']}: {device['image']}" for device in fitting),
        next_step="name the device whose image is to be replaced, or eject one first",
        code="media_in_use",
    )


def plan_media(devices, state, image):
    """Pure: the Plan for the chosen devices."""
    if state == "ejected":
        return Plan(
            [
                Change(f"media.{device['id']}", device["image"] or "an image", None)
                for device in devices
                if device["inserted"]
            ]
        )
    device = devices[0]
    if device["inserted"] and same_image(device["image"], image):
        return Plan()
    return Plan([Change(f"media.{device['id']}", device["image"], image)])


# ---- the operation --------------------------------------------------------------------------------------------------------------------------
def media(
    endpoint,
    image=None,
    state="inserted",
    kind="cd",
    device=None,
    username=None,
    password=None,
    write_protected=True,
    deadline_s=180.0,
    check=False,
    fence=None,
    interval=1.0,
):
    """Insert `image` (a URL that the BMC can reach), or eject it, or whatever is in `device`, or everything."""
    check_seconds("timeout", deadline_s, endpoint.label)
    if state not in ("inserted", "ejected") or kind not in MEDIA_TYPES:
        raise InvalidInput(
            "there is no such state or kind of virtual media",
            host=endpoint.label,
            thing="state, media_type",
            wanted="inserted or ejected; " + ", ".join(MEDIA_TYPES),
            seen=f"{state}; {kind}",
        )
    if state == "inserted" and urlsplit(image or "").scheme.lower() not in SCHEMES:
        raise InvalidInput(
            "the image has no URL that a BMC could fetch",
            host=endpoint.label,
            thing="image",
            wanted="a URL with " + ", ".join(SCHEMES[:4]),
            seen=image,
            next_step="put the image on a web server that the BMC's network can reach",
        )
    endpoint.require_redfish("IPMI has no virtual media")
    deadline = Deadline(deadline_s, "virtual media", host=endpoint.label)
    with connect(endpoint, deadline, fence) as client:
        client.hide(password)
        client.login()
        devices = read_devices(client, certain=state == "ejected")
        if state == "inserted":
            chosen = [choose_device(devices, image, kind, device, endpoint.label)]
        else:
            named = [choose_device(devices, None, kind, device, endpoint.label)] if device else devices
            chosen = [item for item in named if item["inserted"] and (not image or same_image(item["image"], image))]
        plan = plan_media(chosen, state, image)
        result = Result(plan.changed, plan, _shown(chosen), warnings=client.warnings, source=client.source)
        result.after = {
            item["id"]: {"image": image if state == "inserted" else None, "inserted": state == "inserted"}
            for item in chosen
        }
        if not plan.changed:
            result.after = result.before
        elif not check:
            for item in chosen:
                if item["inserted"]:
                    _eject(client, item, deadline, interval)
                if state == "inserted":
                    _insert(client, item, image, username, password, write_protected, deadline, interval)
        result.more = {"device": chosen[0]["id"] if chosen else None}
        result.bmc = known_identity(client)
        return result


def _shown(devices):
    return {device["id"]: {"image": device["image"], "inserted": device["inserted"]} for device in devices}


def read_devices(client, certain=False):
    """Virtual devices below the system and below its manager (they moved from there); the same id in both is one device. `certain`: see client.members."""
    found = {}
    for owner in (client.system(), client.manager()):
        for resource in client.members(transform.link(owner, "VirtualMedia"), "the virtual media", certain=certain):
            facts = device_facts(resource)
            if facts["uri"]:
                found.setdefault(facts["id"].lower(), facts)
    return list(found.values())


def _wait(client, device, deadline, interval, done, wanted, message, next_step):
    def read():
        return device_facts(client.get(device["uri"]))

    return read_until(
        client,
        Deadline(min(60.0, deadline.remaining()), "virtual media", host=client.endpoint.label),
        read,
        done,
        thing=f"virtual device {device['id']}",
        wanted=wanted,
        message=message,
        next_step=next_step,
        interval=interval,
        describe=lambda seen: f"inserted: {seen['inserted']}, image: {seen['image']}",
    )


def _follow(client, answer, device, deadline, done):
    handle = tasks.handle_of(answer)
    if handle:
        outcome = tasks.follow(
            client,
            handle,
            deadline,
            thing=f"virtual device {device['id']}",
            verify=lambda: done(device_facts(client.get(device["uri"]))),
        )
        tasks.require(client, outcome, f"virtual device {device['id']}")


def _patch(client, device, body):
    try:
        return client.patch(device["uri"], body)
    except HttpError as error:
        if error.status != 400 or "Inserted" not in body or not error.names("Inserted"):
            raise
        return client.patch(device["uri"], {key: value for key, value in body.items() if key != "Inserted"})


def _eject(client, device, deadline, interval):
    def done(seen):
        return not seen["inserted"]

    try:
        answer = None
        if device["eject"] and not client.quirks()["media_by_patch"]:
            try:
                answer = client.post(device["eject"])
            except HttpError as error:
                if error.status not in (404, 405):
                    raise
        if answer is None:
            answer = _patch(client, device, {"Image": None, "Inserted": False})
        _follow(client, answer, device, deadline, done)
    except AnswerLost:
        client.warnings.append("the answer to ejecting the image was lost; the device was read instead")
    _wait(
        client,
        device,
        deadline,
        interval,
        done,
        "no image",
        "the BMC accepted to eject the image and still shows it",
        "the server may be booting from it; switch it off, or restart the BMC (bmc_reset)",
    )


def _insert(client, device, image, username, password, write_protected, deadline, interval):
    def done(seen):
        return seen["inserted"] and same_image(seen["image"], image)

    body = {"Image": image, "Inserted": True, "WriteProtected": bool(write_protected)}
    if username:
        body.update(UserName=username, Password=password or "")
    try:
        answer = None
        if device["insert"] and not client.quirks()["media_by_patch"]:
            answer = _insert_by_action(client, device, body, image)
        if answer is None:
            answer = _patch(client, device, body)
        _follow(client, answer, device, deadline, done)
    except AnswerLost:
        client.warnings.append("the answer to inserting the image was lost; the device was read instead")
    _wait(
        client,
        device,
        deadline,
        interval,
        done,
        image,
        "the BMC accepted the image and does not show it",
        "check that the BMC's network reaches the image (bmc_log says why); some BMCs take only files that end in .iso or .img",
    )


def _insert_by_action(client, device, body, image):
    """POST InsertMedia, again with what a refusal names: missing parameters added, unknown ones left out. None: there is no such action after all."""
    extra = {
        "TransferProtocolType": urlsplit(image).scheme.upper().replace("SMB", "CIFS"),
        "TransferMethod": "Stream",
        "UserName": "none",
        "Password": "none",
    }
    body = dict(body)
    for number in range(MOST_TRIES):
        try:
            return client.post(device["insert"], body)
        except HttpError as error:
            if error.status in (404, 405):
                return None
            missing = [name for name in ON_DEMAND if name not in body and error.names(name)]
            unknown = [name for name in ("Inserted", "WriteProtected") if name in body and error.names(name)]
            if error.status != 400 or number == MOST_TRIES - 1 or not (missing or unknown):
                raise
            body.update({name: extra[name] for name in missing})
            for name in unknown:
                body.pop(name)
    return None
