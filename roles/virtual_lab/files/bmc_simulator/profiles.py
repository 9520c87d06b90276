# Vendor profiles: how the BMC of a product differs from the plain simulated one. The data are in profiles/*.json.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A profile renames paths, edits resources and sets behaviour; the state behind it stays the same.

Paths in a profile are those of the plain BMC, below /redfish/v1 (Systems/1, Managers/BMC, Chassis/1); `*` stands for one part.

label, synthetic, source   what it is, whether it was built from reports alone, and where the facts come from
paths                      {plain path: path of this product}; a path that begins with / is not below /redfish/v1
systems                    ids of the systems, if one BMC has several that are servers of their own
resources                  {path: {set: values to merge, drop: [properties], absent: true, add: a whole resource, members: [ids]}}
behaviour, hardware        as in the description of a fleet
components                 the firmware inventory, complete
bios                       {attributes: {name: value}, choices: {name: [values]}, registry: name of the attribute registry}
tls                        `legacy`: only TLS 1.0 and 1.1
task_id                    a format such as "JID_{:012d}"

`$serial`, `$uuid` and `$name` in texts become those of the node. `null` in `set` is a null in the answer.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
from typing import TYPE_CHECKING, Any

from .behaviour import BehaviourError, check_value
from .firmware import DEFAULTS, components

if TYPE_CHECKING:
    from .node import Node

Json = dict[str, Any]
V1 = "/redfish/v1"
DIRECTORY = pathlib.Path(__file__).with_name("profiles")
KEYS = {
    "label",
    "synthetic",
    "source",
    "paths",
    "systems",
    "resources",
    "behaviour",
    "hardware",
    "components",
    "bios",
    "tls",
    "task_id",
}
EDIT_KEYS = {"set", "drop", "absent", "add", "members"}


class ProfileError(ValueError):
    """A profile that does not exist or is not well formed."""


def names() -> list[str]:
    return sorted(path.stem for path in DIRECTORY.glob("*.json"))


@functools.cache
def load(name: str) -> Profile | None:
    """The profile of that name, checked; None for `default`, the plain BMC."""
    if name == "default":
        return None
    path = DIRECTORY / f"{name}.json"
    if name not in names():
        raise ProfileError(f"there is no profile {name!r} (profiles: default, {', '.join(names())})")
    return Profile(name, json.loads(path.read_text(encoding="utf-8")))


def merge(target: Json, values: Json) -> Json:
    """A copy of `target` with `values` laid over it, objects within objects; null is a value."""
    out = dict(target)
    for key, value in values.items():
        old = out.get(key)
        out[key] = merge(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return out


def _full(path: str) -> str:
    return path if path.startswith("/") else f"{V1}/{path}"


class Profile:
    """One product. Shared by all BMCs that have it."""

    def __init__(self, name: str, value: Json):
        self.name = name
        problems = [f"{key}: unknown key" for key in value if key not in KEYS]
        self.label: str = value.get("label", name)
        self.synthetic = bool(value.get("synthetic"))
        self.source: str = value.get("source", "")
        self.systems: list[str] = value.get("systems", [])
        self.hardware: Json = value.get("hardware", {})
        self.legacy_tls = value.get("tls") == "legacy"
        self.task_id: str = value.get("task_id", "{}")
        bios = value.get("bios", {})
        self.bios_attributes: Json | None = bios.get("attributes")
        self.bios_choices: dict[str, list] = bios.get("choices", {})
        self.bios_registry: str | None = bios.get("registry")
        self.behaviour: Json = {}
        for switch, setting in value.get("behaviour", {}).items():
            try:
                self.behaviour[switch] = check_value(switch, setting)
            except BehaviourError as error:
                problems.append(str(error))
        self.components = DEFAULTS
        try:
            if "components" in value:
                self.components = components(value["components"], base={})
        except ValueError as error:
            problems.append(f"components: {error}")
        self._edits: dict[str, Json] = {}
        self._patterns: list[tuple[re.Pattern[str], Json]] = []
        for path, edit in value.get("resources", {}).items():
            if set(edit) - EDIT_KEYS:
                problems.append(f"resources.{path}: knows {', '.join(sorted(EDIT_KEYS))}")
            elif "*" in path:
                pattern = re.escape(_full(path)).replace(r"\*", "[^/]+")
                self._patterns.append((re.compile(f"^{pattern}$"), edit))
            else:
                self._edits[_full(path) if path else V1] = edit
        self._translate(value.get("paths", {}))
        if problems:
            raise ProfileError(f"profile {name}: " + "; ".join(problems))

    # ---- paths ---------------------------------------------------------------------------------

    def _translate(self, paths: dict[str, str]) -> None:
        table = {_full(plain): _full(own) for plain, own in paths.items()}
        if self.systems:
            table[f"{V1}/Systems/1"] = f"{V1}/Systems/{self.systems[0]}"
            below = {plain: own for plain, own in table.items() if plain.startswith(f"{V1}/Systems/1")}
            for number, identity in enumerate(self.systems[1:], 2):
                for plain, own in below.items():
                    plain = plain.replace("/Systems/1", f"/Systems/@{number}", 1)
                    table[plain] = own.replace(f"/Systems/{self.systems[0]}", f"/Systems/{identity}", 1)
        self._out = table
        self._in = {own: plain for plain, own in table.items()}

        def any_of(texts: Any) -> str:
            return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))

        self._out_json = re.compile(f'"({any_of(table)})(?=[/"#?])') if table else None
        self._out_path = re.compile(f"^({any_of(table)})(?=[/#?]|$)") if table else None
        self._in_path = re.compile(f"^({any_of(self._in)})(?=[/#?]|$)") if table else None

    def plain(self, path: str) -> str | None:
        """The plain path of a path that a client asked for; None for one that this product does not have."""
        if self._in_path is None:
            return path
        if self._in_path.match(path):
            return self._in_path.sub(lambda match: self._in[match.group(1)], path)
        return None if self._out_path.match(path) else path

    def plain_body(self, value: Any) -> Any:
        """A body with the URIs in it as the plain BMC has them."""
        if isinstance(value, str) and value.startswith("/"):
            return self.plain(value) or value
        if isinstance(value, dict):
            return {key: self.plain_body(item) for key, item in value.items()}
        return [self.plain_body(item) for item in value] if isinstance(value, list) else value

    def own(self, path: str) -> str:
        return path if self._out_path is None else self._out_path.sub(lambda match: self._out[match.group(1)], path)

    def own_json(self, text: str) -> str:
        """The text of a JSON body with the product's own paths."""
        if self._out_json is None:
            return text
        return self._out_json.sub(lambda match: '"' + self._out[match.group(1)], text)

    # ---- resources -----------------------------------------------------------------------------

    def edits(self, path: str) -> list[Json]:
        found = [edit for pattern, edit in self._patterns if pattern.match(path)]
        if path in self._edits:
            found.append(self._edits[path])
        return found

    def drops(self, path: str, key: str) -> bool:
        return any(key in edit.get("drop", ()) for edit in self.edits(path))

    def shape(self, node: Node, path: str, body: Json | None) -> Json | None:
        """The resource as this product has it, or None if it has it not."""
        for edit in self.edits(path):
            if edit.get("absent"):
                return None
            if body is None and "add" in edit:
                body = {"@odata.id": path, "Id": path.rsplit("/", 1)[1], **self._fill(node, edit["add"])}
            if body is None:
                continue
            body = {key: value for key, value in body.items() if key not in edit.get("drop", ())}
            if "set" in edit:
                body = merge(body, self._fill(node, edit["set"]))
            if "members" in edit:
                base = str(body.get("@odata.id", path)).rstrip("/")
                body["Members"] = body["Members"] + [{"@odata.id": f"{base}/{name}"} for name in edit["members"]]
                body["Members@odata.count"] = len(body["Members"])
        if body is not None and path in self._out and "Id" in body:
            body = {**body, "Id": self._out[path].rsplit("/", 1)[1]}
        return body

    def _fill(self, node: Node, value: Any) -> Any:
        if isinstance(value, str):
            if "$" not in value:
                return value
            config = node.config
            for key in ("serial", "uuid", "name"):
                value = value.replace(f"${key}", config[key])
            return value
        if isinstance(value, dict):
            return {key: self._fill(node, item) for key, item in value.items()}
        return [self._fill(node, item) for item in value] if isinstance(value, list) else value
