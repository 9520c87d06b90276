# Texts of unknown origin: what is taken out of them, and what stays.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import texts


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("ABC\x00\x00", "ABC"),
        ("\x1b[31mred\x7f", "[31mred"),
        ("\ud800broken\udfff", "broken"),
        ("one\ttwo\r\nthree", "one\ttwo\r\nthree"),
        ("Grün 東 \U0001f600", "Grün 東 \U0001f600"),
    ],
)
def test_clean(given, wanted):
    assert texts.clean(given) == wanted
    wanted.encode("utf-8")


def test_clean_all_reaches_every_text_and_leaves_the_rest():
    given = {"a\x00": ["b\x00", ("c\x00", 1)], 2: None, "d": {"e": True, "f": 1.5}}
    assert texts.clean_all(given) == {"a": ["b", ["c", 1]], 2: None, "d": {"e": True, "f": 1.5}}
