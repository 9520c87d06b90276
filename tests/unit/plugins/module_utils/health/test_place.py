# Files of a role in one call: what differs is written, the rest is left alone, check mode writes nothing.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.health import place


def planned(wanted):
    return place.plan({path: place.observe(path) for path in wanted}, wanted, owner=os.getuid())


def test_contents_survive_the_way():
    contents = {"/a": b"text\n", "/b": bytes(range(256)), "/c": b""}
    assert place.unpack(place.pack(contents)) == contents
    with pytest.raises(InvalidInput, match="archive"):
        place.unpack("no archive")


def test_only_what_differs_is_written_and_a_second_run_writes_nothing(tmp_path):
    old, new = str(tmp_path / "old"), str(tmp_path / "deep" / "er" / "new")
    with open(old, "w", encoding="ascii") as out:
        out.write("as wanted\n")
    os.chmod(old, 0o644)
    wanted = {
        old: {"content": b"as wanted\n", "mode": "0644"},
        new: {"content": b"#!/bin/sh\n", "mode": "0755"},
    }
    inode = os.stat(old).st_ino
    before = os.umask(0o077)
    try:
        todo = planned(wanted)
        assert [change.thing for change in todo.changes] == [new]
        assert not os.path.exists(tmp_path / "deep")  # planning makes nothing
        place.apply(todo)
    finally:
        os.umask(before)
    assert os.stat(old).st_ino == inode
    assert os.stat(new).st_mode & 0o7777 == 0o755 and os.stat(tmp_path / "deep").st_mode & 0o777 == 0o755
    assert not planned(wanted).changed
    assert os.listdir(tmp_path / "deep" / "er") == ["new"]


def lengthen(path):
    with open(path, "a", encoding="ascii") as out:
        out.write("x")


@pytest.mark.parametrize("spoil", [lambda path: os.chmod(path, 0o600), lengthen])
def test_mode_and_content_count(tmp_path, spoil):
    path = str(tmp_path / "file")
    wanted = {path: {"content": b"text\n", "mode": "644"}}
    place.apply(planned(wanted))
    spoil(path)
    todo = planned(wanted)
    assert todo.changed and "mode 0644" in place.differences(todo)[0]["after"]
    place.apply(todo)
    assert not planned(wanted).changed


def test_a_link_is_replaced_and_what_it_points_to_is_left_alone(tmp_path):
    target, path = tmp_path / "target", tmp_path / "link"
    target.write_text("theirs")
    path.symlink_to(target)
    place.apply(planned({str(path): {"content": b"ours", "mode": "0644"}}))
    assert target.read_text() == "theirs" and path.read_text() == "ours" and not path.is_symlink()


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=f"{tmp_path}.*wanted: a file.*next: move"):
        planned({str(tmp_path): {"content": b"", "mode": "0644"}})


def test_a_difference_shows_text_and_not_what_is_none(tmp_path):
    wanted = {
        str(tmp_path / "a"): {"content": b"line\n", "mode": "0644"},
        str(tmp_path / "b"): {"content": b"\0\1", "mode": "0644"},
    }
    first, second = place.differences(planned(wanted))
    assert first["after"].endswith("line\n") and first["before"] == ""
    assert "2 bytes that are no text" in second["after"]
