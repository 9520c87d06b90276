# What the controller answers, and what on it is secret.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

testinfra_hosts = ["ansible://slurm01"]


def test_slurmctld_answers_and_starts_with_the_machine(host):
    assert "is UP" in host.check_output("scontrol ping")
    assert host.service("slurmctld").is_enabled and host.service("munge").is_enabled


def test_it_serves_its_configuration_to_the_nodes(host):
    assert "enable_configless" in host.check_output("scontrol show config")


def test_the_node_and_its_gpus_are_known(host):
    node = host.check_output("scontrol show node gpu01")
    assert "Gres=gpu:h100:8" in node and "NodeAddr=10.77.1.11" in node


def test_munge_key_is_a_secret_and_works(host):
    key = host.file("/etc/munge/munge.key")
    assert (key.user, key.group, key.mode) == ("munge", "munge", 0o600)
    assert host.run("munge -n | unmunge").rc == 0


def test_restarted_once_at_most(host):
    # Once for the first configuration; the second run must have left it alone.
    assert host.check_output("systemctl show -p NRestarts --value slurmctld") == "0"
