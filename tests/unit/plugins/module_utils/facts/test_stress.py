# Readers of stress-ng, fio and iperf3, on reports cut down by hand.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.facts import stress
from ansible_collections.aicluster.baremetal.plugins.module_utils.facts.values import Unreadable

YAML = """---
system-info:
      stress-ng-version: 0.15.06
      uptime: 1552

metrics:
    - stressor: cpu
      bogo-ops: 3799
      bogo-ops-per-second-usr-sys-time: 1671.853711
      bogo-ops-per-second-real-time: 1261.773749
      wall-clock-time: 3.010841

    - stressor: vm
      bogo-ops: 0
      bogo-ops-per-second-real-time: 0.000000
      wall-clock-time: 3.038177

...
"""


def test_stress_ng():
    found = stress.read_stress_ng(YAML)
    assert found["cpu"] == stress.Stressor("cpu", 3799, 1261.773749, 3.010841)
    assert found["vm"].operations == 0
    with pytest.raises(Unreadable):
        stress.read_stress_ng("---\nsystem-info:\n      uptime: 1\n")
    with pytest.raises(Unreadable):
        stress.read_stress_ng("metrics:\n    - stressor: cpu\n      bogo-ops: x\n")


def test_only_status_zero_is_good():
    assert [status for status in range(9) if stress.stress_ng_status(status)[0]] == [0]
    assert (
        stress.stress_ng_status(2)[0] is False
        and stress.stress_ng_status(3)[0] is None
        and stress.stress_ng_status(99)[0] is None
    )


def test_fio():
    report = {
        "jobs": [
            {
                "error": 0,
                "write": {"io_bytes": 100, "bw_bytes": 5000, "clat_ns": {"percentile": {"99.000000": 2000000}}},
                "read": {"io_bytes": 100, "bw": 4},
            }
        ]
    }
    figures = stress.read_fio("fio: a warning\n" + json.dumps(report))
    assert figures == stress.DiskFigures(0, 100, 5000.0, 100, 4096.0, 2.0, None)
    report["jobs"].append({"error": 84, "write": {}, "read": {}})
    assert stress.read_fio(json.dumps(report)).error == 84
    for text in ("", "fio: failed", '{"jobs": []}', '{"jobs": [{"error"'):
        with pytest.raises(Unreadable):
            stress.read_fio(text)


def test_iperf3():
    report = {
        "end": {"sum_received": {"bits_per_second": 9e9, "bytes": 1, "seconds": 3.0}, "sum_sent": {"retransmits": 4}}
    }
    assert stress.read_iperf3(json.dumps(report)) == stress.NetworkFigures(9e9, 4, 3.0)
    with pytest.raises(Unreadable, match="busy"):
        stress.read_iperf3(json.dumps({"error": "error - the server is busy running a test. try again later"}))
    with pytest.raises(Unreadable, match="received"):
        stress.read_iperf3(json.dumps({"end": {"sum_received": {"bits_per_second": 0, "bytes": 0}}}))
