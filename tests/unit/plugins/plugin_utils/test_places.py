# A place that cannot be written is refused before any work, and named.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import places


def test_a_file_in_a_directory_that_can_be_made_is_fine_and_nothing_is_made(tmp_path):
    places.require_writable(str(tmp_path / "a" / "b" / "report.html"), "path")
    assert os.listdir(tmp_path) == []
    (tmp_path / "there.html").write_text("x")
    places.require_writable(str(tmp_path / "there.html"), "path")


@pytest.mark.parametrize(
    ("name", "seen"), [("file/report.html", "is not a directory"), ("folder", "a directory"), ("new/", "a directory")]
)
def test_an_impossible_place_is_named(tmp_path, name, seen):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput) as caught:
        places.require_writable(f"{tmp_path}/{name}", "path")
    text = str(caught.value)
    assert (
        f"path {tmp_path}/{name}" in text and seen in text and "wanted" in text and "next: choose another path" in text
    )


def test_a_file_system_that_is_mounted_read_only_is_seen(tmp_path, monkeypatch):
    class ReadOnly:
        f_flag = os.ST_RDONLY

    monkeypatch.setattr(places.os, "statvfs", lambda _path: ReadOnly)
    with pytest.raises(InvalidInput, match="mounted read-only"):
        places.require_writable(str(tmp_path / "x"), "path")


def test_an_error_of_the_operating_system_says_which_file():
    text = str(places.unusable(OSError(28, "No space left on device", "/somewhere/report.html")))
    assert "/somewhere/report.html" in text and "No space left" in text and "next:" in text
