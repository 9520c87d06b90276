# What an endpoint refuses before anything is sent.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint, host_port
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors


def test_defaults():
    there = Endpoint("192.0.2.1", username="a", password="very-secret")
    assert (there.port, there.protocol, there.tls, there.url) == (443, "redfish", "verify", "https://192.0.2.1:443")
    assert Endpoint("fd00::1").url == "https://[fd00::1]:443"
    assert Endpoint("192.0.2.1", protocol="ipmi").port == 623
    assert Endpoint("192.0.2.1", fingerprint="AB" * 32).tls == "pinned"
    assert "very-secret" not in repr(there)


@pytest.mark.parametrize(
    "wrong",
    [
        {"address": ""},
        {"protocol": "ssh"},
        {"tls": "maybe"},
        {"tls": "pinned"},
        {"fingerprint": "12"},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"connect_timeout": 0},
        {"read_timeout": -3},
        {"privilege": "root"},
        {"cipher_suite": 0},
        {"cipher_suite": 8},
        {"port": 0},
        {"port": 65536},
        {"port": "https"},
    ],
)
def test_what_cannot_be(wrong):
    with pytest.raises(errors.InvalidInput) as caught:
        Endpoint(**{"address": "192.0.2.1", "name": "gpu01", **wrong})
    found = caught.value.as_result()["error"]
    assert found["host"] == "gpu01" and all(key in found for key in ("thing", "wanted", "seen", "next_step")), found


@pytest.mark.parametrize(
    ("protocol", "port", "ipmi_port", "found"),
    [
        ("redfish", None, None, None),
        ("redfish", 8443, 8444, 8443),
        ("redfish", "443", None, 443),
        ("redfish", 623, None, None),  # a host of IPMI that is asked by Redfish for once
        ("ipmi", None, None, None),
        ("ipmi", 8443, "8444", 8444),
        ("ipmi", 8444, None, 8444),
        ("ipmi", 443, None, None),
        ("ipmi", 443, 623, 623),
        ("smoke", 443, None, 443),  # the endpoint says what is wrong with the protocol
    ],
)
def test_each_protocol_has_its_own_port(protocol, port, ipmi_port, found):
    assert host_port(protocol, port, ipmi_port) == found


@pytest.mark.parametrize(
    ("protocol", "port", "ipmi_port", "thing"),
    [("redfish", "abc", 623, "bmc_port"), ("ipmi", "abc", None, "bmc_port"), ("ipmi", 8443, "abc", "bmc_ipmi_port")],
)
def test_the_variable_with_a_wrong_port_is_named(protocol, port, ipmi_port, thing):
    with pytest.raises(errors.InvalidInput) as caught:
        host_port(protocol, port, ipmi_port, "gpu01")
    assert caught.value.thing == thing and caught.value.host == "gpu01" and thing in caught.value.next_step
