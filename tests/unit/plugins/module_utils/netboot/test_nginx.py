# nginx configuration: the real nginx serves the image with it, logs the bytes, and refuses everything else.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import nginx, timeline

needs_nginx = pytest.mark.skipif(not shutil.which("nginx"), reason="could_not_test: no nginx here")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rendered(base: pathlib.Path, port, networks=("127.0.0.0/8",)):
    for name in ("images/deb", "loader", "state"):
        (base / name).mkdir(parents=True)
    return nginx.render(
        "127.0.0.1",
        port,
        networks,
        str(base / "images"),
        str(base / "loader"),
        str(base / "state"),
        str(base / "access.log"),
        str(base / "error.log"),
        str(base / "nginx.pid"),
        workers=1,
        user="root" if os.geteuid() == 0 else None,
    )


@needs_nginx
@pytest.mark.parametrize("networks,allowed", [(("127.0.0.0/8",), True), (("10.0.0.0/8",), False)])
def test_serves_the_image_and_logs_its_bytes(tmp_path, networks, allowed):
    port = free_port()
    text = rendered(tmp_path, port, networks)
    nginx.check(text)
    (tmp_path / "images/deb/disk.raw").write_bytes(b"x" * 70000)
    config = tmp_path / "nginx.conf"
    config.write_text(text)
    server = subprocess.Popen(["nginx", "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        for _turn in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        base = f"http://127.0.0.1:{port}"
        if allowed:
            with urllib.request.urlopen(base + "/images/deb/disk.raw", timeout=10) as answer:
                assert len(answer.read()) == 70000
        else:
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(base + "/images/deb/disk.raw", timeout=10)
            assert caught.value.code == 403
        for path in ("/", "/images/", "/images/../state/"):
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(base + path, timeout=10)
    finally:
        server.terminate()
        server.wait(timeout=10)
    entries = [timeline.read_nginx(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    first = entries[0]
    assert first["path"] == "/images/deb/disk.raw" and first["address"] == "127.0.0.1" and first["complete"]
    assert (first["status"], first["bytes"]) == ((200, 70000) if allowed else (403, first["bytes"]))


@needs_nginx
def test_the_check_can_fail():
    with pytest.raises(InvalidInput, match="nginx refuses"):
        nginx.check("daemon off; events {} http { nonsense on; }")


def test_bad_input(tmp_path):
    with pytest.raises(InvalidInput):
        nginx.render("127.0.0.1", 1, [], "/a;b", "/l", "/s", "/x", "/y", "/z")
    with pytest.raises(ValueError):
        nginx.render("not-an-address", 1, [], "/a", "/l", "/s", "/x", "/y", "/z")
