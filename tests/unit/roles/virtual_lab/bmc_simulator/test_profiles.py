# Vendor profiles: every file is well formed, keeps to its product's shape, and does what a BMC does.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest
from bmc_http import WORKER, ask

from bmc_simulator import profiles
from bmc_simulator.testing import fleet

ROOT = "/redfish/v1"
MODERN = [name for name in profiles.names() if name != "x10"]


@pytest.fixture(scope="module")
def shared():
    quick = {"power_lag_s": 0.02, "redirect_slash": False}
    groups = [
        {"count": 4, "profile": name, "prefix": name, "address": f"127.{WORKER + 20}.{index}.1", "behaviour": quick}
        for index, name in enumerate(profiles.names())
    ]
    with fleet(groups=groups) as running:
        yield running


@pytest.fixture
def bmc_of(shared):
    return lambda name, number=1: next(bmc for bmc in shared.bmcs if bmc.name == f"{name}{number:05d}")


def members(bmc, path):
    return [row["@odata.id"] for row in ask(bmc, "GET", path).json["Members"]]


def host(bmc):
    """The system that can be reset."""
    return next(path for path in members(bmc, f"{ROOT}/Systems") if "Actions" in ask(bmc, "GET", path).json)


def links(value):
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "@odata.id" or (key in ("target", "@Redfish.ActionInfo", "Uri") and isinstance(item, str)):
                yield key, item
            else:
                yield from links(item)
    elif isinstance(value, list):
        for item in value:
            yield from links(item)


@pytest.mark.parametrize("name", profiles.names())
def test_no_link_leads_nowhere(bmc_of, name):
    bmc, seen, wanted = bmc_of(name), set(), [f"{ROOT}/"]
    while wanted:
        path = wanted.pop()
        key = path.rstrip("/").lower()
        if key in seen or "DumpService" in path:
            continue
        seen.add(key)
        answer = ask(bmc, "GET", path)
        assert answer.status == 200, path
        assert answer.json.get("@odata.id", path).rstrip("/").lower() == key
        if answer.json.get("Id") and "HGX" not in path and "Entries" not in path and key != ROOT:
            assert answer.json["Id"].lower() == key.rsplit("/", 1)[1] or path.endswith(".json")
        assert "Systems/@" not in json.dumps(answer.json)
        wanted += [target for kind, target in links(answer.json) if kind != "target" and target.startswith(ROOT)]
    assert len(seen) > 30


@pytest.mark.parametrize("name", profiles.names())
def test_power(shared, bmc_of, name):
    bmc = bmc_of(name)
    action = ask(bmc, "GET", host(bmc)).json["Actions"]["#ComputerSystem.Reset"]
    assert ask(bmc, "POST", action["target"], {"ResetType": "On"}).status == 204
    shared.wait(bmc.name, lambda state: state["power"] == "On")
    assert ask(bmc, "GET", host(bmc)).json["PowerState"] == "On"


@pytest.mark.parametrize(
    "name, system, manager",
    [
        ("idrac", "System.Embedded.1", "iDRAC.Embedded.1"),
        ("ilo", "1", "1"),
        ("xcc", "1", "1"),
        ("dgx", "DGX", "BMC"),
        ("gb200", "System_0", "BMC_0"),
        ("gigabyte", "Self", "Self"),
        ("cray", "Node0", "BMC"),
    ],
)
def test_ids(bmc_of, name, system, manager):
    bmc = bmc_of(name)
    assert host(bmc) == f"{ROOT}/Systems/{system}"
    assert members(bmc, f"{ROOT}/Managers")[0] == f"{ROOT}/Managers/{manager}"
    if manager != "BMC":
        assert ask(bmc, "GET", f"{ROOT}/Managers/BMC").status == 404
    entry = ask(bmc, "GET", host(bmc)).json["Links"]["ManagedBy"][0]["@odata.id"]
    assert entry == f"{ROOT}/Managers/{manager}"


def test_two_servers_on_one_bmc(shared, bmc_of):
    bmc = bmc_of("cray", 2)
    one, two = (ask(bmc, "GET", path).json for path in members(bmc, f"{ROOT}/Systems"))
    assert (one["Id"], two["Id"]) == ("Node0", "Node1") and one["SerialNumber"] != two["SerialNumber"]
    assert two["Actions"]["#ComputerSystem.Reset"]["target"].startswith(f"{ROOT}/Systems/Node1/")
    assert ask(bmc, "POST", two["Actions"]["#ComputerSystem.Reset"]["target"], {"ResetType": "On"}).status == 204
    shared.wait(bmc.name, lambda state: state["others"]["2"]["power"] == "On")
    states = [ask(bmc, "GET", path).json["PowerState"] for path in members(bmc, f"{ROOT}/Systems")]
    assert states == ["Off", "On"]
    # what the product does not have cannot be set either
    assert "Boot" not in two
    answer = ask(bmc, "PATCH", f"{ROOT}/Systems/Node1", {"Boot": {"BootSourceOverrideTarget": "Pxe"}})
    assert answer.status == 400


def test_update_paths_are_the_products(bmc_of):
    service = ask(bmc_of("xcc"), "GET", f"{ROOT}/UpdateService").json
    assert (service["MultipartHttpPushUri"], service["HttpPushUri"]) == ("/mfwupdate", "/fwupdate")
    assert ask(bmc_of("xcc"), "POST", "/fwupdate", b"x").status == 202
    assert "SimpleUpdate" not in json.dumps(ask(bmc_of("gb200"), "GET", f"{ROOT}/UpdateService").json)
    assert "MultipartHttpPushUri" not in ask(bmc_of("ilo"), "GET", f"{ROOT}/UpdateService").json


def test_a_bios_job_of_an_idrac(shared, bmc_of):
    bmc = bmc_of("idrac", 2)
    system = host(bmc)
    bios = ask(bmc, "GET", f"{system}/Bios").json
    settings = bios["@Redfish.Settings"]["SettingsObject"]["@odata.id"]
    wanted = {"Attributes": {"SriovGlobalEnable": "Enabled"}, "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}
    answer = ask(bmc, "PATCH", settings, wanted)
    assert answer.status == 202 and answer.headers["Location"].rsplit("/", 1)[1].startswith("JID_")
    assert ask(bmc, "PATCH", settings, {"Attributes": {"MemTest": "Enabled"}}).status == 503
    shared.set_behaviour(bmc.name, bios_job_s=0.2)
    ask(bmc, "POST", f"{system}/Actions/ComputerSystem.Reset", {"ResetType": "On"})
    shared.wait(bmc.name, lambda state: state["bios"]["SriovGlobalEnable"] == "Enabled")
    shared.wait(bmc.name, lambda state: "Completed" in state["tasks"].values())
    # without an apply time there is no job, and a boot leaves the values pending
    assert ask(bmc, "PATCH", settings, {"Attributes": {"MemTest": "Enabled"}}).status == 200
    ask(bmc, "POST", f"{system}/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"})
    assert shared.state(bmc.name)["bios_pending"] == {"MemTest": "Enabled"}


def test_account_slots_of_an_idrac(bmc_of):
    bmc = bmc_of("idrac", 3)
    accounts = f"{ROOT}/AccountService/Accounts"
    assert len(members(bmc, accounts)) == 16
    new = {"UserName": "svc", "Password": "twelve-chars", "RoleId": "Operator"}
    assert ask(bmc, "POST", accounts, new).status == 405
    assert ask(bmc, "PATCH", f"{accounts}/3", {**new, "Enabled": True}).status == 200
    assert ask(bmc, "GET", host(bmc), username="svc", password="twelve-chars").status == 200
    assert ask(bmc, "PATCH", f"{accounts}/3", {"UserName": "", "Enabled": False}).status == 200
    assert ask(bmc, "GET", host(bmc), username="svc", password="twelve-chars").status == 401


def test_virtual_media_by_patch(bmc_of):
    bmc = bmc_of("xcc")
    place = f"{ROOT}/Systems/1/VirtualMedia/EXT1"
    before = ask(bmc, "GET", place)
    assert "Actions" not in before.json
    assert ask(bmc, "PATCH", place, {"Image": "http://192.0.2.1/a.iso"}).status == 428
    tag = {"If-Match": before.headers["ETag"]}
    assert ask(bmc, "PATCH", place, {"Image": "http://192.0.2.1/a.iso", "Inserted": True}, headers=tag).status == 200
    assert ask(bmc, "GET", place).json["Inserted"] is True


def test_synthetic_profiles_say_so():
    for name in profiles.names():
        profile = profiles.load(name)
        assert profile.source and (("synthetic" in profile.label.lower()) == profile.synthetic)


def test_wrong_profiles_are_refused():
    with pytest.raises(profiles.ProfileError, match="there is no profile 'acme'"):
        profiles.load("acme")
    with pytest.raises(profiles.ProfileError, match="colour: unknown key; unknown behaviour 'x'"):
        profiles.Profile("t", {"colour": 1, "behaviour": {"x": 1}})


def test_paths_both_ways():
    profile = profiles.Profile(
        "t",
        {
            "systems": ["A", "B"],
            "paths": {"Systems/1/Bios/Settings": "Systems/A/Bios/SD", "UpdateService/update": "/fw"},
        },
    )
    for plain, own in (
        ("/redfish/v1/Systems/1/Bios/Settings", "/redfish/v1/Systems/A/Bios/SD"),
        ("/redfish/v1/Systems/@2/Bios/Settings", "/redfish/v1/Systems/B/Bios/SD"),
        ("/redfish/v1/Systems/@2/Bios", "/redfish/v1/Systems/B/Bios"),
        ("/redfish/v1/UpdateService/update", "/fw"),
        ("/redfish/v1/UpdateService", "/redfish/v1/UpdateService"),
    ):
        assert (profile.own(plain), profile.plain(own)) == (own, plain)
        assert profile.own_json(json.dumps({"a": plain})) == json.dumps({"a": own})
    # the plain path of something that has another name here is nobody's
    assert profile.plain("/redfish/v1/Systems/1/Bios") is None
    assert profile.plain("/redfish/v1/Systems/1x") == "/redfish/v1/Systems/1x"
