# Baseline files: which firmware a platform's components are to run, where the images are and in which way one gets there. Read, checked, frozen.
#
# docs/firmware.md shows a whole file. Every complaint names the file, the place in it, what is wanted, what was seen and what to do.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field

from ..core.errors import InvalidInput, NotFound
from .versions import RULES, Condition, Rule

try:
    import yaml
except (
    ImportError
):  # ansible-test imports every file without third-party libraries; the controller has it through Ansible
    yaml = None

SCHEMA = 1
# What must happen before a written image runs. `covers`: what else is activated by it. Cost: which of two is the lesser evil.
ACTIVATIONS = {
    "immediate": {
        "covers": (),
        "cost": 0,
        "meaning": "The device takes the image by itself (it may restart itself for that).",
    },
    "bmc_reset": {"covers": (), "cost": 1, "meaning": "The BMC is restarted; the host runs on."},
    "host_reboot": {"covers": (), "cost": 10, "meaning": "The host is power-cycled by its BMC."},
    "aux_cycle": {
        "covers": ("bmc_reset", "host_reboot"),
        "cost": 30,
        "meaning": "Standby power is taken away and given back by the BMC or the tray.",
    },
    "ac_cycle": {
        "covers": ("bmc_reset", "host_reboot", "aux_cycle"),
        "cost": 100,
        "meaning": "Mains power is taken away and given back (by the BMC where it offers that, else by the PDU or by hand).",
    },
}
METHODS = ("auto", "multipart", "push", "simple")
PATHS = ("bmc", "nic", "gpu_vbios", "nvme")
SIBLINGS = ("none", "chassis")
MATCH_KEYS = ("platform", "manufacturer", "model", "sku", "bmc_vendor", "bmc_model")
APPLY_TIMES = ("Immediate", "OnReset", "AtMaintenanceWindowStart", "InMaintenanceWindowOnReset", "OnStartUpdateRequest")


@dataclass(frozen=True)
class Image:
    """One image file. `path` is absolute, or `url` is what the BMC or the controller fetches; `sha256` is of the file as it is sent."""

    path: str
    url: str
    sha256: str
    size_bytes: int = None

    @property
    def name(self):
        return os.path.basename(self.path or self.url.split("?")[0])

    def as_dict(self):
        return {"path": self.path, "url": self.url, "sha256": self.sha256, "size_bytes": self.size_bytes}


@dataclass(frozen=True)
class Hop:
    """Versions in `condition` go to `via` first."""

    condition: Condition
    via: str
    image: Image
    activation: str


@dataclass(frozen=True)
class Component:
    """What one component of a platform is to run. `requires`, `excludes`: {component: Condition}. See docs/firmware.md for each key."""

    name: str
    inventory: str
    wanted: str
    image: Image
    rule: Rule
    activation: str
    reach: Condition = None
    hops: tuple = ()
    order: int = 100
    requires: dict = field(default_factory=dict)
    excludes: dict = field(default_factory=dict)
    method: str = "auto"
    targets: object = "none"
    force: bool = False
    apply_time: str = None
    oem: dict = None
    can_brick: bool = False
    optional: bool = False
    siblings: str = "none"
    path: str = "bmc"
    psid: tuple = ()
    limit_s: float = 1800.0
    source: str = None


@dataclass(frozen=True)
class Platform:
    """One platform: which servers it means, and its components by name."""

    name: str
    match: dict
    components: dict
    pause_s: float = 5.0
    settle_s: float = 30.0

    def meets(self, facts):
        """Whether a node with these facts (keys MATCH_KEYS) is of this platform. `platform` in the facts is a name given by a person and decides alone."""
        if facts.get("platform"):
            return facts["platform"] == self.name
        patterns = {key: value for key, value in self.match.items() if key != "platform"}
        return bool(patterns) and all(
            re.search(pattern, str(facts.get(key) or ""), re.IGNORECASE) for key, pattern in patterns.items()
        )


@dataclass(frozen=True)
class Baseline:
    """All platforms of one or more files. `digest` changes whenever anything in them does. `plans`: the planner's own (`plan_once`)."""

    name: str
    platforms: dict
    digest: str
    files: tuple = ()
    plans: dict = field(default_factory=dict, repr=False, compare=False)

    def platform_for(self, facts):
        """The one Platform for a node; NotFound where there is none, InvalidInput where several fit."""
        found = [platform for platform in self.platforms.values() if platform.meets(facts)]
        shown = ", ".join(f"{key} {facts[key]}" for key in MATCH_KEYS if facts.get(key)) or "no facts"
        if not found:
            raise NotFound(
                "the baseline has no platform for this node",
                thing="firmware baseline",
                wanted=f"one of {', '.join(self.platforms)}",
                seen=shown,
                next_step="add the platform to the baseline, or name one in the node's registry column platform",
            )
        if len(found) > 1:
            raise InvalidInput(
                "several platforms of the baseline fit this node",
                thing="firmware baseline",
                wanted="one platform",
                seen=f"{', '.join(platform.name for platform in found)} for {shown}",
                next_step="make their match patterns narrower, or name one in the node's registry column platform",
            )
        return found[0]


# ---- reading ------------------------------------------------------------------------------------------------------------------------------
class _At:
    """A place in a file: takes values apart with checks, and complains with the place's name."""

    def __init__(self, value, file, path="", line=None):
        self.value, self.file, self.path, self.line = value, file, path, line

    def wrong(self, message, wanted, seen=None, next_step=None, key=None):
        where = self.path + (f".{key}" if key and self.path else key or "")
        line = getattr(self.value, "lines", {}).get(key, self.line)
        return InvalidInput(
            message,
            thing=f"{self.file}: {f'line {line}: ' if line else ''}{where or 'top'}",
            wanted=wanted,
            seen=self.value if seen is None else seen,
            next_step=next_step or "correct the baseline file; docs/firmware.md has an example of every key",
            code="baseline_invalid",
        )

    def child(self, key):
        value = self.value[key]
        step = f"[{key}]" if isinstance(key, int) else f".{key}" if self.path else str(key)
        line = getattr(self.value, "lines", {}).get(key, self.line)
        return _At(value, self.file, self.path + step, getattr(value, "line", line) if isinstance(key, int) else line)

    def mapping(self, known=None, required=()):
        if not isinstance(self.value, dict):
            raise self.wrong("is not a mapping", "keys and values", type(self.value).__name__)
        for key in self.value:
            if not isinstance(key, str):
                raise self.wrong("a key is not text", "text in quotes", repr(key))
            if known is not None and key not in known:
                near = [name for name in known if name.startswith(key[:3])]
                raise self.wrong(
                    "there is no such key", ", ".join(known), key, f"did you mean {near[0]}?" if near else None, key=key
                )
        for key in required:
            if self.value.get(key) in (None, "", {}, []):
                raise self.wrong("a key is missing", key, "nothing", key=key)
        return {key: self.child(key) for key in self.value}

    def sequence(self):
        if not isinstance(self.value, list):
            raise self.wrong("is not a list", "a list", type(self.value).__name__)
        return [self.child(index) for index in range(len(self.value))]

    def text(self, choices=None):
        if not isinstance(self.value, str):
            # 1.10 without quotes is the number 1.1: a version that is not text was already changed by the YAML reader
            raise self.wrong(
                "is not text",
                "text in quotes",
                f"{self.value!r} ({type(self.value).__name__})",
                'put it in quotes: "1.10"',
            )
        if not self.value.strip():
            raise self.wrong("is empty", "text")
        if choices and self.value not in choices:
            raise self.wrong("is none of the known words", ", ".join(choices))
        return self.value.strip()

    def flag(self):
        if not isinstance(self.value, bool):
            raise self.wrong("is not true or false", "true or false")
        return self.value

    def number(self, least=0, whole=False):
        good = isinstance(self.value, int if whole else (int, float)) and not isinstance(self.value, bool)
        if not good or self.value < least:
            raise self.wrong("is not a number that can be right", f"a {'whole ' if whole else ''}number from {least}")
        return self.value

    def within(self, make):
        """Run `make`; what it complains about gets this place's name."""
        try:
            return make()
        except InvalidInput as error:
            raise self.wrong(error.message, error.wanted, error.seen, error.next_step) from None


PLATFORM_KEYS = ("match", "components", "pause_s", "settle_s", "source")
COMPONENT_KEYS = (
    "inventory",
    "wanted",
    "image",
    "rule",
    "extract",
    "from",
    "hops",
    "order",
    "requires",
    "excludes",
    "activation",
    "method",
    "targets",
    "force",
    "apply_time",
    "oem",
    "can_brick",
    "optional",
    "siblings",
    "path",
    "psid",
    "limit_s",
    "source",
)
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def _image(at, root):
    values = at.mapping(("path", "url", "sha256", "size_bytes"), ("sha256",))
    if ("path" in values) == ("url" in values):
        raise at.wrong("an image is a file or an address", "either path or url", ", ".join(values))
    sha256 = values["sha256"].text().lower()
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise values["sha256"].wrong(
            "is not a SHA-256", "64 hexadecimal digits", next_step="take the output of sha256sum IMAGE"
        )
    path = url = None
    if "path" in values:
        path = os.path.normpath(os.path.join(root, os.path.expanduser(values["path"].text())))
    else:
        url = values["url"].text()
        if not re.match(r"https?://[^/\s]+/\S", url):
            raise values["url"].wrong("is not an address of a file", "http:// or https:// with a path")
    size = values["size_bytes"].number(1, whole=True) if "size_bytes" in values else None
    return Image(path, url, sha256, size)


def _component(at, name, root):
    values = at.mapping(COMPONENT_KEYS, ("wanted", "image", "activation"))

    def given(key, default, read):
        return read(values[key]) if key in values else default

    rule_name = given("rule", "dotted", lambda place: place.text(tuple(RULES)))
    extract = given("extract", None, lambda place: place.text())
    rule = (values.get("extract") or at).within(lambda: Rule(rule_name, extract))
    wanted = values["wanted"].text()
    values["wanted"].within(lambda: rule.read(wanted, own=True))
    activation = values["activation"].text(tuple(ACTIVATIONS))

    def hop(place):
        keys = place.mapping(("from", "via", "image", "activation"), ("from", "via", "image"))
        condition = keys["from"].within(lambda: Condition(keys["from"].text(), rule))
        via = keys["via"].text()
        keys["via"].within(lambda: rule.read(via, own=True))
        if keys["via"].within(lambda: condition.holds(via)):
            raise place.wrong("a hop leads to a version that starts the same hop", f"via outside of {condition}", via)
        own = keys["activation"].text(tuple(ACTIVATIONS)) if "activation" in keys else activation
        return Hop(condition, via, _image(keys["image"], root), own)

    def texts(place):
        return tuple(item.text() for item in place.sequence())

    def targets(place):
        if isinstance(place.value, str):
            return place.text(("inventory", "none"))
        return texts(place)

    def oem(place):
        place.mapping()
        return place.value

    inventory = given("inventory", f"^{re.escape(name)}$", lambda place: place.text())
    (values.get("inventory") or at).within(lambda: _pattern(inventory))
    path = given("path", "bmc", lambda place: place.text(PATHS))
    psid = given("psid", (), texts)
    if path == "nic" and not psid:
        raise at.wrong(
            "a NIC image without its board ids could be burnt onto another board", "psid: [...]", "nothing", key="psid"
        )
    return Component(
        name=name,
        inventory=inventory,
        wanted=wanted,
        image=_image(values["image"], root),
        rule=rule,
        activation=activation,
        reach=given("from", None, lambda place: place.within(lambda: Condition(place.text(), rule))),
        hops=given("hops", (), lambda place: tuple(hop(item) for item in place.sequence())),
        order=given("order", 100, lambda place: place.number(whole=True)),
        # conditions on others are read with the other's rule, when all components are known
        requires=given("requires", {}, lambda place: place.mapping()),
        excludes=given("excludes", {}, lambda place: place.mapping()),
        method=given("method", "auto", lambda place: place.text(METHODS)),
        targets=given("targets", "none", targets),
        force=given("force", False, lambda place: place.flag()),
        apply_time=given("apply_time", None, lambda place: place.text(APPLY_TIMES)),
        oem=given("oem", None, oem),
        can_brick=given("can_brick", False, lambda place: place.flag()),
        optional=given("optional", False, lambda place: place.flag()),
        siblings=given("siblings", "none", lambda place: place.text(SIBLINGS)),
        path=path,
        psid=psid,
        limit_s=given("limit_s", 1800.0, lambda place: float(place.number(1))),
        source=given("source", None, lambda place: place.text()),
    )


def _pattern(text):
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidInput(
            "is not a regular expression", wanted="a regular expression", seen=f"{text} ({error})"
        ) from None


def _platform(at, name, root):
    values = at.mapping(PLATFORM_KEYS, ("components",))
    match = {}
    for key, place in (values["match"].mapping(MATCH_KEYS) if "match" in values else {}).items():
        match[key] = place.text()
        place.within(lambda place=place: _pattern(place.value))
    places = values["components"].mapping()
    components = {}
    for key, place in places.items():
        if not _NAME.fullmatch(key):
            raise values["components"].wrong(
                "is not a name for a component", "lower case letters, digits, _", key, key=key
            )
        components[key] = _component(place, key, root)
    for key, component in components.items():
        for what in ("requires", "excludes"):
            conditions = {}
            for other, place in getattr(component, what).items():
                if other == key:
                    raise place.wrong("a component cannot depend on itself", "another component", other)
                if other not in components:
                    raise place.wrong("there is no such component on this platform", ", ".join(components), other)
                conditions[other] = place.within(
                    lambda place=place, other=other: Condition(place.text(), components[other].rule)
                )
                good = place.within(lambda c=conditions[other], other=other: c.holds(components[other].wanted))
                if good != (what == "requires"):
                    raise place.wrong(
                        "the baseline contradicts itself: it asks for a version that this does not allow",
                        f"{other} {'in' if what == 'requires' else 'outside of'} {conditions[other]}",
                        f"{other} wanted {components[other].wanted}",
                    )
            object.__setattr__(component, what, conditions)
    _no_two_owners(values["components"], components)
    _no_circle(values["components"], components)
    return Platform(
        name,
        match,
        components,
        float(values["pause_s"].number()) if "pause_s" in values else 5.0,
        float(values["settle_s"].number()) if "settle_s" in values else 30.0,
    )


def _no_two_owners(at, components):
    seen = {}
    for key, component in components.items():
        place = (component.path, component.inventory)
        if place in seen:
            raise at.wrong(
                "two entries want the same component",
                "one owner of each component",
                f"{seen[place]} and {key}, both inventory {component.inventory}",
                "remove one of them",
                key=key,
            )
        seen[place] = key


def _no_circle(at, components):
    """Refuse `requires` that wait for each other."""
    done, under_way = set(), []

    def visit(name):
        if name in done:
            return
        if name in under_way:
            circle = [*under_way[under_way.index(name) :], name]
            raise at.wrong(
                "components require each other in a circle", "an order that ends", " -> ".join(circle), key=name
            )
        under_way.append(name)
        for other in components[name].requires:
            visit(other)
        under_way.pop()
        done.add(name)

    for name in components:
        visit(name)


TOP_KEYS = ("schema", "name", "images", "platforms")


def parse(data, file="baseline", directory="."):
    """A Baseline from the content of one file. `directory`: what relative image paths are relative to."""
    top = _At(data, file)
    values = top.mapping(TOP_KEYS, ("schema", "name", "platforms"))
    if values["schema"].value != SCHEMA:
        raise values["schema"].wrong(
            "this collection cannot read this schema",
            SCHEMA,
            next_step="use the collection that the file was written for",
        )
    root = os.path.join(directory, os.path.expanduser(values["images"].text())) if "images" in values else directory
    platforms = {}
    for name, place in values["platforms"].mapping().items():
        platforms[name] = _platform(place, name, os.path.abspath(root))
    digest = hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()
    return Baseline(values["name"].text(), platforms, digest, (file,))


class _Lined(dict):
    """A mapping that knows the line that it begins in, and those of its keys."""

    line, lines = None, {}


class _Loader(getattr(yaml, "SafeLoader", object)):
    """Safe YAML that refuses a key given twice: the second would silently win, which is one component with two owners."""


def _mapping(loader, node, deep=False):
    seen = {}
    for key_node, _value in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise InvalidInput(
                "a key is given twice",
                thing=f"{loader.name}: line {key_node.start_mark.line + 1}",
                wanted="each key once: one owner of each component",
                seen=f"{key}, first in line {seen[key]}",
                next_step="remove one of them",
                code="baseline_invalid",
            )
        seen[key] = key_node.start_mark.line + 1
    found = _Lined(loader.construct_mapping(node, deep=True))
    found.line, found.lines = node.start_mark.line + 1, seen
    return found


if yaml is not None:
    _Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load(path):
    """The Baseline in a file, or in all *.yml and *.yaml of a directory; a platform's component has one owner in all of them."""
    if os.path.isdir(path):
        names = sorted(name for name in os.listdir(path) if name.endswith((".yml", ".yaml")))
        files = [os.path.join(path, name) for name in names]
    else:
        files = [path]
    if not files:
        raise NotFound(
            "the directory has no baseline file", thing=path, wanted="*.yml", next_step="see docs/firmware.md"
        )
    return merge([_load_file(file) for file in files])


def _load_file(path):
    try:
        with open(path, encoding="utf-8") as handle:
            data = yaml.load(handle, Loader=_Loader)
    except FileNotFoundError:
        raise NotFound(
            "there is no such baseline file", thing=path, next_step="give the path of a baseline; see docs/firmware.md"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            "the baseline file cannot be read",
            thing=path,
            wanted="a text file in UTF-8 that this user may read",
            seen=getattr(error, "strerror", None) or error,
            next_step="correct its mode or its encoding",
            code="baseline_invalid",
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InvalidInput(
            "the baseline file is not YAML",
            thing=f"{path}: line {mark.line + 1}" if mark else path,
            wanted="YAML as in docs/firmware.md",
            seen=getattr(error, "problem", None) or " ".join(str(error).split())[:300],
            next_step="look at the indentation, the colons and the brackets there",
            code="baseline_invalid",
        ) from None
    return parse(data, path, os.path.dirname(os.path.abspath(path)))


def merge(baselines):
    """One Baseline of several: a platform may be spread over files, a component of it may not."""
    if len(baselines) == 1:
        return baselines[0]
    platforms, owner = {}, {}
    for baseline in baselines:
        for name, platform in baseline.platforms.items():
            for component in platform.components.values():
                for key in ((name, component.name), (name, component.path, component.inventory)):
                    if key in owner:
                        raise InvalidInput(
                            "two baseline files want the same component",
                            thing=f"{baseline.files[0]}: platforms.{name}.components.{component.name}",
                            wanted="one owner of each component",
                            seen=f"also in {owner[key]}",
                            next_step="remove it from one of the files",
                            code="baseline_two_owners",
                        )
                    owner[key] = baseline.files[0]
            have = platforms.get(name)
            if have is None:
                platforms[name] = platform
                continue
            if (have.match, have.pause_s, have.settle_s) != (platform.match, platform.pause_s, platform.settle_s):
                raise InvalidInput(
                    "two baseline files describe the platform differently",
                    thing=f"{baseline.files[0]}: platforms.{name}",
                    wanted="the same match, pause_s and settle_s in all files",
                    next_step="make them equal",
                    code="baseline_invalid",
                )
            platforms[name] = Platform(
                name, have.match, {**have.components, **platform.components}, have.pause_s, have.settle_s
            )
    digest = hashlib.sha256("".join(baseline.digest for baseline in baselines).encode()).hexdigest()
    names = list(dict.fromkeys(baseline.name for baseline in baselines))
    return Baseline(
        " + ".join(names), platforms, digest, tuple(file for baseline in baselines for file in baseline.files)
    )
