# Power against the simulator: plan, one write, read back, unchanged second time; and BMCs that accept and do nothing, or say nothing.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import operations, power, quirks
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import AnswerLost, HttpError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from .conftest import writes
from .scripted import serving


@pytest.mark.parametrize(
    ("present", "wanted", "changed"),
    [
        ("on", "on", False),
        ("off", "on", True),
        ("on", "off", True),
        ("off", "off", False),
        ("off", "graceful", False),
        ("on", "reset", True),
        ("off", "cycle", True),
    ],
)
def test_plan_power(present, wanted, changed):
    assert operations.plan_power(present, wanted).changed is changed


def test_power_writes_once_and_verifies(bmc, off):
    before = len(writes(bmc))
    planned = operations.power(off, "on", check=True)
    assert planned.changed and planned.after == {"power": "on"} and len(writes(bmc)) == before
    done = operations.power(off, "on", interval=0.05)
    assert done.changed and done.plan.diff() == planned.plan.diff() and bmc.state("gpu01")["power"] == "On"
    assert not operations.power(off, "on").changed
    assert done.more == {"verified": True} and not planned.more
    assert writes(bmc)[before:] == ["POST ComputerSystem.Reset"]


@pytest.mark.parametrize("action", ["reset", "cycle"])
def test_restart_ends_on(bmc, off, action):
    operations.power(off, "on", interval=0.05)
    assert operations.power(off, action, interval=0.05).changed
    assert bmc.state("gpu01")["power"] == "On"


def test_a_restart_that_was_accepted_and_not_done(bmc, off, monkeypatch):
    """With LastResetTime it is an error; without any sign (that property is taken away) the result says what was not verified."""
    operations.power(off, "on", interval=0.05)
    monkeypatch.setattr(power, "RESTART_MARK_S", 0.5)
    monkeypatch.setitem(power.RESTART_SHOWS_S, "reset", 0.3)
    bmc.set_behaviour("gpu01", accept_and_do_nothing=["power"])
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.power(off, "reset", interval=0.05)
    assert caught.value.code == "accepted_not_moved"
    bmc.set_behaviour("gpu01", drop_properties=["LastResetTime"])
    done = operations.power(off, "reset", interval=0.05)
    assert any("no sign" in text for text in done.warnings) and done.more == {"verified": False}


@pytest.mark.parametrize("more", [[], ["FullPowerCycle"]])
def test_cycle_is_off_and_on_where_the_bmc_has_none(bmc, off, more):
    """FullPowerCycle takes mains power away, from the BMC and perhaps a whole chassis: nobody who asks for a cycle means that."""
    bmc.set_behaviour("gpu01", reset_types=["On", "ForceOff", *more])
    operations.power(off, "on", interval=0.05)
    before = len(writes(bmc))
    operations.power(off, "cycle", interval=0.05)
    assert len(writes(bmc)) - before == 2 and bmc.state("gpu01")["power"] == "On"


def test_nothing_is_invented_for_a_missing_reset_type(bmc, off):
    bmc.set_behaviour("gpu01", reset_types=["On", "ForceOff"])
    operations.power(off, "on", interval=0.05)
    for check in (True, False):
        with pytest.raises(errors.Unsupported) as caught:
            operations.power(off, "reset", check=check)
        assert "ForceOff" in str(caught.value)
        with pytest.raises(errors.Unsupported):
            operations.power(off, "graceful", check=check)
    assert operations.power(off, "graceful", fallback="force", interval=0.05).after == {"power": "off"}


def test_graceful_becomes_forced_only_when_asked(bmc, off):
    bmc.set_behaviour("gpu01", graceful_ignored=True)
    operations.power(off, "on", interval=0.05)
    with pytest.raises(errors.DeadlineExceeded):
        operations.power(off, "graceful", deadline_s=1, interval=0.1)
    assert bmc.state("gpu01")["power"] == "On"
    done = operations.power(off, "graceful", fallback="force", graceful_s=0.5, interval=0.1)
    assert any("fallback" in text for text in done.warnings) and bmc.state("gpu01")["power"] == "Off"


@pytest.mark.parametrize(
    "behaviour",
    [
        {"no_allowable_values": True},
        {"no_allowable_values": True, "no_action_info": True},
        {"intermediate_power_states": True, "power_lag_s": 0.5},
    ],
)
def test_power_without_inline_values_and_with_lag(bmc, off, behaviour):
    bmc.set_behaviour("gpu01", **behaviour)
    assert operations.power(off, "on", interval=0.05).changed
    assert operations.power(off, "off", interval=0.05).changed


def test_accepted_but_not_moved(bmc, off):
    bmc.set_behaviour("gpu01", accept_and_do_nothing=["power"])
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.power(off, "on", deadline_s=1, interval=0.2)
    assert caught.value.code == "accepted_not_moved" and caught.value.seen == "off"


def test_a_lost_answer_is_decided_by_the_power_state(bmc, off):
    before = len(writes(bmc))
    bmc.set_behaviour("gpu01", answer_lost_after_post=1)
    done = operations.power(off, "on", interval=0.05)
    assert done.changed and any("lost" in text for text in done.warnings)
    assert writes(bmc)[before:] == ["POST ComputerSystem.Reset"]


@pytest.mark.parametrize("fallback", [None, "force"])
def test_graceful_timeout_counts_with_and_without_a_fallback(bmc, off, fallback):
    bmc.set_behaviour("gpu01", graceful_ignored=True)
    operations.power(off, "on", interval=0.05)
    began = time.monotonic()
    if fallback:
        operations.power(off, "graceful", fallback=fallback, graceful_s=0.5, interval=0.1)
        assert bmc.state("gpu01")["power"] == "Off"
    else:
        with pytest.raises(errors.DeadlineExceeded) as caught:
            operations.power(off, "graceful", graceful_s=0.5, interval=0.1)
        assert caught.value.code == "shutdown_ignored" and caught.value.seen == "on"
        assert "fallback: force" in caught.value.next_step
        assert bmc.state("gpu01")["power"] == "On"
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("switch", ["null_properties", "drop_properties"])
@pytest.mark.parametrize("wanted", operations.POWER_ACTIONS)
@pytest.mark.parametrize("check", [True, False])
def test_a_bmc_that_shows_no_power_is_sent_nothing(bmc, off, monkeypatch, switch, wanted, check):
    monkeypatch.setattr(power, "SETTLE_S", 0.2)
    before = len(writes(bmc))
    bmc.set_behaviour("gpu01", **{switch: ["PowerState"]})
    with pytest.raises(errors.Refused) as caught:
        operations.power(off, wanted, interval=0.05, check=check)
    assert caught.value.code == "power_unknown" and "PowerState" in caught.value.seen and caught.value.next_step
    assert len(writes(bmc)) == before


def test_no_power_state_for_a_moment_is_waited_out(bmc, off, monkeypatch):
    bmc.set_behaviour("gpu01", null_properties=["PowerState"])
    later = threading.Timer(0.6, lambda: bmc.set_behaviour("gpu01", null_properties=[]))
    later.start()
    try:
        assert not operations.power(off, "off", interval=0.1).changed
    finally:
        later.join()


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), "soon"])
@pytest.mark.parametrize("option", ["deadline_s", "graceful_s"])
def test_a_limit_is_above_zero(bmc, off, option, limit):
    before = len(writes(bmc))
    with pytest.raises(errors.InvalidInput) as caught:
        operations.power(off, "on", **{option: limit})
    assert caught.value.thing in ("timeout", "graceful_timeout") and len(writes(bmc)) == before


def test_a_restart_is_a_shutdown_and_a_start(bmc, off):
    operations.power(off, "on", interval=0.05)
    before = len(writes(bmc))
    planned = operations.power(off, "restart", check=True)
    assert planned.changed and len(writes(bmc)) == before
    done = operations.power(off, "restart", interval=0.05)
    assert done.changed and done.after == planned.after == {"power": "on"} and bmc.state("gpu01")["power"] == "On"
    assert len(writes(bmc)) - before == 2
    operations.power(off, "off", interval=0.05)
    assert operations.power(off, "restart", interval=0.05).after == {"power": "on"}
    assert len(writes(bmc)) - before == 4


def test_a_restart_of_a_system_that_does_not_shut_down(bmc, off):
    bmc.set_behaviour("gpu01", graceful_ignored=True)
    operations.power(off, "on", interval=0.05)
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.power(off, "restart", graceful_s=0.4, interval=0.1)
    assert caught.value.code == "shutdown_ignored"
    done = operations.power(off, "restart", graceful_s=0.4, fallback="force", interval=0.1)
    assert any("fallback" in text for text in done.warnings) and bmc.state("gpu01")["power"] == "On"


def test_an_nmi_wants_a_server_that_is_on(bmc, off):
    before = len(writes(bmc))
    with pytest.raises(errors.Refused):
        operations.power(off, "nmi")
    assert len(writes(bmc)) == before
    operations.power(off, "on", interval=0.05)
    done = operations.power(off, "nmi", interval=0.05)
    assert done.changed and bmc.state("gpu01")["power"] == "On"
    assert done.more == {"verified": False} and any("nmi" in text for text in done.warnings)
    bmc.set_behaviour("gpu01", reset_types=["On", "ForceOff"])
    for check in (True, False):
        with pytest.raises(errors.Unsupported):
            operations.power(off, "nmi", check=check)


def test_a_reset_time_that_only_tells_of_the_power(bmc, off, monkeypatch):
    """OpenBMC: LastResetTime does not move with a warm restart, so that it stands still proves nothing."""
    operations.power(off, "on", interval=0.05)
    monkeypatch.setattr(power, "RESTART_MARK_S", 0.5)
    monkeypatch.setitem(power.RESTART_SHOWS_S, "reset", 0.3)
    monkeypatch.setattr(
        quirks, "QUIRKS", ({"match": {"manager": "."}, "switches": {"reset_time_counts": False}, "source": "test"},)
    )
    bmc.set_behaviour("gpu01", accept_and_do_nothing=["power"])
    done = operations.power(off, "reset", interval=0.05)
    assert done.changed and any("no sign" in text for text in done.warnings)


def refusing(answer, power="On", then=None):
    """A BMC without LastResetTime that answers a reset with `answer`; the power is `then` afterwards."""
    system = {
        "@odata.id": "/redfish/v1/Systems/1",
        "Id": "1",
        "PowerState": power,
        "Actions": {"#ComputerSystem.Reset": {"target": "/reset"}},
    }

    def act(body):
        system["PowerState"] = then or system["PowerState"]
        return answer

    return {
        "GET /redfish/v1/Systems": {"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]},
        "GET /redfish/v1/Systems/1": lambda body: system,
        "POST /reset": act,
    }


def said(key, text):
    return {"error": {"@Message.ExtendedInfo": [{"MessageId": f"Base.1.8.{key}", "Message": text}]}}


@pytest.mark.parametrize("wanted", ["reset", "cycle", "nmi"])
@pytest.mark.parametrize(("status", "key"), [(409, "ResourceInUse"), (400, "NoOperation")])
def test_what_the_bmc_refuses_is_not_taken_for_done(wanted, status, key):
    """The power is on before and after it, so nothing that is read back could show that it was done."""
    with serving(refusing((status, said(key, "An update is running.")))) as (script, where):
        with pytest.raises(HttpError) as caught:
            operations.power(where, wanted, interval=0.05, deadline_s=5)
        assert caught.value.status == status and "An update is running" in caught.value.seen
        assert caught.value.next_step and script.count("POST", "/reset") == 1


@pytest.mark.parametrize(
    ("wanted", "present", "then"), [("on", "Off", "On"), ("off", "On", "Off"), ("graceful", "On", "Off")]
)
def test_what_is_read_back_outweighs_a_refusal(wanted, present, then):
    refusal = (409, said("ResourceInUse", "An update is running."))
    with serving(refusing(refusal, present, then)) as (unused, where):
        done = operations.power(where, wanted, interval=0.05, deadline_s=5)
        assert done.changed and done.more == {"verified": True}
    with serving(refusing(refusal, present)) as (script, where):
        with pytest.raises(HttpError) as caught:
            operations.power(where, wanted, interval=0.05, deadline_s=1)
        assert caught.value.code == "bmc_conflict" and "An update is running" in caught.value.seen
        assert script.count("POST", "/reset") == 1


def test_a_refused_shutdown_is_forced_only_when_asked():
    state = {"GracefulShutdown": (409, said("ResourceInUse", "busy")), "ForceOff": (204, None)}
    answers = refusing(None)
    system = answers["GET /redfish/v1/Systems/1"](None)

    def act(body):
        if body["ResetType"] == "ForceOff":
            system["PowerState"] = "Off"
        return state[body["ResetType"]]

    with serving({**answers, "POST /reset": act}) as (unused, where):
        done = operations.power(where, "graceful", fallback="force", graceful_s=0.3, interval=0.05, deadline_s=5)
        assert done.after == {"power": "off"} and any("fallback" in text for text in done.warnings)


@pytest.mark.parametrize("wanted", ["reset", "cycle", "nmi"])
def test_a_lost_answer_that_nothing_can_decide_is_an_error(monkeypatch, wanted):
    monkeypatch.setattr(power, "RESTART_SHOWS_S", {"reset": 0.3, "cycle": 0.3})
    with serving(refusing(("cut", None))) as (script, where):
        with pytest.raises(AnswerLost) as caught:
            operations.power(where, wanted, interval=0.05, deadline_s=5)
        assert caught.value.next_step and script.count("POST", "/reset") == 1


@pytest.mark.parametrize("name", ["Severity", "MessageSeverity"])
@pytest.mark.parametrize(("severity", "refused"), [("Critical", True), ("Warning", False), ("OK", False)])
def test_a_refusal_with_the_status_of_success(name, severity, refused):
    body = said("GeneralError", "The NMI could not be sent.")
    body["error"]["@Message.ExtendedInfo"][0][name] = severity
    with serving(refusing((200, body))) as (script, where):
        if refused:
            with pytest.raises(HttpError) as caught:
                operations.power(where, "nmi", interval=0.05, deadline_s=5)
            assert "HTTP 200, The NMI could not be sent" in caught.value.seen and caught.value.next_step
        else:
            assert operations.power(where, "nmi", interval=0.05, deadline_s=5).changed
        assert script.count("POST", "/reset") == 1
