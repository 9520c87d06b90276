# The known-hosts file of a registry: SSH trusts exactly the host keys that the registry has pinned.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile

from ansible_collections.aicluster.baremetal.plugins.plugin_utils import user_cache


def path_for(url, setting=None):
    """The file for a registry; one file each, below the user's cache, unless the setting names one."""
    if setting:
        return os.path.abspath(os.path.expanduser(setting))
    return user_cache.below(f"known_hosts-{hashlib.sha256(url.encode('utf-8')).hexdigest()[:16]}")


def ssh_arguments(path):
    """Options for ssh: only keys of this file count, and an unknown key is refused, never learned.

    A host that vanishes is noticed after a minute: behind a kept connection, ssh itself would wait for ever.
    """
    return (
        f'-o UserKnownHostsFile="{path}" -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes '
        "-o UpdateHostKeys=no -o CheckHostIP=no -o ServerAliveInterval=15 -o ServerAliveCountMax=4"
    )


def lines(nodes):
    """The lines for node dicts of the registry."""
    made = []
    for node in nodes:
        if node.get("host_key"):
            addresses = {node["name"], node.get("ansible_host"), node.get("provision_ip")}
            made.append(f"{','.join(sorted(address for address in addresses if address))} {node['host_key']}\n")
    return sorted(made)


def refresh(path, read, seen=None):
    """Bring the file up to the nodes that `read()` gives (`seen`: what it gave just now). Returns True when it changed.

    Workers of one run do this at the same time. Before writing, the nodes are read again under a lock, so that none replaces the file by an older picture
    of the registry. Readers of the file see the old or the new one, never a part.
    """
    present = _read(path)
    wanted = "".join(lines(read() if seen is None else seen))
    # With nothing to trust there is no need for a file: ssh refuses every host just as well, and reading an inventory leaves no trace.
    if wanted == (present or ""):
        return False
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = "".join(lines(read()))
        if wanted == _read(path):
            return False
        _write(path, directory, wanted)
        return True
    finally:
        os.close(lock)


def _read(path):
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read()
    except FileNotFoundError:
        return None


def _write(path, directory, text):
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=".known_hosts-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
