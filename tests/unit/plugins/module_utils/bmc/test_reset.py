# Restart of the BMC: sent once, away, back, and two good authenticated reads.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import operations, redfish, reset
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import AnswerLost
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from bmc_simulator import testing

from .conftest import endpoint, writes
from .scripted import serving
from .test_ipmi import endpoint as ipmi_endpoint


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(reset, "BETWEEN_S", 0.1)
    monkeypatch.setattr(reset, "GOES_AWAY_S", 1.5)
    monkeypatch.setattr(reset, "REFUSED_PAUSE_S", 0.1)
    monkeypatch.setattr(redfish, "BACKOFF", (0.1,))


@pytest.mark.parametrize(
    ("kind", "behaviour"),
    [
        ("graceful", {}),
        ("force", {}),
        ("graceful", {"manager_reset_types": ["ForceRestart"]}),
        ("graceful", {"warmup_s": 1.0}),
        ("force", {"answer_lost_after_post": 1}),
    ],
)
def test_away_back_and_ready(fresh, kind, behaviour):
    there = endpoint(fresh)
    fresh.set_behaviour("gpu01", **behaviour)
    before = fresh.stats("gpu01").get("requests", 0)
    planned = operations.reset(there, kind, check=True)
    assert planned.changed and not writes(fresh)
    done = operations.reset(there, kind, interval=0.1, deadline_s=30)
    assert done.changed and done.more["waited"] and done.more["verified"] and done.plan.diff() == planned.plan.diff()
    assert writes(fresh) == ["POST Manager.Reset"] and fresh.stats("gpu01")["requests"] > before
    if "manager_reset_types" in behaviour:
        assert any("ForceRestart" in text for text in done.warnings)
    assert operations.info(there, ["system"])["system"]["serial"]


def test_without_waiting(fresh):
    done = operations.reset(endpoint(fresh), wait=False)
    assert (
        done.changed
        and not done.more["waited"]
        and not done.more["verified"]
        and writes(fresh) == ["POST Manager.Reset"]
    )


def test_a_bmc_that_stays_away(fresh):
    fresh.set_behaviour("gpu01", manager_reset_s=60)
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.reset(endpoint(fresh), interval=0.2, deadline_s=3)
    assert caught.value.code == "bmc_not_ready" and "no good answer" in caught.value.seen


def test_the_fence_and_what_cannot_be(bmc, there):
    def fence():
        raise errors.FencedOut("a newer attempt owns the node")

    before = len(writes(bmc))
    with pytest.raises(errors.FencedOut):
        operations.reset(there, fence=fence)
    for wrong in ({"kind": "hard"}, {"deadline_s": -1}):
        with pytest.raises(errors.InvalidInput):
            operations.reset(there, **wrong)
    assert len(writes(bmc)) == before


def test_over_ipmi():
    with testing.running([testing.node_config(bmc={"protocols": ["redfish", "ipmi"]})]) as lab:
        there = ipmi_endpoint(lab["gpu01"].ipmi_port, username=testing.USERNAME, password=testing.PASSWORD, timeout=30)
        done = operations.reset(there, interval=0.2, deadline_s=40)
        assert done.changed and done.source == "ipmi" and done.more["waited"]
        assert any(event["event"] == "bmc_reset" for event in lab.events("gpu01"))


# ---- other BMCs -----------------------------------------------------------------------------------------------------------
def manager_of(**more):
    manager = {
        "@odata.id": "/redfish/v1/Managers/1",
        "Id": "1",
        "Actions": {"#Manager.Reset": {"target": "/reset"}},
        **more,
    }
    system = {
        "@odata.id": "/redfish/v1/Systems/1",
        "Id": "1",
        "PowerState": "On",
        "Links": {"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/1"}]},
    }
    return manager, {
        "GET /redfish/v1/Systems": {"Members": [system]},
        "GET /redfish/v1/Systems/1": system,
        "GET /redfish/v1/Managers/1": lambda body: manager,
    }


def test_accepted_and_not_done():
    """With LastResetTime it is an error; a BMC without it and without a gap leaves it open, and the result says so."""
    _manager, answers = manager_of(LastResetTime="2026-01-01T00:00:00Z")
    with (
        serving({**answers, "POST /reset": (204, None)}) as (unused, where),
        pytest.raises(errors.DeadlineExceeded) as caught,
    ):
        operations.reset(where, interval=0.1, deadline_s=20)
    assert caught.value.code == "accepted_not_moved"
    _manager, answers = manager_of()
    with serving({**answers, "POST /reset": (204, None)}) as (unused, where):
        done = operations.reset(where, interval=0.1, deadline_s=20)
    assert any("never seen to go away" in text for text in done.warnings) and done.more["verified"] is False


def test_a_lost_answer_and_no_sign_is_an_error():
    """A BMC that goes down before it answers is nothing special; one that stays and shows nothing may not have got the request."""
    _manager, answers = manager_of()
    with serving({**answers, "POST /reset": ("cut", None)}) as (script, where):
        with pytest.raises(AnswerLost):
            operations.reset(where, interval=0.1, deadline_s=20)
        done = operations.reset(where, wait=False)
        assert done.more["verified"] is False and any("lost" in text for text in done.warnings)
        assert script.count("POST", "/reset") == 2


def test_a_restart_that_only_its_time_shows():
    manager, answers = manager_of(LastResetTime="2026-01-01T00:00:00Z")

    def restart(body):
        manager["LastResetTime"] = "2026-01-02T00:00:00Z"
        return (204, None)

    with serving({**answers, "POST /reset": restart}) as (unused, where):
        done = operations.reset(where, interval=0.1, deadline_s=20)
    assert done.after["last_reset"] == "2026-01-02T00:00:00Z" and not done.warnings


def test_a_service_of_redfish_1_0_without_parameters():
    _manager, answers = manager_of()

    def restart(body):
        if body:
            return (
                400,
                {
                    "error": {
                        "@Message.ExtendedInfo": [
                            {
                                "MessageId": "Base.1.0.ActionParameterUnknown",
                                "MessageArgs": ["Manager.Reset", "ResetType"],
                            }
                        ]
                    }
                },
            )
        return (204, None)

    with serving({**answers, "POST /reset": restart}) as (script, where):
        operations.reset(where, wait=False)
        assert [body for method, unused, body in script.seen if method == "POST"] == [
            {"ResetType": "GracefulRestart"},
            {},
        ]


def test_an_account_that_is_gone_after_the_restart():
    _manager, answers = manager_of()
    good = answers["GET /redfish/v1/Systems/1"]
    state = {"restarted": False}

    def restart(body):
        state["restarted"] = True
        return (204, None)

    answers["GET /redfish/v1/Systems"] = lambda body: (
        (401, {}, {"WWW-Authenticate": "Basic"}) if state["restarted"] else {"Members": [good]}
    )
    with (
        serving({**answers, "POST /reset": restart}) as (script, where),
        pytest.raises(errors.AuthenticationFailed) as caught,
    ):
        operations.reset(where, interval=0.1, deadline_s=10)
    assert "factory" in caught.value.next_step
    assert (
        sum(method == "GET" and path == "/redfish/v1/Systems" for method, path, unused in script.seen)
        <= 1 + reset.MOST_REFUSED + 1
    )


def test_no_reset_action():
    _manager, answers = manager_of(Actions=None)
    with serving(answers) as (unused, where), pytest.raises(errors.Unsupported) as caught:
        operations.reset(where)
    assert "ipmi" in caught.value.next_step


def test_a_chassis_controller_has_no_server_and_is_restarted_too():
    manager = {
        "@odata.id": "/redfish/v1/Managers/BMC",
        "Id": "BMC",
        "Name": "x",
        "Actions": {"#Manager.Reset": {"target": "/reset"}},
    }
    answers = {
        "GET /redfish/v1/": {"Managers": {"@odata.id": "/redfish/v1/Managers"}},
        "GET /redfish/v1/Managers": {"Members": [manager]},
    }
    with serving({**answers, "POST /reset": (204, None)}) as (script, where):
        assert operations.reset(where, interval=0.1, deadline_s=20).changed and script.count("POST", "/reset") == 1
        assert operations.log(where).more["logs"] == []
        with pytest.raises(errors.NotFound):
            operations.power(where, "on")
