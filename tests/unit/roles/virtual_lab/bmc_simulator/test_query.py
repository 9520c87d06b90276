# Redfish query parameters over plain dictionaries.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from bmc_simulator import query
from bmc_simulator.messages import Problem

DRIVES = {f"/d/{name}": {"@odata.id": f"/d/{name}", "Id": name, "Size": size, "Status": {"Health": health}} for name, size, health in
          (("a", 4, "OK"), ("b", 8, "Warning"), ("c", 16, "OK"))}  # fmt: skip
COLLECTION = {
    "@odata.id": "/d",
    "Name": "Drives",
    "Members": [{"@odata.id": path} for path in DRIVES],
    "Members@odata.count": 3,
}
SYSTEM = {
    "@odata.id": "/s",
    "Id": "1",
    "Drive": {"@odata.id": "/d/a"},
    "Links": {"Other": {"@odata.id": "/d/b"}},
    "Deep": {"A": 1, "B": 2},
}


def run(body, page=0, **parameters):
    return query.apply(body, {name.replace("_", "$"): value for name, value in parameters.items()}, page, DRIVES.get)


def members(body):
    return [member["@odata.id"][-1] for member in body["Members"]]


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("Size gt 4", ["b", "c"]),
        ("Status/Health eq 'OK'", ["a", "c"]),
        ("Status/Health eq 'OK' and Size lt 10", ["a"]),
        ("not (Size eq 4 or Size eq 8)", ["c"]),
        ("Nothing eq null", ["a", "b", "c"]),
        ("Id ge 5", []),
    ],
)
def test_filter(text, wanted):
    assert members(run(COLLECTION, _filter=text)) == wanted


@pytest.mark.parametrize("text", ["Size", "Size is 4", "(Size eq 4", "Size eq 4 or", "Size eq ]"])
def test_a_broken_filter_is_refused(text):
    with pytest.raises(Problem) as problem:
        run(COLLECTION, _filter=text)
    assert problem.value.status == 400


def test_pages():
    first = run(COLLECTION, page=2)
    assert members(first) == ["a", "b"] and first["Members@odata.count"] == 3
    assert first["Members@odata.nextLink"] == "/d?$skip=2"
    assert members(run(COLLECTION, page=2, _skip="2")) == ["c"]
    assert members(run(COLLECTION, _top="1", _skip="1")) == ["b"]


def test_expand_follows_links_or_not():
    assert run(SYSTEM, _expand=".")["Drive"]["Id"] == "a"
    assert "Id" not in run(SYSTEM, _expand=".")["Links"]["Other"]
    assert run(SYSTEM, _expand="~")["Links"]["Other"]["Id"] == "b"
    assert "Id" not in run(SYSTEM, _expand="~")["Drive"]
    assert run(SYSTEM, _expand="*($levels=2)")["Links"]["Other"]["Id"] == "b"
    assert [member["Size"] for member in run(COLLECTION, _expand=".($levels=1)")["Members"]] == [4, 8, 16]


def test_select():
    assert run(SYSTEM, _select="Id,Deep/B") == {"@odata.id": "/s", "Id": "1", "Deep": {"B": 2}}


def test_only():
    single = {**COLLECTION, "Members": COLLECTION["Members"][:1], "Members@odata.count": 1}
    assert run(single, only="")["Id"] == "a"
    assert run(COLLECTION, only="") == COLLECTION


def test_unknown_parameters():
    with pytest.raises(Problem) as problem:
        query.check({"$query": "x"}, True)
    assert problem.value.status == 501
    query.check({"harmless": "x"}, True)
    with pytest.raises(Problem):
        query.check({"$expand": "."}, False)
