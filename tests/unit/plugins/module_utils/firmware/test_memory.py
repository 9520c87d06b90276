# A 300 MB image to a BMC by each way of sending: the controller's memory does not grow with the image. Measured on a process of its own.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from bmc_simulator import testing

SIZE = 300_000_000
# More than this beside the same process with an image of nothing is not streaming: blocks of a quarter of a megabyte, TLS, buffers of the kernel's side.
MOST_BYTES = 8 << 20

SENDER = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[1])
import conftest
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.update import RedfishUpdater
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.images import Store
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.planner import Step
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.serve import ImageServer

given = json.loads(sys.argv[2])
with ImageServer("127.0.0.1") as server:
    image = Store().get({"path": given["path"], "url": None, "sha256": given["sha256"]})
    step = Step(1, 1, "BIOS", ["BIOS"], "1.0", "2.0", {"path": given["path"], "url": None}, "host_reboot", "")
    with RedfishUpdater(Endpoint(**given["endpoint"]), publish=server.publish) as updater:
        handle = updater.push(step, image, given["method"], lambda: None)
        end = time.monotonic() + 600
        while (seen := updater.task(handle))["state"] == "running" and time.monotonic() < end:
            time.sleep(0.2)
print(json.dumps({"state": seen, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["multipart", "push", "simple"])
def test_constant_memory(tmp_path, method):
    with testing.running(1) as lab:
        bmc = lab["gpu01"]
        endpoint = {key: getattr(bmc, key) for key in ("address", "port", "username", "password", "fingerprint")}

        def send(size):
            path = tmp_path / f"{size}.bin"
            head = testing.firmware_image("BIOS", "2.0", size=4096).replace(b'"size": 4096', f'"size": {size}'.encode())
            path.write_bytes(head)
            with path.open("r+b") as handle:
                handle.truncate(size)  # the rest is padding
            digest = subprocess.run(
                ["sha256sum", str(path)], capture_output=True, text=True, check=True
            ).stdout.split()[0]
            given = {"path": str(path), "sha256": digest, "endpoint": endpoint, "method": method}
            unit = str(pathlib.Path(__file__).resolve().parents[3])
            done = subprocess.run(
                [sys.executable, "-c", SENDER, unit, json.dumps(given)],
                capture_output=True,
                text=True,
                check=False,
                timeout=900,
            )
            assert done.returncode == 0, done.stderr[-2000:]
            found = json.loads(done.stdout)
            assert found["state"]["state"] == "done", found
            path.unlink()
            return found["peak"]

        small, large = send(4096), send(SIZE)
        sizes = [row["bytes"] for row in lab.control.call("images")["gpu01"]]
        assert sizes == [4096, SIZE]
    print(f"{method}: peak {small / 1e6:.1f} MB with 4 kB, {large / 1e6:.1f} MB with {SIZE / 1e6:.0f} MB")
    assert large - small < MOST_BYTES
