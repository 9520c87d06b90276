# The deploy spec: manifests and disk rules checked, shell form safe for every value.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import spec

MANIFEST = {
    "name": "deb",
    "sha256": "a" * 64,
    "size_bytes": 1024 * 1024,
    "root_uuid": "0b5a63b1-3c2a-4a3e-8d4d-2d2a1f0c9f11",
}


def built(**disk):
    return spec.build(
        "gpu01", "S-1", 7, spec.image_from_manifest(MANIFEST, "deb"), spec.disk_rule(**disk), {"meta-data": "x"}
    )


def shell_values(text):
    names = ("NODE", "SERIAL", "IMAGE_URL", "DISK_MIN_BYTES", "DISK_TYPE", "DISK_SERIAL")
    script = text + "\n" + "".join(f"printf '%s\\n' \"${name}\"\n" for name in names)
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


def test_shell_form_is_what_sh_reads_back():
    answer = spec.for_ramdisk(
        built(type="nvme", min_size="1 GiB", serial="D-1"), "http://h/images", "http://a", "f" * 64
    )
    assert shell_values(spec.as_shell(answer)) == [
        "gpu01",
        "S-1",
        "http://h/images/deb/disk.raw",
        str(1 << 30),
        "nvme",
        "D-1",
    ]


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=30))
def test_no_value_leaves_its_quotes(value):
    answer = spec.for_ramdisk({**built(), "serial": value}, "http://h/images", "http://a", "f" * 64)
    assert shell_values(spec.as_shell(answer))[1] == value


def test_a_line_break_is_refused():
    answer = spec.for_ramdisk({**built(), "serial": "a\nb"}, "http://h/images", "http://a", "f" * 64)
    with pytest.raises(InvalidInput):
        spec.as_shell(answer)


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "zz"},
        {"size_bytes": 1000},
        {"size_bytes": "1024"},
        {"root_uuid": ""},
        {"name": "other"},
        {"sha256": None},
    ],
)
def test_a_broken_manifest_is_named(change):
    with pytest.raises(InvalidInput, match="manifest of image deb|image "):
        spec.image_from_manifest({**MANIFEST, **change}, "deb")


@pytest.mark.parametrize("rule", [{"type": "tape"}, {"min_size": "2 GiB", "max_size": "1 GiB"}, {"serial": "a b"}])
def test_a_broken_disk_rule_is_refused(rule):
    with pytest.raises(InvalidInput):
        spec.disk_rule(**rule)


def test_an_image_beyond_the_rule_is_refused_before_anything_is_powered():
    with pytest.raises(InvalidInput, match="larger than the largest disk"):
        built(max_size="512 KiB")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a..b"])
def test_image_names_are_directory_names(name):
    with pytest.raises(InvalidInput):
        spec.check_image_name(name)
