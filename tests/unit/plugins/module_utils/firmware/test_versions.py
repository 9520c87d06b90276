# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.versions import (
    RULES,
    Condition,
    Rule,
    UnreadableVersion,
)

# each list in rising order, as vendors release them
RISING = {
    "dotted": ["1.2", "1.2.1", "1.10", "v2", "02.00.01", "28.39.1002", "28.39.3004"],
    "release": [
        "1.2.3-dev4",
        "1.2.3-alpha",
        "1.2.3-b2",
        "1.2.3-rc1",
        "1.2.3-rc2",
        "1.2.3-rc10",
        "1.2.3",
        "1.2.3p1",
        "v1.2.4",
    ],
    "natural": ["U8E126B-1.11", "U8E126B-1.30", "U8E126B-2.02a", "U8E126B-2.02b", "U8E130A-0.1"],
    "idrac": ["6.10.80.00", "7.00.00.00", "7.00.00.173", "7.10.30.00"],
    "hpe": ["U32 v2.08 (10/26/2023)", "U32 v2.10 (01/01/2024)", "U32 v2.10 (02/15/2024)", "U32 v3.00 (01/01/2024)"],
    "hex": ["0x9", "0xA", "1F", "0x1A2B", "1a2ch"],
    "dotted_hex": ["96.00.5E.00.01", "96.00.68.00.01", "96.00.A5.00.01"],
    "date": ["2023-12-31", "20240101", "01/02/2024", "2024.02.01"],
}


@pytest.mark.parametrize("rule", sorted(RISING))
def test_rising(rule):
    order = Rule(rule)
    for (i, left), (j, right) in itertools.product(enumerate(RISING[rule]), repeat=2):
        assert order.compare(left, right) == (i > j) - (i < j), (left, right)


def test_every_rule_has_an_example():
    assert set(RISING) | {"exact"} == set(RULES)


@pytest.mark.parametrize(
    ("rule", "left", "right"),
    [
        ("dotted", "1.2", "1.2.0"),
        ("dotted", "v1.02", "1.2"),
        ("release", "1.2.3+build7", "1.2.3"),
        ("release", "1.2-RC1", "1.2rc1"),
        ("hex", "0x0f", "F"),
        ("date", "2024-01-31", "01/31/2024"),
        ("dotted_hex", "96.00.5e", "96.00.5E.00"),
        ("natural", "BF-24.10", "bf 24.10"),
    ],
)
def test_equal(rule, left, right):
    assert Rule(rule).compare(left, right) == 0
    assert Rule(rule).same(left, right)


@pytest.mark.parametrize(
    ("rule", "version"),
    [
        ("dotted", "1.2.3-rc1"),
        ("dotted", "N/A"),
        ("dotted", ""),
        ("dotted", None),
        ("release", "1.2.3-banana"),
        ("idrac", "7.00.00"),
        ("hpe", "v2.10 (01/01/2024)"),
        ("hpe", "U32 v2.10 (13/31/2024)"),
        ("hex", "0xZZ"),
        ("dotted_hex", "96"),
        ("date", "2024-13-01"),
        ("natural", "unknown"),
    ],
)
def test_unreadable_is_an_error_and_never_old(rule, version):
    with pytest.raises(UnreadableVersion):
        Rule(rule).read(version)
    assert not Rule(rule).same(version, version)


@pytest.mark.parametrize(
    ("rule", "left", "right"),
    [("hpe", "U32 v2.10 (01/01/2024)", "A43 v2.08 (01/01/2024)"), ("natural", "X11-1.0", "H12-1.0")],
)
def test_families_have_no_order(rule, left, right):
    with pytest.raises(UnreadableVersion, match="no order"):
        Rule(rule).compare(left, right)


def test_exact_knows_only_equal():
    assert Rule("exact").compare("a", "a") == 0
    assert Rule("exact").compare("a", "b") == Rule("exact").compare("b", "a") == 1


def test_extract():
    rule = Rule("dotted", r"GB200Nvl_(\d.*)")
    assert rule.compare("GB200Nvl_24.12-5", "24.12-4") == 1  # ours may be without the frame
    with pytest.raises(UnreadableVersion, match="does not look"):
        rule.read("24.12-5")  # the component's own may not


def test_bad_rule_and_pattern():
    with pytest.raises(InvalidInput, match="no such version rule"):
        Rule("sever")
    with pytest.raises(InvalidInput, match="regular expression"):
        Rule("dotted", "(")


DOTTED = st.lists(st.integers(0, 300), min_size=1, max_size=5).map(lambda parts: ".".join(map(str, parts)))
VERSIONS = {
    "dotted": DOTTED,
    "release": st.builds(
        lambda numbers, word: numbers + word,
        DOTTED,
        st.sampled_from(["", "-rc1", "-rc2", "b3", "-alpha", "p1", "-hf2"]),
    ),
    "natural": DOTTED.map(lambda text: f"U8-{text}"),
    "idrac": st.lists(st.integers(0, 300), min_size=4, max_size=4).map(
        lambda parts: ".".join(f"{n:02d}" for n in parts)
    ),
    "hpe": st.builds(
        lambda a, b, day: f"U32 v{a}.{b:02d} ({day:%m/%d/%Y})",
        st.integers(0, 9),
        st.integers(0, 99),
        st.dates(datetime.date(2000, 1, 1), datetime.date(2100, 1, 1)),
    ),
    "hex": st.integers(0, 2**32).map(hex),
    "dotted_hex": st.lists(st.integers(0, 255), min_size=2, max_size=5).map(
        lambda parts: ".".join(f"{n:02X}" for n in parts)
    ),
    "date": st.dates(datetime.date(1990, 1, 1), datetime.date(2100, 1, 1)).map(str),
}


@pytest.mark.parametrize("rule", sorted(VERSIONS))
def test_total_order(rule):
    order = Rule(rule)

    @given(VERSIONS[rule], VERSIONS[rule], VERSIONS[rule])
    def check(a, b, c):
        assert order.compare(a, a) == 0
        assert order.compare(a, b) == -order.compare(b, a)
        if order.compare(a, b) <= 0 and order.compare(b, c) <= 0:
            assert order.compare(a, c) <= 0

    check()


@given(st.text(max_size=30), st.sampled_from(sorted(RULES)))
def test_any_text_is_read_or_refused_in_words(text, rule):
    try:
        Rule(rule).read(text)
    except UnreadableVersion as error:
        assert error.thing == "version"


@pytest.mark.parametrize(
    ("text", "holds", "fails"),
    [
        ("<2.0", ["1.9", "1"], ["2", "2.0.0", "3"]),
        (">=1.1, <2", ["1.1", "1.9"], ["1.0", "2.0"]),
        ("1.5", ["1.5.0"], ["1.4"]),
        ("!=1.5", ["1.4"], ["1.5"]),
        ("*", ["1", "99"], []),
    ],
)
def test_conditions(text, holds, fails):
    condition = Condition(text, Rule("dotted"))
    assert all(condition.holds(version) for version in holds)
    assert not any(condition.holds(version) for version in fails)


@pytest.mark.parametrize("text", ["<", "", "<x", ">=1,", "=<1"])
def test_bad_condition(text):
    with pytest.raises(InvalidInput):
        Condition(text, Rule("dotted"))


def test_exact_condition_has_no_order():
    with pytest.raises(InvalidInput, match="no order"):
        Condition("<1", Rule("exact"))
    assert Condition("!=a", Rule("exact")).holds("b")
