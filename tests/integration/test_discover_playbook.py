# Playbook discover as a user runs it, without any BMC: what the real run fails, check mode fails too.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(name="discover")
def _discover(tmp_path):
    """Run the playbook over one address where nothing listens; (exit status, output)."""
    collections = tmp_path / "collections" / "ansible_collections" / "aicluster"
    collections.mkdir(parents=True)
    (collections / "baremetal").symlink_to(ROOT)
    (tmp_path / "aicluster.yml").write_text("plugin: aicluster.baremetal.registry\n")
    (tmp_path / "list.csv").write_text("serial,name,bmc_address\nS9,gpu09,127.0.8.99\n")
    (tmp_path / "secrets.yml").write_text("factory: {username: admin, password: Factory-1}\n")
    (tmp_path / "secrets.yml").chmod(0o600)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "AICLUSTER_"))}
    env.update(
        ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"),
        ANSIBLE_HOME=str(tmp_path / "home"),
        ANSIBLE_NOCOLOR="1",
        AICLUSTER_REGISTRY=f"sqlite:///{tmp_path}/registry.db",
        AICLUSTER_SECRETS=str(tmp_path / "secrets.yml"),
        AICLUSTER_BMC_GUARD="off",
    )
    values = (
        f"discover_ranges=127.0.8.99:9 discover_factory_credentials=factory discover_expected_file={tmp_path}/list.csv"
    )
    command = [str(pathlib.Path(sys.executable).with_name("ansible-playbook")), "aicluster.baremetal.discover"]
    command += ["-i", str(tmp_path / "aicluster.yml"), "-e", values, "-e", "discover_ipmi_port=0"]

    def run(*arguments):
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, check=False, env=env, cwd=tmp_path, timeout=300
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


def test_a_new_listed_server_whose_bmc_is_silent_fails_check_mode_as_the_real_run(discover, tmp_path):
    code, text = discover("--check")
    assert code == 2 and "its BMC does not answer" in text and "gpu09 : ok=0" in text, text
    assert not (tmp_path / "registry.db").exists()
    code, text = discover()
    assert code == 2 and "gpu09 : ok=0" in text, text
    code, text = discover("--check")
    assert code == 2 and "changed=0" in text, text
