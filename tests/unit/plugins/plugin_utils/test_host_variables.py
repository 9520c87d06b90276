# The variables of many hosts: the same values, without a look at the file system for each.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars import clean, manager
from ansible.vars.hostvars import HostVars

from ansible_collections.aicluster.baremetal.plugins.plugin_utils import host_variables


@pytest.fixture
def hostvars(tmp_path):
    hosts = {f"gpu{number}": {"bmc_address": f"192.0.2.{number}"} for number in range(1, 4)}
    (tmp_path / "hosts.json").write_text(
        json.dumps({"all": {"hosts": hosts, "vars": {"bmc_port": 443}}}), encoding="utf-8"
    )
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(tmp_path / "hosts.json")])
    variables = manager.VariableManager(loader=loader, inventory=inventory)
    variables.set_host_facts("gpu2", {"ansible_kernel": "6.1", "ansible_ssh_user": "evil"})
    return HostVars(inventory=inventory, variable_manager=variables, loader=loader)


def test_the_values_are_the_same_and_no_plugins_are_listed(hostvars, monkeypatch):
    def read():
        return {host: dict(hostvars.raw_get(host)) for host in ("gpu1", "gpu2", "gpu3")}

    wanted = read()
    assert wanted["gpu2"]["ansible_kernel"] == "6.1" and "ansible_ssh_user" not in wanted["gpu2"]
    listed = []
    real = clean.connection_loader.all
    monkeypatch.setattr(clean.connection_loader, "all", lambda **options: (listed.append(1), real(**options))[1])
    with host_variables.cheap():
        assert read() == wanted
    assert len(listed) == 1, "only for the host that has facts"
    read()
    assert len(listed) == 4, "and outside it is as before"


def test_it_is_put_back_after_an_error(hostvars):
    before = manager.clean_facts
    with pytest.raises(RuntimeError), host_variables.cheap():
        raise RuntimeError
    assert manager.clean_facts is before
