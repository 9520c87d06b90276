# NULs, other control characters and lone surrogates in what is written: on both databases the write succeeds, and the second one changes nothing.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

ODD = "a\x00b\ud800c\x1b\nd"
CLEAN = "abc\nd"
ME = "tester@here"


def test_hardware_with_odd_texts(registry):
    """A DIMM whose serial is filled up with NULs is recorded without them."""
    node = {
        "name": "gpu01",
        "parts": [{"kind": "memory", "slot": ODD, "serial": "ABC\x00\x00", "model": ODD, "bank\x00": [ODD]}],
        "facts": {"memory": [{"serial": "ABC\x00\x00", "model": ODD}]},
        "maintenance_reason": ODD,
    }
    registry.save_node("S1", ME, **node)
    part = registry.node("gpu01")["parts"][0]
    assert (part["slot"], part["serial"], part["model"], part["bank"]) == (CLEAN, "ABC", CLEAN, [CLEAN])
    assert registry.node("gpu01")["facts"] == {"memory": [{"serial": "ABC", "model": CLEAN}]}
    assert registry.node("gpu01")["maintenance_reason"] == CLEAN
    assert not registry.plan_node("S1", **node).changed and not registry.save_node("S1", ME, **node).changed
    assert registry.verify_audit()["ok"]


def test_an_attempt_with_odd_texts_ends(registry, available):
    available()
    begin = registry.begin("gpu01", "deploy", actor=ODD)
    registry.step("gpu01", begin.attempt, begin.fencing, ODD, {"said": ODD})
    registry.boot_event("gpu01", begin.attempt, "dhcp", ODD, source=ODD)
    item = {
        "check": "c",
        "outcome": "fail",
        "value": ODD,
        "unit": ODD,
        "rule": ODD,
        "source": ODD,
        "detail": {ODD: ODD},
    }
    registry.record_evidence("gpu01", begin.attempt, [item], ODD)
    registry.finish("gpu01", begin.attempt, begin.fencing, "fail", ODD, reason=ODD)
    assert registry.attempts("gpu01")[-1]["reason"] == CLEAN
    assert registry.steps(begin.attempt)[0]["step"] == CLEAN
    registry.hold("gpu01", ODD, ODD, ODD, actor=ODD)
    assert not registry.hold("gpu01", ODD, ODD, ODD, actor=ODD).changed
    registry.audit(ODD, "gpu01", ODD, {ODD: ODD})
    assert registry.audit_rows()[-1]["action"] == CLEAN
    assert registry.verify_audit()["ok"], registry.verify_audit()


def test_a_node_is_asked_for_with_an_odd_name(registry):
    with pytest.raises(errors.NotFound):
        registry.node("gpu01\x00\ud800")


def test_a_value_that_the_database_does_not_take_is_a_typed_error(registry, backend, available):
    available()
    with pytest.raises(errors.InvalidInput, match="does not take a value.*next: ") as seen:
        registry._db.write(
            lambda connection: connection.exec_driver_sql(
                "UPDATE nodes SET fencing = %s" if backend == "postgresql" else "UPDATE nodes SET fencing = ?",
                (99999999999 if backend == "postgresql" else (1,),),
            )
        )
    assert seen.value.code == "value_refused"
