# For the plugins that the controller loads first: workers forked from now on die with ansible-playbook.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import multiprocessing
import os

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import process


def arm():
    """Called where a plugin is loaded, once or often: the forks of this process, or this process where it is a fork itself, end with the controller."""
    if multiprocessing.parent_process() is None:
        process.arm_forks()
    else:
        # Loaded for the first time inside a worker (no plugin of ours was known to the controller before): only this worker can still be armed.
        os.environ.setdefault("AICLUSTER_CONTROLLER_PID", str(os.getppid()))
        process.die_with_parent(os.getppid())
