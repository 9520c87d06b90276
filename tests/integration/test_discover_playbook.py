# Playbook discover as a user runs it, without any BMC: what the real run fails, check mode fails too.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from controller import Directory

from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry


@pytest.fixture(name="discover")
def _discover(tmp_path):
    """Run the playbook over one address where nothing listens; (exit status, output)."""
    accounts = {"factory": {"username": "admin", "password": "Factory-1"}}
    controller = Directory(tmp_path, accounts, AICLUSTER_BMC_GUARD="off")
    (tmp_path / "aicluster.yml").write_text("plugin: aicluster.baremetal.registry\n")
    (tmp_path / "list.csv").write_text("serial,name,bmc_address\nS9,gpu09,127.0.8.99\n")
    values = (
        f"discover_ranges=127.0.8.99:9 discover_factory_credentials=factory discover_expected_file={tmp_path}/list.csv"
    )

    def run(*arguments):
        options = ("-e", values, "-e", "discover_ipmi_port=0", *arguments)
        status, text = controller.ansible_playbook(tmp_path / "aicluster.yml", "aicluster.baremetal.discover", *options)
        return status, " ".join(text.split())

    return run


def test_a_new_listed_server_whose_bmc_is_silent_fails_check_mode_as_the_real_run(discover, tmp_path):
    code, text = discover("--check")
    assert code == 2 and "its BMC does not answer" in text and "gpu09 : ok=0" in text, text
    assert not (tmp_path / "registry.db").exists()
    code, text = discover()
    assert code == 2 and "gpu09 : ok=0" in text, text
    code, text = discover("--check")
    assert code == 2 and "changed=0" in text, text


def test_the_nodes_of_a_limit_are_looked_at_where_they_are_recorded(discover, tmp_path):
    """One without an address, one with a name and one at a port of its own: each has its own reason, and only what is recorded is asked."""
    rows = ("S1,gpu01,", "S2,gpu02,bmc2.invalid", "S3,gpu03,127.0.8.98", "S9,gpu09,127.0.8.99")
    with open_registry(f"sqlite:///{tmp_path}/registry.db", migrate=True) as registry:
        for serial, name, address in (row.split(",") for row in rows):
            registry.save_node(serial, "tester@here", name=name, bmc_address=address or None)
        registry.save_node("S3", "tester@here", bmc_port=8)
    code, text = discover("-l", "gpu01,gpu02,gpu03")
    assert code == 2 and "undefined" not in text, text
    assert "gpu01: bmc_address: the address of its BMC is not known" in text
    assert "gpu02: bmc_address bmc2.invalid: the name of its BMC has no address" in text, text
    assert "gpu03: 127.0.8.98: its BMC does not answer" in text
    assert "1 addresses asked" in text and "was not looked at" not in text, text
    with open_registry(f"sqlite:///{tmp_path}/registry.db") as registry:
        states = {node["name"]: node["state"] for node in registry.nodes()}
    assert states == {"gpu01": "registered", "gpu02": "registered", "gpu03": "verifying_failed", "gpu09": "registered"}
    code, text = discover("-l", "gpu01")
    assert code == 2 and "addresses asked" not in text, text
