# Sentences for people.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.filter.why_sentences import why_sentences


def test_in_service():
    assert why_sentences({"name": "gpu01", "state": "active", "why": []}) == ["gpu01 is in service."]


def test_reasons_in_order():
    why = [
        {
            "order": 1,
            "code": "hold",
            "text": "It is held.",
            "since": "2026-01-31T12:00:00.123456Z",
            "next_step": "release it",
        },
        {"order": 2, "code": "x", "text": "More.", "since": None, "next_step": None},
    ]
    assert why_sentences({"name": "gpu01", "state": "available", "why": why}) == [
        "gpu01 is not in service (state available).",
        "1. It is held. Since 2026-01-31T12:00:00Z. Next: release it.",
        "2. More.",
    ]
