# Action: packs the files of a role on the controller and sends them in one module call. Documentation: plugins/modules/node_files.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.aicluster.baremetal.plugins.module_utils.health.place import pack
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import plain

_SPEC = {
    "files": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "path": {"type": "path", "required": True},
            "mode": {"type": "str", "default": "0644"},
            "src": {"type": "path"},
            "content": {"type": "str"},
        },
    }
}


class ActionModule(ActionBase):
    """See plugins/modules/node_files.py."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        host = (task_vars or {}).get("inventory_hostname", "?")
        _validated, arguments = self.validate_argument_spec(argument_spec=_SPEC)
        files, contents = [], {}
        for entry in plain(arguments["files"]):
            contents[entry["path"]] = self._content(entry, host)
            files.append({"path": entry["path"], "mode": self._mode(entry, host)})
        if len(contents) != len(files):
            raise AnsibleActionFail(
                f"{host}: node_files: a path is given twice; wanted: each once; next: correct files"
            )
        arguments = {"files": files, "archive": pack(contents)}
        return {**result, **self._execute_module("aicluster.baremetal.node_files", arguments, task_vars=task_vars)}

    @staticmethod
    def _mode(entry, host):
        try:
            good = 0 <= int(entry["mode"], 8) <= 0o7777
        except ValueError:
            good = False
        if not good:
            raise AnsibleActionFail(
                f"{host}: node_files: {entry['path']}: wanted: an octal mode such as 0644; seen: {entry['mode']}; next: correct files"
            )
        return entry["mode"]

    def _content(self, entry, host):
        if (entry["src"] is None) == (entry["content"] is None):
            raise AnsibleActionFail(
                f"{host}: node_files: {entry['path']}: wanted: one of src and content; seen: "
                f"{'both' if entry['src'] else 'neither'}; next: correct files"
            )
        if entry["content"] is not None:
            return entry["content"].encode("utf-8")
        with open(self._find_needle("files", entry["src"]), "rb") as stream:
            return stream.read()
