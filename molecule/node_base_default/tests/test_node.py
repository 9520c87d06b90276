# What node_base promises, looked at from outside of Ansible.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json


def test_time_synchronisation_is_enabled(host):
    assert host.service("chrony").is_enabled


def test_memory_lock_limit(host):
    assert "memlock" in host.check_output("cat /etc/security/limits.d/*")


def test_sysctls_are_files(host):
    assert "vm.max_map_count" in host.check_output("cat /etc/sysctl.d/*")


def test_a_limit_that_drifted_is_put_right_though_its_file_was(host):
    assert host.check_output("systemctl show --property DefaultLimitNOFILE --value") == "1048576"


def test_peers_have_names(host):
    assert host.addr("slurm01").ipv4_addresses == ["10.77.1.2"]


def test_node_check_runs_and_speaks_json(host):
    told = host.run("node-check facts")
    assert told.rc == 0, told.stderr
    assert json.loads(told.stdout)
