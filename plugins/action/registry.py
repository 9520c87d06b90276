# Door: make or move the registry's schema. Documentation: plugins/modules/registry.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Change, Plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import schema
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry.engine import Database
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry.nodes import Nodes
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry.tables import SCHEMA_VERSION
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "expected": {"type": "list", "elements": "dict"},
    }

    def execute(self):
        database = Database(self.registry_url)
        try:
            before = schema.present_version(database)
            if not self.check_mode:
                before, _after = schema.migrate(database)
            elif before is not None and before > SCHEMA_VERSION:
                schema.check(database)
        finally:
            database.close()
        changes = [Change("schema", before, SCHEMA_VERSION)]
        rows = self.params["expected"]
        if rows is not None and not self.check_mode:
            changes += self.registry.save_expected(rows, self.actor).changes
        elif rows is not None:
            # A registry that is still to be made or moved can only be asked afterwards; the rows themselves can be judged now.
            wanted = Nodes.clean_expected(rows)
            changes += (
                self.registry.plan_expected(rows).changes
                if before == SCHEMA_VERSION
                else [Change(serial, None, row) for serial, row in sorted(wanted.items())]
            )
        return self.planned(Plan(changes), schema_before=before, schema=SCHEMA_VERSION)
