# What is wrong with the options of a task, in the words of this collection: which option, what is wanted, what was seen, what to do.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import difflib
import re

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a dictionary",
    "path": "a path",
    "str": "a text",
}


def refusal(spec, given, said):
    """The InvalidInput for options that ansible-core refuses.

    `spec`: the argument spec, `given`: the task's options, `said`: what ansible-core says of them.
    """
    known = dict(spec)
    known |= {alias: rule for rule in spec.values() for alias in rule.get("aliases") or ()}
    unknown = sorted(str(name) for name in given if name not in known)
    if unknown:
        near = {name: difflib.get_close_matches(name, known, 1) for name in unknown}
        meant = ", ".join(f"{found[0]} for {name}" for name, found in near.items() if found)
        return errors.InvalidInput(
            "there is no such option",
            thing=", ".join(unknown),
            wanted=f"of {', '.join(sorted(spec))}",
            seen=", ".join(unknown),
            next_step=f"did you mean {meant}?" if meant else "take it out, or correct its name",
        )
    # The first words of the message name the option, and its text the types of Python.
    named = re.match(r"argument '(\w+)' is of type", said)
    if named and named.group(1) in known:
        name = named.group(1)
        rule = known[name]
        return errors.InvalidInput(
            "the option has another kind of value",
            thing=name,
            wanted=KINDS.get(rule.get("type", "str"), rule.get("type")),
            seen="(hidden)" if rule.get("no_log") else str(given.get(name))[:200],
        )
    chosen = re.match(r"value of (\w+) must be one (?:or more )?of: (.*?)[.,] ?[Gg]ot.*?: (.*)", said, re.DOTALL)
    if chosen and chosen.group(1) in known and not known[chosen.group(1)].get("no_log"):
        return errors.InvalidInput(
            "there is no such value of the option",
            thing=chosen.group(1),
            wanted=f"of {chosen.group(2)}",
            seen=chosen.group(3)[:200],
        )
    return errors.InvalidInput(
        said, thing="options", seen=", ".join(sorted(map(str, given))) or "none", next_step="correct the task"
    )
