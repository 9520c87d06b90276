# The ramdisk's writing step, its own shell file under busybox: a file stands for the disk, a real HTTP server sends the image.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools
import hashlib
import http.server
import os
import pathlib
import shutil
import subprocess
import threading

import pytest

DEPLOY = pathlib.Path(__file__).resolve().parents[4] / "roles" / "os_image" / "files" / "deploy"
MIB = 1 << 20
# blockdev works on block devices only; say and fail are init's.
SCRIPT = """
set -o pipefail
blockdev() { :; }
say() { echo "say: $*"; }
fail() { echo "fail: $*"; exit 1; }
. "$ramdisk/write.sh"
write_image
echo "written: $seen"
"""
pytestmark = pytest.mark.skipif(not shutil.which("busybox"), reason="the ramdisk's shell is busybox")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def copyfile(self, source, outputfile):
        data = source.read()
        # "broken": the connection ends after a third of the promised bytes.
        outputfile.write(data[: len(data) // 3] if self.path == "/broken" else data)


@pytest.fixture
def server(tmp_path):
    content = os.urandom(37 * MIB)
    for name in ("image", "broken"):
        (tmp_path / name).write_bytes(content)
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}", content
    httpd.shutdown()
    httpd.server_close()


def write(tmp_path, url, checksum, size):
    disk = tmp_path / "disk"
    disk.write_bytes(b"\xff" * MIB)
    (tmp_path / "scratch").mkdir()
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "ramdisk": str(DEPLOY), "scratch": str(tmp_path / "scratch"), "disk": str(disk),
        "IMAGE_NAME": "test", "IMAGE_URL": url, "IMAGE_SHA256": checksum, "IMAGE_SIZE": str(size),
    }  # fmt: skip
    done = subprocess.run(
        ["busybox", "sh", "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done, disk


def test_the_disk_holds_the_image(tmp_path, server):
    url, content = server
    digest = hashlib.sha256(content).hexdigest()
    done, disk = write(tmp_path, f"{url}/image", digest, len(content))
    assert done.stdout == f"written: {digest}\n", done.stderr
    assert disk.read_bytes() == content


def test_a_wrong_checksum_is_named_and_spoils_the_disk(tmp_path, server):
    url, content = server
    done, disk = write(tmp_path, f"{url}/image", "0" * 64, len(content))
    assert done.returncode == 1
    assert f"wanted: {'0' * 64}; seen: {hashlib.sha256(content).hexdigest()}" in done.stdout
    assert not any(disk.read_bytes()[:MIB])


@pytest.mark.parametrize("path, reason", [("nothing", "404"), ("broken", "could not be written")])
def test_a_broken_transfer_is_tried_twice_and_spoils_the_disk(tmp_path, server, path, reason):
    url, content = server
    done, disk = write(tmp_path, f"{url}/{path}", hashlib.sha256(content).hexdigest(), len(content))
    assert done.returncode == 1
    assert "say: transfer 1 broke" in done.stdout and "say: transfer 2 broke" in done.stdout and reason in done.stdout
    assert not any(disk.read_bytes()[:MIB])


def test_an_odd_size_is_refused_before_any_write(tmp_path, server):
    url, content = server
    done, disk = write(tmp_path, f"{url}/image", "0" * 64, len(content) + 512)
    assert "not a multiple of 1 MiB" in done.stdout
    assert disk.read_bytes() == b"\xff" * MIB
