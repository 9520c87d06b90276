# Accounts against the simulator: created, changed, removed, verified by logging in; and what is refused before it is sent.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import account, operations, redfish
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import HttpError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.deadline import Deadline

from .conftest import endpoint
from .scripted import serving


def test_account_is_created_changed_and_removed(fresh):
    there = endpoint(fresh)
    arguments = {"password": "Monitor-12345", "role": "ReadOnly"}
    planned = operations.account(there, "monitor", check=True, **arguments)
    assert planned.changed and not fresh.requests("gpu01")
    assert "Monitor-12345" not in str(planned.plan.diff())
    assert operations.account(there, "monitor", **arguments).after == {
        "username": "monitor",
        "role": "ReadOnly",
        "enabled": True,
    }
    assert not operations.account(there, "monitor", **arguments).changed
    done = operations.account(there, "monitor", role="Operator", password="Another-12345")
    assert done.changed and operations.can_log_in(there, "monitor", "Another-12345")
    assert operations.account(there, "monitor", state="absent").changed
    assert not operations.account(there, "monitor", state="absent").changed
    assert [entry["method"] for entry in fresh.requests("gpu01")] == ["POST", "PATCH", "DELETE"]


def test_our_own_password_can_be_rotated(fresh):
    there = endpoint(fresh)
    assert operations.account(there, there.username, "Rotated-12345").changed
    assert not operations.can_log_in(there, there.username, there.password)
    renewed = there.with_account(there.username, "Rotated-12345")
    assert not operations.account(renewed, there.username, "Rotated-12345").changed


def test_a_rotation_whose_answer_was_lost_is_decided_by_logging_in(fresh):
    there = endpoint(fresh)
    fresh.set_behaviour("gpu01", faults=[{"method": "PATCH", "path": ".*Accounts.*", "drop": True, "times": 1}])
    done = operations.account(there, there.username, "Rotated-12345", password_right=False)
    assert done.changed and any("log" in text for text in done.warnings)
    assert operations.can_log_in(there, there.username, "Rotated-12345")


def test_a_password_that_is_accepted_and_not_taken(fresh):
    fresh.set_behaviour("gpu01", accept_and_do_nothing=["account"])
    there = endpoint(fresh)
    with pytest.raises(errors.Refused) as caught:
        operations.account(there, there.username, "Rotated-12345", deadline_s=3)
    assert caught.value.code == "accepted_not_moved" and "refuses log-ins" in caught.value.message
    assert operations.can_log_in(there, there.username, there.password)


def test_a_new_account_needs_a_password(bmc, there):
    with pytest.raises(errors.InvalidInput):
        operations.account(there, "nobody", role="ReadOnly")


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("present", [True, False])
def test_a_role_that_the_bmc_does_not_have_fails_in_check_mode_too(fresh, check, present):
    there = endpoint(fresh)
    if present:
        operations.account(there, "monitor", "Monitor-12345", role="ReadOnly")
    before = len(fresh.requests("gpu01"))
    with pytest.raises(errors.InvalidInput) as caught:
        operations.account(there, "monitor", "Monitor-12345", role="administrator", check=check)
    assert "Administrator" in caught.value.wanted and caught.value.seen == "administrator"
    assert len(fresh.requests("gpu01")) == before


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("password", ["short", "x" * 21])
def test_a_password_that_the_bmc_says_it_does_not_take(fresh, check, password):
    with pytest.raises(errors.InvalidInput) as caught:
        operations.account(endpoint(fresh), "monitor", password, check=check)
    assert caught.value.thing == "password" and password not in str(caught.value)
    assert not fresh.requests("gpu01")


def test_a_disabled_account_is_not_proven_by_logging_in(fresh):
    there = endpoint(fresh)
    done = operations.account(there, "monitor", "Monitor-12345", role="ReadOnly", enabled=False)
    assert done.changed and done.after["enabled"] is False
    again = operations.account(there, "monitor", "Monitor-12345", enabled=False)
    assert not again.changed and any("disabled" in text for text in again.warnings)
    opened = operations.account(there, "monitor", "Monitor-99999", enabled=True)
    assert opened.changed and operations.can_log_in(there, "monitor", "Monitor-99999")


def test_a_locked_account_is_not_proven_by_logging_in_and_is_let_in_when_asked(fresh):
    there = endpoint(fresh)
    operations.account(there, "monitor", "Monitor-12345", role="ReadOnly")
    fresh.set_behaviour("gpu01", lockout_after=1, lockout_s=600)
    assert not operations.can_log_in(there, "monitor", "wrong", guarded=False)  # which locks it
    before = len(fresh.requests("gpu01"))
    left = operations.account(there, "monitor", "Monitor-12345")
    assert not left.changed and left.before["locked"] and any("unlock: true" in text for text in left.warnings)
    planned = operations.account(there, "monitor", "Monitor-12345", unlock=True, check=True)
    assert planned.changed and len(fresh.requests("gpu01")) == before
    done = operations.account(there, "monitor", "Monitor-12345", unlock=True)
    assert done.plan.diff() == planned.plan.diff() and done.after == planned.after and done.after["locked"] is False
    assert operations.can_log_in(there, "monitor", "Monitor-12345")
    assert not operations.account(there, "monitor", "Monitor-12345", unlock=True).changed


@pytest.mark.parametrize("change", [{"state": "absent"}, {"enabled": False}])
def test_nobody_is_locked_out(fresh, change):
    there = endpoint(fresh)
    with pytest.raises(errors.Refused) as caught:
        operations.account(there, there.username, **change)
    assert "locked" in str(caught.value) or "lock" in str(caught.value)
    assert not fresh.requests("gpu01")


def test_an_account_limit_is_above_zero(there):
    with pytest.raises(errors.InvalidInput):
        operations.account(there, "monitor", deadline_s=-5)


def test_a_password_that_takes_its_time(fresh, monkeypatch):
    """Refused at first, taken a moment later: two tries, and the guard does not count them."""
    monkeypatch.setattr(account, "LOGIN_PAUSES", (0.3, 0.3))
    there, answers = endpoint(fresh), [False, True]
    monkeypatch.setattr(account, "can_log_in", lambda *unused, **unused2: answers.pop(0))
    account._await_login(there, "monitor", "Monitor-12345", Deadline(10, "test"))
    assert answers == []


def test_a_bmc_that_demands_a_new_password_gets_it(fresh):
    """Nothing but the account's own password can be changed then; what else was asked for is done with the new one."""
    there = endpoint(fresh)
    fresh.set_behaviour("gpu01", password_change_required=True)
    with pytest.raises(errors.AuthenticationFailed) as caught:
        operations.account(there, "monitor", "Monitor-12345")
    assert caught.value.code == "password_change_required"
    with pytest.raises(errors.InvalidInput):
        operations.account(there, there.username, there.password)
    planned = operations.account(there, there.username, "Rotated-12345", role="Administrator", check=True)
    assert planned.changed and not fresh.requests("gpu01")
    done = operations.account(there, there.username, "Rotated-12345", role="Administrator")
    assert done.changed and done.plan.diff() == planned.plan.diff() and done.after["role"] == "Administrator"
    renewed = there.with_account(there.username, "Rotated-12345")
    assert not operations.account(renewed, there.username, "Rotated-12345").changed
    assert [entry["method"] for entry in fresh.requests("gpu01")] == ["PATCH"]


def test_accounts_that_cannot_be_read_are_not_taken_for_gone(monkeypatch):
    monkeypatch.setattr(redfish, "BACKOFF", ())
    accounts = [{"@odata.id": "/accounts/1", "Id": "1", "UserName": "guest", "RoleId": "ReadOnly", "Enabled": True}]
    answers = {
        "GET /redfish/v1/": {"AccountService": {"@odata.id": "/service"}, "Systems": {"@odata.id": "/redfish/v1/Systems"}},
        "GET /service": {"Accounts": {"@odata.id": "/accounts"}},
        "GET /accounts": {"Members": [{"@odata.id": "/accounts/1"}]},
        "GET /accounts/1": accounts[0],
    }  # fmt: skip
    with serving(answers) as (script, where):

        def drop(body):
            script.answers["GET /accounts/1"] = (500, {})
            return (204, None)

        script.answers["DELETE /accounts/1"] = drop
        for _unused in range(2):  # the second time it is not known whether it is there
            with pytest.raises(HttpError) as caught:
                operations.account(where, "guest", state="absent")
            assert caught.value.status == 500 and script.count("DELETE", "/accounts/1") == 1
        script.answers["GET /accounts/1"] = (404, {})
        assert not operations.account(where, "guest", state="absent").changed
