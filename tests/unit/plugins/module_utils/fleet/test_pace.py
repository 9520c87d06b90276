# Pacing: never more than `batch` writes of one group within `pause` seconds, and nobody waits for members that need nothing.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.pace import Pacer


def test_places_come_free_after_the_pause_counted_from_the_write():
    pacer = Pacer(2, 10)
    for member in "ab":
        assert pacer.free_at("r1", 0) == 0
        pacer.start("r1", member)
    assert pacer.free_at("r1", 1) is None, "both may still write: nobody can say when a place comes free"
    pacer.wrote("r1", "a", 3)
    assert pacer.free_at("r1", 4) == 13
    pacer.end("r1", "a")
    assert pacer.free_at("r1", 4) == 13, "the end of the operation does not end the pause"
    assert pacer.free_at("r1", 13) == 13
    assert pacer.free_at("r2", 1) == 1, "another rack"


def test_a_member_that_wrote_nothing_gives_its_place_back_at_once():
    pacer = Pacer(1, 100)
    pacer.start("r1", "a")
    pacer.end("r1", "a")
    assert pacer.free_at("r1", 5) == 5


def test_without_a_pause_it_limits_the_members_under_way():
    pacer = Pacer(1, 0)
    pacer.start("r1", "a")
    pacer.wrote("r1", "a", 1)
    assert pacer.free_at("r1", 50) is None
    pacer.end("r1", "a")
    assert pacer.free_at("r1", 50) == 50
