#!/usr/bin/env python
# ansible-test fetches a pip bootstrap from a place of its own for its virtual environments; sites without it (air-gapped, a closed CI) cannot run
# sanity at all. This puts a stand-in into ansible-test's cache that uses the interpreter's own ensurepip and the configured package index.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
import re

import ansible_test

STAND_IN = """\
import subprocess
import sys

arguments = [a for a in sys.argv[1:] if a not in ("--no-setuptools", "--no-wheel")]
subprocess.check_call([sys.executable, "-m", "ensurepip"])
subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", *arguments])
"""


def main() -> None:
    source = pathlib.Path(ansible_test.__path__[0]) / "_internal" / "python_requirements.py"
    found = re.search(r"pip='([\d.]+)'", source.read_text(encoding="utf-8"))
    if not found:
        raise SystemExit(f"{source} names no pip version any more: adapt tests/sanity_pip.py")
    cache = pathlib.Path.home() / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / f"get_pip_{found.group(1).replace('.', '_')}.py").write_text(STAND_IN, encoding="utf-8")


if __name__ == "__main__":
    main()
