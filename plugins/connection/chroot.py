# Connection to an operating-system tree in a directory: the same roles that work on a live node work on an image that is being built.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
name: chroot
short_description: Run tasks inside an operating-system tree
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Runs each command with the tree as its root directory, in mount and process namespaces of its own.
  - Nothing stays mounted and no process stays behind when the command ends, also when the controller is killed.
  - Services are only enabled, never started, as E(SYSTEMD_OFFLINE) and E(debian_chroot) are set.
requirements:
  - root
  - unshare(1) of util-linux
options:
  remote_addr:
    description: The directory with the tree.
    default: inventory_hostname
    type: path
    vars:
      - name: inventory_hostname
      - name: ansible_host
      - name: ansible_chroot_tree
  executable:
    description: Shell inside the tree.
    default: /bin/sh
    type: str
    vars:
      - name: ansible_chroot_executable
extends_documentation_fragment:
  - connection_pipelining
"""

import os
import subprocess

from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_bytes, to_text
from ansible.plugins.connection import ConnectionBase

# Runs inside the new namespaces; arguments: tree, command and its arguments.
INSIDE = """
tree=$1; shift
mount --make-rprivate /
mount -t proc proc "$tree/proc"
mount -t sysfs -o ro sysfs "$tree/sys" 2>/dev/null || mount --rbind /sys "$tree/sys"
[ -e "$tree/dev/null" ] || mount --rbind /dev "$tree/dev"
mount -t tmpfs -o mode=0755,nosuid,nodev tmpfs "$tree/run"
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
 SYSTEMD_OFFLINE=1 debian_chroot=image ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} chroot "$tree" "$@"
"""


class Connection(ConnectionBase):
    """A tree in a directory of the controller."""

    transport = "aicluster.baremetal.chroot"
    has_pipelining = True
    has_tty = False
    default_user = "root"

    def _connect(self):
        if self._connected:
            return self
        tree = self.get_option("remote_addr")
        if os.geteuid() != 0:
            raise AnsibleConnectionFailure(
                f"{tree}: root is needed to work inside a tree; next: run the playbook as root"
            )
        for directory in ("proc", "sys", "run", "usr"):
            if not os.path.isdir(os.path.join(tree, directory)):
                raise AnsibleConnectionFailure(
                    f"{tree}: is not an operating-system tree; wanted: a directory {directory} in it; next: build the tree first"
                )
        self._tree = os.path.realpath(tree)
        self._connected = True
        return self

    def _run(self, arguments, data=None, stdin=None):
        command = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--",
            "/bin/sh",
            "-euc",
            INSIDE,
            "chroot",
            self._tree,
            *arguments,
        ]
        try:
            return subprocess.run(
                [to_bytes(part) for part in command],
                input=data,
                stdin=stdin if data is None else None,
                capture_output=True,
                check=False,
            )
        except OSError as error:
            raise AnsibleConnectionFailure(f"{self._tree}: unshare cannot be run: {error}; next: install util-linux")

    def exec_command(self, cmd, in_data=None, sudoable=False):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        done = self._run(
            [self.get_option("executable"), "-c", cmd],
            data=in_data,
            stdin=None if in_data is not None else subprocess.DEVNULL,
        )
        return done.returncode, done.stdout, done.stderr

    def put_file(self, in_path, out_path):
        super().put_file(in_path, out_path)
        # Through a process inside the tree: a symbolic link in the tree then means what it means there.
        try:
            with open(to_bytes(in_path), "rb") as source:
                done = self._run(["/bin/sh", "-c", 'exec cat > "$1"', "put", self._absolute(out_path)], stdin=source)
        except FileNotFoundError:
            raise AnsibleFileNotFound(f"file or module does not exist: {in_path}")
        if done.returncode:
            raise AnsibleError(f"{self._tree}: cannot write {out_path}: {to_text(done.stderr).strip()}")

    def fetch_file(self, in_path, out_path):
        super().fetch_file(in_path, out_path)
        done = self._run(["/bin/cat", self._absolute(in_path)], stdin=subprocess.DEVNULL)
        if done.returncode:
            raise AnsibleError(f"{self._tree}: cannot read {in_path}: {to_text(done.stderr).strip()}")
        with open(to_bytes(out_path), "wb") as target:
            target.write(done.stdout)

    @staticmethod
    def _absolute(path):
        path = to_text(path)
        return path if path.startswith("/") else os.path.join("/root", path)

    def close(self):
        self._connected = False
