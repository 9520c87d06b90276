# One controller life for the kill tests of the firmware rollout: brings one node of a simulator to its baseline and prints the result as JSON.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit"))
import conftest  # makes the collection importable

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import baseline
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.engine import Limits
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import firmware
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry


def main():
    assert conftest.ROOT
    config = json.load(sys.stdin)
    options = firmware.Options(**{**config.get("options", {}), "limits": Limits(**config["limits"])})
    with open_registry(config["registry"]) as registry:
        try:
            result = firmware.update(
                Endpoint(**config["endpoint"]),
                registry,
                config["node"],
                baseline.load(config["baseline"]),
                options,
                actor="test",
            )
        except BaremetalError as error:
            result = error.as_result()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
