#!/usr/bin/python
# Door: the long-running programs of an embedded lab, under one supervisord.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: virtual_lab_programs
short_description: Long-running programs of an embedded lab
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Starts one supervisord for the lab and makes it run the programs that are configured in the lab's C(supervisor.d), or stops all of it.
  - When started, processes that an earlier supervisord left behind are ended first, and every program is waited for.
  - When stopped, every process of the lab is ended by its process id and is proved to be gone. That includes anything that runs in the network
    namespaces of the lab, for example a playbook.
requirements:
  - Linux, root, supervisor
options:
  description:
    description: The lab as made by the filter P(aicluster.baremetal.lab_description#filter).
    type: dict
    required: true
  endpoints:
    description:
      - What must answer, seen from inside the namespace of the lab's controller, before the module returns.
      - An C(http) or C(https) URL, whatever status it gives, or C(tcp://HOST:PORT) for a server that speaks first, such as SSH.
    type: list
    elements: str
    default: []
  state:
    description: Whether the programs are to run.
    type: str
    choices: [started, stopped]
    default: started
  timeout:
    description: Seconds to wait for the programs to run, or for the processes to end.
    type: int
    default: 30
attributes:
  check_mode:
    description: Can run in check mode and say what would change.
    support: full
  diff_mode:
    description: Returns what changes.
    support: full
"""

EXAMPLES = r"""
- name: Run the programs of a lab
  aicluster.baremetal.virtual_lab_programs:
    description: "{{ virtual_lab_description }}"
    endpoints: ["https://10.77.0.11/redfish/v1/", "tcp://10.77.1.2:22"]

- name: Stop them
  aicluster.baremetal.virtual_lab_programs:
    description: "{{ virtual_lab_description }}"
    state: stopped
"""

RETURN = r"""
programs:
  description: State and process id of each program.
  returned: when started
  type: dict
  sample: {"bmc-simulator": {"state": "RUNNING", "pid": 4711, "detail": "pid 4711, uptime 0:00:02"}}
ended:
  description: Process ids that were ended.
  returned: when stopped
  type: list
  elements: int
summary:
  description: What was changed, in one line.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab import network
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab.inside import wait_answers
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab.supervisor import Supervisor


def main():
    module = AnsibleModule(
        argument_spec={
            "description": {"type": "dict", "required": True},
            "endpoints": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    given = module.params
    lab = given["description"]
    controller = lab["namespaces"]["ctl"]
    result = {}
    try:
        # Not `ip netns exec`: that hides the control groups, without which no container starts.
        prefix = ["nsenter", f"--net={network.NAMESPACE_DIRECTORY}/{controller}"]
        supervisor = Supervisor(lab["dir"], lab["run_dir"], sorted(network.observe(lab)), prefix)
        started = given["state"] == "started"
        todo = supervisor.plan_start() if started else supervisor.plan_stop()
        if not module.check_mode:
            if started:
                result["programs"] = supervisor.start(todo, given["timeout"])
                wait_answers(
                    controller,
                    given["endpoints"],
                    given["timeout"],
                    next_step=f"read the logs in {lab['dir']}/log",
                    each=supervisor.crash_watch(),
                )
            else:
                result["ended"] = supervisor.stop(given["timeout"]) if todo else []
        elif started:
            result["programs"] = supervisor.programs() if supervisor.alive() else {}
        else:
            result["ended"] = []
    except BaremetalError as error:
        module.fail_json(**{key: value for key, value in error.as_result().items() if key != "failed"})
    module.exit_json(changed=todo.changed, summary=todo.summary(), diff=todo.diff(), **result)


if __name__ == "__main__":
    main()
