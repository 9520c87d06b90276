# One small cluster as the registry tells it, shared by the tests of the report.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.report import model

T = "2026-11-30T10:00:{:02d}Z"


def event(step, second, attempt=1, **more):
    return {
        "step": step,
        "time": T.format(second),
        "attempt": attempt,
        "detail": None,
        "source": "boot-service",
        **more,
    }


def gate(outcome=None, attempt=None, items=(), **more):
    """What burn_in_gate says; open for a pass that nothing was written after."""
    passed = outcome == "pass" and not more.get("stale")
    given = {"passed": passed, "outcome": outcome, "attempt": attempt, "items": list(items), "stale": False}
    return {**given, "reason": "", "time": T.format(40) if outcome else None, "simulated": False, **more}


def _build(**more):
    nodes = [
        {
            "name": "gpu02",
            "serial": "S2",
            "state": "quarantined",
            "rack": "r1",
            "slot": "u02",
            "site": "lab",
            "role": "compute",
            "lease": None,
            "facts": None,
        },
        {
            "name": "gpu01",
            "serial": "S1",
            "state": "active",
            "rack": "r1",
            "slot": "u01",
            "site": "lab",
            "role": "compute",
            "lease": "slurm",
            "facts": None,
        },
    ]
    given = {
        "events": {
            "S1": [event("power_on", 0, attempt=1), event("power_on", 0, attempt=2), event("ssh", 30, attempt=2)]
        },
        "evidence": {},
        "gates": {"S1": gate("pass", 7), "S2": gate("fail", 8)},
        "why": {
            "S1": [],
            "S2": [
                {"code": "quarantined", "text": "GPU 3: <b>1</b> uncorrectable ECC error", "next_step": "replace it"}
            ],
        },
        "attempts": {
            "S1": [
                {
                    "id": 2,
                    "stage": "deploy",
                    "started": T.format(0),
                    "ended": T.format(30),
                    "outcome": "pass",
                    "last_step": "ssh",
                    "reason": None,
                }
            ]
        },
        "holds": {},
        "audit": {"rows": 4, "ok": True, "first_bad": None, "last_time": T.format(59)},
    }
    given.update(more)
    return model.build(given.pop("nodes", nodes), **given)


@pytest.fixture
def build():
    return _build


@pytest.fixture(name="gate")
def gate_fixture():
    return gate
