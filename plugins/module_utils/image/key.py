# The key of an image: a digest of everything that decides what the image holds, and the fixed identifiers derived from it.
# Two builds with one key are the same image by intention, so a build whose key did not change is not repeated.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json
import os
import uuid

from ..core.errors import NotFound

_SKIPPED_DIRECTORIES = {"__pycache__", ".git"}
_SKIPPED_SUFFIXES = (".pyc", ".md")
# Name space of the identifiers below (random, fixed once).
_NAMESPACE = uuid.UUID("0f1f6c52-63c5-4b5e-9d0a-2a4c3b1e7a10")


def tree_digest(path):
    """Digest of the files below a directory (or of one file): relative names, contents and the executable bit.

    Documentation and compiled files do not count. Raises NotFound when the path does not exist.
    """
    if not os.path.exists(path):
        raise NotFound(
            "does not exist",
            thing=f"image input {path}",
            wanted="a directory or file that the image is built from",
            seen="nothing",
            next_step="correct the role names or paths given for the image",
        )
    digest = hashlib.sha256()
    for name, full in sorted(_files(path)):
        with open(full, "rb") as handle:
            content = hashlib.sha256(handle.read()).hexdigest()
        digest.update(f"{name}\0{int(os.access(full, os.X_OK))}\0{content}\n".encode())
    return digest.hexdigest()


def _files(path):
    if os.path.isfile(path):
        yield os.path.basename(path), path
        return
    for directory, subdirectories, names in os.walk(path):
        subdirectories[:] = [name for name in subdirectories if name not in _SKIPPED_DIRECTORIES]
        for name in names:
            if not name.endswith(_SKIPPED_SUFFIXES):
                full = os.path.join(directory, name)
                yield os.path.relpath(full, path), full


def image_key(inputs, digests=None):
    """16 hexadecimal digits for `inputs` (options of the build, JSON-like) and `digests` ({name: tree_digest})."""
    text = json.dumps({"inputs": inputs, "digests": digests or {}}, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def identifiers(key):
    """Fixed identifiers of the image with this key: {disk_guid, esp_guid, root_guid, root_uuid, esp_id}."""
    named = {
        name: str(uuid.uuid5(_NAMESPACE, f"{key}/{name}"))
        for name in ("disk_guid", "esp_guid", "root_guid", "root_uuid")
    }
    named["esp_id"] = uuid.uuid5(_NAMESPACE, f"{key}/esp_id").hex[:8]
    return named
