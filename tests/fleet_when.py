#!/usr/bin/env python
# Lint rule for the fleet module: no `when` on its task or around it. Ansible decides such a condition once, by the first host, for all hosts.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""fleet_when.py [PATH...]: YAML files or directories (default: playbooks and roles of this checkout). Exit 1 with one line for each finding."""

from __future__ import annotations

import pathlib
import sys

import yaml

MODULES = ("aicluster.baremetal.fleet", "fleet")
INSIDE = ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")


class _Loader(yaml.SafeLoader):
    """Keeps lines and reads tags that it does not know (vault) as nothing."""

    def construct_mapping(self, node, deep=False):
        return {**super().construct_mapping(node, deep=deep), "__line__": node.start_mark.line + 1}


_Loader.add_constructor(
    yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, lambda loader, node: loader.construct_mapping(node, True)
)
_Loader.add_multi_constructor("!", lambda loader, suffix, node: None)


def findings(tree, above=None):
    """Yield (line, words) for each task of the fleet module that has a condition; `above` is the line of a condition around."""
    for item in tree if isinstance(tree, list) else [tree]:
        if not isinstance(item, dict):
            continue
        condition = item["__line__"] if "when" in item else above
        if condition is not None and any(name in item for name in MODULES):
            yield (
                item["__line__"],
                "`when` on a fleet task" if "when" in item else f"`when` around a fleet task (line {condition})",
            )
        for key in INSIDE:
            if isinstance(item.get(key), list):
                yield from findings(item[key], condition)


def main(paths):
    bad = 0
    files = []
    for path in map(pathlib.Path, paths):
        files += sorted([*path.rglob("*.yml"), *path.rglob("*.yaml")]) if path.is_dir() else [path]
    for file in files:
        try:
            for document in yaml.load_all(file.read_text(encoding="utf-8"), Loader=_Loader):
                for line, words in findings(document):
                    bad += 1
                    print(
                        f"{file}:{line}: {words}: it would count for all hosts as it is for the first; use states, hosts or the play's hosts"
                    )
        except yaml.YAMLError:
            pass  # templates that end in .yml; yamllint and ansible-lint read the rest
    return 1 if bad else 0


if __name__ == "__main__":
    root = pathlib.Path(__file__).resolve().parents[1]
    sys.exit(main(sys.argv[1:] or [root / "playbooks", root / "roles"]))
