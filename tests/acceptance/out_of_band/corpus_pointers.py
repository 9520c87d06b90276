# Proves corpus_facts.yml against the trees it was read from: every pointer resolves and gives the value.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`check(facts, tree_folder)` returns a list of problems; the layout of the facts is told at the top of corpus_facts.yml.

Alone: python corpus_pointers.py FOLDER_WITH_THE_UNPACKED_TREES
"""

from __future__ import annotations

import functools
import hashlib
import json
import pathlib
import re
import sys

import yaml

ONE = (
    "system",
    "vendor",
    "model",
    "serial",
    "system_uuid",
    "power_state",
    "memory_gib",
    "bios_version",
    "bmc_version",
    "manager",
)
LISTS = ("systems", "nic_macs", "adapter_macs", "update_methods", "reset_types")
COUNTS = ("cpus", "cpu_sockets", "dimms", "dimm_slots", "gpus", "nics", "nic_ports", "drives")
PRIVATE = ("serial", "system_uuid", "nic_macs", "adapter_macs")  # somebody's machines: the facts hold digests of these
OPTIONAL = ("adapter_macs", "cpu_sockets", "dimm_slots")
KEYS = {"value", "at", "where", "why", "absent", "indirect", "also", "accept", "note"}
METHODS = {
    "MultipartHttpPushUri": "multipart",
    "HttpPushUri": "http_push",
    "#UpdateService.SimpleUpdate": "simple_update",
}
DIGEST = "sha256:"
MISSING = object()


class Tree:
    """Read access to one tree: <folder>/redfish/v1/.../index.json."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.get = functools.lru_cache(maxsize=None)(self._get)

    def _get(self, path):
        file = self.folder / path.strip("/") / "index.json"
        if not file.is_file():
            return MISSING
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            return MISSING
        return MISSING if isinstance(found, dict) and "error" in found else found

    def at(self, reference):
        path, mark, pointer = reference.partition("#")
        if not mark or not path.startswith("/redfish/v1") or (pointer and not pointer.startswith("/")):
            raise ValueError("not of the form path#/pointer")
        return follow(self.get(path), pointer)


def follow(found, pointer):
    """RFC 6901, without the need of ~ in the trees; MISSING where it leads nowhere."""
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(part, MISSING)
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return MISSING
    return found


def plain(value):
    """What two values are compared by: blanks, the case of a MAC or UUID, and number or text do not matter."""
    if isinstance(value, bool) or value is None:
        return value
    text = str(value).strip()
    if isinstance(value, (int, float)):
        return f"{value:g}"
    if re.fullmatch(r"[0-9A-Fa-f]{2}([:-]?[0-9A-Fa-f]{2}){5}", text):
        return ":".join(re.findall("..", re.sub("[:-]", "", text.lower())))
    if re.fullmatch(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", text):
        return text.lower()
    return text


def told(name, value):
    """A value as the facts tell it: by its digest where it names somebody's machine."""
    value = plain(value)
    if name not in PRIVATE or value is None or value == "" or str(value).startswith(DIGEST):
        return value
    return DIGEST + hashlib.sha256(str(value).encode()).hexdigest()[:16]


def single(name, reference, found):
    """A link counts by its last segment."""
    if reference.endswith("/@odata.id") and isinstance(found, str):
        found = found.rstrip("/").rsplit("/", 1)[-1]
    return told(name, found)


def empty(found):
    return found is MISSING or found is None or found == [] or (isinstance(found, str) and not found.strip())


def counted(tree, references, where):
    total = 0
    for reference in references:
        found = tree.at(reference)
        if found is MISSING or found is None:
            raise ValueError(f"{reference} leads nowhere")
        if where:
            if not isinstance(found, list):
                raise ValueError(f"{reference} is no list of links")
            for link in found:
                member = tree.get(link["@odata.id"])
                if member is MISSING:
                    raise ValueError(f"{link['@odata.id']}, listed by {reference}, is not there")
                total += all(plain(follow(member, pointer)) == plain(wanted) for pointer, wanted in where.items())
        elif isinstance(found, list):
            total += len(found)
        elif isinstance(found, dict):
            total += 1
        elif isinstance(found, int) and not isinstance(found, bool):
            total += found
        else:
            raise ValueError(f"{reference} is neither a resource, a list nor a number")
    return total


def gathered(tree, name, references):
    values = set()
    for reference in references:
        found = tree.at(reference)
        if found is MISSING:
            raise ValueError(f"{reference} leads nowhere")
        values |= {single(name, reference, each) for each in (found if isinstance(found, list) else [found])}
    return values


def proven(tree, name, value, references, where=None):
    """Problems of one value with its pointers."""
    if len(set(references)) != len(references):
        return ["a pointer is there twice"]
    if name in COUNTS:
        total = counted(tree, references, where)
        return [] if total == value else [f"says {value}, the pointers give {total}"]
    if where:
        return ["`where` is for counts"]
    if isinstance(value, list):
        wanted = {plain(each) for each in value}
        if len(wanted) != len(value):
            return ["a value is there twice"]
        if name == "update_methods":
            offered = {METHODS.get(reference.rsplit("/", 1)[-1]) for reference in references}
            problems = [f"{reference} leads nowhere" for reference in references if empty(tree.at(reference))]
            service = tree.get("/redfish/v1/UpdateService")
            service = {} if service is MISSING else service
            for key, method in METHODS.items():
                there = not empty(service.get(key)) or key in (service.get("Actions") or {})
                if there != (method in wanted):
                    problems.append(f"{method} is {'' if there else 'not '}offered")
            return problems + (
                [] if offered == wanted else [f"says {sorted(wanted)}, points at {sorted(map(str, offered))}"]
            )
        groups = [[reference] for reference in references] if name == "reset_types" else [references]
        got = [gathered(tree, name, group) for group in groups]
        return [f"says {sorted(wanted)}, the pointers give {sorted(map(str, each))}" for each in got if each != wanted]
    problems = []
    for reference in references:
        found = tree.at(reference)
        got = (
            {single(name, reference, each) for each in found}
            if isinstance(found, list)
            else {single(name, reference, found)}
        )
        if found is MISSING:
            problems.append(f"{reference} leads nowhere")
        elif got != {plain(value)}:
            problems.append(f"says {value!r}, {reference} gives {found!r}")
    return problems


def check_fact(tree, name, fact):
    problems = [f"unknown key {key}" for key in sorted(set(fact) - KEYS)]
    if "value" not in fact:
        return problems + ["no value"]
    value, references = fact["value"], fact.get("at") or []
    if value is None:
        if not fact.get("why") or references:
            problems.append("a null needs `why` and no `at`")
    elif not references and not (value == [] and fact.get("absent")):
        problems.append("no `at`")
    elif isinstance(value, list) != (name in LISTS):
        problems.append("a list where none belongs, or none where one does")
    elif references:
        problems += proven(tree, name, value, references, fact.get("where"))
    for reference in fact.get("absent") or []:
        if not empty(tree.at(reference)):
            problems.append(f"{reference} should give nothing")
    for other in fact.get("also") or []:
        many = isinstance(other["value"], list)
        kind = "drives" if other.get("count") else name if name in PRIVATE else "reset_types" if many else "model"
        problems += [f"also: {problem}" for problem in proven(tree, kind, other["value"], other["at"])]
    return problems


def check(facts, tree_folder):
    """All problems of `facts` (the loaded file) with the trees unpacked below `tree_folder`."""
    folder = pathlib.Path(tree_folder)
    there = {each.name for each in folder.iterdir() if (each / "redfish").is_dir()}
    problems = [f"{name}: in one of facts and folder only" for name in sorted(there ^ set(facts["trees"]))]
    for name in sorted(there & set(facts["trees"])):
        tree, entry = Tree(folder / name), facts["trees"][name]
        known = set(ONE + LISTS + COUNTS)
        problems += [f"{name}: no {key}" for key in sorted(known - set(OPTIONAL) - set(entry))]
        problems += [f"{name}: unknown fact {key}" for key in sorted(set(entry) - known - {"about"})]
        for key in sorted(known & set(entry)):
            try:
                problems += [f"{name}: {key}: {problem}" for problem in check_fact(tree, key, entry[key])]
            except (ValueError, KeyError, TypeError) as error:
                problems.append(f"{name}: {key}: {type(error).__name__}: {error}")
    return problems


def main():
    facts = yaml.safe_load((pathlib.Path(__file__).parent / "corpus_facts.yml").read_text(encoding="utf-8"))
    problems = check(facts, sys.argv[1])
    for problem in problems:
        print(problem)
    print(
        f"{len(facts['trees'])} trees, {sum(len(entry) - 1 for entry in facts['trees'].values())} facts, {len(problems)} problems"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
