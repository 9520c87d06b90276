# The known-hosts file of a registry: SSH trusts exactly the host keys that the registry has pinned.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile


def path_for(url, setting=None):
    """The file for a registry; one file each, below the user's cache, unless the setting names one."""
    if setting:
        return os.path.abspath(os.path.expanduser(setting))
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "aicluster", f"known_hosts-{hashlib.sha256(url.encode('utf-8')).hexdigest()[:16]}")


def ssh_arguments(path):
    """Options for ssh: only keys of this file count, and an unknown key is refused, never learned."""
    return (
        f'-o UserKnownHostsFile="{path}" -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes '
        "-o UpdateHostKeys=no -o CheckHostIP=no"
    )


def lines(nodes):
    """The lines for node dicts of the registry."""
    made = []
    for node in nodes:
        if node.get("host_key"):
            addresses = {node["name"], node.get("ansible_host"), node.get("provision_ip")}
            made.append(f"{','.join(sorted(address for address in addresses if address))} {node['host_key']}\n")
    return sorted(made)


def write(path, nodes):
    """Replace the file when its content differs; readers see the old or the new file, never a part. Returns True when it changed."""
    text = "".join(lines(nodes))
    if not text and not os.path.exists(path):
        return False  # nothing to trust: without the file ssh refuses every host just as well, and reading an inventory leaves no trace
    with contextlib.suppress(OSError):
        with open(path, encoding="utf-8") as handle:
            if handle.read() == text:
                return False
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=".known_hosts-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return True
