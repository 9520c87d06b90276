# Part of point 1: what bmc_info gives for each recorded tree, against an answer key that was written without a look at the code, and whose pointers are proven.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Facts of the key that bmc_info does not claim to give are in NOT_GIVEN. A list of bmc_info is never null, so where the key says that nobody can know, an
empty list is right. `accept` in the key: other answers that its author would not call wrong."""

from __future__ import annotations

import collections
import pathlib

import corpus_pointers
import recorded_trees
import yaml
from corpus_spoiling import endpoint, params_of

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import bmc as door

NOT_GIVEN = ("about", "systems", "cpu_sockets", "dimm_slots", "adapter_macs", "nic_ports")
METHODS = {"multipart": "multipart", "push": "http_push", "simple": "simple_update"}
FACTS = {
    "system": lambda info: info["system"]["id"],
    "vendor": lambda info: info["system"]["manufacturer"],
    "model": lambda info: info["system"]["model"],
    "serial": lambda info: info["system"]["serial"],
    "system_uuid": lambda info: info["system"]["uuid"],
    "power_state": lambda info: {"on": "On", "off": "Off", "unknown": None}.get(
        info["system"]["power"], info["system"]["power"]
    ),
    "cpus": lambda info: len(info["processors"]),
    "dimms": lambda info: len(info["memory"]),
    "memory_gib": lambda info: info["system"]["memory_gib"],
    "gpus": lambda info: len(info["gpus"]),
    "nic_macs": lambda info: sorted({nic["mac"] for nic in info["nics"] if nic["mac"]}),
    "nics": lambda info: len(info["nics"]),
    "drives": lambda info: len(info["drives"]),
    "bios_version": lambda info: info["system"]["bios_version"],
    "bmc_version": lambda info: info["bmc"]["firmware"],
    "manager": lambda info: info["bmc"]["id"],
    "update_methods": lambda info: [METHODS[way] for way in info["offers"]["update_methods"]],
    "reset_types": lambda info: info["offers"]["reset_types"],
}


def key():
    return yaml.safe_load((pathlib.Path(__file__).parent / "corpus_facts.yml").read_text(encoding="utf-8"))


def plain(name, value):
    if isinstance(value, (list, tuple)):
        return sorted(str(corpus_pointers.told(name, item)) for item in value)
    return corpus_pointers.told(name, value)


def right(name, fact, seen):
    """Whether `seen` is the fact of this name, or an answer that the key accepts in its place."""
    accepted = [fact["value"], *fact.get("accept", ())]
    if None in accepted:
        accepted += [[], 0]
    return plain(name, seen) in [plain(name, value) for value in accepted]


def read_all(trees, facts, folder, sabotage):
    """(counts, lines of what is wrong)."""
    whole = key()
    wrong = [f"the key itself: {problem}" for problem in corpus_pointers.check(whole, folder)]
    count = collections.Counter(pointers=_pointers(whole))
    if sabotage:
        facts = {name: {**entry, "serial": {"value": "WRONG"}} for name, entry in facts.items()}
    for name, entry in facts.items():
        unknown = set(entry) - set(FACTS) - set(NOT_GIVEN)
        if unknown:
            wrong.append(f"{name}: nobody compares {', '.join(sorted(unknown))}")
        call, params = door.MODULES["bmc_info"][1], params_of("bmc_info", {"sections": [*door.operations.SECTIONS]})
        try:
            info = call(endpoint(recorded_trees.Carrier(trees[name])), params, False, None)["info"]
        except BaremetalError as error:
            wrong.append(f"{name}: {error}")
            continue
        for fact, read in FACTS.items():
            count["facts"] += 1
            seen = read(info)
            if not right(fact, entry[fact], seen):
                wrong.append(f"{name}: {fact}: wanted {entry[fact]['value']!r}, seen {seen!r}")
    return count, wrong


def _pointers(whole):
    return sum(
        len(fact.get("at") or ())
        for entry in whole["trees"].values()
        for fact in entry.values()
        if isinstance(fact, dict)
    )
