# The transport: sushy's resource model works on it, and its faults do not (a POST is sent once).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
import sushy
from sushy import auth

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.connector import Connector
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import TransportError


def test_sushy_on_our_connector(bmc, there):
    connector = Connector(there)
    try:
        service = sushy.Sushy(
            there.url, connector=connector, auth=auth.BasicAuth(there.username, there.password), verify=False
        )
        system = service.get_system(service.get_system_collection().members_identities[0])
        assert system.serial_number == "LAB-test-0001"
        with pytest.raises(sushy.exceptions.ResourceNotFoundError):
            connector.get("/redfish/v1/Systems/none")
    finally:
        connector.close()


def test_a_lost_answer_is_one_post(bmc, there):
    before = len(bmc.requests("gpu01"))
    bmc.set_behaviour("gpu01", answer_lost_after_post=-1)
    connector = Connector(there)
    connector.set_http_basic_auth(there.username, there.password)
    try:
        with pytest.raises(TransportError) as caught:
            connector.exchange("POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", {"ResetType": "Nmi"})
        assert caught.value.sent
        with pytest.raises(sushy.exceptions.ConnectionError):
            connector.post("/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", {"ResetType": "Nmi"})
    finally:
        connector.close()
    assert len(bmc.requests("gpu01")) - before == 2


def test_links_to_other_hosts_are_not_followed(bmc, there):
    connector = Connector(there)
    try:
        assert connector.exchange("GET", "https://192.0.2.77/redfish/v1/", timeout=(2, 5)).status_code == 200
        # without its slash the link would make our address the user name for another host
        for link in ("@192.0.2.77/redfish/v1/", ".192.0.2.77/redfish/v1/", "//192.0.2.77/redfish/v1/", "redfish/v1/"):
            assert connector.exchange("GET", link, timeout=(2, 5)).status_code in (200, 401, 404)
    finally:
        connector.close()
