# The control socket: what it shows, changes and refuses.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from bmc_http import S, ask

from bmc_simulator.control import ControlError


def test_state_shows_no_secret(lab, bmc):
    state = lab.state("gpu01")
    assert state["serial"] == "LAB-test-0001" and bmc.password not in str(state)


@pytest.mark.parametrize(
    "op, arguments, complaint",
    [
        ("fly", {}, "unknown op 'fly'"),
        ("state", {"node": "gpu99"}, "there is no node 'gpu99' (nodes: gpu01)"),
        ("set_behaviour", {"node": "gpu01", "values": {"slow": 1}}, "unknown behaviour 'slow'"),
        ("set_account", {"node": "gpu01", "username": "x"}, "no account 'x'"),
    ],
)
def test_refusals(lab, op, arguments, complaint):
    with pytest.raises(ControlError) as error:
        lab.control.call(op, **arguments)
    assert complaint in str(error.value)


def test_the_socket_is_for_its_owner_only(lab):
    assert (lab.directory / "run/bmc.sock").stat().st_mode & 0o077 == 0


def test_a_crash_is_power_lost(lab):
    lab.control.call("power", node="gpu01", action="On")
    lab.wait("gpu01", lambda state: state["power"] == "On")
    lab.control.call("crash", node="gpu01")
    assert lab.state("gpu01")["power"] == "Off"
    assert lab.events("gpu01")[-1]["reason"] == "crashed"
    # a hand at the button is no request to the BMC
    assert lab.requests("gpu01") == []


def test_an_account_is_changed_from_outside(lab, bmc):
    lab.control.call("set_account", node="gpu01", username="admin", password="changed-by-hand")
    assert ask(bmc, "GET", S).status == 401
    lab.control.call("set_account", node="gpu01", username="admin", password=bmc.password)
    assert ask(bmc, "GET", S).status == 200


def test_counts(lab, bmc):
    lab.control.call("reset_stats")
    ask(bmc, "GET", S)
    ask(bmc, "PATCH", S, {"AssetTag": "1"})
    assert {key: lab.stats("gpu01")[key] for key in ("requests", "writes", "GET 200", "PATCH 200")} == {
        "requests": 2, "writes": 1, "GET 200": 1, "PATCH 200": 1}  # fmt: skip
