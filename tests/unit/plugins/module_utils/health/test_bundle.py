# node-check as the node gets it: reproducible bytes, JSON on standard output, exit statuses, on every Python that is here.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.health import bundle

OLDEST = shutil.which("python3.9")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return bundle.store(tmp_path_factory.mktemp("bundle"))["path"]


def run(program, *argv, stdin="", python=sys.executable):
    return subprocess.run(
        [python, "-IS", program, *argv], input=stdin, capture_output=True, text=True, timeout=120, check=False
    )


def test_same_sources_same_bytes(tmp_path):
    first, version = bundle.build()
    assert bundle.build() == (first, version)
    stored = bundle.store(tmp_path)
    before = pathlib.Path(stored["path"]).stat().st_mtime_ns
    assert bundle.store(tmp_path) == stored and pathlib.Path(stored["path"]).stat().st_mtime_ns == before
    pathlib.Path(stored["path"]).write_bytes(b"damaged")
    assert bundle.store(tmp_path) == stored and pathlib.Path(stored["path"]).read_bytes() == first
    assert first.startswith(b"#!/usr/bin/python3")


def test_other_sources_other_version(tmp_path):
    source = pathlib.Path(bundle.__file__).resolve().parent.parent
    for package in bundle.PACKAGES:
        shutil.copytree(source / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    assert bundle.build(tmp_path)[1] == bundle.build()[1]
    (tmp_path / "health" / "limits.py").write_text("# changed\n")
    assert bundle.build(tmp_path)[1] != bundle.build()[1]


def test_exit_statuses(program):
    good = run(
        program, "verify", "--expect", "-", stdin=json.dumps({"schema": 1, "sysctls": {"kernel.ostype": "Linux"}})
    )
    assert (good.returncode, json.loads(good.stdout)["outcome"]) == (0, "pass"), good.stderr
    bad = run(program, "verify", "--expect", "-", stdin=json.dumps({"schema": 1, "files": {"/no/such/file": {}}}))
    assert bad.returncode == 1 and json.loads(bad.stdout)["different"] == ["/no/such/file is missing or cannot be read"]
    for stdin in ("", "{}", '{"schema": 1, "unknown": 1}'):
        refused = run(program, "verify", "--expect", "-", stdin=stdin)
        assert refused.returncode == 2 and json.loads(refused.stdout)["outcome"] == "could_not_test"
    # nothing asked for is nothing verified
    assert run(program, "verify", "--expect", "-", stdin='{"schema": 1}').returncode == 1
    for argv in ((), ("nonsense",), ("verify",), ("verify", "--plan", "x"), ("facts", "--expect", "x")):
        assert run(program, *argv).returncode == 2, argv
    missing = run(program, "verify", "--expect", "/no/such/file")
    assert missing.returncode == 2 and "/no/such/file" in json.loads(missing.stdout)["error"]


@pytest.mark.skipif(not OLDEST, reason="no Python 3.9 here")
def test_oldest_python(program):
    if run(program, "--version", python=OLDEST).returncode == 127:
        pytest.skip("the Python 3.9 here does not start")
    facts = run(program, "facts", python=OLDEST)
    assert facts.returncode == 0, facts.stderr
    assert json.loads(facts.stdout)["memory_bytes"] > 0
    plan = {"schema": 1, "groups": ["clock"], "time": {"controller": 0}}
    ran = run(program, "burn-in", "--plan", "-", stdin=json.dumps(plan), python=OLDEST)
    if "Permission" not in ran.stdout:
        assert ran.returncode == 1 and json.loads(ran.stdout)["outcome"] == "fail"
