# The page: everything escaped, the mark and the reason on it, the same bytes for the same registry.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ansible_collections.aicluster.baremetal.plugins.module_utils.report import html


def test_page_shows_reason_escaped_and_a_row_per_node(build):
    text = html.render(build())
    assert text.count('<tr class="node">') == 2
    assert "GPU 3: &lt;b&gt;1&lt;/b&gt; uncorrectable ECC error" in text and "<b>1</b> uncorrectable" not in text
    assert "Next: replace it" in text
    assert "http://" not in text and "https://" not in text, "nothing may be loaded from elsewhere"


def cell(text, node, column):
    """The text of one cell of the table of nodes."""
    row = next(row for row in text.split('<tr class="node">')[1:] if f">{node}</a>" in row)
    return re.findall(r"<td>(.*?)</td>", row, re.DOTALL)[column]


def test_the_burn_in_column_shows_the_newest_burn_in_and_nothing_else(build, gate):
    identity = {"check": "deploy.identity", "outcome": "pass", "attempt": 2}
    lost = {"check": "bmc_access", "outcome": "fail", "attempt": None}
    never = html.render(build(gates={"S1": gate(), "S2": gate("pass", 8)}, evidence={"S1": [identity], "S2": [lost]}))
    assert 'class="mark idle">not run<' in cell(never, "gpu01", 6) and "pass" not in cell(never, "gpu01", 6)
    assert 'class="mark pass">pass<' in cell(never, "gpu01", 7)
    assert 'class="mark pass">pass<' in cell(never, "gpu02", 6) and 'class="mark fail">' in cell(never, "gpu02", 7)
    stale = html.render(build(gates={"S1": gate("pass", 7, stale=True), "S2": gate()}))
    assert 'class="mark idle">pass</span> <span class="mark idle">stale<' in cell(stale, "gpu01", 6)
    assert "The node was written to since" in stale


def test_what_does_not_gate_is_marked(build, gate):
    items = [{"check": "cpu", "outcome": "pass"}, {"check": "network", "outcome": "could_not_test", "gates": False}]
    text = html.render(build(gates={"S1": gate("pass", 7, items), "S2": gate()}))
    assert 'could_not_test</span> <span class="mark idle">does not gate</span>' in text
    assert 'title="1 check that does not gate could not be tested: network">1 not counted<' in cell(text, "gpu01", 6)


def test_simulated_mark_only_where_it_belongs(build, gate):
    def page(items):
        return html.render(build(gates={"S1": gate("pass", 7, items), "S2": gate()}))

    assert '<span class="mark simulated">' not in page([{"check": "cpu", "outcome": "pass"}])
    # in the legend, in the row of the node, above its results and at the result
    simulated = page([{"check": "gpu", "outcome": "pass", "simulated": True}])
    assert simulated.count('<span class="mark simulated">') == 4


def test_broken_chain_is_loud(build):
    bad = {"seq": 3, "problem": "row 3 was changed", "next_step": "restore it"}
    text = html.render(build(audit={"rows": 4, "ok": False, "first_bad": bad, "last_time": ""}))
    assert "chain BROKEN" in text and "The audit chain is broken: row 3 was changed; next: restore it." in text
    assert "first_bad" not in text and "BROKEN" not in html.render(build())


def test_same_registry_same_bytes(build):
    assert html.render(build()) == html.render(build())


def test_times_are_to_the_second_and_counts_have_their_number(build):
    attempt = {"id": 3, "stage": "deploy", "started": "2026-11-30T10:00:01.123456Z", "ended": None}
    attempt |= {"outcome": None, "last_step": None, "reason": None}
    item = {"check": "gpu3.ecc", "outcome": "fail", "value": 1, "unit": "errors", "attempt": None}
    text = html.render(build(attempts={"S1": [attempt]}, evidence={"S2": [item]}))
    assert ">2026-11-30 10:00:01 UTC<" in text and ".123456" not in text
    assert ">1 error<" in text and "1 errors" not in text
    assert "State of the registry at 2026-11-30 10:00:59 UTC." in text


def test_firmware_left_behind_is_said_once(build):
    left = [{"code": "firmware_parked", "text": "Firmware plan 2 stopped.", "since": None, "next_step": "retry"}]
    assert html.render(build(firmware={"S1": left})).count("Firmware plan 2 stopped.") == 1
    both = build(firmware={"S2": left}, why={"S1": [], "S2": left})
    assert html.render(both).count("Firmware plan 2 stopped.") == 2  # the row's first reason and the section's
