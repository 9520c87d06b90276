# Door: store what was measured. Documentation: plugins/modules/evidence.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import outcome
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "items": {"type": "list", "elements": "dict", "required": True},
        "name": {"type": "str"},
        "attempt": {"type": "int"},
    }

    def execute(self):
        items = self.params["items"]
        attempt, _fencing = self.attempt
        if not self.check_mode:
            # Evidence of an attempt that lost its fence is still evidence: it is stored, and decides nothing.
            self.registry.record_evidence(self.params["name"] or self.host, attempt, items, self.actor)
        by_outcome = {
            word: [item["check"] for item in items if item.get("outcome") == word] for word in outcome.OUTCOMES
        }
        return {
            "changed": False,
            "outcome": outcome.combine_items(items),
            "checks": by_outcome,
        }
