# A firmware baseline made ready for a twin: stand-in images, the same versions and rules, and simulated servers that run what a real one runs.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`fleet --baseline FILE --server SERVER.json`. A vendor's image means nothing to a simulated BMC: each is replaced by a stand-in of the same component
and version.

Into the fleet's directory: `baseline.yml` with `images/`, and `expected_servers.yml` that gives every server the baseline's platform. Only what depends on the
images changes in the baseline, and its pauses: time is not rehearsed. SERVER.json is what bmc_firmware_info says of a server, or a list of {id, version}.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
from typing import Any

from . import firmware, profiles
from .schema import SchemaError

Json = dict[str, Any]
# The rules under which the simulator's own order of versions is the same; with another, an image takes any version.
SAME_ORDER = ("dotted", "release", "idrac", "natural")


def prepare(
    baseline: str, server: str, directory: pathlib.Path, platform: str | None, profile: str | None
) -> tuple[Json, str]:
    """Write the twin's baseline; returns the components of its servers and the name of the platform. Raises SchemaError."""
    data, rows = _read_baseline(baseline), _read_server(server)
    platforms = data["platforms"]
    if platform is None and len(platforms) == 1:
        platform = next(iter(platforms))
    if platform not in platforms:
        raise SchemaError([f"{baseline}: which platform? --platform wants one of {', '.join(platforms)}"])
    base = (profiles.load(profile).components if profile and profile != "default" else None) or firmware.DEFAULTS
    own = {row.id or name: name for name, row in base.items()}
    # the server has what the list says and nothing else
    components: Json = {name: None for key, name in own.items() if key not in rows}
    for key, version in rows.items():
        name = own.get(key, key)
        components[name] = {"version": version, **({} if key == name else {"id": key})}
    images = directory / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name, component in platforms[platform]["components"].items():
        if component.get("path", "bmc") != "bmc":
            _image_file(component["image"], images, f"{name}.bin", b"done by a tool on the node, not on a twin")
            continue
        ids = [key for key in rows if re.search(component.get("inventory") or f"^{re.escape(name)}$", key)]
        for key in ids:
            components[own.get(key, key)].update(_activation(component["activation"], key))
        names = [own.get(key, key) for key in ids] or [name]
        ordered = component.get("rule", "dotted") in SAME_ORDER and not component.get("extract")
        for number, (version, entry) in enumerate(_versions(component)):
            accepts = _conditions(component) if ordered and number == 0 else None
            content = firmware.make_bundle(dict.fromkeys(names, version), accepts=accepts)
            _image_file(entry, images, f"{name}-{number}.bin", content)
    platforms = {platform: {**platforms[platform], "pause_s": 0, "settle_s": 1}}
    text = {"schema": data.get("schema", 1), "name": f"twin of {data.get('name', baseline)}", "platforms": platforms}
    # JSON is YAML, and keeps every version a text
    (directory / "baseline.yml").write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
    return components, platform


def write_expected(directory: pathlib.Path, servers: list[Json], platform: str) -> None:
    """The delivery list of the twin, for discovery: it is what tells a node's platform."""
    rows = [{**row, "platform": platform} for row in servers]
    (directory / "expected_servers.yml").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _read_baseline(path: str) -> Json:
    import yaml

    try:
        data = yaml.safe_load(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SchemaError([f"{path}: {' '.join(str(error).split())}"]) from None
    try:
        for platform in data["platforms"].values():
            for component in platform["components"].values():
                for entry in _versions(component):
                    dict(entry[1])
    except (AttributeError, KeyError, TypeError) as error:
        raise SchemaError(
            [f"{path}: this is no firmware baseline ({type(error).__name__}: {error}); docs/firmware.md shows one"]
        ) from None
    return data


def _read_server(path: str) -> dict[str, str]:
    """{id in the firmware inventory: version}."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        # what `ansible -m` prints has the host's name before its result
        data = json.loads(text.partition("=>")[2] if "| SUCCESS =>" in text else text)
        rows = data["inventory"] if isinstance(data, dict) else data
        return {str(row["id"]): str(row["version"]) for row in rows if row.get("version")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SchemaError(
            [
                f"{path}: wants the result of bmc_firmware_info, or a list of objects with id and version ({type(error).__name__}: {error})"
            ]
        ) from None


def _versions(component: Json) -> list[tuple[str, Json]]:
    hops = component.get("hops") or []
    return [(component["wanted"], component["image"]), *((hop["via"], hop["image"]) for hop in hops)]


def _conditions(component: Json) -> list[str] | None:
    """What the last image is for: the versions that the baseline lets it be sent to."""
    text = component.get("from", "*")
    return None if text == "*" else [part.strip() for part in text.split(",")]


def _activation(activation: str, key: str) -> Json:
    if activation == "immediate" and re.search("bmc|idrac|ilo|xcc", key, re.IGNORECASE):
        return {"activation": "bmc_reset", "auto": True}  # takes it by itself, and is away for that
    return {"activation": activation, "auto": False}


def _image_file(entry: Json, images: pathlib.Path, name: str, content: bytes) -> None:
    """Write a stand-in and let the baseline's entry name it."""
    (images / name).write_bytes(content)
    entry.clear()
    entry.update(path=f"images/{name}", sha256=hashlib.sha256(content).hexdigest())
