# Puts the files of a role in place on a node, all in one call: observe, plan, apply. Whole or not at all for each file; owner is root.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
import json
import os
import stat
import tempfile
import zlib

from ..core.errors import InvalidInput
from ..core.plan import Change, Plan

_TEXT_LIMIT = 100000  # bytes of a file that a difference still shows


def pack(contents):
    """One text for {path: bytes}: what goes over the wire."""
    plain = json.dumps(
        {path: base64.b64encode(data).decode("ascii") for path, data in contents.items()}, sort_keys=True
    )
    return base64.b64encode(zlib.compress(plain.encode("utf-8"), 9)).decode("ascii")


def unpack(archive):
    """The {path: bytes} of `pack`."""
    try:
        plain = json.loads(zlib.decompress(base64.b64decode(archive)).decode("utf-8"))
        return {path: base64.b64decode(data) for path, data in plain.items()}
    except (ValueError, zlib.error):
        raise InvalidInput(
            "cannot be read", thing="archive", wanted="what the action plugin packs", next_step="use the action plugin"
        ) from None


def observe(path):
    """{content, mode, owner} of a regular file, None where there is none. InvalidInput for a directory: it is never replaced."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISDIR(status.st_mode):
        raise InvalidInput(
            "a directory is where a file should be",
            thing=path,
            wanted="a file",
            seen="a directory",
            next_step="move the directory away and run again",
        )
    if not stat.S_ISREG(status.st_mode):
        return {"content": b"", "mode": "not a regular file", "owner": status.st_uid}
    with open(path, "rb") as stream:
        content = stream.read()
    return {"content": content, "mode": f"{stat.S_IMODE(status.st_mode):04o}", "owner": status.st_uid}


def plan(observed, wanted, owner=0):
    """Plan over {path: {content, mode}}; the things are paths, before and after as `observe` gives them."""
    changes = []
    for path, want in wanted.items():
        mode = f"{int(str(want['mode']), 8):04o}"
        changes.append(Change(path, observed.get(path), {"content": want["content"], "mode": mode, "owner": owner}))
    return Plan([change for change in changes if change.before != change.after])


def _shown(side):
    if side is None:
        return ""
    head = f"# mode {side['mode']}, owner {side['owner']}\n"
    if len(side["content"]) > _TEXT_LIMIT or b"\0" in side["content"]:
        return f"{head}# {len(side['content'])} bytes that are no text\n"
    return head + side["content"].decode("utf-8", "replace")


def differences(todo):
    """Ansible's diff, one entry a file."""
    return [
        {
            "before_header": change.thing,
            "after_header": change.thing,
            "before": _shown(change.before),
            "after": _shown(change.after),
        }
        for change in todo.changes
    ]


def apply(todo):
    """Write what the plan says. A reader sees the old file or the new one, never a part."""
    for change in todo.changes:
        folder = os.path.dirname(change.thing)
        _make(folder)
        handle, temporary = tempfile.mkstemp(prefix=".aicluster-", dir=folder)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(change.after["content"])
                os.fchown(out.fileno(), change.after["owner"], 0 if change.after["owner"] == 0 else -1)
                os.fchmod(out.fileno(), int(change.after["mode"], 8))
            os.replace(temporary, change.thing)
        except BaseException:
            os.unlink(temporary)
            raise


def _make(folder):
    """The directory and its parents, 0755 whatever the umask; those that are there stay as they are."""
    if not folder or os.path.isdir(folder):
        return
    _make(os.path.dirname(folder))
    os.mkdir(folder)
    os.chmod(folder, 0o755)
