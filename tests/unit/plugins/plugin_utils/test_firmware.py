# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import firmware as subject


def test_limits():
    assert subject.limits_of({}) == subject.Limits()
    found = subject.limits_of({"activate": "60", "poll": 1})
    assert (found.activate, found.poll, found.ready) == (60.0, 1.0, subject.Limits().ready)


@pytest.mark.parametrize("given", [{"pause": 5}, {"activation": 5}, {"poll": 0}, {"poll": "x"}, {"poll": None}])
def test_limits_that_cannot_be_right(given):
    with pytest.raises(InvalidInput) as caught:
        subject.limits_of(given)
    assert caught.value.thing == f"limits.{next(iter(given))}" and "activate" in caught.value.wanted


def test_limits_are_refused_before_any_node_is_asked(tmp_path):
    params = {"baseline": str(tmp_path / "none.yml"), "limits": {"lunch": 60}}
    with pytest.raises(InvalidInput, match="limits.lunch"), subject.prepared(params):
        raise AssertionError("never reached")


def test_secrets_and_diff():
    result = {"diff": {"before": "", "after": ""}, "msg": "user admin with hunter22"}
    assert subject.finish(result, False, "hunter22") == {"msg": "user admin with ********"}
    assert "diff" in subject.finish(result, True, None)
