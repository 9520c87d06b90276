# The chroot connection on a tree of its own: commands, files through links, nothing left behind.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import shutil
import time

import pytest

pytest.importorskip("ansible")
from ansible.errors import AnsibleConnectionFailure
from ansible.playbook.play_context import PlayContext

from ansible_collections.aicluster.baremetal.plugins.connection.chroot import Connection

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("busybox"), reason="needs root and a static busybox"),
]


class Tree(Connection):
    """The connection without Ansible's option loader."""

    tree = None

    def get_option(self, option, hostvars=None):
        return {"remote_addr": str(self.tree), "executable": "/bin/sh"}[option]


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for name in ("bin", "usr", "proc", "sys", "run", "dev", "root", "etc", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin" / "busybox")
    for applet in ("sh", "cat", "env", "sleep", "ls", "id"):
        (root / "bin" / applet).symlink_to("busybox")
    return root


@pytest.fixture
def connection(tree):
    opened = Tree(PlayContext())
    opened.tree = tree
    opened._connect()
    return opened


def test_commands_run_inside_with_their_input_and_status(connection, tree):
    (tree / "etc" / "mark").write_text("inside\n")
    assert connection.exec_command("cat /etc/mark; cat; exit 3", in_data=b"input") == (3, b"inside\ninput", b"")


def test_environment_says_that_this_is_an_image(connection, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_CONTROLLER", "x")
    _rc, out, _err = connection.exec_command("env")
    assert b"SYSTEMD_OFFLINE=1" in out and b"debian_chroot=image" in out and b"SECRET_OF_THE_CONTROLLER" not in out


def test_files_go_both_ways_and_links_stay_inside(connection, tree, tmp_path):
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(b"\0content\n")
    (tree / "etc" / "link").symlink_to("/etc/target")
    connection.put_file(str(source), "/etc/link")
    assert (tree / "etc" / "target").read_bytes() == b"\0content\n"
    assert not pathlib.Path("/etc/target").exists()
    connection.fetch_file("/etc/link", str(back))
    assert back.read_bytes() == b"\0content\n"


def test_no_mount_and_no_process_stays(connection, tree):
    connection.exec_command("sleep 4711 > /dev/null 2>&1 & echo started")
    assert str(tree) not in pathlib.Path("/proc/self/mounts").read_text()
    deadline = time.monotonic() + 5
    while any(b"4711" in path.read_bytes() for path in _command_lines()):
        assert time.monotonic() < deadline, "the background process outlived its command by 5 s"
        time.sleep(0.1)


def _command_lines():
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            path.read_bytes()
        except OSError:
            continue
        yield path


def test_a_directory_that_is_no_tree_is_refused(tmp_path):
    opened = Tree(PlayContext())
    opened.tree = tmp_path
    with pytest.raises(AnsibleConnectionFailure, match="is not an operating-system tree"):
        opened._connect()
