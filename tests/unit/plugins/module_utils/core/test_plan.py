# The Plan decides changed, check mode and diff: equal sides vanish, secrets never show.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Change, Plan


def test_equal_sides_make_no_change():
    plan = Plan.between({"power": "on", "boot": "disk"}, {"power": "on", "boot": "disk"})
    assert not plan.changed
    assert plan.diff() == {"before": "", "after": ""}
    assert plan.summary() == "nothing to change"


def test_only_wanted_keys_are_compared():
    plan = Plan.between({"power": "off", "other": 1}, {"power": "on"})
    assert plan.changes == [Change("power", "off", "on")]
    assert plan.diff() == {"before": 'power: "off"\n', "after": 'power: "on"\n'}


def test_absent_before_shows_only_after():
    assert Plan([Change("hold", None, "disk swap")]).diff() == {"before": "", "after": 'hold: "disk swap"\n'}


def test_secret_values_never_show():
    plan = Plan.between({"password": "old-one"}, {"password": "new-one"}, secret=["password"])
    text = str(plan.diff()) + plan.summary()
    assert plan.changed
    assert "old-one" not in text and "new-one" not in text
