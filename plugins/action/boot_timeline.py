# Door: the boot timeline of a node, and where a run that took over an attempt goes on. Documentation: plugins/modules/boot_timeline.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import timeline, wait
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "limits": {"type": "dict", "default": {}},
        "attempt": {"type": "int"},
    }

    def execute(self):
        _reserved, allowed = wait.limits(self.params["limits"])
        attempt, _fencing = self.attempt
        events = self.registry.boot_events(self.host, attempt) if attempt else []
        resume, why = timeline.resume_point(events, timeline.seconds_of(self.registry.now()), allowed)
        progress = timeline.Progress(events)
        return {
            "changed": False,
            "events": [{key: row[key] for key in ("step", "time", "source", "detail")} for row in events],
            "last_step": progress.step,
            "resume": resume,
            "reason": why,
        }
