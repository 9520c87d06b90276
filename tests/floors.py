#!/usr/bin/env python
# Checks the floors of plugins/module_utils: which room may import which (docs/architecture.md).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Exit 0 when every floor holds, 1 with one line for each import that breaks one.

core imports itself and the standard library; facts also core; a capability also facts and core, never another capability;
fleet also bmc, firmware and registry; doors everything, and it is alone in importing ansible.module_utils.
"""

from __future__ import annotations

import ast
import pathlib
import sys

PREFIX = "ansible_collections.aicluster.baremetal.plugins."
FLEET = {"bmc", "firmware", "registry"}


def imports(tree: ast.AST, package: str):
    """Yield (line, absolute dotted name) of every import of a module that lives in `package` (dotted, below plugins)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            stem = node.module or ""
            if node.level:
                parts = (PREFIX + package).split(".")
                base = parts[: len(parts) - (node.level - 1)]
                stem = ".".join([*base, stem] if stem else base)
            yield from ((node.lineno, f"{stem}.{alias.name}") for alias in node.names)


def complaint(room: str, name: str) -> str | None:
    """What is wrong with `room` importing `name`, or None."""
    top = name.split(".")[0]
    if name.startswith(PREFIX + "module_utils."):
        other = name[len(PREFIX + "module_utils.") :].split(".")[0]
        if room == "doors":
            return None
        allowed = {"core", room} if room in ("core", "facts") else {"core", "facts", room}
        if room == "fleet":
            allowed |= FLEET
        return None if other in allowed else f"{room} imports {other}"
    if name.startswith(PREFIX):
        return f"module_utils imports {name[len(PREFIX) :]}"
    if top == "ansible" and not (room == "doors" and name.startswith("ansible.module_utils")):
        return f"{room} imports {name}"
    if room in ("core", "facts") and top not in sys.stdlib_module_names and top != "__future__":
        return f"{room} imports {name}"
    return None


def main(root: pathlib.Path) -> int:
    house = root / "plugins" / "module_utils"
    bad, count = [], 0
    for path in sorted(house.rglob("*.py")):
        count += 1
        parts = path.relative_to(house).parts
        room = parts[0] if len(parts) > 1 else path.stem
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for line, name in imports(tree, ".".join(("module_utils", *parts[:-1]))):
            wrong = complaint(room, name)
            if wrong:
                bad.append(f"{path.relative_to(root)}:{line}: {wrong}")
    print("\n".join(bad) if bad else f"floors hold: {count} files")
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()))
