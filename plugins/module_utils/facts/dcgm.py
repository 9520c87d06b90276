# Readers of `dcgmi diag`: JSON of DCGM 3 and 4, and the text table. A test that was skipped or not run is never a pass.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
from typing import NamedTuple

from .values import Unreadable

PASS, WARN, FAIL, SKIP, NOT_RUN = "pass", "warn", "fail", "skip", "not run"
_STATUS = {"pass": PASS, "warn": WARN, "fail": FAIL, "skip": SKIP, "not run": NOT_RUN, "notrun": NOT_RUN}

# error_severity of DCGM 4 (dcgm_errors.h): the numbers are names, not an order.
SEVERITY = {0: "none", 1: "monitor", 2: "isolate", 3: "unknown", 4: "triage", 5: "config", 6: "reset", 7: "monitor"}


class Test(NamedTuple):
    """One test on one GPU. `gpu` None: the result is for the whole node. `warnings`: tuple of (severity name or None, text)."""

    category: str
    name: str
    gpu: int | None
    status: str
    warnings: tuple


class Diagnostic(NamedTuple):
    version: str | None
    error: str | None
    tests: tuple
    simulated: bool


def _status(word):
    found = _STATUS.get(str(word).strip().lower())
    if found is None:
        raise Unreadable(f"dcgmi: unknown status {word!r}")
    return found


def _warnings(entry):
    found = []
    for warning in entry.get("warnings") or []:
        if isinstance(warning, dict):
            found.append((SEVERITY.get(warning.get("error_severity")), str(warning.get("warning", ""))))
        else:
            found.append((None, str(warning)))
    for key in ("warning", "info"):
        if entry.get(key) and key == "warning":
            found.append((None, str(entry[key])))
    return tuple(found)


def read_json(text):
    """Diagnostic from `dcgmi diag -j`. Text around the document is skipped; a document that is cut off is Unreadable."""
    start = text.find("{")
    if start < 0:
        raise Unreadable(f"dcgmi: no JSON in: {text.strip()[:200]!r}")
    try:
        document = json.JSONDecoder().raw_decode(text[start:])[0]
    except ValueError as error:
        raise Unreadable(f"dcgmi: damaged JSON: {error}") from None
    root = document.get("DCGM Diagnostic") or document.get("DCGM GPU Diagnostic")
    if not isinstance(root, dict):
        raise Unreadable(f"dcgmi: unknown shape, top keys: {', '.join(sorted(document))[:200]}")
    tests = []
    for category in root.get("test_categories") or []:
        for test in category.get("tests") or []:
            for entry in test.get("results") or []:
                gpus = [None]
                if entry.get("entity_group", "GPU") == "GPU" and "entity_id" in entry:
                    gpus = [int(entry["entity_id"])]
                elif "gpu_ids" in entry or "gpu_id" in entry:
                    gpus = [
                        int(part) for part in re.findall(r"\d+", str(entry.get("gpu_ids", entry.get("gpu_id"))))
                    ] or [None]
                for gpu in gpus:
                    tests.append(
                        Test(
                            category.get("category", ""),
                            test.get("name", ""),
                            gpu,
                            _status(entry.get("status")),
                            _warnings(entry),
                        )
                    )
    metadata = document.get("metadata") or {}
    error = root.get("runtime_error") or document.get("runtime_error")
    if not tests and not error:
        raise Unreadable("dcgmi: the report has no test")
    return Diagnostic(metadata.get("version") or root.get("version"), error, tuple(tests), "simulated" in metadata)


_ROW = re.compile(r"^\|\s(.{25})\s\|\s(.*?)\s*\|?$")
_RESULT = re.compile(r"^(Pass|Warn|Fail|Skip|Not Run|NotRun)\b(?:\s*-\s*GPUs?:?\s*([\d, ]+))?", re.IGNORECASE)
_PER_GPU = re.compile(r"^GPU\s?(\d+): (Pass|Warn|Fail|Skip|Not Run)\b", re.IGNORECASE)


def read_text(text):
    """Diagnostic from the table of `dcgmi diag`.

    Rows with an empty first column continue the row above: more results ("Fail - GPU: 0"), one result per GPU (DCGM 4), or the rest of a warning,
    which is cut at the column's edge in the middle of words."""
    tests, category, version, warning = [], "", None, None

    def close():
        nonlocal warning
        if warning and tests:
            tests[-1] = tests[-1]._replace(warnings=tests[-1].warnings + ((None, warning),))
        warning = None

    for line in text.splitlines():
        heading = re.match(r"^[|+]-----\s+(.+?)\s+-+\+", line)
        if heading:
            close()
            category = heading.group(1)
            continue
        row = _ROW.match(line)
        if not row:
            continue
        name, result = row.group(1).strip(), row.group(2).strip()
        if name:
            close()
        if name == "DCGM Version":
            version = result
        elif name in ("Warning", "Error"):
            warning = result
        elif name in ("Diagnostic", "Info") or category == "Metadata":
            continue
        elif not name and warning is not None:
            warning += result
        else:
            per_gpu = _PER_GPU.match(result)
            match = _RESULT.match(result)
            if not name and not tests:
                continue
            name, where = name or tests[-1].name, category if name else tests[-1].category
            if per_gpu:
                tests.append(Test(where, name, int(per_gpu.group(1)), _status(per_gpu.group(2)), ()))
            elif match:
                gpus = [int(number) for number in re.findall(r"\d+", match.group(2) or "")] or [None]
                tests += [Test(where, name, gpu, _status(match.group(1)), ()) for gpu in gpus]
    close()
    if not tests:
        raise Unreadable(f"dcgmi: no test in: {text.strip()[:200]!r}")
    return Diagnostic(version, None, tuple(tests), "Simulated" in text)
