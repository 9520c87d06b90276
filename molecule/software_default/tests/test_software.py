# Everything that prepare.yml broke is whole again, looked at from outside of Ansible.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json


def test_kernel_settings_are_back(host):
    assert host.file("/etc/sysctl.d/90-aicluster.conf").contains("vm.max_map_count = 1048576")


def test_limits_have_lost_the_foreign_line(host):
    limits = host.file("/etc/security/limits.d/90-aicluster.conf")
    assert not limits.contains("memlock 64$") and limits.contains("hard memlock unlimited")


def test_mode_is_right_again(host):
    assert host.file("/etc/systemd/system.conf.d/90-aicluster.conf").mode == 0o644


def test_instruments_are_whole_and_run(host):
    assert json.loads(host.check_output("cat /usr/lib/aicluster/instruments.json"))
    unit = host.service("aicluster-instruments.service")
    assert unit.is_enabled and unit.is_running
    assert len(host.check_output("nvidia-smi -L").splitlines()) == 8
