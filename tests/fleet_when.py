#!/usr/bin/env python
# Lint rule for tasks that run once for all hosts (fleet, firmware_rollout): no `when` on or around them, the first host's answer would count for all.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""fleet_when.py [PATH...]: YAML files or directories (default: playbooks and roles of this checkout). Exit 1 with one line for each finding.

A `when` is found on the task, on blocks around it, on an import or include of the file that has it, and on a role or an include_role of the role that has
it (roles beside the paths given; tasks files by their path beside the file). What is named by a template is not followed; there the plugin itself refuses
what it inherits.
"""

from __future__ import annotations

import pathlib
import sys

import yaml

COLLECTION = "aicluster.baremetal."
MODULES = ("fleet", "firmware_rollout")
INSIDE = ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")
TASKS = ("include_tasks", "import_tasks")
ROLES = ("include_role", "import_role")
WHY = "it would count for all hosts as it is for the first; use states, hosts or the play's hosts"


class _Loader(yaml.SafeLoader):
    """Keeps lines and reads tags that it does not know (vault) as nothing."""

    def construct_mapping(self, node, deep=False):
        return {**super().construct_mapping(node, deep=deep), "__line__": node.start_mark.line + 1}


_Loader.add_constructor(
    yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, lambda loader, node: loader.construct_mapping(node, True)
)
_Loader.add_multi_constructor("!", lambda loader, suffix, node: None)


def _documents(file):
    try:
        return list(yaml.load_all(file.read_text(encoding="utf-8"), Loader=_Loader))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []  # templates that end in .yml; yamllint and ansible-lint read the rest


def _is(item, names, prefixes):
    """The value of the first of `names` (with one of `prefixes`) that the task has, or None."""
    for name in names:
        for prefix in prefixes:
            if prefix + name in item:
                return item[prefix + name] or {}
    return None


def _condition(item, above):
    if "when" in item:
        return item["__line__"]
    applied = [value.get("apply") for value in item.values() if isinstance(value, dict)]
    if any(isinstance(apply, dict) and "when" in apply for apply in applied):
        return item["__line__"]
    return above


class Rule:
    """`roots`: directories whose roles/ may be meant by a role's name."""

    def __init__(self, roots):
        self._roots = roots
        self._known = {}

    def findings(self, tree, file, above=None):
        """Yield (line, words) for each condition that a task for all hosts would stand under; `above` is the line of a condition around."""
        for item in tree if isinstance(tree, list) else [tree]:
            if not isinstance(item, dict):
                continue
            condition = _condition(item, above)
            if condition is not None:
                where = "on" if condition == item["__line__"] else f"around (line {condition})"
                if _is(item, MODULES, (COLLECTION, "")) is not None:
                    yield item["__line__"], f"`when` {where} a fleet task"
                for other in self._files(item, file):
                    if self._has_fleet(other):
                        yield item["__line__"], f"`when` {where} {other}, which has a fleet task"
            for key in INSIDE:
                if isinstance(item.get(key), list):
                    yield from self.findings(item[key], file, condition)
            for role in item.get("roles") or () if isinstance(item.get("roles"), list) else ():
                if isinstance(role, dict) and "when" in role:
                    for other in self._of_role(role.get("role") or role.get("name"), role.get("tasks_from")):
                        if self._has_fleet(other):
                            yield role["__line__"], f"`when` on a role with a fleet task ({other})"

    def _files(self, item, file):
        """Files whose tasks the item brings in."""
        tasks = _is(item, TASKS, ("ansible.builtin.", ""))
        if tasks is not None:
            name = tasks.get("file") if isinstance(tasks, dict) else tasks
            return [file.parent / name] if isinstance(name, str) and "{{" not in name else []
        role = _is(item, ROLES, ("ansible.builtin.", ""))
        return self._of_role(role.get("name"), role.get("tasks_from")) if isinstance(role, dict) else []

    def _of_role(self, name, tasks_from=None):
        if not isinstance(name, str) or "{{" in name:
            return []
        stem = str(tasks_from or "main")
        stem = stem if stem.endswith((".yml", ".yaml")) else f"{stem}.yml"
        places = [root / "roles" / name.split(".")[-1] / "tasks" / stem for root in self._roots]
        return [place for place in places if place.exists()]

    def _has_fleet(self, file):
        """Whether tasks for all hosts are in the file or in what it brings in."""
        file = file.resolve()
        if file not in self._known:
            self._known[file] = False  # files that bring in each other
            self._known[file] = any(self._in(document, file) for document in _documents(file))
        return self._known[file]

    def _in(self, tree, file):
        for item in tree if isinstance(tree, list) else [tree]:
            if not isinstance(item, dict):
                continue
            if _is(item, MODULES, (COLLECTION, "")) is not None or any(map(self._has_fleet, self._files(item, file))):
                return True
            if any(self._in(item[key], file) for key in INSIDE if isinstance(item.get(key), list)):
                return True
        return False


def _roots(path):
    """The directory that has roles/ beside or above `path`."""
    path = path.resolve()
    return [place for place in (path, *path.parents) if (place / "roles").is_dir()][:1]


def main(paths):
    bad = 0
    for path in map(pathlib.Path, paths):
        rule = Rule(_roots(path))
        for file in sorted([*path.rglob("*.yml"), *path.rglob("*.yaml")]) if path.is_dir() else [path]:
            for document in _documents(file):
                for line, words in rule.findings(document, file):
                    bad += 1
                    print(f"{file}:{line}: {words}: {WHY}")
    return 1 if bad else 0


if __name__ == "__main__":
    root = pathlib.Path(__file__).resolve().parents[1]
    sys.exit(main(sys.argv[1:] or [root / "playbooks", root / "roles"]))
