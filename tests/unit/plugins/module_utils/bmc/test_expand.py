# Members that $expand shows without Id are read singly (oob quirk 30: services drop properties in expanded members).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import operations
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.update import RedfishUpdater
from bmc_simulator.testing import running

from .conftest import endpoint


def test_expanded_members_without_id_are_read_singly():
    with running(1, behaviour={"expand_partial": True}) as lab:
        with RedfishUpdater(endpoint(lab)) as updater:
            rows = updater.inventory()
        assert {row["id"] for row in rows} == {"BMC", "BIOS", "CPLD"}
        assert {drive["slot"] for drive in operations.info(endpoint(lab), ["drives"])["drives"]} == {"disk0", "disk1"}
