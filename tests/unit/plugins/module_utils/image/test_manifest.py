# Manifests: what is written, and that every kind of damage to an image is found.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.image import manifest
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import spec

STATUS = "Package: linux-image-6.1\nStatus: install ok installed\nVersion: 6.1.1-1\n"
UUID = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def image(tmp_path):
    files = {}
    for name in manifest.DISK_FILES:
        content = name.encode() * 512
        (tmp_path / name).write_bytes(content)
        files[name] = {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
    disk = files["disk.raw"]
    built = manifest.build(
        "debian-12", "key", "disk", "2026-01-01T00:00:00Z", {"suite": "bookworm"}, STATUS, release="6.1", root_uuid=UUID, files=files,
        size_bytes=disk["size_bytes"], sha256=disk["sha256"],
    )  # fmt: skip
    (tmp_path / "manifest.json").write_text(manifest.text(built))
    return tmp_path, built


def test_a_fresh_image_agrees_with_its_manifest(image):
    path, built = image
    assert manifest.load(path) == built
    assert manifest.difference(built, path) == []


def test_the_boot_service_takes_it(image):
    _path, built = image
    assert spec.image_from_manifest(built, "debian-12")["root_uuid"] == UUID


def test_damage_is_found(image):
    path, built = image
    disk = path / "disk.raw"
    disk.write_bytes(b"X" + disk.read_bytes()[1:])
    assert "disk.raw has the checksum" in manifest.difference(built, path)[0]
    assert manifest.missing_parts(built, path) == []
    disk.write_bytes(b"short")
    assert manifest.missing_parts(built, path) == [f"disk.raw has 5 bytes, wanted {built['size_bytes']}"]
    (path / "vmlinuz").unlink()
    assert "vmlinuz is missing" in manifest.missing_parts(built, path)


def test_no_or_broken_manifest(tmp_path):
    assert manifest.load(tmp_path) is None
    (tmp_path / "manifest.json").write_text('{"name": ')
    assert manifest.load(tmp_path) is None
    assert manifest.missing_parts(None, tmp_path) == ["there is no manifest"]


def test_a_directory_image_has_no_disk_and_is_refused_by_the_boot_service(tmp_path):
    built = manifest.build("slurm", "key", "directory", "2026-01-01T00:00:00Z", {}, STATUS)
    assert "sha256" not in built and json.loads(manifest.text(built))["format"] == "directory"
    assert manifest.missing_parts(built, tmp_path) == ["the directory root is missing"]
    (tmp_path / "root" / "usr").mkdir(parents=True)
    assert manifest.missing_parts(built, tmp_path) == []
    with pytest.raises(InvalidInput):
        spec.image_from_manifest(built, "slurm")


def test_an_empty_tree_is_no_image():
    with pytest.raises(InvalidInput, match="no installed packages"):
        manifest.build("x", "key", "disk", "2026-01-01T00:00:00Z", {}, "")
