# dnsmasq configuration: accepted by the real dnsmasq, refuses what would break out of a line.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import shutil

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import dnsmasq

GOOD = {
    "interface": "prov",
    "address": "10.77.1.1",
    "network": "10.77.1.0/24",
    "tftp_root": "/srv/tftp",
    "reservation_dir": "/srv/hosts",
    "lease_file": "/srv/leases",
    "pid_file": "/run/d.pid",
    "log_file": "/var/log/d.log",
    "boot_url": "http://10.77.1.1:8000/boot.ipxe",
    "http_loader_url": "http://10.77.1.1:8080/loader/snponly.efi",
}
needs_dnsmasq = pytest.mark.skipif(not shutil.which("dnsmasq"), reason="could_not_test: no dnsmasq here")


@needs_dnsmasq
def test_the_real_program_accepts_it(tmp_path):
    paths = {key: str(tmp_path / key) for key in ("tftp_root", "reservation_dir")}
    for path in paths.values():
        (tmp_path / path).mkdir()
    dnsmasq.check(dnsmasq.render(**{**GOOD, **paths}))


@needs_dnsmasq
def test_the_check_can_fail():
    with pytest.raises(InvalidInput, match="dnsmasq refuses"):
        dnsmasq.check("no-such-option=1\n")


def test_only_reserved_nodes_and_no_dns():
    lines = dnsmasq.render(**GOOD).splitlines()
    assert "dhcp-ignore=tag:!known" in lines and "port=0" in lines and "no-ping" in lines
    assert "dhcp-range=10.77.1.0,static,255.255.255.0,10m" in lines
    assert "dhcp-boot=tag:ipxe,http://10.77.1.1:8000/boot.ipxe?mac=${netX/mac}" in lines


@pytest.mark.parametrize(
    "change", [{"interface": "prov\nport=53"}, {"address": "10.78.1.1"}, {"tftp_root": "relative"}, {"boot_url": ""}]
)
def test_bad_input(change):
    with pytest.raises(InvalidInput):
        dnsmasq.render(**{**GOOD, **change})


def test_reservation():
    assert dnsmasq.reservation("52-54-00-77-00-01", "10.77.1.11", "gpu01") == "52:54:00:77:00:01,10.77.1.11,gpu01\n"
    with pytest.raises(InvalidInput):
        dnsmasq.reservation("52:54:00:77:00:01", "10.77.1.11", "gpu01,set:x")
