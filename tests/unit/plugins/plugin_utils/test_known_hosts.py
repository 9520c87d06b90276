# The known-hosts file: exactly the pinned keys, and no writer puts back an older picture.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import shlex
import threading

from ansible_collections.aicluster.baremetal.plugins.plugin_utils import known_hosts

NODE = {"name": "gpu01", "ansible_host": None, "provision_ip": "10.0.0.1", "host_key": "ssh-ed25519 AAAA"}


def test_lines_name_every_address_of_a_pinned_node(tmp_path):
    assert known_hosts.lines([NODE, {**NODE, "name": "gpu02", "host_key": None}]) == [
        "10.0.0.1,gpu01 ssh-ed25519 AAAA\n"
    ]


def test_nothing_pinned_leaves_no_file(tmp_path):
    assert not known_hosts.refresh(str(tmp_path / "cache" / "file"), list)
    assert list(tmp_path.iterdir()) == []


def test_the_file_follows_the_registry(tmp_path):
    path = tmp_path / "cache" / "file"
    assert known_hosts.refresh(str(path), lambda: [NODE])
    assert not known_hosts.refresh(str(path), lambda: [NODE])
    assert known_hosts.refresh(str(path), list)  # the key was withdrawn
    assert path.read_text() == ""


def test_an_older_picture_does_not_win(tmp_path):
    """A worker that read the nodes before another pinned a key must not write its old picture over the new file."""
    path = str(tmp_path / "file")
    registry, read_once, pinned = [NODE], threading.Event(), threading.Event()

    def slow_read():
        picture = list(registry)
        if not read_once.is_set():
            read_once.set()
            pinned.wait(10)
        return picture

    slow = threading.Thread(target=known_hosts.refresh, args=(path, slow_read))
    slow.start()
    read_once.wait(10)
    registry.append({**NODE, "name": "gpu02"})
    known_hosts.refresh(path, lambda: list(registry))
    pinned.set()
    slow.join()
    with open(path, encoding="utf-8") as handle:
        assert len(handle.readlines()) == 2


def test_ssh_trusts_this_file_only():
    words = shlex.split(known_hosts.ssh_arguments("/a b/file"))
    assert "UserKnownHostsFile=/a b/file" in words
    assert "GlobalKnownHostsFile=/dev/null" in words and "StrictHostKeyChecking=yes" in words


def test_registries_do_not_share_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, second = known_hosts.path_for("sqlite:////a.db"), known_hosts.path_for("sqlite:////b.db")
    assert first != second and first.startswith(str(tmp_path))
    assert known_hosts.path_for("sqlite:////a.db", "/etc/mine") == "/etc/mine"
