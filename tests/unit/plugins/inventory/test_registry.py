# Groups of the inventory plugin.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import sqlite3

import pytest
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader

from ansible_collections.aicluster.baremetal.plugins.inventory import registry
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors, node_columns

NODE = {
    "state": "burn_in_failed",
    "rack": "R 1",
    "role": "compute",
    "platform": None,
    "site": "fra-1",
    "held": False,
    "parts": [],
}


def test_names_are_valid_group_names():
    assert registry.group_name("gpu", "NVIDIA H100 80GB HBM3") == "gpu_nvidia_h100_80gb_hbm3"
    assert registry.group_name("rack", "R-1/ä") == "rack_r_1"


def test_groups_of_a_node_without_gpus():
    assert registry.groups_of(NODE) == ["state_burn_in_failed", "rack_r_1", "role_compute", "site_fra_1", "gpu_none"]


def test_a_node_with_gpus_is_in_a_group_for_each_model_and_held_is_one_too():
    gpus = [{"kind": "gpu", "model": "H100"}, {"kind": "gpu", "model": "H100"}, {"kind": "drive", "model": "PM9"}]
    groups = registry.groups_of({**NODE, "parts": gpus, "held": True})
    assert "gpu_h100" in groups and "gpu_none" not in groups
    assert groups[-1] == "held"


def test_gpus_of_unknown_model_are_gpus():
    assert "gpu_none" not in registry.groups_of({**NODE, "parts": [{"kind": "gpu", "model": None}]})


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("registry: postgresql://u:hunter2@127.0.0.1:1/x", "the registry database cannot be used"),
        ("registry: mysql://u:hunter2@127.0.0.1:1/x", "unknown kind of database"),
        ("registry: sqlite:////nowhere/registry.db", "the registry is empty"),
    ],
)
def test_a_database_error_is_said_once(tmp_path, monkeypatch, lines, words):
    """Ansible prints the whole chain of causes behind an exception; ours has none, because they say the same thing."""
    path = tmp_path / "x.aicluster.yml"
    path.write_text(f"plugin: aicluster.baremetal.registry\n{lines}\n")
    plugin = registry.InventoryModule()
    plugin._load_name = plugin._redirected_names = None
    plugin._read_config_data = lambda _path: None
    options = {"registry": lines.split(": ")[1], "known_hosts": str(tmp_path / "known"), "states": None}
    plugin.get_option = options.get
    last = []
    monkeypatch.setattr(registry, "say_last", last.append)
    with pytest.raises(AnsibleParserError) as seen:
        plugin.parse(InventoryData(), DataLoader(), str(path))
    assert str(seen.value).count(words) == 1 and "hunter2" not in str(seen.value)
    assert bool(last) == ("is empty" in words)  # what there is to do is also the last line of the program
    assert seen.value.__cause__ is None and seen.value.__context__ is None


@pytest.mark.parametrize(
    ("version", "books", "outcome"),
    [
        (None, ["playbooks/report.yml"], "warning"),
        (None, [], "warning"),
        (None, ["playbooks/registry.yml", "playbooks/boot_server.yml"], "silence"),
        (None, ["aicluster.baremetal.lab"], "silence"),
        ("0001", ["aicluster.baremetal.registry"], "warning"),
        ("0001", ["playbooks/report.yml"], "refusal"),
        ("9999", ["playbooks/registry.yml"], "refusal"),
    ],
)
def test_a_registry_that_is_not_ready_is_no_silent_empty_inventory(tmp_path, monkeypatch, version, books, outcome):
    path = tmp_path / "registry.db"
    if version:
        with contextlib.closing(sqlite3.connect(path)) as old:
            old.execute("CREATE TABLE alembic_version (version_num TEXT)")
            old.execute("INSERT INTO alembic_version VALUES (?)", (version,))
            old.commit()
    said = []
    monkeypatch.setattr(registry.display, "warning", said.append)
    monkeypatch.setattr(registry.context, "CLIARGS", {"args": books})
    plugin = registry.InventoryModule()
    plugin.get_option = lambda name: {"missing_ok": True, "states": None}[name]
    if outcome == "refusal":
        with pytest.raises(errors.Unsupported):
            plugin._nodes(f"sqlite:///{path}", str(tmp_path / "known"))
    else:
        assert plugin._nodes(f"sqlite:///{path}", str(tmp_path / "known")) == []
    assert len(said) == (outcome == "warning")
    for line in said:
        assert str(path) in line and line.endswith("ansible-playbook -i localhost, aicluster.baremetal.registry")


def test_no_node_can_have_the_name_of_a_group():
    node = {"state": "active", "rack": "r1", "role": "compute", "platform": "x", "site": "s", "held": True, "parts": []}
    for group in ("nodes", *registry.groups_of(node)):
        assert "_" in group or group in node_columns.RESERVED_NAMES
