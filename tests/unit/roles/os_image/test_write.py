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
import time

import pytest

DEPLOY = pathlib.Path(__file__).resolve().parents[4] / "roles" / "os_image" / "files" / "deploy"
MIB = 1 << 20
# blockdev works on block devices only; say, fail and permit are init's.
SCRIPT = """
set -o pipefail
blockdev() { :; }
say() { echo "say: $*"; }
fail() { echo "fail: $*"; exit 1; }
permit() { echo "permit: ${1##*/}"; [ "$allowed" = yes ]; }
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
        if self.path == "/slow":  # the first part is read back while the rest is still on its way
            outputfile.write(data[: 20 * MIB])
            time.sleep(1.5)
            data = data[20 * MIB :]
        # "broken": the connection ends after a third of the promised bytes.
        outputfile.write(data[: len(data) // 3] if self.path == "/broken" else data)


@pytest.fixture
def server(tmp_path):
    content = os.urandom(37 * MIB)
    for name in ("image", "broken", "slow"):
        (tmp_path / name).write_bytes(content)
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}", content
    httpd.shutdown()
    httpd.server_close()


def write(tmp_path, url, checksum, size, allowed="yes", disk=None):
    if disk is None:
        disk = tmp_path / "disk"
        disk.write_bytes(b"\xff" * MIB)
    (tmp_path / "scratch").mkdir()
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "ramdisk": str(DEPLOY), "scratch": str(tmp_path / "scratch"), "disk": str(disk),
        "IMAGE_NAME": "test", "IMAGE_URL": url, "IMAGE_SHA256": checksum, "IMAGE_SIZE": str(size), "allowed": allowed,
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
    assert (
        done.stdout.index("transfer 1 broke")
        < done.stdout.index("permit: disk")
        < done.stdout.index("transfer 2 broke")
    )
    assert not any(disk.read_bytes()[:MIB])


def test_an_attempt_that_was_overtaken_does_not_write_again(tmp_path, server):
    url, content = server
    digest = hashlib.sha256(content).hexdigest()
    done, disk = write(tmp_path, f"{url}/broken", digest, len(content), allowed="no")
    assert done.returncode == 1 and "transfer 2" not in done.stdout
    assert "fail: the boot service refused to let the broken transfer be repeated" in done.stdout
    assert not any(disk.read_bytes()[:MIB])


def test_an_odd_size_is_refused_before_any_write(tmp_path, server):
    url, content = server
    done, disk = write(tmp_path, f"{url}/image", "0" * 64, len(content) + 512)
    assert "not a multiple of 1 MiB" in done.stdout
    assert disk.read_bytes() == b"\xff" * MIB


@pytest.fixture
def leaky_disk(tmp_path):
    """A block device of 64 MiB that cannot keep its first 16 MiB: they are lost when the kernel writes them out, not when it is handed them."""
    if os.geteuid() != 0:
        pytest.skip("needs root for a loop device")
    store, device = tmp_path / "store", None
    store.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "store", str(store)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        with open(store / "disk", "wb") as handle:
            os.posix_fallocate(handle.fileno(), 16 * MIB, 48 * MIB)
        losetup = ["losetup", "--find", "--show", str(store / "disk")]
        made = subprocess.run(losetup, stdout=subprocess.PIPE, text=True, check=False)
        if made.returncode:
            pytest.skip("no loop device can be had here")
        device = pathlib.Path(made.stdout.strip())
        yield device
    finally:
        if device:
            subprocess.run(["losetup", "--detach", str(device)], check=False)
        subprocess.run(["umount", "--lazy", str(store)], check=False)


@pytest.mark.root
def test_a_disk_that_loses_what_it_was_given_is_not_taken_for_written(tmp_path, server, leaky_disk):
    url, content = server
    digest = hashlib.sha256(content).hexdigest()
    done, _disk = write(tmp_path, f"{url}/slow", digest, len(content), disk=leaky_disk)
    assert done.returncode == 1 and "written:" not in done.stdout, done.stdout
    assert f"{leaky_disk}" in done.stdout and "rror" in done.stdout
