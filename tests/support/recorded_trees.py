# Redfish trees recorded from real hardware: where they are, a carrier that answers from one without a socket, and the ways to spoil one.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The trees are no part of the project: they are looked for in AICLUSTER_CORPUS, else beside the checkout. Importable once the checkout is a collection
(tests/unit/conftest.py)."""

from __future__ import annotations

import json
import os
import pathlib
import tarfile

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.transform import same_path

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = pathlib.Path(os.environ.get("AICLUSTER_CORPUS") or ROOT.parent / "shared" / "corpus")
ARCHIVE = CORPUS / "redfish.tar.xz"
LEFT_OUT = ("Registries", "JsonSchemas")


def read_trees(archive=ARCHIVE, left_out=LEFT_OUT):
    """{tree: {normal path: resource}}; folders named in `left_out` are not read, and neither is what is no JSON object."""
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = pathlib.PurePosixPath(member.name).parts
            if not member.isfile() or parts[-1] != "index.json" or "v1" not in parts or set(left_out) & set(parts):
                continue
            start = parts.index("v1") - 1  # <anything>/<tree>/redfish/v1/...
            try:
                body = json.loads(tar.extractfile(member).read())
            except ValueError:
                continue
            if isinstance(body, dict):
                found.setdefault(parts[start - 1], {})[same_path("/" + "/".join(parts[start:-1]))] = body
    return found


class Reply:
    """An answer as `bmc.redfish` takes it from a carrier; `body` is given out as it is, not as a copy."""

    headers = {}

    def __init__(self, status, body=None):
        self.status_code, self.body = status, body
        self.content = b"" if body is None else b"{}"

    @property
    def text(self):
        return "" if self.body is None else json.dumps(self.body)

    def json(self):
        return self.body


class Carrier:
    """Takes the place of `Endpoint.transport`: reads come from the tree, writes are only counted. `reads`: paths that were asked for and are there.

    `spoil(resource)` may give another resource on its way.
    """

    def __init__(self, tree, spoil=None):
        self.tree, self.spoil = tree, spoil
        self.reads, self.writes = set(), []

    def __call__(self, endpoint):
        return self

    def exchange(self, method, path, body=None, headers=None, timeout=None, **unused):
        if method != "GET":
            if "sessions" in path.lower() or set(body or ()) == {"UserName", "Password"}:
                return Reply(404, {})
            self.writes.append((method, path, body))
            return Reply(204)
        key = same_path(path)
        resource = None if "$expand" in path else self.tree.get(key)
        if resource is None:
            return Reply(404, {})
        self.reads.add(key)
        return Reply(200, self.spoil(resource) if self.spoil else resource)

    def drop_connections(self):
        pass

    close = drop_connections


def dice_spoiler(dice, lost=0.05, odd=((None, 0.03), ("text", 0.01), (7, 0.01))):
    """A `spoil` that takes away a share of all properties at every depth (but @odata.id), and puts `odd` values in the place of others."""

    def spoil(value):
        if isinstance(value, list):
            return [spoil(item) for item in value]
        if not isinstance(value, dict):
            return value
        kept = {}
        for key, item in value.items():
            roll = dice.random()
            if roll < lost and key != "@odata.id":
                continue
            bound = lost
            for replacement, share in odd:
                bound += share
                if roll < bound:
                    kept[key] = json.loads(json.dumps(replacement))
                    break
            else:
                kept[key] = spoil(item)
        return kept

    return spoil


def properties(value, path=""):
    """(pointer, dict that holds it, key) of every property at every depth of a resource."""
    if isinstance(value, dict):
        for key, item in list(value.items()):
            here = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
            yield here, value, key
            yield from properties(item, here)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from properties(item, f"{path}/{number}")


def each_spoiled(resource):
    """(pointer, "removed" or "null") for every property of `resource`, which is changed in place while the caller has it, and put right afterwards."""
    for pointer, holder, key in list(properties(resource)):
        before = dict(holder)
        for how in ("removed", "null") if before[key] is not None else ("removed",):
            if how == "removed":
                del holder[key]
            else:
                holder[key] = None
            try:
                yield pointer, how
            finally:
                holder.clear()
                holder.update(before)
