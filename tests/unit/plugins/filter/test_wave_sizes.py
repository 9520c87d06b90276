# Waves are as asked for, but each of their nodes has a fork.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.filter.wave_sizes import wave_sizes


@pytest.mark.parametrize(
    "serial, forks, nodes, wanted",
    [
        (5, 20, 100, [5]),
        ("5", 20, 100, [5]),
        (50, 20, 100, [20]),
        ("10%", 20, 100, [10]),
        ("100%", 20, 100, [20]),
        ("1%", 20, 10, [1]),
        ([1, "25%", 99], 30, 80, [1, 20, 30]),
        (20, 20, 0, [20]),
    ],
)
def test_sizes(serial, forks, nodes, wanted):
    assert wave_sizes(serial, forks, nodes) == wanted
