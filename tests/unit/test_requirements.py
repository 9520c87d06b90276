# What requirements.txt asks of a user is used by the code: a package that nothing loads is only a thing more to install and to watch.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = re.findall(r"^([A-Za-z][\w.-]*)", (ROOT / "requirements.txt").read_text(), re.M)
MODULES = {"ansible-core": "ansible", "PyYAML": "yaml", "SQLAlchemy": "sqlalchemy", "Flask": "flask"}
# These are not imported: a driver that a URL names, and a program that is started.
OTHERWISE = {
    "psycopg": ("plugins/module_utils/registry/engine.py", "psycopg"),
    "supervisor": ("plugins/modules/virtual_lab_programs.py", "supervisord"),
}


def imported():
    found = set()
    for place in ("plugins", "roles"):
        for path in (ROOT / place).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(), str(path))):
                if isinstance(node, ast.Import):
                    found.update(alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    found.add(node.module.split(".")[0])
    return found


IMPORTED = imported()


@pytest.mark.parametrize("name", NAMES)
def test_a_required_package_is_used(name):
    if name in OTHERWISE:
        path, word = OTHERWISE[name]
        assert word in (ROOT / path).read_text()
    else:
        assert MODULES.get(name, name) in IMPORTED


@pytest.mark.parametrize("name", NAMES)
def test_the_tests_pin_it_and_the_documentation_says_what_it_is_for(name):
    assert re.search(rf"^{re.escape(name)}==", (ROOT / "tests/constraints.txt").read_text(), re.M | re.I)
    assert re.search(rf"^\|[^|]*{re.escape(name)}", (ROOT / "docs/dependencies.md").read_text(), re.M | re.I)
