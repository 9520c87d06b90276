# What one deployment writes: built and checked by the controller, kept with the grant, read by the ramdisk. Pure.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import shlex

from ..core.errors import InvalidInput
from ..core.units import parse_size

DISK_TYPES = ("any", "nvme", "ssd", "hdd")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SERIAL = re.compile(r"[A-Za-z0-9._-]{0,64}")


def _bad(key, seen, wanted):
    return InvalidInput(f"{key} is not valid", thing="deploy spec", wanted=wanted, seen=repr(seen)[:80])


def check_image_name(name):
    if not _NAME.fullmatch(str(name or "")) or ".." in str(name):
        raise _bad("image name", name, "letters, digits and ._- (it is a directory name)")
    return str(name)


def image_from_manifest(manifest, name):
    """The image part of a spec from a manifest of the image store; raises InvalidInput that names the missing field."""
    check_image_name(name)
    if not isinstance(manifest, dict):
        raise InvalidInput(
            "holds no JSON object", thing=f"manifest of image {name}", next_step="build the image again (role os_image)"
        )
    for key in ("name", "sha256", "size_bytes", "root_uuid"):
        if not manifest.get(key):
            raise InvalidInput(
                f"has no {key}",
                thing=f"manifest of image {name}",
                wanted=key,
                next_step="build the image again (role os_image)",
            )
    if manifest["name"] != name:
        raise InvalidInput("is of another image", thing=f"manifest of image {name}", wanted=name, seen=manifest["name"])
    digest = str(manifest["sha256"]).lower()
    if not _SHA256.fullmatch(digest):
        raise _bad("image sha256", manifest["sha256"], "64 hexadecimal digits")
    size = manifest["size_bytes"]
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0 or size % 512:
        raise _bad("image size_bytes", size, "a multiple of 512 above 0")
    if not re.fullmatch(r"[0-9A-Fa-f-]{36}", str(manifest["root_uuid"])):
        raise _bad("image root_uuid", manifest["root_uuid"], "a file system UUID")
    return {"name": name, "sha256": digest, "size_bytes": size, "root_uuid": str(manifest["root_uuid"]).lower()}


def disk_rule(type="any", min_size=0, max_size=0, serial=""):
    """The rule by which the ramdisk picks the one disk that may be overwritten; sizes as "8 GiB" or bytes, 0: no limit."""
    kind = str(type or "any").lower()
    if kind not in DISK_TYPES:
        raise _bad("disk type", type, " | ".join(DISK_TYPES))
    try:
        low, high = (parse_size(value) if value else 0 for value in (min_size, max_size))
    except ValueError as error:
        raise InvalidInput(
            "disk size is not valid", thing="deploy spec", wanted="for example 400 GiB", seen=str(error)
        ) from error
    if high and high < low:
        raise _bad("disk size range", f"{min_size} to {max_size}", "a maximum that is not below the minimum")
    if not _SERIAL.fullmatch(str(serial or "")):
        raise _bad("disk serial", serial, "letters, digits and ._-")
    return {"type": kind, "min_bytes": low, "max_bytes": high, "serial": str(serial or "")}


def build(node, serial, attempt, image, disk, seed):
    """The spec as it is stored with the grant. `seed`: the files of netboot.seed.render."""
    if image["size_bytes"] > (disk["max_bytes"] or image["size_bytes"]):
        raise InvalidInput(
            "the image is larger than the largest disk the rule allows",
            thing="deploy spec",
            wanted=f"at most {disk['max_bytes']} bytes",
            seen=f"{image['size_bytes']} bytes",
        )
    return {"node": node, "serial": serial, "attempt": attempt, "image": image, "disk": disk, "seed": dict(seed)}


def for_ramdisk(spec, image_url, api_url, seed_sha256):
    """What GET /v1/spec answers: the stored spec with URLs, the seed by reference."""
    return {
        "node": spec["node"],
        "serial": spec["serial"],
        "attempt": spec["attempt"],
        "image": {**spec["image"], "url": f"{image_url}/{spec['image']['name']}/disk.raw"},
        "disk": dict(spec["disk"]),
        "seed": {"url": f"{api_url}/v1/seed", "sha256": seed_sha256},
    }


_SHELL = (
    ("NODE", "node"),
    ("SERIAL", "serial"),
    ("ATTEMPT", "attempt"),
    ("IMAGE_NAME", "image.name"),
    ("IMAGE_URL", "image.url"),
    ("IMAGE_SHA256", "image.sha256"),
    ("IMAGE_SIZE", "image.size_bytes"),
    ("ROOT_UUID", "image.root_uuid"),
    ("DISK_TYPE", "disk.type"),
    ("DISK_MIN_BYTES", "disk.min_bytes"),
    ("DISK_MAX_BYTES", "disk.max_bytes"),
    ("DISK_SERIAL", "disk.serial"),
    ("SEED_URL", "seed.url"),
    ("SEED_SHA256", "seed.sha256"),
)


def as_shell(answer):
    """The answer as KEY='value' lines that any POSIX shell may source: values are always in single quotes, line breaks are refused."""
    lines = []
    for name, path in _SHELL:
        value = answer
        for part in path.split("."):
            value = value[part]
        value = str(value)
        if "\n" in value or "\0" in value:
            raise _bad(path, value, "one line")
        quoted = shlex.quote(value)
        lines.append(f"{name}={quoted if quoted.startswith(chr(39)) else chr(39) + value + chr(39)}\n")
    return "".join(lines)
