# The secret store: a YAML file, readable by its owner only, `{<reference>: {username: ..., password: ...}}`.
#
# Secrets stay out of the registry; a node row only has a reference. Another store (Vault, ...) takes this one's place through the setting
# aicluster_secret_lookup: the name of a lookup plugin that returns the same dict for a reference.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

try:
    import yaml
except ImportError:  # comes with ansible-core; ansible-test imports this file without it
    yaml = None


class SecretStore:
    """Reads and writes one file; refuses to touch a file that others can read or change."""

    def __init__(self, path):
        self.path = os.path.abspath(os.path.expanduser(str(path)))

    def _check(self, status):
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077:
            raise errors.Refused(
                "the secret store can be read by others",
                thing=self.path,
                wanted="mode 0600",
                seen=f"mode {mode:04o}",
                next_step=f"chmod 600 {self.path}",
                code="secret_store_mode",
            )
        if status.st_uid not in (os.geteuid(), 0):
            raise errors.Refused(
                "the secret store belongs to another user",
                thing=self.path,
                wanted=f"owner uid {os.geteuid()}",
                seen=f"owner uid {status.st_uid}",
                code="secret_store_owner",
            )

    def _read(self, missing_ok=False):
        try:
            with open(self.path, encoding="utf-8") as handle:
                self._check(os.fstat(handle.fileno()))
                data = yaml.safe_load(handle)
        except FileNotFoundError:
            if missing_ok:
                return {}
            raise errors.NotFound(
                "the secret store does not exist",
                thing=self.path,
                next_step="make it (mode 0600), or correct aicluster_secrets",
            ) from None
        except OSError as error:
            raise errors.Refused(f"the secret store cannot be read: {error.strerror}", thing=self.path) from error
        except yaml.YAMLError:
            # The parser's message quotes the file, so it must not be shown.
            raise errors.InvalidInput("the secret store is not valid YAML", thing=self.path) from None
        if data is None:
            return {}
        if not isinstance(data, dict) or not all(isinstance(value, dict) for value in data.values()):
            raise errors.InvalidInput(
                "the secret store has another shape",
                thing=self.path,
                wanted="{reference: {username: ..., password: ...}}",
            )
        return {str(key): value for key, value in data.items()}

    def get(self, reference):
        """The dict of one reference; NotFound names the reference, never what else is in the file."""
        try:
            return dict(self._read()[str(reference)])
        except KeyError:
            raise errors.NotFound(
                "the secret store has no such reference",
                thing=self.path,
                wanted=str(reference),
                next_step=f"add `{reference}: {{username: ..., password: ...}}` to it",
                code="secret_not_found",
            ) from None

    def has(self, reference):
        return str(reference) in self._read(missing_ok=True)

    def put(self, reference, values):
        """Set one reference, atomically and durably; concurrent writers wait for each other. Returns True when it changed."""
        with self._lock():
            data = self._read(missing_ok=True)
            if data.get(str(reference)) == dict(values):
                return False
            data[str(reference)] = dict(values)
            self._write(data)
            return True

    def add(self, reference, values):
        """Set one reference only where there is none yet; returns what is stored now. Of two that add at once, both get the first one's."""
        with self._lock():
            data = self._read(missing_ok=True)
            if str(reference) not in data:
                data[str(reference)] = dict(values)
                self._write(data)
            return dict(data[str(reference)])

    def remove(self, reference):
        """Forget one reference. Returns True when it was there."""
        with self._lock():
            data = self._read(missing_ok=True)
            if data.pop(str(reference), None) is None:
                return False
            self._write(data)
            return True

    @contextlib.contextmanager
    def _lock(self):
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        # A lock beside the file: the file itself is replaced by each write, so a lock on it would be on a dead inode.
        handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, data):
        directory = os.path.dirname(self.path)
        handle, temporary = tempfile.mkstemp(dir=directory, prefix=".secrets-")  # mkstemp makes it 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                yaml.safe_dump(data, out, default_flow_style=False, sort_keys=True)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, self.path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        directory_handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(directory_handle)
        finally:
            os.close(directory_handle)
