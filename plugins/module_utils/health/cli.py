# node-check: the program on the node. One call per suite, JSON on standard output; 0 all well, 1 differs or failed, 2 could not run.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import sys
import time

from ..core import outcome as outcomes
from ..core.errors import BaremetalError, InvalidInput
from .system import System

USAGE = """usage: node-check verify --expect FILE     compare this node with a wanted state (JSON; - reads standard input)
       node-check burn-in --plan FILE      run the checks and stress tests of a plan
       node-check facts                    what this node is made of
       node-check --version | --warm       the version (--warm: after unpacking and compiling this program once)
"""


def _document(path):
    """The JSON document at `path` ("-": standard input)."""
    try:
        if path == "-":
            text = sys.stdin.read()
        else:
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
        return json.loads(text)
    except OSError as error:
        raise InvalidInput("cannot be read", thing=path, seen=error.strerror)
    except ValueError as error:
        raise InvalidInput("is not JSON", thing=path, seen=error)


def _verify(arguments, system):
    from .verify import verify

    items = verify(system, _document(arguments["--expect"]))
    different = [found for found in items if found["outcome"] in (outcomes.FAIL, outcomes.COULD_NOT_TEST)]
    return {
        "suite": "verify",
        "outcome": outcomes.combine(found["outcome"] for found in items),
        "different": [found["detail"] or found["check"] for found in different],
        "items": items,
    }, 1 if different or not items else 0


def _burn_in(arguments, system):
    from .burn_in import burn_in

    result = burn_in(system, _document(arguments["--plan"]))
    return result, 0 if result["outcome"] == outcomes.PASS else 1


def _facts(_arguments, system):
    from .inventory import inventory

    return dict(inventory(system), suite="facts", outcome=outcomes.PASS, items=[]), 0


_SUITES = {"verify": (_verify, ("--expect",)), "burn-in": (_burn_in, ("--plan",)), "facts": (_facts, ())}


def main(argv=None, version="source", system=None):
    """Run one suite; returns the exit status. Whatever goes wrong, standard output is one JSON document (except for usage errors)."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in ("--version", "--warm"):
        sys.stdout.write(f"{version}\n")
        return 0
    if not argv or argv[0] not in _SUITES:
        sys.stderr.write(USAGE)
        return 2
    suite, options = _SUITES[argv[0]]
    arguments = dict(zip(argv[1::2], argv[2::2]))
    if set(arguments) != set(options) or len(argv) != 1 + 2 * len(options):
        sys.stderr.write(USAGE)
        return 2
    started = time.time()
    try:
        result, status = suite(arguments, system or System())
    except BaremetalError as error:
        result, status = (
            {
                "suite": argv[0],
                "outcome": outcomes.COULD_NOT_TEST,
                "items": [],
                "error": str(error),
                "code": error.code,
            },
            2,
        )
    except Exception as error:  # a defect of ours must not look like a result
        import traceback

        where = traceback.extract_tb(error.__traceback__)[-1]
        words = f"{type(error).__name__}: {error} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})"
        result, status = (
            {"suite": argv[0], "outcome": outcomes.COULD_NOT_TEST, "items": [], "error": words, "code": "defect"},
            2,
        )
    result.update(version=version, started=round(started, 3), seconds=round(time.time() - started, 3))
    json.dump(result, sys.stdout, separators=(",", ":"), sort_keys=True)
    sys.stdout.write("\n")
    return status
