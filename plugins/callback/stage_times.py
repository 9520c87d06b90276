# Wall time of each stage: one line a playbook file at the end of a run, and in a file for whoever adds up several runs.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
name: stage_times
type: aggregate
short_description: Wall time of each stage
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Adds up the wall time of the plays of each playbook file, which is a stage, and prints it when the run ends.
  - The plays of C(fleet_failures.yml), which end a stage that works on all nodes at once, count for that stage.
  - Has to be enabled, for example with C(ANSIBLE_CALLBACKS_ENABLED=aicluster.baremetal.stage_times).
options:
  times_file:
    description: File to which a line with the name, a tab and the seconds is added for each stage.
    type: path
    env:
      - name: AICLUSTER_STAGE_TIMES
    ini:
      - section: aicluster
        key: stage_times
"""

import os
import time

from ansible.plugins.callback import CallbackBase

# Playbook files that are the end of the stage before them.
ENDINGS = ("fleet_failures",)


class CallbackModule(CallbackBase):
    """Counts from the start of a play to the start of the next one."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "aicluster.baremetal.stage_times"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._seconds, self._stage, self._since = {}, None, None

    def _close(self):
        if self._stage is not None:
            self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + time.monotonic() - self._since

    def v2_playbook_on_play_start(self, play):
        self._close()
        # "/path/deploy.yml:12": the file is the stage.
        path = (play.get_path() or "").rpartition(":")[0]
        stage = os.path.splitext(os.path.basename(path))[0] or play.get_name()
        if self._stage is None or stage not in ENDINGS:
            self._stage = stage
        self._since = time.monotonic()

    def v2_playbook_on_stats(self, stats):
        self._close()
        self._stage = None
        if not self._seconds:
            return
        self._display.banner("STAGE TIMES")
        for stage, seconds in self._seconds.items():
            self._display.display(f"{stage:<24} {seconds:8.1f} s")
        path = self.get_option("times_file")
        if path:
            with open(path, "a", encoding="utf-8") as handle:
                handle.writelines(f"{stage}\t{seconds:.1f}\n" for stage, seconds in self._seconds.items())
        self._seconds = {}  # one ansible-playbook with several playbooks has several ends
