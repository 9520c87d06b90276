#!/usr/bin/python
# Door: the files of a role, all in one call. The action plugin of the same name packs them on the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_files
short_description: Put several files in place in one call
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Writes files owned by root, and the directories that they need, in one call to the node instead of two or more for each file.
  - A file that is as wanted (content, mode, owner) is left alone. A symbolic link is replaced, a directory never.
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Where the file is on the node.
        type: path
        required: true
      mode:
        description: Its permissions, octal.
        type: str
        default: "0644"
      src:
        description: The file on the controller, found as M(ansible.builtin.copy) finds it. Either this or O(files[].content).
        type: path
      content:
        description: Its text.
        type: str
  archive:
    description: All contents in one text, which the action plugin makes. Not for users.
    type: str
attributes:
  check_mode:
    description: Says what would change.
    support: full
  diff_mode:
    description: Shows each file that differs.
    support: full
"""

EXAMPLES = r"""
- name: Install a tool and its settings
  aicluster.baremetal.node_files:
    files:
      - {path: /usr/local/bin/tool, src: tool, mode: "0755"}
      - {path: /etc/tool.conf, content: "key = value\n"}
"""

RETURN = r"""
paths:
  description: The files that were written, or would be.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.health import place


def run(files, archive, check):
    contents = place.unpack(archive)
    wanted = {entry["path"]: {"content": contents[entry["path"]], "mode": entry["mode"]} for entry in files}
    todo = place.plan({path: place.observe(path) for path in wanted}, wanted)
    if not check:
        place.apply(todo)
    return {
        "changed": todo.changed,
        "paths": [change.thing for change in todo.changes],
        "diff": place.differences(todo),
    }


def main():
    module = AnsibleModule(
        argument_spec={
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
            },
            # Not a secret: kept out of the node's log, where it would only be noise.
            "archive": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    if module.params["archive"] is None:
        module.fail_json(msg="archive is missing: it is made by the action plugin aicluster.baremetal.node_files")
    try:
        result = run(module.params["files"], module.params["archive"], module.check_mode)
    except BaremetalError as error:
        module.fail_json(**{key: value for key, value in error.as_result().items() if key != "failed"})
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename}: cannot be written; seen: {error.strerror}; next: correct the place, then run again"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
