# Mains and standby power: which ways a BMC has, who else hangs on them, what is sent, and that it is seen to have happened.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect, cycle, operations, power, quirks
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from bmc_simulator import testing

from .conftest import endpoint, writes
from .scripted import reached, serving

SERIAL = "SN-1"


@pytest.fixture(scope="module")
def shared():
    with testing.running(1) as lab:
        yield lab


@pytest.fixture
def lab(shared):
    shared.reset_behaviour("gpu01")
    yield shared
    shared.reset_behaviour("gpu01")


@pytest.fixture
def there(lab):
    return endpoint(lab)


def events(lab):
    return [entry["event"] for entry in lab.events("gpu01")]


# ---- against the simulator ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("present", ["on", "off"])
@pytest.mark.parametrize("kind", cycle.KINDS)
def test_power_goes_away_and_the_server_is_on(lab, there, kind, present):
    lab.set_behaviour("gpu01", aux_power_reset=True)
    operations.power(there, present, interval=0.05)
    before, had = len(writes(lab)), events(lab).count(kind)
    planned = operations.power(there, kind, check=True)
    assert planned.changed and len(writes(lab)) == before
    done = operations.power(there, kind, interval=0.05)
    assert done.plan.diff() == planned.plan.diff() and done.after == {"power": "on"}
    assert done.more == {**planned.more, "verified": True}
    assert events(lab).count(kind) == had + 1 and lab.state("gpu01")["power"] == "On"
    sent = writes(lab)[before:]
    assert sent.count("POST Chassis.Reset") + sent.count("POST NvidiaChassis.AuxPowerReset") == 1
    # the standby power goes only with the server off
    assert (sent[0] == "POST ComputerSystem.Reset") is (kind == "aux_cycle" and present == "on")


def test_a_short_absence_is_seen_by_the_session_that_is_gone(lab, there):
    """The server is off and the BMC away for less than one pause: nothing else shows that it restarted."""
    operations.power(there, "off", interval=0.05)
    began = time.monotonic()
    done = operations.power(there, "ac_cycle", interval=2.0)
    assert done.after == {"power": "on"} and not done.warnings and time.monotonic() - began < 60
    assert lab.state("gpu01")["sessions"] == 0


def test_accepted_and_not_done(lab, there, monkeypatch):
    operations.power(there, "on", interval=0.05)
    monkeypatch.setattr(power, "CYCLE_SHOWS_S", 0.5)
    lab.set_behaviour("gpu01", accept_and_do_nothing=["power"])
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.power(there, "ac_cycle", interval=0.05)
    assert caught.value.code == "accepted_not_moved" and lab.state("gpu01")["sessions"] == 0


def test_what_is_offered_is_listed(lab, there):
    with pytest.raises(errors.Unsupported) as caught:
        operations.power(there, "aux_cycle", check=True)
    assert caught.value.code == "no_power_cycle" and "ac_cycle (Chassis.Reset FullPowerCycle)" in caught.value.seen


def test_ipmi_has_none(lab):
    class Ipmi:
        source, endpoint = "ipmi", endpoint(lab)

    with pytest.raises(errors.Unsupported) as caught:
        cycle.choose(Ipmi(), "ac_cycle")
    assert "IPMI" in caught.value.message and "redfish" in caught.value.next_step


def test_other_servers_want_a_word(lab, there):
    operations.power(there, "off", interval=0.05)
    before = len(writes(lab))
    planned = operations.power(there, "ac_cycle", check=True, siblings=["gpu02"])
    assert planned.more["consent_required"] and planned.more["siblings"] == ["gpu02"]
    assert planned.more["needs_consent"] == [lab["gpu01"].serial] and "needs consent" in planned.as_result()["msg"]
    for check, given in ((False, None), (False, "another"), (True, "another")):
        with pytest.raises(errors.Refused) as caught:
            operations.power(there, "ac_cycle", check=check, siblings=["gpu02"], consent=given)
        assert caught.value.code == "consent_required" and "gpu02" in caught.value.message
    assert len(writes(lab)) == before
    serial = lab["gpu01"].serial
    assert operations.power(there, "ac_cycle", siblings=["gpu02"], consent=serial, interval=0.05).changed


def test_the_fence_is_asked(lab, there):
    def fence():
        raise errors.FencedOut("no")

    before = events(lab)
    with pytest.raises(errors.FencedOut):
        operations.power(there, "ac_cycle", fence=fence, interval=0.05)
    assert events(lab) == before


# ---- each row, and shapes ----------------------------------------------------------------------------------------------------
def answers(system_actions=None, chassis_actions=None, linked=True, held=("/s/1",), power_state="On"):
    def refs(paths):
        return [{"@odata.id": path} for path in paths]

    return {
        "GET /redfish/v1/": {"Systems": {"@odata.id": "/s"}, "Chassis": {"@odata.id": "/c"}},
        "GET /s": {"Members": refs(["/s/1"])},
        "GET /s/1": {
            "@odata.id": "/s/1",
            "Id": "1",
            "SerialNumber": SERIAL,
            "PowerState": power_state,
            "Boot": {},
            "Links": {"Chassis": refs(["/c/1"]) if linked else []},
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": "/s/1/reset",
                    "ResetType@Redfish.AllowableValues": ["On", "ForceOff"],
                },
                **(system_actions or {}),
            },
        },
        "GET /c": {"Members": refs(["/c/1"])},
        "GET /c/1": {
            "@odata.id": "/c/1",
            "Id": "1",
            "Name": "x",
            "Links": {"ComputerSystems": refs(held)},
            "Actions": chassis_actions or {},
        },
    }


@pytest.mark.parametrize("row", quirks.POWER_CYCLES, ids=lambda row: row["action"] + " " + row["where"])
@pytest.mark.parametrize("listed", [True, False])
def test_each_row(row, listed):
    """The action as the vendor shows it: an OEM one below its name, with or without its list of values."""
    oem = not row["action"].startswith(("ComputerSystem.", "Chassis."))
    target = "/x/Actions/Oem/y" if oem else "/x/Actions/y"
    action = {"target": target}
    if listed or not oem:
        action["ResetType@Redfish.AllowableValues"] = ["Nothing", *row["types"]]
    shown = {"Oem": {"Vendor": {f"#{row['action']}": action}}} if oem else {f"#{row['action']}": action}
    replies = answers(**{f"{row['where']}_actions": shown}, power_state="Off")
    replies[f"POST {target}"] = (204, None)
    assert row["source"]
    with reached(serving(replies)) as (script, client):
        way = cycle.choose(client, row["kind"])
        assert way.off_first is row.get("off_first", False) and not way.others
        assert cycle.fire(client, way) is None
        assert script.seen[-1] == ("POST", target, {"ResetType": row["types"][0], **row.get("body", {})})


def test_a_standard_action_without_a_list_is_not_tried():
    with serving(answers(chassis_actions={"#Chassis.Reset": {"target": "/r"}})) as (unused, where):
        with pytest.raises(errors.Unsupported) as caught:
            operations.power(where, "ac_cycle", check=True)
    assert "neither" in caught.value.seen


def test_a_chassis_that_the_system_does_not_name():
    aux = {"Oem": {"#NvidiaChassis.AuxPowerReset": {"target": "/c/1/Actions/Oem/x"}}}
    with reached(serving(answers(chassis_actions=aux, linked=False, held=()))) as (unused, client):
        assert cycle.choose(client, "aux_cycle").target == "/c/1/Actions/Oem/x"
    with reached(serving(answers(chassis_actions=aux, linked=False, held=("/s/2",)))) as (unused, client):
        with pytest.raises(errors.Unsupported):
            cycle.choose(client, "aux_cycle")  # another server's chassis


@pytest.mark.parametrize(
    ("held", "others"),
    [
        (("/s/1",), ()),
        (("/S/1/", "/s/HGX_Baseboard_0"), ()),
        (("/s/1", "/s/2"), ("2",)),
        (("/s/2", "/s/3"), ("2", "3")),
    ],
)
def test_who_else_loses_power(held, others):
    replies = answers(
        chassis_actions={"#Chassis.Reset": {"target": "/r", "ResetType@Redfish.AllowableValues": ["FullPowerCycle"]}},
        held=held,
    )
    with serving(replies) as (script, where):
        with connect(where) as client:
            assert cycle.choose(client, "ac_cycle").others == others
        if others:
            with pytest.raises(errors.Refused) as caught:
                operations.power(where, "ac_cycle")
            assert caught.value.code == "consent_required" and SERIAL in caught.value.wanted
            assert script.count("POST") == 0


@pytest.mark.parametrize("value", [None, [], "x", {"Hpe": None}, {"Hpe": {"Actions": "x"}}])
def test_an_action_in_the_vendors_part_of_the_resource(value):
    """iLO 5 has its actions in Oem.Hpe.Actions and not in Actions.Oem."""
    place = "/s/1/Actions/Oem/Hpe/HpeComputerSystemExt.SystemReset"
    action = {"target": place, "ResetType@Redfish.AllowableValues": ["ColdBoot", "AuxCycle"]}
    replies = answers()
    system = replies["GET /s/1"]
    system["Oem"] = {"Hpe": {"Actions": {"#HpeComputerSystemExt.SystemReset": action}}}
    with reached(serving(replies)) as (unused, client):
        way = cycle.choose(client, "aux_cycle")
        assert (way.target, way.reset_type, way.off_first) == (place, "AuxCycle", True)
        system["Oem"] = value
        with pytest.raises(errors.Unsupported):
            cycle.choose(client, "aux_cycle")


@pytest.mark.parametrize(
    "value", [None, [], "x", 5, {"#Chassis.Reset": None}, {"Oem": {"#x": 3}, "#Chassis.Reset": []}]
)
def test_odd_actions_are_no_traceback(value):
    replies = answers()
    replies["GET /c/1"]["Actions"] = value
    replies["GET /c/1"]["Links"] = value
    with reached(serving(replies)) as (unused, client):
        with pytest.raises(errors.Unsupported):
            cycle.choose(client, "ac_cycle")
