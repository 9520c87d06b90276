# Controller-side door of bmc_storage.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.plugin_utils.bmc import BmcAction


class ActionModule(BmcAction):
    MODULE = "bmc_storage"
