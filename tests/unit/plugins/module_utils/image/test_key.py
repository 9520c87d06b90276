# Keys of images: equal for equal inputs, different for each thing that changes the image.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import uuid

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import NotFound
from ansible_collections.aicluster.baremetal.plugins.module_utils.image.key import identifiers, image_key, tree_digest


def test_same_inputs_give_the_same_key_whatever_the_order_of_names():
    assert image_key({"a": 1, "b": [1, 2]}, {"x": "1"}) == image_key({"b": [1, 2], "a": 1}, {"x": "1"})


@pytest.mark.parametrize(
    "inputs, digests",
    [({"a": 2, "b": [1, 2]}, {"x": "1"}), ({"a": 1, "b": [2, 1]}, {"x": "1"}), ({"a": 1, "b": [1, 2]}, {"x": "2"})],
)
def test_any_difference_gives_another_key(inputs, digests):
    assert image_key(inputs, digests) != image_key({"a": 1, "b": [1, 2]}, {"x": "1"})


def test_identifiers_are_uuids_that_follow_from_the_key():
    found = identifiers("0123456789abcdef")
    assert found == identifiers("0123456789abcdef") != identifiers("0123456789abcdee")
    names = ("disk_guid", "esp_guid", "root_guid", "root_uuid")
    assert len({uuid.UUID(found[name]) for name in names}) == 4
    assert int(found["esp_id"], 16) >= 0 and len(found["esp_id"]) == 8


def test_tree_digest_sees_content_names_and_the_executable_bit(tmp_path):
    (tmp_path / "tasks").mkdir()
    file = tmp_path / "tasks" / "main.yml"
    file.write_text("- a\n")
    first = tree_digest(tmp_path)
    assert tree_digest(tmp_path) == first
    file.chmod(0o755)
    executable = tree_digest(tmp_path)
    file.write_text("- b\n")
    changed = tree_digest(tmp_path)
    file.rename(tmp_path / "tasks" / "other.yml")
    assert len({first, executable, changed, tree_digest(tmp_path)}) == 4


def test_tree_digest_does_not_see_documentation_and_compiled_files(tmp_path):
    (tmp_path / "a.py").write_text("1\n")
    first = tree_digest(tmp_path)
    (tmp_path / "README.md").write_text("text\n")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"x")
    assert tree_digest(tmp_path) == first


def test_a_missing_input_is_named(tmp_path):
    with pytest.raises(NotFound, match="no-such-role"):
        tree_digest(tmp_path / "no-such-role")
