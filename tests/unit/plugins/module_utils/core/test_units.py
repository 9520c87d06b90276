# Sizes keep binary and decimal prefixes apart; nonsense is refused.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import units


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8 GiB", 8 * 2**30),
        ("8GB", 8 * 10**9),
        ("512Mi", 512 * 2**20),
        ("3.84 TB", 3840000000000),
        (17, 17),
        ("0", 0),
        ("1k", 1000),
    ],
)
def test_parse_size(text, size):
    assert units.parse_size(text) == size


@pytest.mark.parametrize("bad", ["", "eight", "-1", -1, "8 GiBs", None, True, "1e9"])
def test_bad_sizes_are_refused(bad):
    with pytest.raises(ValueError):
        units.parse_size(bad)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5 s"), (90, "90 s"), (125, "2 min 5 s"), (3600, "1 h"), (3780, "1 h 3 min"), (190000, "2 d 4 h")],
)
def test_format_seconds(seconds, text):
    assert units.format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2, "errors", "2 errors"),
        (1, "errors", "1 error"),
        (1, "failed tests", "1 failed test"),
        (1, "rows or pages", "1 row or page"),
        (1, "ms", "1 ms"),
        (1, "bytes/s", "1 bytes/s"),
        (0, "lanes", "0 lanes"),
        (3, None, "3"),
    ],
)
def test_a_count_and_its_unit(value, unit, text):
    assert units.format_count(value, unit) == text


def test_a_time_for_people():
    assert (
        units.format_time("2026-01-31T12:04:10.123456Z") == "2026-01-31 12:04:10 UTC" and units.format_time(None) == ""
    )
