# The verify suite on files, packages and settings of the machine that runs the test.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import os
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.health import verify
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.system import Ran, System


def outcomes(items):
    return {item["check"]: item["outcome"] for item in items}


def test_files(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("files have to belong to root")
    good, changed, mode = (tmp_path / name for name in ("good", "changed", "mode"))
    for path in (good, changed, mode):
        path.write_text("x\n")
        path.chmod(0o644)
    want = {"sha256": hashlib.sha256(b"x\n").hexdigest(), "mode": "0644"}
    changed.write_text("y\n")
    mode.chmod(0o666)
    items = verify.files(System(), {str(path): want for path in (good, changed, mode, tmp_path / "missing")})
    assert outcomes(items) == {
        f"file:{good}": "pass",
        f"file:{changed}": "fail",
        f"file:{mode}": "fail",
        f"file:{tmp_path / 'missing'}": "fail",
    }
    words = " ".join(item["detail"] or "" for item in items)
    assert "its content differs" in words and "its mode is 0666, wanted 0644" in words and "is missing" in words
    os.chown(good, 1, 1)
    assert verify.files(System(), {str(good): want})[0]["outcome"] == "fail"


def test_blocks(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 localhost\n# BEGIN\n10.0.0.1 a\n# END\n")
    want = {"begin": "# BEGIN", "end": "# END"}

    def outcome(lines):
        return verify.blocks(System(), {str(path): {**want, "lines": lines}})[0]["outcome"]

    assert outcome(["10.0.0.1 a"]) == "pass"
    assert outcome(["10.0.0.2 a"]) == "fail"
    assert outcome([]) == "fail"  # a block that should be gone
    path.write_text("127.0.0.1 localhost\n")
    assert outcome([]) == "pass"
    assert outcome(["10.0.0.1 a"]) == "fail"


def test_packages_of_this_machine():
    found = outcomes(verify.packages(System(), ["coreutils", "no-such-package-x"], ["bash", "no-such-package-y"]))
    if "could_not_test" in found.values():
        pytest.skip("neither dpkg nor rpm is here")
    assert found == {
        "package:coreutils": "pass",
        "package:no-such-package-x": "fail",
        "package:bash": "fail",
        "package:no-such-package-y": "pass",
    }


def test_kernel_settings_of_this_machine(monkeypatch):
    monkeypatch.setattr(System, "container", lambda self: None)
    found = outcomes(
        verify.sysctls(
            System(),
            {"kernel.pid_max": {"min": 1}, "kernel.ostype": "Linux", "kernel.hostname": "no", "no.such.key": 1},
        )
    )
    assert found == {
        "sysctl:kernel.pid_max": "pass",
        "sysctl:kernel.ostype": "pass",
        "sysctl:kernel.hostname": "fail",
        "sysctl:no.such.key": "not_applicable",
    }
    assert verify.sysctls(System(), {"kernel.ostype": "x"}, image=True) == []


class Systemctl(System):
    def __init__(self, text, rc=0, container=None):
        self.text, self.rc, self.where = text, rc, container

    def run(self, argv, timeout_s, stdin=None):
        return Ran(self.rc, self.text, "", "", 0.0)

    def container(self):
        return self.where


def unit(**fields):
    base = {
        "Id": "a.service",
        "LoadState": "loaded",
        "ActiveState": "active",
        "SubState": "running",
        "UnitFileState": "enabled",
        "ConditionResult": "yes",
        "Result": "success",
    }
    return "\n".join(f"{key}={value}" for key, value in {**base, **fields}.items()) + "\n"


@pytest.mark.parametrize(
    ("text", "rc", "container", "wanted"),
    [
        (unit(), 0, None, "pass"),
        (unit(UnitFileState="disabled"), 0, None, "fail"),
        (unit(ActiveState="failed"), 0, None, "fail"),
        (unit(LoadState="not-found", ActiveState="inactive"), 0, None, "fail"),
        (unit(ActiveState="inactive", ConditionResult="no"), 0, None, "fail"),
        (unit(ActiveState="inactive", ConditionResult="no"), 0, "systemd-nspawn", "not_applicable"),
        ("", 0, None, "could_not_test"),
        ("", 1, None, "could_not_test"),
    ],
)
def test_services(text, rc, container, wanted):
    (item,) = verify.services(Systemctl(text, rc, container), {"a.service": {"enabled": True, "active": True}})
    assert item["outcome"] == wanted


def test_a_service_that_runs_since_before_its_file_was_written(tmp_path):
    config = tmp_path / "a.conf"
    config.write_text("x")
    want = {"a.service": {"enabled": True, "active": True, "newer_than": [str(config), str(tmp_path / "none")]}}

    def seen(seconds, **fields):
        started = unit(ActiveEnterTimestampMonotonic=int((time.monotonic() + seconds) * 1e6), **fields)
        return verify.services(Systemctl(started), want)[0]

    assert seen(+60)["outcome"] == "pass"
    item = seen(-60)
    assert item["outcome"] == "fail" and item["detail"] == f"a.service: it runs since before {config} was written"
    # one that does not run has not read it either, and says so otherwise
    assert "it is failed" in seen(-60, ActiveState="failed")["detail"]
    assert verify.services(Systemctl(unit()), want)[0]["outcome"] == "pass"  # an old service manager says nothing of it


def test_services_in_an_image():
    want = {"a.service": {"enabled": True, "active": True}}
    assert verify.services(Systemctl("enabled\n"), want, image=True)[0]["outcome"] == "pass"
    assert verify.services(Systemctl("disabled\n", 1), want, image=True)[0]["outcome"] == "fail"


def test_limits():
    text = "DefaultLimitMEMLOCK=8388608\nDefaultLimitNOFILE=1048576\n"
    assert outcomes(verify.limits(Systemctl(text), {"memlock": "unlimited", "nofile": 1048576})) == {
        "limit:memlock": "fail",
        "limit:nofile": "pass",
    }
    assert outcomes(verify.limits(Systemctl(text), {"memlock": 8192, "stack": 1})) == {
        "limit:stack": "could_not_test",
        "limit:memlock": "pass",
    }
    assert outcomes(verify.limits(Systemctl("DefaultLimitMEMLOCK=infinity\n"), {"memlock": "unlimited"})) == {
        "limit:memlock": "pass"
    }


@pytest.mark.parametrize("expect", [None, {}, {"schema": 2}, {"schema": 1, "packets": []}])
def test_what_is_not_understood_is_refused(expect):
    with pytest.raises(InvalidInput):
        verify.verify(System(), expect)


def test_the_names_of_the_checks_are_those_that_verify_gives(tmp_path):
    expect = {
        "schema": 1,
        "packages": ["a"],
        "absent_packages": ["b"],
        "files": {str(tmp_path / "file"): {"mode": "0644"}},
        "blocks": {str(tmp_path / "hosts"): {"begin": "# b", "end": "# e", "lines": ["x"]}},
        "services": {"x.service": {"active": True}},
        "sysctls": {"kernel.ostype": "Linux"},
        "limits": {"nofile": 5},
    }
    assert verify.checks(expect) == {item["check"] for item in verify.verify(System(), expect)}


WANTED = {
    "base": {"schema": 1, "files": {"/a": {}, "/both": {}}, "services": {"a.service": {}}},
    "tools": {"schema": 1, "files": {"/b": {}, "/both": {}}},
}


@pytest.mark.parametrize(
    ("wrong", "roles"),
    [
        (["file:/b"], ["tools"]),
        (["service:a.service"], ["base"]),
        (["file:/both"], ["base", "tools"]),
        (["file:/b", "file:/a"], ["base", "tools"]),
        ([], ["base", "tools"]),  # node-check itself is missing: nothing is known
        (["file:/b", "package:nobodys"], ["base", "tools"]),
    ],
)
def test_only_roles_that_own_a_difference_are_applied(wrong, roles):
    items = [{"check": name, "outcome": "fail"} for name in wrong] + [{"check": "file:/c", "outcome": "pass"}]
    assert verify.owners_of_differences(items, WANTED) == roles


def test_what_could_not_be_tested_counts_as_a_difference():
    items = [{"check": "file:/a", "outcome": "could_not_test"}, {"check": "file:/b", "outcome": "not_applicable"}]
    assert verify.owners_of_differences(items, WANTED) == ["base"]
