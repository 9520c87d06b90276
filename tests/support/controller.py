# What a user of the collection has on the controller, in a directory of its own: the collection, a registry, a secret store, the environment of a run.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))
import conftest  # noqa: E402  makes the checkout and the simulator importable

assert conftest.ROOT == ROOT

from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry  # noqa: E402

PLAYBOOK = pathlib.Path(sys.executable).with_name("ansible-playbook")


class Directory:
    """`secrets`: {reference: {username, password}}. The environment has nothing of the caller's Ansible in it."""

    def __init__(self, directory, secrets, **environment):
        self.directory = directory
        collections = directory / "collections" / "ansible_collections" / "aicluster"
        collections.mkdir(parents=True)
        (collections / "baremetal").symlink_to(ROOT)
        self.url = f"sqlite:///{directory}/registry.db"
        self.secrets = directory / "secrets.yml"
        self.secrets.write_text(yaml.safe_dump(secrets))
        self.secrets.chmod(0o600)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "AICLUSTER_"))},
            "ANSIBLE_COLLECTIONS_PATH": str(directory / "collections"),
            "ANSIBLE_HOME": str(directory / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
            "AICLUSTER_REGISTRY": self.url,
            "AICLUSTER_SECRETS": str(self.secrets),
            "AICLUSTER_KNOWN_HOSTS": str(directory / "known_hosts"),
            **environment,
        }

    def open_registry(self):
        return open_registry(self.url, migrate=True)

    def ansible_playbook(self, inventory, playbook, *arguments, timeout=300):
        """(exit status, output)."""
        done = subprocess.run(
            [str(PLAYBOOK), "-i", str(inventory), str(playbook), *arguments],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr
