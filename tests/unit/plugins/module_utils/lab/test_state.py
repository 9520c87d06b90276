# The lab's files: made once, private where secret, removed only where they are the lab's.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import pathlib
import stat

import pytest
import yaml

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput, Refused
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab import state
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab.description import describe


@pytest.fixture
def description(tmp_path):
    return describe("unit", str(tmp_path / "aicluster" / "state"), str(tmp_path / "aicluster" / "run"))


def make(description, check=None):
    todo = state.plan(description)
    state.apply(description, todo, check)
    return todo


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_made_once_then_unchanged(description):
    assert make(description).changed
    before = {
        path: pathlib.Path(path).read_bytes()
        for path in (f"{description['dir']}/lab.json", f"{description['dir']}/secrets.yml")
    }
    assert not make(description).changed
    assert before == {path: pathlib.Path(path).read_bytes() for path in before}


def test_disks_are_blank_and_take_no_room(description):
    make(description)
    disk = f"{description['dir']}/nodes/gpu01/disk0.raw"
    assert os.path.getsize(disk) == 8 * 2**30 and os.stat(disk).st_blocks == 0


def test_a_written_disk_is_kept_and_another_size_refused(description):
    make(description)
    disk = f"{description['dir']}/nodes/gpu01/disk0.raw"
    with open(disk, "r+b") as handle:
        handle.write(b"boot sector")
    assert not make(description).changed
    with open(disk, "rb") as handle:
        assert handle.read(11) == b"boot sector"
    bigger = describe("unit", description["dir"], description["run_dir"], node_defaults={"disks": [{"size": "9 GiB"}]})
    with pytest.raises(Refused, match="another size"):
        state.plan(bigger)


def test_a_lab_grows_but_does_not_shrink(description):
    make(description)
    fewer, more = (describe("unit", description["dir"], description["run_dir"], nodes=nodes) for nodes in (1, 3))
    with pytest.raises(Refused) as error:
        state.plan(fewer)
    assert "make demo-down" in error.value.next_step and "gpu02" in error.value.next_step
    assert (error.value.wanted, error.value.seen) == ("gpu01", "gpu01, gpu02")
    assert make(more).changed and not state.plan(more).changed


def test_secrets_are_private_and_not_in_the_plan(description):
    todo = make(description)
    password = state.factory_password(description["dir"])
    assert len(password) == 16
    assert password not in json.dumps(todo.diff()) + todo.summary()
    for leaf in ("secrets.yml", "lab.json", "ssh/id_ed25519"):
        assert mode(f"{description['dir']}/{leaf}") == 0o600, leaf
    lab = json.loads(pathlib.Path(description["dir"], "lab.json").read_text())
    assert {account["password"] for node in lab["nodes"] for account in node["bmc"]["accounts"]} == {password}


def test_two_labs_have_different_passwords(description, tmp_path):
    other = describe("other", str(tmp_path / "b" / "state"), str(tmp_path / "b" / "run"))
    make(description)
    make(other)
    assert state.factory_password(description["dir"]) != state.factory_password(other["dir"])


def test_credentials_that_others_stored_stay(description):
    make(description)
    path = f"{description['dir']}/secrets.yml"
    store = yaml.safe_load(pathlib.Path(path).read_text())
    store["site"] = {"username": "aicluster", "password": "rotated"}
    state.write_file(path, yaml.safe_dump(store), 0o600)
    assert not make(description).changed
    del store["factory"]
    state.write_file(path, yaml.safe_dump(store), 0o600)
    make(description)
    assert yaml.safe_load(pathlib.Path(path).read_text())["site"]["password"] == "rotated" and state.factory_password(
        description["dir"]
    )


def test_the_schema_is_asked_before_lab_json_is_written(description):
    def refuse(lab):
        raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        make(description, refuse)
    assert not os.path.exists(f"{description['dir']}/lab.json")


@pytest.mark.parametrize("which", ["dir", "run_dir"])
def test_a_directory_of_somebody_else_is_neither_used_nor_removed(description, which):
    os.makedirs(description[which])
    kept = os.path.join(description[which], "thesis.txt")
    open(kept, "w").close()
    with pytest.raises(Refused, match="not made by a lab"):
        state.plan(description)
    with pytest.raises(Refused, match="not made by a lab"):
        state.plan_removal("unit", description["dir"], description["run_dir"])
    assert os.path.exists(kept)


def test_a_directory_of_another_lab_is_refused(description):
    make(description)
    with pytest.raises(Refused, match="another lab"):
        state.plan_removal("elsewhere", description["dir"], description["run_dir"])


def test_removed_without_a_trace_then_unchanged(description, tmp_path):
    make(description)
    state.apply_removal(state.plan_removal("unit", description["dir"], description["run_dir"]))
    assert os.listdir(tmp_path) == []
    assert not state.plan_removal("unit", description["dir"], description["run_dir"]).changed


def test_a_link_out_of_the_lab_is_not_followed_when_removing(description, tmp_path):
    make(description)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").touch()
    os.symlink(outside, f"{description['dir']}/nodes/link")
    os.symlink(outside, f"{description['dir']}/link")
    state.apply_removal(state.plan_removal("unit", description["dir"], description["run_dir"]))
    assert (outside / "keep").exists() and not os.path.exists(description["dir"])


def test_a_link_in_place_of_the_directory_is_refused(description, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    os.makedirs(os.path.dirname(description["dir"]))
    os.symlink(outside, description["dir"])
    with pytest.raises(Refused, match="not a directory"):
        state.plan(description)
