#!/usr/bin/python
# Door: the files and networks of an embedded lab.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: virtual_lab
short_description: Files and networks of an embedded lab of virtual servers
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Makes or removes the directories, blank disks, passwords, keys, description file and network namespaces of a lab.
  - The programs of the lab are the business of M(aicluster.baremetal.virtual_lab_programs).
  - Passwords are made once, stored in files of mode 0600, and never returned.
  - Directories and namespaces that do not carry the mark of this lab are never touched. The module fails and says whose they are.
requirements:
  - Linux, root, iproute2, openssh-client, PyYAML
options:
  description:
    description: The lab as made by the filter P(aicluster.baremetal.lab_description#filter).
    type: dict
    required: true
  simulator_path:
    description: Directory that holds the package C(bmc_simulator), whose schema checks the description before it is written.
    type: path
  state:
    description: Whether the lab is to exist.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Can run in check mode and say what would change.
    support: full
  diff_mode:
    description: Returns what changes. Contents of files are not shown.
    support: full
"""

EXAMPLES = r"""
- name: Make the files and networks of a lab
  aicluster.baremetal.virtual_lab:
    description: "{{ virtual_lab_description }}"
    simulator_path: "{{ role_path }}/files"

- name: Remove them
  aicluster.baremetal.virtual_lab:
    description: "{{ virtual_lab_description }}"
    state: absent
"""

RETURN = r"""
summary:
  description: What was changed, in one line.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab import network, processes, simulator, state


def run(lab, present, check_mode, check):
    observed = network.observe(lab)
    net = network.plan(lab, observed, present)
    files = state.plan(lab) if present else state.plan_removal(lab["name"], lab["dir"], lab["run_dir"])
    todo = Plan((files.changes + net.changes) if present else (net.changes + files.changes))
    if check_mode or not todo:
        return todo
    if present:
        state.apply(lab, files, check)
        network.apply(lab, net)
    else:
        running = processes.in_namespaces(observed)
        if running:
            raise BaremetalError(
                "processes still run in the lab's network namespaces",
                thing=f"lab {lab['name']}",
                wanted="none",
                seen=processes.describe(running),
                next_step="stop the programs of the lab first (module virtual_lab_programs, state stopped)",
            )
        network.apply(lab, net)
        state.apply_removal(files)
    network.verify(lab, present)
    return todo


def main():
    module = AnsibleModule(
        argument_spec={
            "description": {"type": "dict", "required": True},
            "simulator_path": {"type": "path"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    try:
        todo = run(
            module.params["description"],
            module.params["state"] == "present",
            module.check_mode,
            simulator.schema_check(module.params["simulator_path"]),
        )
    except BaremetalError as error:
        module.fail_json(**{key: value for key, value in error.as_result().items() if key != "failed"})
    module.exit_json(changed=todo.changed, summary=todo.summary(), diff=todo.diff())


if __name__ == "__main__":
    main()
