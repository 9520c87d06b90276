# Door: write the HTML report of the registry. Documentation: plugins/modules/report.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import tempfile

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.report import html, model
from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler import operations
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import places
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "path": {"type": "path", "required": True},
        "title": {"type": "str", "default": "Cluster report"},
        "names": {"type": "list", "elements": "str"},
    }

    def execute(self):
        # A relative path is one of the directory in which Ansible was called; the result says which file it is.
        path = os.path.abspath(self.params["path"])
        places.require_writable(path, "path")
        page = self._page()
        wanted = html.render(page)
        present = self._read(path)
        changed = present != wanted
        if changed and not self.check_mode:
            self._write(path, wanted)
        return {
            "changed": changed,
            "path": path,
            "nodes": len(page["nodes"]),
            "in_service": page["in_service"],
            "out_of_service": [
                {"name": row["name"], "state": row["state"], "reason": row["why"][0]["text"] if row["why"] else ""}
                for row in page["out_of_service"]
            ],
            "audit_ok": page["audit"]["ok"],
        }

    def _page(self):
        registry = self.registry
        nodes = registry.nodes(names=self.params["names"])

        def of_each(read):
            return {node["serial"]: read(node["serial"]) for node in nodes}

        last = registry.audit_rows(limit=1)
        as_of = last[-1]["time"] if last else ""
        return model.build(
            nodes,
            of_each(registry.boot_events),
            of_each(registry.evidence),
            of_each(lambda serial: registry.why(serial, now=as_of or None)),
            of_each(registry.attempts),
            of_each(registry.holds),
            of_each(lambda serial: operations.burn_in_gate(registry, serial)),
            {**registry.verify_audit(), "last_time": as_of},
            title=self.params["title"],
            firmware=of_each(registry.firmware_left),
        )

    @staticmethod
    def _read(path):
        try:
            with open(path, encoding="utf-8") as handle:
                return handle.read()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise errors.InvalidInput(
                "what is there is not a readable report",
                thing=f"path {path}",
                wanted="an HTML report or no file",
                seen=str(error),
                next_step="choose another path, or remove the file",
            ) from None

    @staticmethod
    def _write(path, text):
        """Whole or not at all: a reader never sees half a page."""
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".report-", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
