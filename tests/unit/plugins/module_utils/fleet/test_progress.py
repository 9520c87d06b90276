# The progress line: how many, how many failed, what is left by the present pace.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.progress import Alive, Progress


def test_the_line():
    now, lines = [0.0], []
    progress = Progress("power", 1000, 10, lines.append, clock=lambda: now[0])
    for number in range(200):
        progress.told(number == 0, number == 1)
    now[0] = 5
    progress.tick()
    assert lines == [], "not yet"
    now[0] = 10
    progress.tick()
    progress.tick()
    assert lines == ["fleet power: 200 of 1000 (20 %), 1 failed, 1 unreachable, 20 a second, about 40 s left"]


def test_the_end_needs_no_line_and_zero_means_never():
    now, lines = [0.0], []
    done, never = (Progress("x", 1, interval, lines.append, clock=lambda: now[0]) for interval in (1, 0))
    done.told(False, False)
    now[0] = 100
    done.tick()
    never.tick()
    assert lines == []


def test_a_sign_of_life_beside_the_line():
    now, lines, beats = [0.0], [], []
    progress = Alive(lambda: beats.append(now[0]), 60, "start", 4, 100, lines.append, lambda: now[0])
    for now[0] in (1, 59, 61, 70, 121, 122):
        progress.tick()
    assert beats == [61, 121] and len(lines) == 1
