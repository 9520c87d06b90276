# The module image_manifest as a process sees it: its result as JSON, also where it refuses.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.aicluster.baremetal.plugins.module_utils.image import manifest
from ansible_collections.aicluster.baremetal.plugins.modules import image_manifest


def run(capsys, **arguments):
    with patch_module_args(arguments), pytest.raises(SystemExit):
        image_manifest.main()
    return json.loads(capsys.readouterr().out)


def test_an_image_that_is_not_whole_is_refused_with_the_reason(tmp_path, capsys):
    (tmp_path / "manifest.json").write_text(json.dumps({"format": "directory"}))
    told = run(capsys, path=str(tmp_path), state="verified")
    assert told["failed"] and "the directory root is missing" in told["msg"]
    assert told["error"]["next_step"] == "build or copy the image again"


def test_a_whole_one_is_returned(tmp_path, capsys):
    (tmp_path / "manifest.json").write_text(json.dumps({"format": "directory"}))
    (tmp_path / "root" / "usr").mkdir(parents=True)
    told = run(capsys, path=str(tmp_path), state="verified")
    assert not told["changed"] and told["manifest"] == {"format": "directory"}


def test_reading_says_what_is_missing_and_fails_nobody(tmp_path, capsys):
    assert run(capsys, path=str(tmp_path), state="read")["problems"] == ["there is no manifest"]
    files = {name: {"size_bytes": 4} for name in manifest.DISK_FILES}
    (tmp_path / "manifest.json").write_text(json.dumps({"format": "disk", "key": "k", "files": files}))
    for name in ("vmlinuz", "deploy.img"):
        (tmp_path / name).write_bytes(b"1234")
    told = run(capsys, path=str(tmp_path), state="read")
    assert told["problems"] == ["disk.raw is missing"] and told["manifest"]["key"] == "k" and not told["changed"]
    (tmp_path / "disk.raw").write_bytes(b"1234")
    assert run(capsys, path=str(tmp_path), state="read")["problems"] == []
