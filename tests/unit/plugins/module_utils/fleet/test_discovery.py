# The visits of discovery on the engine: all at once, each BMC's trouble its own, none that hangs holds up the rest, and no session is left.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import discover
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.discovery import Here
from bmc_simulator import testing

RIGHT = {"username": testing.USERNAME, "password": testing.PASSWORD}
WRONG = {"username": testing.USERNAME, "password": "Another-word-1"}


def target(bmc, *candidates, **more):
    where = {"name": bmc.name, "address": bmc.address, "port": bmc.port, "protocol": "redfish"}
    return {
        **where,
        "fingerprint": bmc.fingerprint,
        "candidates": list(candidates or [RIGHT]),
        "sections": ["system"],
        **more,
    }


@pytest.fixture(autouse=True)
def _no_guard(monkeypatch):
    monkeypatch.setenv("AICLUSTER_BMC_GUARD", "off")


def test_all_bmcs_are_read_in_order_each_with_its_own_trouble():
    lines = []
    with testing.running(5) as lab:
        bmcs = lab.bmcs
        lab.set_behaviour(delay_s=0.2)
        targets = [target(bmc) for bmc in bmcs]
        targets[1] = target(bmcs[1], WRONG)
        targets[2] = target(bmcs[2], WRONG, RIGHT)
        targets[3]["fingerprint"] = "0" * 64
        found = Here(tell=lines.append, interval=0.3).visit(targets)
        assert [answer.get("info", {}).get("system", {}).get("serial") for answer in found] == [
            bmcs[0].serial,
            None,
            bmcs[2].serial,
            None,
            bmcs[4].serial,
        ]
        assert [answer.get("candidate") for answer in found] == [0, None, 1, None, 0]
        assert [answer.get("error", {}).get("code") for answer in found] == [
            None,
            "authentication_failed",
            None,
            "certificate_changed",
            None,
        ]
        assert all(lab.state(bmc.name)["sessions"] == 0 for bmc in bmcs)
    assert lines and lines[0].startswith("fleet discover (visit): ") and " of 5 " in lines[0]


def test_a_password_is_changed_and_proven():
    with testing.running(2) as lab:
        targets = [
            target(bmc, username=RIGHT["username"], password=RIGHT["password"], new_password=f"New-word-{bmc.name}-1")
            for bmc in lab.bmcs
        ]
        assert Here().rotate(targets) == [{"ok": True}] * 2
        again = [target(bmc, {**RIGHT, "password": f"New-word-{bmc.name}-1"}) for bmc in lab.bmcs]
        assert all("info" in answer for answer in Here().visit(again))


def test_one_that_never_ends_is_given_up_and_the_rest_are_read(monkeypatch):
    def visit(one):
        if one["name"] == "gpu02":
            time.sleep(6)
        return {"candidate": 0, "info": {}}

    visit.__name__ = "visit"
    monkeypatch.setattr(discover, "visit", visit)
    targets = [
        {"name": f"gpu{n:02d}", "address": f"127.0.0.{n}", "port": 443, "protocol": "redfish"} for n in (1, 2, 3)
    ]
    begun = time.monotonic()
    found = Here(grace_s=0.5, limit_s=0.5).visit(targets)
    assert time.monotonic() - begun < 5
    assert [("info" in answer) for answer in found] == [True, False, True]
    assert found[1]["error"]["code"] == "stuck" and "127.0.0.2 port 443" in found[1]["error"]["text"]


def test_they_are_visited_side_by_side_and_over_ipmi_no_more_than_there_may_be_processes(monkeypatch):
    together, lock, running, most = threading.Barrier(40), threading.Lock(), [0], [0]

    def visit(one):
        if one["protocol"] == "redfish":
            together.wait(30)  # passes only when all forty are here
        else:
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            time.sleep(0.05)
            with lock:
                running[0] -= 1
        return {"candidate": 0, "info": {}}

    monkeypatch.setattr(discover, "visit", visit)
    targets = [
        {"name": f"n{n}", "address": f"127.0.1.{n}", "port": 443, "protocol": "redfish" if n < 40 else "ipmi"}
        for n in range(120)
    ]
    assert all("info" in answer for answer in Here().visit(targets))
    assert 1 < most[0] <= 32


def test_no_target_is_no_work():
    assert Here().visit([]) == [] and Here().rotate([]) == []
