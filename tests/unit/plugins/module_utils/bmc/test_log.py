# Logs: times and shapes, paging, which entries, clearing; and the SEL over IPMI.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import log, operations, redfish
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import HttpError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from .conftest import endpoint, writes
from .scripted import serving


# ---- pure ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00"),
        ("2026-01-31T12:00:00-05:00", "2026-01-31T17:00:00"),
        ("2024-07-18T22:00:55.851+00:00", "2024-07-18T22:00:55"),
        ("2026-01-31", "2026-01-31T00:00:00"),
        ("2026-01-31 12:00", "2026-01-31T12:00:00"),
        ("2026-13-31T12:00:00Z", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_moments(text, utc):
    found = log.moment(text)
    assert (found - found.utcoffset() if found else None) is None or found is not None
    assert (found.astimezone(log.datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") if found else None) == utc


def entry(number, day=1, severity="OK", **more):
    return log.entry_facts(
        {
            "Id": str(number),
            "Created": f"2026-01-{day:02d}T00:00:00Z",
            "Severity": severity,
            "Message": f"entry {number}",
            **more,
        }
    )


def test_shapes():
    assert log.entry_facts({})["id"] == "" and log.entry_facts({"@odata.id": "/x/7"})["id"] == "7"
    assert log.entry_facts({"SensorNumber": 26, "SensorType": None})["sensor"] == "26"
    assert log.entry_facts({"SensorNumber": "x", "Severity": None, "Message": {}, "Created": 7})["created"] == "7"


@pytest.mark.parametrize("newest_first", [True, False])
def test_which_entries(newest_first):
    entries = [
        entry(number, number, severity) for number, severity in ((1, "OK"), (2, "Critical"), (3, "Warning"), (4, "OK"))
    ]
    if newest_first:
        entries.reverse()

    def ids(found):
        return [item["id"] for item in found]

    assert ids(log.wanted_entries(entries)) == ["1", "2", "3", "4"]
    assert ids(log.wanted_entries(entries, limit=2)) == ["3", "4"]
    assert ids(log.wanted_entries(entries, since="2026-01-02T00:00:00Z", severity="Warning")) == ["2", "3"]
    assert ids(
        log.wanted_entries(
            [entry(1), {**entry(9), "created": None, "severity": None}], since="2030-01-01", severity="Critical"
        )
    ) == ["9"]


def test_only_says_cleared():
    assert log.only_says_cleared([]) and log.only_says_cleared(
        [entry(1, Message="IML Cleared ( user: System Administrator)")]
    )
    assert not log.only_says_cleared([entry(1)]) and not log.only_says_cleared(
        [entry(1, Message="log cleared"), entry(2)]
    )


# ---- the simulator --------------------------------------------------------------------------------------------------------
def fill(lab, times=3):
    there = endpoint(lab)
    for _unused in range(times):
        operations.power(there, "on", interval=0.05)
        operations.power(there, "off", interval=0.05)
    return there


@pytest.mark.parametrize(
    "behaviour", [{}, {"paging": 2}, {"no_query_support": True}, {"paging": 3, "expand_partial": True}]
)
def test_read_then_clear(fresh, behaviour):
    there = fill(fresh)
    fresh.set_behaviour("gpu01", **behaviour)
    found = operations.log(there).more["logs"]
    names = [item["log"] for item in found]
    assert "Systems/1/SEL" in names and any(name.startswith("Managers/") for name in names)
    sel = next(item for item in found if item["log"] == "Systems/1/SEL")
    assert len(sel["entries"]) >= 6 and all(item["message"] for item in sel["entries"])
    few = operations.log(there, logs=["sel"], limit=2).more["logs"][0]["entries"]
    assert [item["id"] for item in few] == [item["id"] for item in sel["entries"][-2:]]
    before = len(writes(fresh))
    planned = operations.log(there, "cleared", ["SEL"], check=True)
    assert planned.changed and len(writes(fresh)) == before
    done = operations.log(there, "cleared", ["SEL"], interval=0.05)
    assert done.changed and done.plan.diff() == planned.plan.diff() and done.after["empty"]
    assert not operations.log(there, "cleared", ["SEL"]).changed
    assert writes(fresh)[before:] == ["POST LogService.ClearLog"] and fresh.state("gpu01")["sessions"] == 0


def test_a_bmc_that_wants_the_type(fresh):
    there = fill(fresh, 1)
    fresh.set_behaviour("gpu01", clear_log_needs_type=True)
    before = len(writes(fresh))
    assert operations.log(there, "cleared", ["Systems/1/SEL"], interval=0.05).changed
    assert writes(fresh)[before:] == ["POST LogService.ClearLog"] * 2


def test_a_log_that_cannot_be_read_is_a_warning(bmc, there):
    bmc.set_behaviour("gpu01", faults=[{"method": "GET", "path": ".*/SEL/Entries.*", "status": 400, "times": -1}])
    done = operations.log(there)
    assert any("SEL" in text for text in done.warnings)
    assert next(item for item in done.more["logs"] if item["log"] == "Systems/1/SEL")["entries"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"state": "gone"}, {"since": "yesterday"}, {"severity": "Bad"}, {"limit": 0}, {"limit": True}, {"state": "cleared"},
        {"state": "cleared", "logs": ["a", "b"]}, {"deadline_s": 0},
    ],
)  # fmt: skip
def test_what_cannot_be(there, arguments):
    with pytest.raises(errors.InvalidInput):
        operations.log(there, **arguments)


def test_an_unknown_log_lists_those_that_are_there(bmc, there):
    with pytest.raises(errors.NotFound) as caught:
        operations.log(there, logs=["IML"])
    assert "Systems/1/SEL" in caught.value.seen


# ---- other BMCs -----------------------------------------------------------------------------------------------------------
SYSTEM = {"@odata.id": "/redfish/v1/Systems/1", "Id": "1", "LogServices": {"@odata.id": "/logs"}, "Links": {}}


def bmc_with(entries, **more):
    service = {
        "@odata.id": "/logs/SEL",
        "Id": "SEL",
        "Name": "x",
        "Entries": {"@odata.id": "/logs/SEL/Entries"},
        "Actions": more.pop("actions", None),
    }
    return serving(
        {
            "GET /redfish/v1/Systems": {"Members": [SYSTEM]},
            "GET /logs": {"Members": [service]},
            "GET /logs/SEL/Entries": entries,
            **more,
        }
    )


def test_newest_first_stops_early():
    """An iDRAC's lifecycle log has tens of thousands of entries: reading stops when there are enough."""

    def page(first):
        return [
            {"@odata.id": f"/e/{n}", "Id": str(n), "Created": f"2026-01-01T00:{n:02d}:00Z", "Message": "m"}
            for n in range(first, first - 5, -1)
        ]

    pages = {
        f"GET /logs/SEL/Entries?p={n}": {
            "Members": page(50 - 5 * n),
            "Members@odata.nextLink": f"/logs/SEL/Entries?p={n + 1}",
        }
        for n in range(1, 9)
    }
    first = {"Members": page(50), "Members@odata.nextLink": "/logs/SEL/Entries?p=1", "Members@odata.count": 45}
    with bmc_with(first, **pages) as (script, where):
        found = operations.log(where, limit=8).more["logs"][0]["entries"]
        assert [item["id"] for item in found] == [str(n) for n in range(43, 51)]
        assert sum(path.startswith("/logs/SEL/Entries") for unused, path, unused2 in script.seen) == 2


def test_a_page_that_points_to_itself():
    page = {"Members": [{"Id": "1", "Message": "m"}], "Members@odata.nextLink": "/logs/SEL/Entries"}
    with bmc_with(page) as (script, where):
        operations.log(where)
        assert script.count("GET", "/logs/SEL/Entries") <= 2


@pytest.mark.parametrize("members", [None, [], [None, 7, {}], {"Id": "1"}])
def test_odd_members_are_no_traceback(members):
    with bmc_with({"Members": members}) as (unused, where):
        assert operations.log(where).more["logs"][0]["log"] == "Systems/1/SEL"


def test_a_log_that_never_can_be_cleared():
    with bmc_with({"Members": [{"Id": "1", "Message": "m"}]}) as (unused, where), pytest.raises(errors.Unsupported):
        operations.log(where, "cleared", ["SEL"])


def test_accepted_and_still_there(monkeypatch):
    actions = {"#LogService.ClearLog": {"target": "/logs/SEL/clear"}}
    with bmc_with(
        {"Members": [{"Id": "1", "Message": "m"}]}, actions=actions, **{"POST /logs/SEL/clear": (204, None)}
    ) as (unused, where):
        with pytest.raises(errors.DeadlineExceeded) as caught:
            operations.log(where, "cleared", ["SEL"], deadline_s=1, interval=0.1)
    assert caught.value.code == "accepted_not_moved" and "1 entries" in caught.value.seen


def test_entries_that_cannot_be_read_are_not_taken_for_cleared(monkeypatch):
    monkeypatch.setattr(redfish, "BACKOFF", ())
    actions = {"#LogService.ClearLog": {"target": "/logs/SEL/clear"}}
    entry = {"Id": "1", "Message": "m", "Created": "2026-01-01T00:00:00Z"}
    with bmc_with({"Members": [{"@odata.id": "/e/1"}]}, actions=actions, **{"GET /e/1": entry}) as (script, where):

        def clear(body):
            script.answers["GET /e/1"] = (500, {})
            return (204, None)

        script.answers["POST /logs/SEL/clear"] = clear
        with pytest.raises(errors.DeadlineExceeded) as caught:
            operations.log(where, "cleared", ["SEL"], deadline_s=2, interval=0.1)
        assert caught.value.code == "accepted_not_moved"
        with pytest.raises(HttpError):
            operations.log(where, "cleared", ["SEL"], deadline_s=2, interval=0.1)
        assert script.count("POST", "/logs/SEL/clear") == 1


def test_a_log_without_entries_to_look_at_is_not_cleared():
    actions = {"#LogService.ClearLog": {"target": "/logs/SEL/clear"}}
    with bmc_with({}, actions=actions) as (script, where):
        script.answers["GET /logs"]["Members"][0]["Entries"] = None
        with pytest.raises(errors.Unsupported) as caught:
            operations.log(where, "cleared", ["SEL"])
        assert caught.value.wanted == "a link Entries" and not script.count("POST", "/logs/SEL/clear")


# ---- the SEL by IPMI ------------------------------------------------------------------------------------------------------
def test_sel_records():
    """Table 32-1: id, record type, time, generator, event format, sensor type and number, direction and type, data."""
    record = bytes([5, 0, 2]) + (1769860800).to_bytes(4, "little") + bytes([0x20, 0, 4, 0x04, 3, 0x81, 0x52, 0, 0])
    facts = log.sel_facts(record)
    assert facts["id"] == "5" and facts["created"] == "2026-01-31T12:00:00Z" and "deasserted" in facts["message"]
    assert facts["sensor"] == "type 0x04 number 3"
    assert log.sel_facts(bytes([6, 0, 0xE0]) + bytes(13))["created"] is None
    assert log.sel_facts(bytes([7, 0, 2, 9, 0, 0, 0]) + bytes(9))["created"] is None
