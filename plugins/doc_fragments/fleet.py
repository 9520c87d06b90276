# What the modules that work on all hosts of the batch in one process share: how many at once, who goes first, when to stop. The defaults stand in the modules.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  concurrency:
    description:
      - How many hosts are worked on at the same time altogether. More than 16 are only as long as this process leaves a core idle, which is soon known.
    type: int
  canary:
    description:
      - So many hosts go first and are brought to their end. The others follow only when no more than O(max_fail_percentage) of these have failed.
        V(0) for none.
    type: int
  max_fail_percentage:
    description:
      - Stop when more than this share of the hosts has failed. What is under way goes on, and hosts whose turn had not come count as not tried.
      - V(0) ends it at the first failure. Without a value it goes on, however many fail.
    type: float
  progress:
    description:
      - Seconds between the lines that say how far it is and how long the rest will take. V(0) for none.
    type: float
attributes:
  action:
    description: Runs as an action plugin in the controller. The connection to the host is never opened.
    support: full
  bypass_host_loop:
    description: Runs once for all hosts of the batch.
    support: full
  check_mode:
    description: Can run in check mode and say what would change, and sends nothing that changes anything.
    support: full
  diff_mode:
    description: Returns what changes, each line with its host in front.
    support: full
notes:
  - Use C(run_once) with C(register). Without it the registered result is a variable of the first host only.
  - C(when) on the task or around it is refused, because Ansible would ask it of the first host only. C(tests/fleet_when.py) of the collection
    finds it in files.
  - Make it the last task of its play and import the playbook C(aicluster.baremetal.fleet_failures) next, which fails exactly the hosts that failed here.
  - Strategy C(free) does not know tasks of this kind.
"""
