#!/usr/bin/python
# Door of scheduler.config: the configuration of a Slurm controller, put in place only after a scratch slurmctld accepted it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_config
short_description: Configuration of a Slurm controller, tried before it is used
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Runs on the host of C(slurmctld). Writes C(slurm.conf) and C(gres.conf) from a head, node lines and partition lines.
  - A changed configuration is first given to a scratch C(slurmctld) in a network namespace of its own. When that does not come up,
    nothing is written and the running controller is not touched. When the real one does not come up, the previous files are put back.
  - A restart is believed when its command ended with status 0 and the controller that answers was started after it. Else the task fails.
  - Node lines that are present and not given stay, unless they are named in O(remove). Two runs that know different nodes therefore do not
    remove each other's nodes.
  - The controller is restarted only when something other than partitions changed, or when it does not run with the files that are there.
options:
  head:
    description: Everything of C(slurm.conf) except nodes and partitions.
    type: str
    required: true
  partitions:
    description: The partition lines; written as soon as there is a node.
    type: str
    default: PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
  nodes:
    description: Nodes that must be there.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      line:
        description: Its line of C(slurm.conf).
        type: str
        required: true
      gres:
        description: Its line of C(gres.conf), empty for a node without GPUs.
        type: str
        default: ""
  remove:
    description: Names of nodes that must not be there.
    type: list
    elements: str
    default: []
  files:
    description: Further files beside C(slurm.conf) that nodes without own files receive, name and text, such as C(cgroup.conf).
    type: dict
    default: {}
  directory:
    description: Directory of the configuration files.
    type: path
    default: /etc/slurm
  restart_command:
    description: How the controller is restarted.
    type: list
    elements: str
    default: [systemctl, restart, slurmctld]
  start_deadline:
    description: Seconds within which the restarted controller must answer.
    type: int
    default: 60
attributes:
  check_mode:
    description: Tries the new configuration in the scratch controller and writes nothing, no directory and no lock either.
    support: full
  diff_mode:
    description: Shows both files before and after.
    support: full
seealso:
  - module: aicluster.baremetal.slurm_nodes_info
"""

EXAMPLES = r"""
- name: Configure the Slurm controller
  aicluster.baremetal.slurm_config:
    head: "{{ lookup('ansible.builtin.template', 'slurm.conf.j2') }}"
    nodes:
      - name: gpu01
        line: NodeName=gpu01 NodeAddr=10.77.1.11 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=900 Gres=gpu:h100:8
        gres: NodeName=gpu01 Name=gpu Type=h100 File=/dev/nvidia[0-7]
"""

RETURN = r"""
done:
  description: >-
    What was done with the controller, V(restarted), V(reconfigured), V(validated) in check mode when the new configuration was tried, or
    V(none).
  type: str
  returned: success
summary:
  description: The changes in one line without file contents.
  type: str
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler.config import Controller


def main():
    module = AnsibleModule(
        argument_spec={
            "head": {"type": "str", "required": True},
            "partitions": {
                "type": "str",
                "default": "PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            },
            "nodes": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "line": {"type": "str", "required": True},
                    "gres": {"type": "str", "default": ""},
                },
            },
            "remove": {"type": "list", "elements": "str", "default": []},
            "files": {"type": "dict", "default": {}},
            "directory": {"type": "path", "default": "/etc/slurm"},
            "restart_command": {
                "type": "list",
                "elements": "str",
                "default": ["systemctl", "restart", "slurmctld"],
            },
            "start_deadline": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    options = module.params
    controller = Controller(
        options["directory"], options["restart_command"], start_seconds=options["start_deadline"], warn=module.warn
    )
    try:
        plan, done = controller.ensure(
            options["head"],
            options["partitions"],
            {item["name"]: item["line"] for item in options["nodes"]},
            {item["name"]: item["gres"] for item in options["nodes"]},
            options["remove"],
            check=module.check_mode,
            more={name: str(text) for name, text in options["files"].items()},
        )
    except BaremetalError as error:
        result = error.as_result()
        result.pop("failed")
        module.fail_json(**result)
    module.exit_json(
        changed=plan.changed,
        done=done or "none",
        summary=", ".join(change.thing for change in plan.changes) or "nothing to change",
        diff=[
            {
                "before": change.before or "",
                "after": change.after or "",
                "before_header": change.thing,
                "after_header": change.thing,
            }
            for change in plan.changes
            if change.thing.endswith(".conf")
        ],
    )


if __name__ == "__main__":
    main()
