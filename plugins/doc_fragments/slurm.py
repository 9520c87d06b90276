# Options that the actions over the registry and Slurm share.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


class ModuleDocFragment:
    # The node and the registry.
    DOCUMENTATION = r"""
options:
  name:
    description: The node, by name or serial. Default is the host of the task.
    type: str
  registry:
    description:
      - URL of the registry.
      - Default is the variable C(aicluster_registry), else the environment variable E(AICLUSTER_REGISTRY), else C(registry) in section
        C([aicluster]) of C(ansible.cfg).
    type: str
attributes:
  check_mode:
    description: Says what would change and changes nothing.
    support: full
"""

    # How Slurm is reached.
    CONTROLLER = r"""
options:
  slurm_controller:
    description:
      - Inventory host through which C(scontrol), C(squeue) and C(srun) run, over that host's own connection variables. V(localhost) runs them here.
      - Default is the variable C(aicluster_slurm_controller), else the first host of the group C(slurm_controllers).
      - The task's C(environment) reaches the commands.
    type: str
"""
