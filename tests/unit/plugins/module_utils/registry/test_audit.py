# The audit chain: whole under concurrent appends, and tampering is found and named.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import multiprocessing

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry

ME = "tester@here"


@pytest.fixture
def chain(registry, available):
    available()
    begin = registry.begin("gpu01", "deploy", actor=ME)
    registry.finish("gpu01", begin.attempt, begin.fencing, "pass", ME)
    registry.audit(ME, "gpu01", "erase", {"serial": "S-gpu01"})
    verified = registry.verify_audit()
    assert verified["ok"] and verified["first_bad"] is None
    return verified


def test_every_state_change_is_in_the_chain(registry, chain):
    changes = [json.loads(row["detail"]) for row in registry.audit_rows("gpu01") if row["action"] == "state"]
    assert [(change["from"], change["to"]) for change in changes] == [
        (None, "manageable"),
        ("manageable", "available"),
        ("available", "deploying"),
        ("deploying", "deployed"),
    ]


@pytest.mark.parametrize("column", ["actor", "time", "serial", "action", "detail", "previous_hash", "hash"])
def test_a_changed_row_is_named(registry, chain, sql, column):
    sql(f"UPDATE audit SET {column} = 'mallory' WHERE seq = 3")
    verified = registry.verify_audit()
    assert not verified["ok"]
    assert verified["first_bad"]["seq"] == 3


def test_a_changed_row_with_a_fitting_hash_breaks_the_next_link(registry, chain, sql):
    from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import audit

    row = {**registry.audit_rows()[2], "actor": "mallory"}
    sql("UPDATE audit SET actor = :actor, hash = :hash WHERE seq = 3", actor="mallory", hash=audit.row_hash(row))
    assert registry.verify_audit()["first_bad"]["seq"] == 4


def test_a_removed_row_is_named(registry, chain, sql):
    sql("DELETE FROM audit WHERE seq = 3")
    verified = registry.verify_audit()
    assert "row 3 is missing" in verified["first_bad"]["problem"] and verified["first_bad"]["seq"] == 3
    assert "restore a backup" in verified["first_bad"]["next_step"]
    assert verified["rows"] == chain["rows"] - 1, "all rows that are there"


def test_a_cut_tail_is_found(registry, chain, sql):
    sql("DELETE FROM audit WHERE seq = :last", last=chain["rows"])
    verified = registry.verify_audit()
    assert not verified["ok"]
    assert verified["first_bad"]["seq"] == chain["rows"]


def test_a_state_changed_behind_the_registrys_back_is_found(registry, chain, sql):
    sql("UPDATE nodes SET state = 'active'")
    bad = registry.verify_audit()["first_bad"]
    assert "active" in bad["problem"] and bad["serial"] == "S-gpu01"


def test_a_write_that_fails_leaves_no_row(registry, chain):
    with pytest.raises(Exception):  # noqa: B017  whatever the refusal, nothing may be left
        registry.transition("gpu01", "deployed", "active", ME)
    assert registry.verify_audit()["rows"] == chain["rows"]


def test_secrets_do_not_reach_the_chain(registry, chain):
    registry.audit(ME, "gpu01", "account", {"username": "admin", "password": "hunter2"})
    assert "hunter2" not in str(registry.audit_rows())


def _append(url, count):
    with open_registry(url) as own:
        for number in range(count):
            own.audit("worker@here", None, "test", {"number": number})


def test_processes_that_append_at_once_keep_one_chain(registry, url):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_append, args=(url, 25)) for _number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    verified = registry.verify_audit()
    assert (verified["ok"], verified["rows"]) == (True, 100)
