# Static addresses: the provisioning interface as registered, rails by host number, NICs named or in order.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import network

NODE = {"name": "gpu01", "provision_mac": "52:54:00:77:00:01", "provision_ip": "10.77.1.11", "provision_prefix": 24}
NICS = [{"slot": f"nic{k}", "mac": f"52:54:00:77:0{k}:01", "name": None} for k in range(3)]
RAILS = [{"network": "10.77.2.0/24", "mtu": 9000}, {"network": "10.77.3.0/24"}]


def addresses(**change):
    given = {"node": NODE, "nics": NICS, "rails": RAILS, **change}
    return {name: (entry["match"]["macaddress"], entry.get("addresses")) for name, entry in network.interfaces(**given)}


def test_rails_take_the_host_number():
    assert addresses() == {
        "prov0": ("52:54:00:77:00:01", ["10.77.1.11/24"]),
        "rail0": ("52:54:00:77:01:01", ["10.77.2.11/24"]),
        "rail1": ("52:54:00:77:02:01", ["10.77.3.11/24"]),
    }


def test_named_nic_and_given_address():
    rails = [{"name": "fast", "nic": "nic2", "address": "192.0.2.7/30"}, {"nic": "52-54-00-77-01-01"}]
    assert addresses(rails=rails)["fast"] == ("52:54:00:77:02:01", ["192.0.2.7/30"])
    assert addresses(rails=rails)["rail1"] == ("52:54:00:77:01:01", None)


@pytest.mark.parametrize(
    "change,word",
    [
        ({"node": {**NODE, "provision_ip": None}}, "provision_ip"),
        ({"nics": NICS[:2]}, "rail1"),
        ({"rails": [{"nic": "nic9"}]}, "nic9"),
        ({"rails": [{"nic": "nic1"}, {"nic": "nic1"}]}, "rail1"),
        ({"rails": [{"network": "10.77.2.0/29"}]}, "too small"),
        ({"rails": [{"network": "nonsense"}]}, "rail0"),
    ],
)
def test_what_cannot_be_is_named(change, word):
    with pytest.raises(InvalidInput, match=word):
        addresses(**change)


def test_an_address_that_a_bmc_shows_twice_is_one_nic():
    nics = [*NICS, {**NICS[1], "slot": "again"}]
    assert addresses(nics=nics) == addresses()
    assert addresses(nics=nics, rails=[{"nic": NICS[1]["mac"]}])["rail0"][0] == NICS[1]["mac"]
