# The node as the scheduler sees it, and a job on it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time

import pytest
import testinfra

testinfra_hosts = ["ansible://slurm01"]


@pytest.fixture(scope="module")
def node(request):
    inventory = request.config.getoption("--ansible-inventory")
    return testinfra.get_host("ansible://gpu01", ansible_inventory=inventory)


def test_node_registers_idle(host):
    deadline, state = time.monotonic() + 60, ""
    while time.monotonic() < deadline:
        state = host.check_output("sinfo -h -n gpu01 -o %T")
        if state == "idle":
            return
        time.sleep(1)
    raise AssertionError(f"gpu01 did not become idle within 60 s, last seen: {state!r}")


def test_a_job_gets_all_gpus(host):
    told = host.run("timeout 60 srun -N1 --gres=gpu:8 sh -c 'hostname; echo $CUDA_VISIBLE_DEVICES'")
    assert told.rc == 0, told.stderr
    assert told.stdout.split() == ["gpu01", "0,1,2,3,4,5,6,7"]


def test_more_gpus_than_there_are_is_refused(host):
    assert host.run("timeout 60 srun -N1 --gres=gpu:9 true").rc != 0


def test_node_has_no_configuration_of_its_own(node):
    assert not node.file("/etc/slurm/slurm.conf").exists


def test_key_is_the_controllers_and_secret(host, node):
    key = node.file("/etc/munge/munge.key")
    assert (key.user, key.group, key.mode) == ("munge", "munge", 0o600)
    assert node.check_output("sha256sum < /etc/munge/munge.key") == host.check_output(
        "sha256sum < /etc/munge/munge.key"
    )


def test_slurmd_starts_with_the_machine(node):
    assert node.service("slurmd").is_enabled and node.service("munge").is_enabled
