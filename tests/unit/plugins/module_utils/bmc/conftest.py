# One simulator for all tests of the Redfish client; each test sets its own faults, and the fixture puts the BMC back.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import operations
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from bmc_simulator import testing


@pytest.fixture(autouse=True)
def guard_of_its_own(tmp_path, monkeypatch):
    """What one test had refused must not be remembered in another, nor on this machine."""
    monkeypatch.setenv("AICLUSTER_BMC_GUARD", str(tmp_path / "guard"))


@pytest.fixture(scope="session")
def simulator():
    with testing.running(1) as lab:
        yield lab


@pytest.fixture
def bmc(simulator):
    """(lab, endpoint) of one BMC in its first state, powered off; `count(method)` is not needed: lab.requests has every write."""
    simulator.reset_behaviour("gpu01")
    yield simulator
    simulator.reset_behaviour("gpu01")


def endpoint(lab, name="gpu01", **changes):
    found = lab[name]
    return Endpoint(
        **{
            "address": found.address,
            "port": found.port,
            "username": found.username,
            "password": found.password,
            "fingerprint": found.fingerprint,
            "name": name,
            "timeout": 20.0,
            **changes,
        }
    )


@pytest.fixture
def there(bmc):
    return endpoint(bmc)


@pytest.fixture
def fresh():
    """A simulator of its own, for tests that change accounts."""
    with testing.running(1) as lab:
        yield lab


def writes(lab, name="gpu01"):
    """What was written to the BMC, "PATCH 1": method and last part of the path."""
    return [f"{entry['method']} {entry['path'].rsplit('/', 1)[-1]}" for entry in lab.requests(name)]


@pytest.fixture
def off(bmc, there):
    """The endpoint of a BMC whose server is off and has no boot override."""
    operations.power(there, "off", interval=0.05)
    operations.boot(there, "none", interval=0.05)
    return there
