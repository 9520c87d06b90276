# Files that a task writes on the controller: can it be written there at all? Asked before any work, so that a wrong option costs nothing.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors


def require_writable(path, option):
    """Raise InvalidInput where `path` cannot become a file that this process wrote. Nothing is made; missing directories are no obstacle in themselves."""

    def refuse(seen):
        raise errors.InvalidInput(
            "cannot be written",
            thing=f"{option} {path}",
            wanted="a file in a directory that this user can write to, or that can be made",
            seen=seen,
            next_step=f"choose another {option}, or correct the directory",
        )

    full = os.path.abspath(path)
    if str(path).endswith("/") or os.path.isdir(full):
        refuse("a directory")
    if os.path.lexists(full) and not os.path.isfile(full):
        refuse("something that is no regular file")
    folder = os.path.dirname(full)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        refuse(f"{folder} is not a directory")
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        refuse(f"{folder} is on a file system that is mounted read-only")
    if not os.access(folder, os.W_OK | os.X_OK):
        refuse(f"no permission to write in {folder}")


def unusable(error):
    """The typed error for an OSError about a file, where the obstacle showed only when it was written."""
    return errors.InvalidInput(
        "a file of the controller cannot be used",
        thing=str(error.filename2 or error.filename),
        wanted="a place that this user can read and write",
        seen=error.strerror or type(error).__name__,
        next_step="correct the place or its permissions (free space, mount, owner), then run again",
        code="file_unusable",
    )
