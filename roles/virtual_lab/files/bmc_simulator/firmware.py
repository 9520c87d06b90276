# The components of a server whose firmware can be updated, the images that do it, and which reset makes a written image run.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An image is a magic line, one line of JSON, and padding. Keys of the JSON:

component, version    what the image is (or `components`: {component: version} for a bundle)
from                  conditions on the running version, such as [">=1.2", "<2"]: others are refused (the hop rule)
requires              {other component: conditions}
size                  bytes of the whole file: a shorter one was cut on its way
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
from dataclasses import dataclass
from typing import Any

MAGIC = b"AICLUSTER-FIRMWARE 1\n"
# which resets make an image run that waits for another one: more comes with the greater reset
COVERS: dict[str, tuple[str, ...]] = {
    "immediate": ("immediate",),
    "bmc_reset": ("bmc_reset",),
    "host_reboot": ("host_reboot",),
    "aux_cycle": ("bmc_reset", "host_reboot", "aux_cycle"),
    "ac_cycle": ("bmc_reset", "host_reboot", "aux_cycle", "ac_cycle"),
}
KEYS = {"version", "activation", "auto", "name", "id", "related", "updateable", "manufacturer"}


@dataclass(frozen=True, slots=True)
class Component:
    """One row of the firmware inventory.

    `activation`: the reset after which a written image runs; `auto`: the BMC does that reset by itself.
    `id`: the last part of its URI. `related`: path of what it is the firmware of, below /redfish/v1.
    """

    version: str
    activation: str = "host_reboot"
    auto: bool = False
    name: str | None = None
    id: str | None = None
    related: str | None = None
    updateable: bool = True
    manufacturer: str | None = None


DEFAULTS: dict[str, Component] = {
    "BMC": Component("1.0.0", "bmc_reset", auto=True, related="Managers/BMC"),
    "BIOS": Component("1.0.0", related="Systems/1/Bios"),
    "CPLD": Component("1.0.0", related="Chassis/1"),
}


def components(values: dict[str, Any], base: dict[str, Component] | None = None) -> dict[str, Component]:
    """The table of a description, over the `base` table: a text is a version, None takes a component away.

    Raises ValueError with the component and what is wrong with it.
    """
    out = dict(DEFAULTS if base is None else base)
    for name, value in values.items():
        if value is None:
            out.pop(name, None)
            continue
        given = {"version": value} if isinstance(value, str) else value
        if not isinstance(given, dict) or set(given) - KEYS:
            raise ValueError(f"{name}: wants a version or an object with {', '.join(sorted(KEYS))}, got {value!r}")
        old = out.get(name)
        merged = {key: given.get(key, getattr(old, key) if old else None) for key in KEYS}
        if not isinstance(merged["version"], str):
            raise ValueError(f"{name}: has no version")
        component = Component(**{key: item for key, item in merged.items() if item is not None})
        if component.activation not in COVERS:
            raise ValueError(f"{name}: activation wants one of {', '.join(COVERS)}, got {component.activation!r}")
        out[name] = component
    return out


# ---- versions ----------------------------------------------------------------------------------


def version_key(version: str) -> tuple[tuple[int, Any], ...]:
    """Numbers compare as numbers, words as words, and a number is later than a word."""
    return tuple((1, int(part)) if part.isdigit() else (0, part) for part in re.findall(r"\d+|[A-Za-z]+", version))


def compare(one: str, two: str) -> int:
    """Negative, zero or positive; 1.2 and 1.2.0 are equal."""
    for a, b in itertools.zip_longest(version_key(one), version_key(two), fillvalue=(1, 0)):
        if a != b:
            return -1 if a < b else 1
    return 0


_OPERATORS = {
    "<=": lambda order: order <= 0,
    ">=": lambda order: order >= 0,
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<": lambda order: order < 0,
    ">": lambda order: order > 0,
}


def fits(version: str, conditions: list[str]) -> bool:
    """Whether a version fulfils all conditions (`>=1.2`, `<2`, `==1.5`, or a bare version)."""
    for condition in conditions:
        match = re.fullmatch(r"\s*(<=|>=|==|!=|<|>)?\s*(\S+)\s*", condition)
        if not match:
            raise ValueError(f"wants a condition such as '>=1.2', got {condition!r}")
        if not _OPERATORS[match.group(1) or "=="](compare(version, match.group(2))):
            return False
    return True


# ---- images ------------------------------------------------------------------------------------


def make_image(
    component: str,
    version: str,
    size: int = 4096,
    accepts: list[str] | None = None,
    requires: dict[str, list[str]] | None = None,
) -> bytes:
    """An image as a file; `accepts` becomes the hop rule."""
    return _image({"component": component, "version": version}, size, accepts, requires)


def make_bundle(versions: dict[str, str], accepts: list[str] | None = None) -> bytes:
    """One image for several components, or for several of a kind."""
    return _image({"components": versions}, 4096, accepts, None)


def _image(head: dict[str, Any], size: int, accepts: list[str] | None, requires: dict[str, list[str]] | None) -> bytes:
    if accepts:
        head["from"] = accepts
    if requires:
        head["requires"] = requires
    head["size"] = size
    text = MAGIC + json.dumps(head).encode() + b"\n"
    if len(text) > size:
        head["size"] = size = len(text) + 16
        text = MAGIC + json.dumps(head).encode() + b"\n"
    return text + bytes(max(0, size - len(text)))


def read_image(path: pathlib.Path) -> dict[str, Any]:
    """The head of an image, checked; raises ValueError."""
    with path.open("rb") as handle:
        if handle.readline(64) != MAGIC:
            raise ValueError("the image is not a firmware image of this server")
        try:
            head = json.loads(handle.readline(65536))
            parts = head.get("components") or {str(head["component"]): str(head["version"])}
            if not isinstance(parts, dict):
                raise TypeError(parts)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError("the head of the firmware image is damaged") from None
    have = path.stat().st_size
    if head.get("size") not in (None, have):
        raise ValueError(f"the image is not whole: {have} of {head['size']} bytes")
    return {**head, "components": parts}


def check_image(head: dict[str, Any], running: dict[str, str], names: list[str], force: bool, downgrades: bool) -> None:
    """Refuse an image that this server must not take; `names`: the components of it that are to be written."""
    for name in names:
        if name not in running:
            raise ValueError(f"this server has no component {name}")
        if head.get("from") and not fits(running[name], head["from"]):
            raise ValueError(
                f"{name} runs {running[name]}: the image {head['components'][name]} is for {' '.join(head['from'])}"
            )
        if not downgrades and not force and compare(head["components"][name], running[name]) < 0:
            raise ValueError(f"{name} runs {running[name]}, which is newer than {head['components'][name]}")
    for other, conditions in (head.get("requires") or {}).items():
        if other not in running or not fits(running[other], conditions):
            raise ValueError(f"the image needs {other} {' '.join(conditions)}, this server has {running.get(other)}")
