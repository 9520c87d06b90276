# The manifest of an image: what it is, how to check it, what is inside. Pure, except for the functions that read files.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json
import os

from ..core.errors import InvalidInput
from .packages import installed_packages, kernel_package

FORMATS = ("disk", "directory")
# What a disk image consists of beside its manifest.
DISK_FILES = ("disk.raw", "vmlinuz", "deploy.img")
_CHUNK = 1 << 22


def sha256_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while True:
            chunk = handle.read(_CHUNK)
            if not chunk:
                return digest.hexdigest()
            digest.update(chunk)


def build(
    name,
    key,
    image_format,
    created,
    source,
    status_text,
    release=None,
    root_uuid=None,
    files=None,
    size_bytes=None,
    sha256=None,
    cmdline=None,
):
    """The manifest as a dict. `files`: {file name: {sha256, size_bytes}} of what is served; a directory has no root_uuid, kernel or disk."""
    if image_format not in FORMATS:
        raise InvalidInput(
            "is not a format of images", thing=f"image {name}", wanted=" | ".join(FORMATS), seen=repr(image_format)
        )
    packages = installed_packages(status_text)
    if not packages:
        raise InvalidInput(
            "has no installed packages",
            thing=f"tree of image {name}",
            wanted="a dpkg status file with packages",
            seen=f"{len(status_text)} characters",
            next_step="remove the half-built tree and build again",
        )
    manifest = {
        "name": name,
        "format": image_format,
        "key": key,
        "created": created,
        "source": dict(source),
        "packages": packages,
    }
    if image_format == "disk":
        package, version = kernel_package(packages, release)
        manifest.update(
            sha256=sha256,
            size_bytes=size_bytes,
            root_uuid=root_uuid,
            kernel=release,
            kernel_package=package,
            kernel_version=version,
            cmdline=cmdline,
            files=dict(files or {}),
        )
    return manifest


def text(manifest):
    """The manifest as it is stored; the same manifest gives the same bytes."""
    return json.dumps(manifest, indent=1, sort_keys=True) + "\n"


def load(directory):
    """The manifest in `directory`, or None where there is none that can be read (a build that was interrupted)."""
    try:
        with open(os.path.join(directory, "manifest.json"), encoding="utf-8") as handle:
            manifest = json.load(handle)
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) else None


def missing_parts(manifest, directory):
    """What keeps the image in `directory` from being used, as sentences; cheap (sizes, no checksums)."""
    if manifest is None:
        return ["there is no manifest"]
    if manifest.get("format") == "directory":
        return [] if os.path.isdir(os.path.join(directory, "root", "usr")) else ["the directory root is missing"]
    problems = []
    for name in DISK_FILES:
        wanted = manifest.get("files", {}).get(name, {}).get("size_bytes")
        try:
            seen = os.path.getsize(os.path.join(directory, name))
        except OSError:
            problems.append(f"{name} is missing")
            continue
        if seen != wanted:
            problems.append(f"{name} has {seen} bytes, wanted {wanted}")
    return problems


def difference(manifest, directory):
    """Like missing_parts, with every checksum computed again."""
    problems = missing_parts(manifest, directory)
    if problems or manifest.get("format") == "directory":
        return problems
    for name in DISK_FILES:
        wanted, seen = manifest["files"][name]["sha256"], sha256_file(os.path.join(directory, name))
        if wanted != seen:
            problems.append(f"{name} has the checksum {seen}, wanted {wanted}")
    return problems
