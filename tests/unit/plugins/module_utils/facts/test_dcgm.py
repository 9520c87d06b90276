# Readers of dcgmi diag.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.facts import dcgm
from ansible_collections.aicluster.baremetal.plugins.module_utils.facts.values import Unreadable


def document(root, results):
    return json.dumps(
        {root: {"test_categories": [{"category": "Hardware", "tests": [{"name": "memory", "results": results}]}]}}
    )


def test_version_4_and_3_json():
    warning = {"error_category": 2, "error_id": 4, "error_severity": 2, "warning": "bad"}
    four = dcgm.read_json(
        document("DCGM Diagnostic", [{"entity_group": "GPU", "entity_id": 3, "status": "Fail", "warnings": [warning]}])
    )
    assert four.tests == (dcgm.Test("Hardware", "memory", 3, dcgm.FAIL, (("isolate", "bad"),)),)
    three = dcgm.read_json(
        "noise\n"
        + document(
            "DCGM GPU Diagnostic",
            [{"gpu_ids": "0,1", "status": "PASS"}, {"gpu_ids": "2", "status": "SKIP", "warnings": "why"}],
        ).replace('"why"', '["why"]')
    )
    assert [(test.gpu, test.status) for test in three.tests] == [(0, "pass"), (1, "pass"), (2, "skip")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Error: unable to connect",
        '{"other": {}}',
        '{"DCGM Diagnostic": {"test_categories": []}}',
        '{"DCGM Diagnostic": {"test',
    ],
)
def test_nothing_understood_is_no_result(text):
    with pytest.raises(Unreadable):
        dcgm.read_json(text)


def test_unknown_status_is_no_result():
    with pytest.raises(Unreadable):
        dcgm.read_json(document("DCGM Diagnostic", [{"status": "Fine"}]))


def test_text_table_with_continued_rows():
    text = """
|-----  Hardware  ----------+------------------------------------------------|
| GPU Memory                | Pass - GPUs: 1, 2                              |
|                           | Fail - GPU: 0                                  |
| Warning                   | GPU 0 Thermal violations totaling 13.3 second  |
|                           | s started at 9.7 seconds                       |
| software                  | Pass                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Skip                                     |
"""
    found = dcgm.read_text(text)
    assert [(test.name, test.gpu, test.status) for test in found.tests] == [
        ("GPU Memory", 1, "pass"),
        ("GPU Memory", 2, "pass"),
        ("GPU Memory", 0, "fail"),
        ("software", None, "pass"),
        ("software", 0, "pass"),
        ("software", 1, "skip"),
    ]
    assert found.tests[2].warnings == ((None, "GPU 0 Thermal violations totaling 13.3 seconds started at 9.7 seconds"),)
