# Playbook discover as a user runs it, without any BMC: what the real run fails, check mode fails too.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from controller import Directory


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
