# The boot service as it is shipped: one file, started with a settings file, serving on loopback, ended by SIGTERM.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import bundle


@pytest.fixture
def service(lab, tmp_path):
    """(argv, settings dict, port) of a built service for the test's registry; loopback counts as the provisioning network."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "hosts").mkdir()
    (tmp_path / "state").mkdir()
    path = tmp_path / "settings.json"
    settings = {
        "registry": f"sqlite:///{tmp_path}/registry.db",
        "session_key": "k" * 40,
        "api_url": f"http://127.0.0.1:{port}",
        "image_url": "http://127.0.0.1:1/images",
        "provision_networks": ["127.0.0.0/8"],
        "port": port,
        "reservation_dir": str(tmp_path / "hosts"),
        "state_dir": str(tmp_path / "state"),
        "poll_s": 0.1,
    }
    path.write_text(json.dumps(settings))
    path.chmod(0o600)
    pyz = tmp_path / "boot-service.pyz"
    pyz.write_bytes(bundle.build())
    return [sys.executable, str(pyz), "--settings", str(path)], path, port


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return answer.read().decode()


def test_the_bundle_is_reproducible():
    assert bundle.build() == bundle.build()


def test_serves_and_ends_on_request(lab, service):
    argv, _path, port = service
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for _turn in range(200):
            try:
                if get(port, "/healthz") == "ok\n":
                    break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        else:
            pytest.fail("the service did not answer within 20 s")
        assert get(port, "/boot.ipxe?mac=52:54:00:77:00:02").rstrip().endswith("exit 1")
        for _turn in range(100):
            if "reserved" in lab.steps():
                break
            time.sleep(0.1)
        assert lab.steps() == ["reserved"], "the watcher works on the same registry"
        with open(f"/proc/{process.pid}/cmdline", "rb") as handle:
            assert b"sqlite" not in handle.read(), "the registry URL is not on the command line"
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=20)[0]
        assert process.returncode == 0, output
        assert "sqlite" not in output and "kkkk" not in output
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.parametrize("broken,word", [("mode", "mode 0644"), ("registry", "registry")])
def test_a_service_that_cannot_start_says_why(lab, service, broken, word):
    argv, path, _port = service
    if broken == "mode":
        path.chmod(0o644)
    else:
        path.write_text(path.read_text().replace("registry.db", "none/registry.db"))
    done = subprocess.run([*argv, "--check"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and word in done.stderr and "Traceback" not in done.stderr
