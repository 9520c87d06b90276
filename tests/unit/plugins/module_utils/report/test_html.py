# The page: everything escaped, the mark and the reason on it, the same bytes for the same registry.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.report import html


def test_page_shows_reason_escaped_and_a_row_per_node(build):
    text = html.render(build())
    assert text.count('<tr class="node">') == 2
    assert "GPU 3: &lt;b&gt;1&lt;/b&gt; uncorrectable ECC error" in text and "<b>1</b> uncorrectable" not in text
    assert "Next: replace it" in text
    assert "http://" not in text and "https://" not in text, "nothing may be loaded from elsewhere"


def test_simulated_mark_only_where_it_belongs(build):
    real = {"gpu01": [{"check": "cpu", "outcome": "pass"}]}
    simulated = {"gpu01": [{"check": "gpu", "outcome": "pass", "simulated": True}]}
    assert '<span class="mark simulated">' not in html.render(build(evidence=real))
    assert html.render(build(evidence=simulated)).count('<span class="mark simulated">') >= 3


def test_broken_chain_is_loud(build):
    bad = {"seq": 3, "problem": "row 3 was changed", "next_step": "restore it"}
    text = html.render(build(audit={"rows": 4, "ok": False, "first_bad": bad, "last_time": ""}))
    assert "chain BROKEN" in text and "The audit chain is broken: row 3 was changed; next: restore it." in text
    assert "first_bad" not in text and "BROKEN" not in html.render(build())


def test_same_registry_same_bytes(build):
    assert html.render(build()) == html.render(build())
