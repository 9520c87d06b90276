# Every playbook in check mode on a machine that has nothing yet, and with options that nobody can mean: it ends well, or says what is missing; nothing is made.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = "nothere"
# Where the refusal is right: what it must name. The others end well.
REFUSED = {
    "discover": "expected_servers.yml: the expected-servers list cannot be read",
    "site": "expected_servers.yml: the expected-servers list cannot be read",
    "report": "ansible-playbook -i localhost, aicluster.baremetal.registry",
    "why": "ansible-playbook -i localhost, aicluster.baremetal.registry",
}
NEEDED = {"why": ["-e", "node=gpu01"]}
# The fleet's playbooks are about nodes of the registry only and have tests of their own.
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml") if not path.stem.startswith("fleet"))
NODES = {"nodes": {"hosts": {"gpu01": {"ansible_host": "127.0.0.1", "aicluster_lease": "slurm"}}}}

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2"),
]


@pytest.fixture(name="play")
def _play(tmp_path):
    def run(name, *arguments):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "AICLUSTER_"))}
        env.update(
            ANSIBLE_CONFIG=str(ROOT / "inventories/lab/ansible.cfg"),
            ANSIBLE_NOCOLOR="1",
            ANSIBLE_HOME=str(tmp_path / "ansible"),
            XDG_CACHE_HOME=str(tmp_path / "xdg"),
            AICLUSTER_LAB=LAB,
            AICLUSTER_CACHE=str(tmp_path / "cache"),
            AICLUSTER_REGISTRY=f"sqlite:////var/lib/aicluster/{LAB}/registry.db",
            AICLUSTER_SECRETS=f"/var/lib/aicluster/{LAB}/secrets.yml",
            AICLUSTER_KNOWN_HOSTS=f"/var/lib/aicluster/{LAB}/known_hosts",
        )
        command = [str(pathlib.Path(sys.executable).with_name("ansible-playbook")), f"playbooks/{name}.yml", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=ROOT, timeout=300)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_check_mode_where_nothing_is_there_yet(play, tmp_path, name):
    code, text = play(name, "--check", *NEEDED.get(name, []))
    if name in REFUSED:
        assert code == 2 and REFUSED[name] in text, text
    else:
        assert code == 0, text
    assert "Traceback" not in text and "unreachable=1" not in text
    assert not os.path.exists(f"/var/lib/aicluster/{LAB}") and not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("name", "option", "said"),
    [
        ("drain", "wait=maybe", "argument 'wait'"),
        ("drain", "release=maybe", "argument 'release'"),
        ("drain", "deadline=0", "deadline: seen: 0; wanted: seconds above 0"),
        ("drain", "all_nodes=perhaps", "argument 'all_nodes'"),
        ("drain", "owner=", "Say who and why"),
        ("resume", "all_nodes=perhaps", "argument 'all_nodes'"),
        ("deploy", "deploy_retry_failed=maybe", "deploy_retry_failed: wanted: bool; seen: maybe; next:"),
        ("deploy", "deploy_serial=0", "deploy_serial: seen: 0; wanted: a number of nodes"),
        ("deploy", "deploy_start_timeout=0", "deploy_start_timeout=0; wanted: numbers above 0"),
        ("deploy", "deploy_boot_target=floppy", "deploy_boot_target must be one of: pxe, uefi_http, got: floppy"),
        ("software", "software_repair=maybe", "software_repair: wanted: bool; seen: maybe; next:"),
        ("burn_in", "burn_in_seconds=0", "burn_in_seconds=0; wanted: numbers above 0"),
        ("enroll", "enroll_memory_percent=lots", "enroll_memory_percent: wanted: int; seen: lots; next:"),
        # a slip in an option of the last stage stops the first one that would take a node
        ("deploy", "enroll_job_deadline=soon", "enroll_job_deadline: wanted: float; seen: soon; next:"),
    ],
)
def test_an_option_that_nobody_can_mean_is_refused_before_a_node_is_taken(play, tmp_path, name, option, said):
    inventory = tmp_path / "nodes.json"
    inventory.write_text(json.dumps(NODES))
    arguments = ["-i", str(ROOT / "inventories/lab/hosts.yml"), "-i", str(inventory), "-l", "gpu01"]
    code, text = play(name, *arguments, "-e", "owner=alice", "-e", "reason=test", "-e", option)
    assert code == 2 and said in text, text
    assert name in ("drain", "resume") or "argument_spec_data" not in text and "<class" not in text
    assert "registry is empty" not in text  # nobody asked the registry yet
