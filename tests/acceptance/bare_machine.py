# A machine with nothing installed, for what a new user does first: the root directory of a fresh Debian, with processes and mounts of its own.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The kernel and the network are this machine's; files, packages, processes and mounts are the fresh system's, with Debian's minimum, Python, git and make.

What this machine's own package tools are set to (apt and pip configuration, certificate authorities, proxy variables) is taken over.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import time

from support import Lab, check, execute

PACKAGES = "ca-certificates,git,make,python3"
TAKEN_OVER = (
    "/etc/apt/apt.conf.d",
    "/etc/pip.conf",
    "/root/.config/pip",
    "/usr/local/share/ca-certificates",
    "/etc/resolv.conf",
    "/etc/hosts",
)
_HOLDER = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/run"
exec chroot "$1" /bin/bash -c 'touch /run/up; while :; do sleep 3600 & wait $!; done'
"""


class BareMachine:
    """A `with` block's machine; at its end every process of it is killed and its directory removed."""

    def __init__(self, folder, suite="bookworm", mirror=None):
        self.folder, self.suite, self.mirror = pathlib.Path(folder), suite, mirror
        self.holder = self.pid = None

    def __enter__(self):
        words = ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", self.suite, str(self.folder)]
        made = execute([*words, *([self.mirror] if self.mirror else [])], timeout=1200)
        check(made.status == 0, f"a fresh {self.suite} could not be made: {made.tail(3)}")
        for name in TAKEN_OVER:
            source, target = pathlib.Path(name), self.folder / name[1:]
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            elif source.exists():
                target.unlink(missing_ok=True)
                shutil.copy(source, target)
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", _HOLDER, "holder"]
        self.holder = subprocess.Popen([*words, str(self.folder)], stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            self._wait()
            check(self.run("update-ca-certificates").status == 0, "the certificate authorities could not be taken over")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self):
        children = pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        for _turn in range(100):
            self.pid = int((children.read_text().split() or [0])[0])
            if self.pid and (self.root / "run" / "up").exists():
                return
            time.sleep(0.1)
        check(False, "the fresh machine's first process did not start")

    def __exit__(self, *_details):
        self.holder.kill()  # its child is the first process of the machine, whose end is everybody's there
        self.holder.wait()
        for _turn in range(50):
            if not pathlib.Path(f"/proc/{self.pid}/root/bin").exists():
                break
            time.sleep(0.1)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def root(self):
        """The machine's files as seen from here, the mounts of its own included."""
        return pathlib.Path(f"/proc/{self.pid}/root")

    def words(self, *command, cwd="/", **environment):
        kept = {
            key: value for key, value in os.environ.items() if key.lower().endswith("_proxy") or key.startswith("PIP_")
        }
        kept.update(
            HOME="/root",
            PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            TERM="dumb",
            **environment,
        )
        inside = ["env", "-i", "-C", cwd, *(f"{key}={value}" for key, value in kept.items()), *command]
        return ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--root", *inside]

    def run(self, *command, timeout=1800, **more):
        return execute(self.words(*command, **more), timeout=timeout)


class BareLab(Lab):
    """A lab on a fresh machine, in a clone of this checkout there."""

    def __init__(self, name, machine, checkout="/root/baremetal"):
        super().__init__(name, machine.root / checkout[1:])
        self.machine, self.inside = machine, checkout
        self.state = machine.root / "var/lib/aicluster" / name
        self.run_dir = machine.root / "run/aicluster" / name
        self.registry_url = f"sqlite:///{self.state}/registry.db"
        self.secrets = self.state / "secrets.yml"

    def make(self, target, timeout=2400, **variables):
        words = [f"{key}={value}" for key, value in variables.items()]
        return self.machine.run(
            "make", "--no-print-directory", target, f"LAB={self.name}", *words, cwd=self.inside, timeout=timeout
        )

    def prepare(self, **variables):
        """The lab without its stages: what make demo does up to its playbook lab."""
        options = {
            "AICLUSTER_LAB": self.name,
            "AICLUSTER_LAB_NODES": str(variables.get("NODES", "")),
            "ANSIBLE_CONFIG": f"{self.inside}/inventories/lab/ansible.cfg",
        }
        steps = ".ci/packages lab && .ci/venv && .venv/bin/ansible-playbook playbooks/image.yml playbooks/lab.yml"
        return self.machine.run("bash", "-c", steps, cwd=self.inside, **options)
