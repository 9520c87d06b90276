# Boot scripts: the default leaves with an error (UEFI goes on), the deploy script carries the session, nothing is injected.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import ipxe


def test_local_disk_leaves_with_an_error_status():
    lines = ipxe.local_disk("because\nboot ${x}").splitlines()
    assert lines[0] == "#!ipxe"
    assert lines[-1] == "exit 1"
    assert len(lines) == 3 and "$" not in lines[1]


def test_deploy_script_holds_all_arguments():
    script = ipxe.deploy(
        "gpu01",
        7,
        "http://h:8080/images/deb",
        "http://h:8000",
        "abc.DEF-1",
        "52:54:00:77:00:01",
        "console=ttyS0,115200 quiet",
    )
    kernel = script.splitlines()[2]
    assert kernel.startswith("kernel http://h:8080/images/deb/vmlinuz initrd=deploy.img aicluster.api=http://h:8000 ")
    assert "aicluster.session=abc.DEF-1 aicluster.mac=52:54:00:77:00:01 console=ttyS0,115200 quiet" in kernel
    assert kernel.count("kernel http") == 3
    assert script.rstrip().endswith("exit 1")


@pytest.mark.parametrize("bad", ["a b", "x${net0/mac}", "x\nboot", 'x"', ""])
def test_what_could_change_the_script_is_refused(bad):
    with pytest.raises(InvalidInput):
        ipxe.deploy("n", 1, "http://h/images/x", "http://h", bad, "52:54:00:77:00:01")
