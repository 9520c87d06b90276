# Waits name what they waited for and what they saw last; a thing that comes at the last moment is not missed.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.deadline import Deadline
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import DeadlineExceeded


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def make(seconds):
    clock = Clock()
    return Deadline(
        seconds, "gpu01 powered on", host="gpu01", next_step="look at the BMC log", clock=clock, sleep=clock.sleep
    ), clock


def test_error_names_thing_limit_last_seen_and_next_step():
    deadline, _clock = make(90)
    with pytest.raises(DeadlineExceeded) as caught:
        deadline.wait(lambda: (False, "PoweringOn"))
    text = str(caught.value)
    for part in ("gpu01", "powered on", "90 s", "PoweringOn", "look at the BMC log"):
        assert part in text
    assert caught.value.as_result()["error"]["code"] == "deadline_exceeded"


def test_last_moment_is_probed():
    deadline, clock = make(10)
    assert deadline.wait(lambda: (clock.now >= 110, clock.now), interval=4) >= 110


def test_heartbeat_runs_each_round():
    deadline, clock = make(10)
    beats = []
    deadline.wait(lambda: (clock.now >= 103, None), each=lambda: beats.append(clock.now))
    assert len(beats) == 3
