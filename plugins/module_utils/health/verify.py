# Compares a node (or an image tree) with what it should be: packages, files, services, kernel settings, limits. One call for everything.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import os
import stat
import time

from ..core.errors import InvalidInput
from .items import could_not_test, failed, judged, not_applicable, passed

SCHEMA = 1
RULE = "verify/1"
_SECTIONS = ("packages", "absent_packages", "files", "blocks", "services", "sysctls", "limits")


def validate(expect):
    """Raise InvalidInput where `expect` is not a wanted state that this version understands: an unknown section must not pass by being ignored."""
    if not isinstance(expect, dict):
        raise InvalidInput("the wanted state is not a dictionary", thing="verify", seen=type(expect).__name__)
    if expect.get("schema") != SCHEMA:
        raise InvalidInput(
            "unknown schema of the wanted state", thing="verify", wanted=SCHEMA, seen=expect.get("schema")
        )
    unknown = set(expect) - set(_SECTIONS) - {"schema", "image"}
    if unknown:
        raise InvalidInput(
            "unknown sections in the wanted state",
            thing="verify",
            wanted=", ".join(_SECTIONS),
            seen=", ".join(sorted(unknown)),
        )


def checks(expect):
    """The names of the items that `verify` gives for a wanted state, whatever the node looks like."""
    named = {"packages": "package", "absent_packages": "package", "files": "file", "blocks": "block"}
    named.update({"services": "service", "sysctls": "sysctl", "limits": "limit"})
    return {f"{kind}:{name}" for section, kind in named.items() for name in expect.get(section) or ()}


def owners_of_differences(items, wanted):
    """The names in `wanted` ({name: wanted state}, in order) to which a failed or untested item belongs.

    All of them where nothing is known of the node, or where something differs that none of them owns.
    """
    wrong = {item["check"] for item in items if item["outcome"] in ("fail", "could_not_test")}
    owned = {name: checks(state) for name, state in wanted.items()}
    if not wrong or wrong - set().union(*owned.values()):
        return list(wanted)
    return [name for name, names in owned.items() if names & wrong]


def _same(wanted, seen):
    """A scalar must be equal as text; {"min": n} and {"max": n} compare numbers."""
    if isinstance(wanted, dict):
        try:
            value = float(seen)
        except (TypeError, ValueError):
            return False
        return value >= float(wanted.get("min", value)) and value <= float(wanted.get("max", value))
    return " ".join(str(seen).split()) == " ".join(str(wanted).split())


def _words(wanted):
    return (
        " and ".join(f"{key} {value}" for key, value in sorted(wanted.items()))
        if isinstance(wanted, dict)
        else str(wanted)
    )


def packages(system, wanted, absent=()):
    """Installed packages, asked once for all of them (dpkg, else rpm)."""
    names = list(wanted) + list(absent)
    if not names:
        return []
    found = {}
    ran = system.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status} ${Version}\n"] + names, 60)
    source = "dpkg-query"
    if ran.rc is None:
        ran = system.run(["rpm", "-q", "--qf", "%{NAME} installed %{VERSION}-%{RELEASE}\n"] + names, 60)
        source = "rpm"
        if ran.rc is None:
            return [could_not_test(f"package:{name}", "neither dpkg nor rpm is here", rule=RULE) for name in names]
    for line in ran.out.splitlines():
        words = line.split()
        if len(words) >= 3 and words[1] == "installed":
            found[words[0].split(":")[0]] = words[2]
    results = []
    for name in wanted:
        results.append(
            judged(
                f"package:{name}",
                name in found,
                value=found.get(name),
                limit="installed",
                rule=RULE,
                source=source,
                detail=None if name in found else f"package {name} is not installed",
            )
        )
    for name in absent:
        results.append(
            judged(
                f"package:{name}",
                name not in found,
                value=found.get(name),
                limit="absent",
                rule=RULE,
                source=source,
                detail=f"package {name} is installed and must not be" if name in found else None,
            )
        )
    return results


def files(system, wanted):
    """Content by SHA-256, mode and owner (root) of each file."""
    results = []
    for path, want in sorted(wanted.items()):
        check = f"file:{path}"
        content = system.read_bytes(path)
        if content is None:
            results.append(
                failed(
                    check,
                    limit=want.get("sha256"),
                    rule=RULE,
                    source=path,
                    detail=f"{path} is missing or cannot be read",
                )
            )
            continue
        wrong = []
        digest = hashlib.sha256(content).hexdigest()
        if "sha256" in want and digest != want["sha256"]:
            wrong.append("its content differs")
        status = os.stat(path)
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        if "mode" in want and int(mode, 8) != int(str(want["mode"]), 8):
            wrong.append(f"its mode is {mode}, wanted {want['mode']}")
        if status.st_uid != 0:
            wrong.append(f"its owner is uid {status.st_uid}, wanted root")
        results.append(
            judged(
                check,
                not wrong,
                value=digest,
                limit=want.get("sha256"),
                rule=RULE,
                source=path,
                detail=f"{path}: {', '.join(wrong)}" if wrong else None,
            )
        )
    return results


def blocks(system, wanted):
    """Marked blocks of lines in files that others write too."""
    results = []
    for path, want in sorted(wanted.items()):
        check = f"block:{path}"
        lines = (system.read(path) or "").splitlines()
        begin, end = want["begin"], want["end"]
        seen = None
        if begin in lines and end in lines[lines.index(begin) :]:
            first = lines.index(begin)
            seen = lines[first + 1 : first + lines[first:].index(end)]
        lines_wanted = list(want.get("lines") or [])
        good = seen == lines_wanted if lines_wanted else not seen
        detail = None
        if not good:
            detail = f"{path}: the block '{begin}' " + ("is missing" if seen is None else "has other lines")
        results.append(
            judged(
                check,
                good,
                value=len(seen or []),
                unit="lines",
                limit=len(lines_wanted),
                rule=RULE,
                source=path,
                detail=detail,
            )
        )
    return results


_UNIT_FIELDS = "Id,LoadState,ActiveState,SubState,UnitFileState,ConditionResult,Result,ActiveEnterTimestampMonotonic"


def _older_than(unit, paths):
    """Those of the files that were written after the active unit was started, which has not read them then."""
    since = unit.get("ActiveEnterTimestampMonotonic", "")
    if unit.get("ActiveState") != "active" or not since.isdigit() or since == "0":
        return []
    # by the monotonic clock, because the other one may have been set since
    started = time.time() - time.monotonic() + int(since) / 1e6
    return [path for path in paths if os.path.exists(path) and os.stat(path).st_mtime > started]


def services(system, wanted, image=False):
    """Enabled and active state of units, and `newer_than`: files that the unit reads at its start; asked once for all of them.

    In an image tree nothing runs, so only `enabled` counts there.
    """
    names = sorted(wanted)
    if not names:
        return []
    if image:
        results = []
        for name in names:
            if "enabled" not in wanted[name]:
                continue
            ran = system.run(["systemctl", "is-enabled", name], 30)
            seen = (ran.out.strip().splitlines() or [""])[0]
            if ran.rc is None or not seen:
                results.append(
                    could_not_test(f"service:{name}", f"systemctl is-enabled {name}: {ran.brief()}", rule=RULE)
                )
                continue
            good = (seen in ("enabled", "static", "enabled-runtime", "alias")) == bool(wanted[name]["enabled"])
            detail = None if good else f"{name} is {seen}"
            results.append(
                judged(
                    f"service:{name}",
                    good,
                    value=seen,
                    limit=wanted[name]["enabled"],
                    rule=RULE,
                    source="systemctl",
                    detail=detail,
                )
            )
        return results
    ran = system.run(
        ["systemctl", "show", "-p", _UNIT_FIELDS] + names,
        60,
    )
    if ran.rc != 0:
        return [could_not_test(f"service:{name}", f"systemctl show: {ran.brief()}", rule=RULE) for name in names]
    # one block per unit, in the order asked; a block's Id may be another name (an alias)
    units = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in ran.out.strip().split("\n\n")]
    results = []
    for name, unit in zip(names, units + [{}] * len(names)):
        want, wrong = wanted[name], []
        check = f"service:{name}"
        parts = {
            "rule": RULE,
            "source": "systemctl show",
            "limit": ", ".join(key for key in ("enabled", "active") if want.get(key)) or "off",
        }
        if not unit:
            results.append(could_not_test(check, f"systemctl says nothing about {name}", **parts))
            continue
        state = unit.get("ActiveState", "")
        if unit.get("LoadState") != "loaded":
            results.append(
                failed(
                    check,
                    value=unit.get("LoadState"),
                    detail=f"{name}: the unit is {unit.get('LoadState') or 'unknown'}",
                    **parts,
                )
            )
            continue
        file_state = unit.get("UnitFileState", "")
        if "enabled" in want and (file_state in ("enabled", "static", "enabled-runtime", "alias")) != bool(
            want["enabled"]
        ):
            wrong.append(f"it is {file_state}")
        condition_unmet = unit.get("ConditionResult") == "no" and state == "inactive"
        if (
            "active" in want
            and (state == "active") != bool(want["active"])
            and not (want["active"] and condition_unmet and not wrong)
        ):
            wrong.append(f"it is {state} ({unit.get('SubState')}, result {unit.get('Result')})")
        wrong += [
            f"it runs since before {path} was written" for path in _older_than(unit, want.get("newer_than") or ())
        ]
        if wrong:
            results.append(failed(check, value=state, detail=f"{name}: {', '.join(wrong)}", **parts))
        elif want.get("active") and condition_unmet:
            container = system.container()
            words = f"{name} did not start because its own conditions are not met here" + (
                f" ({container})" if container else ""
            )
            results.append((not_applicable if container else failed)(check, value=state, detail=words, **parts))
        else:
            results.append(passed(check, value=state, **parts))
    return results


def sysctls(system, wanted, image=False):
    """Running kernel settings. A key that this kernel does not have, or that a container may not set, is not applicable."""
    results = []
    for key, want in sorted(wanted.items()):
        check = f"sysctl:{key}"
        path = "/proc/sys/" + key.replace(".", "/")
        if image:
            continue
        seen = system.read(path)
        if seen is None:
            results.append(
                not_applicable(check, f"this kernel has no {key}", limit=_words(want), rule=RULE, source=path)
            )
            continue
        value = " ".join(seen.split())
        if _same(want, value):
            results.append(passed(check, value=value, limit=_words(want), rule=RULE, source=path))
        elif system.container() and not os.access(path, os.W_OK):
            results.append(
                not_applicable(
                    check,
                    f"{system.container()} may not set {key}",
                    value=value,
                    limit=_words(want),
                    rule=RULE,
                    source=path,
                )
            )
        else:
            results.append(
                failed(
                    check,
                    value=value,
                    limit=_words(want),
                    rule=RULE,
                    source=path,
                    detail=f"{key} is {value}, wanted {_words(want)}",
                )
            )
    return results


_MANAGER_FIELDS = {"memlock": "DefaultLimitMEMLOCK", "nofile": "DefaultLimitNOFILE"}


def _limit_number(value):
    """Comparable number of a limit; infinity for "unlimited" and "infinity"."""
    return float("inf") if str(value) in ("unlimited", "infinity") else float(value)


def limits(system, wanted, image=False):
    """Limits that the service manager gives to services (system.conf.d). memlock in KiB or unlimited, as in limits.d; nofile a number."""
    if image or not wanted:
        return []
    fields = [name for name in wanted if name in _MANAGER_FIELDS]
    results = [
        could_not_test(f"limit:{name}", f"unknown limit {name}", rule=RULE)
        for name in wanted
        if name not in _MANAGER_FIELDS
    ]
    ran = system.run(["systemctl", "show", "-p", ",".join(_MANAGER_FIELDS[name] for name in fields)], 30)
    seen = dict(line.partition("=")[::2] for line in ran.out.splitlines())
    for name in fields:
        check, field = f"limit:{name}", _MANAGER_FIELDS[name]
        if ran.rc != 0 or field not in seen:
            results.append(could_not_test(check, f"systemctl show: {ran.brief()}", limit=str(wanted[name]), rule=RULE))
            continue
        want = _limit_number(wanted[name]) * (1024 if name == "memlock" else 1)
        good = _limit_number(seen[field]) >= want
        container = system.container()
        detail = None if good else f"services get {field} {seen[field]}, wanted {wanted[name]}"
        make = passed if good else (not_applicable if container else failed)
        parts = {"value": seen[field], "limit": str(wanted[name]), "rule": RULE, "source": "systemctl show"}
        if container and not good:
            results.append(not_applicable(check, f"{detail}; {container} sets its own ceiling", **parts))
        else:
            results.append(make(check, detail=detail, **parts))
    return results


def verify(system, expect):
    """All items for a wanted state; nothing is changed."""
    validate(expect)
    image = bool(expect.get("image"))
    results = packages(system, expect.get("packages") or [], expect.get("absent_packages") or [])
    results += files(system, expect.get("files") or {})
    results += blocks(system, expect.get("blocks") or {})
    results += services(system, expect.get("services") or {}, image)
    results += sysctls(system, expect.get("sysctls") or {}, image)
    results += limits(system, expect.get("limits") or {}, image)
    return results
