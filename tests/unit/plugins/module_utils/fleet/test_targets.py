# Which BMC belongs to which host: names of variables, and hosts that share a BMC.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import socket

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import targets


def shared(hosts, resolve=None):
    return targets.shared(hosts, targets.bmc_keys(hosts, resolve or _nobody))


def _nobody(*unused, **unused2):
    raise OSError("no such name")


def test_a_value_where_a_name_is_wanted_is_refused():
    assert targets.variable_names({"address": "oob_ip"})["address"] == "oob_ip"
    for wrong in ("10.0.0.1", "{{ bmc_address }}", "", 5):
        with pytest.raises(InvalidInput) as caught:
            targets.variable_names({"address": wrong})
        assert "first host" in str(caught.value)
    with pytest.raises(InvalidInput):
        targets.variable_names({"adress": "oob_ip"})


@pytest.mark.parametrize(
    "one, other",
    [
        ({"address": "10.0.0.1"}, {"address": "10.0.0.1"}),
        ({"address": "10.0.0.1", "port": 443}, {"address": "10.0.0.1", "protocol": "ipmi", "port": 623}),
        ({"address": "fd00::1"}, {"address": "FD00:0::0001"}),
        ({"address": "10.0.0.1", "port": "8443"}, {"address": "10.0.0.1", "port": 8443}),
        ({"address": "BMC1"}, {"address": "bmc1"}),
        (
            {"address": "10.0.0.1", "protocol": "ipmi", "ipmi_port": 6230},
            {"address": "10.0.0.1", "protocol": "ipmi", "port": "6230"},
        ),
        ({"address": "10.0.0.1", "system_id": "Node0"}, {"address": "10.0.0.1", "system_id": "Node0"}),
        ({"address": "10.0.0.1", "system_id": "Node0"}, {"address": "10.0.0.1"}),
    ],
)
def test_two_hosts_on_one_bmc(one, other):
    found = shared({"a": one, "b": other, "c": {"address": "10.0.0.3"}})
    assert set(found) == {"a", "b"}
    assert found["a"].code == "shared_bmc" and "b" in found["a"].seen


@pytest.mark.parametrize(
    "one, other",
    [
        ({"address": "10.0.0.1"}, {"address": "10.0.0.2"}),
        ({"address": "127.0.0.1", "port": 5001}, {"address": "127.0.0.1", "port": 5002}),
        ({"address": "10.0.0.1", "system_id": "Node0"}, {"address": "10.0.0.1", "system_id": "Node1"}),
        ({"address": None}, {"address": None}),
    ],
)
def test_two_hosts_on_two_bmcs_or_on_two_systems_of_one(one, other):
    assert shared({"a": one, "b": other}) == {}


def test_others_are_compared_with_and_not_judged():
    hosts, others = {"a": {"address": "10.0.0.1"}}, {"b": {"address": "10.0.0.1"}, "c": {"address": "10.0.0.1"}}
    keys = targets.bmc_keys({**hosts, **others}, _nobody)
    found = targets.shared(hosts, keys, others)
    assert set(found) == {"a"} and "b, c" in found["a"].seen
    apart = {"a": {"address": "10.0.0.1", "system_id": "1"}}
    assert set(targets.shared(apart, keys, {**others, "b": {"system_id": "2"}})) == {"a"}  # because of c
    del keys["c"]
    assert targets.shared(apart, keys, {"b": {"address": "10.0.0.1", "system_id": "2"}}) == {}


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("concurrency", (1, 200), (0, -1)),
        ("canary", (0, 5), (-1,)),
        ("max_fail_percentage", (0, 5.5, 100), (-1, 100.1, float("nan"))),
        ("max_refused_logins", (0, 3), (-1,)),
        ("progress", (0, 10), (-1.0,)),
        ("timeout", (0.1,), (0, -1)),
        ("deadline", (1,), (0,)),
        ("node_timeout", (1,), (0,)),
    ],
)
def test_numbers(name, right, wrong):
    for value in (None, *right):
        targets.check_numbers({name: value})
    for value in wrong:
        with pytest.raises(InvalidInput) as caught:
            targets.check_numbers({name: value})
        assert caught.value.thing == name and caught.value.wanted and caught.value.next_step


def test_names_are_compared_by_the_address_behind_them():
    def resolve(name, *unused, **unused2):
        return [(socket.AF_INET, 0, 0, "", ("10.0.0.9", 0))]

    found = shared(
        {"a": {"address": "bmc-a.oob"}, "b": {"address": "alias.oob"}, "c": {"address": "10.0.0.9"}}, resolve
    )
    assert set(found) == {"a", "b", "c"}


def test_groups_of_one_variable():
    assert targets.group_values("r1") == ["r1"]
    assert targets.group_values(["a", "b"]) == ["a", "b"]
    assert targets.group_values(None) == targets.group_values("") == []
    assert targets.group_values(0) == ["0"]
