# The health gate: silence is never a pass.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.outcome import combine
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import health


@pytest.mark.parametrize(
    "system, power, outcome",
    [
        ({"health": "OK", "power": "off"}, None, "pass"),
        ({"health": "ok", "power": "on"}, "on", "pass"),
        ({"health": "OK", "power": "off"}, "on", "fail"),
        ({"health": "OK", "power": None}, "on", "could_not_test"),
        ({"health": "Warning"}, None, "fail"),
        ({"health": None}, None, "could_not_test"),
        (None, None, "could_not_test"),
    ],
)
def test_what_is_said_decides(system, power, outcome):
    assert combine([item["outcome"] for item in health.judge({"system": system}, ("OK",), power)]) == outcome


def test_more_words_can_be_accepted():
    assert health.judge({"system": {"health": "Warning"}}, ("OK", "Warning"))[0]["outcome"] == "pass"
