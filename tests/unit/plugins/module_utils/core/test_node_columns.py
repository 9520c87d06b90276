# Columns of a node: one stored form, and a refusal that says where, what was wanted, what was seen and what to do.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors, node_columns


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("bmc_address", "FD00:77:0:0::11", "fd00:77::11"),
        ("bmc_address", "fe80::1%eth0", "fe80::1%eth0"),
        ("bmc_address", "bmc-1.example.org", "bmc-1.example.org"),
        ("provision_mac", "52-54-00-AA-BB-CC", "52:54:00:aa:bb:cc"),
        ("provision_prefix", " 24 ", 24),
        ("bmc_port", 443, 443),
        ("bmc_fingerprint", "AB:" * 31 + "AB", "ab" * 32),
        ("maintenance", None, False),
        ("maintenance_reason", "two\nlines", "two\nlines"),
        ("rack", "  ", None),
        ("rack", 7, "7"),
    ],
)
def test_stored_forms(column, value, stored):
    assert node_columns.clean(column, value) == stored


@pytest.mark.parametrize("name", ["localhost", "all", "ungrouped", "nodes", "held", "127.0.0.1"])
def test_a_name_that_an_inventory_has_for_something_else_is_refused(name):
    with pytest.raises(errors.InvalidInput) as seen:
        node_columns.clean("name", name, "S1", "list.csv line 7")
    assert "not all, ungrouped, localhost" in str(seen.value) and f"seen: {name};" in str(seen.value)
    assert node_columns.clean("name", f"{name}-1" if name != "127.0.0.1" else "127.0.0.2")


def test_a_refusal_names_the_place():
    with pytest.raises(errors.InvalidInput) as seen:
        node_columns.clean("bmc_port", "x", "S1", "list.csv line 7")
    assert str(seen.value) == (
        "S1: list.csv line 7, bmc_port: bmc_port cannot be right; wanted: a number from 1 to 65535; seen: x; "
        "next: correct bmc_port in list.csv line 7"
    )


@given(some.ip_addresses().map(str), some.integers(1, 128))
def test_pairs_are_taken_or_refused_and_nothing_else_happens(address, prefix):
    try:
        node_columns.check_pair(address, prefix)
    except errors.InvalidInput as error:
        assert error.next_step and error.wanted is not None and error.seen is not None


@given(some.text(max_size=40), some.sampled_from(sorted({*node_columns._CHECKS, "rack"})))
def test_whatever_is_stored_is_stored_the_same_again(text, column):
    try:
        stored = node_columns.clean(column, text)
    except errors.InvalidInput:
        return
    assert node_columns.clean(column, stored) == stored
