# MAC and IP forms.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import addresses


@pytest.mark.parametrize("text", ["52:54:00:AA:bb:01", "52-54-00-aa-bb-01", "5254.00aa.bb01", "525400aabb01"])
def test_mac_forms(text):
    assert addresses.normal_mac(text) == "52:54:00:aa:bb:01"


@pytest.mark.parametrize("text", [None, "", "52:54:00:aa:bb", "52:54:00:aa:bb:zz", "52:54:00:aa:bb:01:02"])
def test_bad_macs(text):
    with pytest.raises(InvalidInput):
        addresses.normal_mac(text)


def test_inside_and_same():
    nets = [ipaddress.ip_network("10.0.0.0/24")]
    assert addresses.is_inside("10.0.0.9", nets) and addresses.is_inside("::ffff:10.0.0.9", nets)
    assert (
        not addresses.is_inside("10.0.1.9", nets)
        and not addresses.is_inside("fe80::1", nets)
        and not addresses.is_inside("x", nets)
    )
    assert addresses.same_address("::ffff:10.0.0.9", "10.0.0.9") and not addresses.same_address(None, "10.0.0.9")
