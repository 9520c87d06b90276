# BIOS settings: pure planning, and against the simulator with jobs, lost answers and attributes that come and go.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import bios, connect, operations
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from .conftest import endpoint, writes
from .scripted import serving

SYSTEM = {
    "@odata.id": "/redfish/v1/Systems/1", "Id": "1", "PowerState": "On", "Bios": {"@odata.id": "/redfish/v1/Systems/1/Bios"},
    "Actions": {"#ComputerSystem.Reset": {"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}},
}  # fmt: skip


# ---- pure ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wanted", "live", "pending", "applies", "sent", "changed"),
    [
        ({"A": 1}, {"A": 1}, {}, False, {}, False),
        ({"A": 2}, {"A": 1}, {}, False, {"A": 2}, True),
        ({"A": 2}, {"A": 1}, {"A": 2}, False, {}, False),
        ({"A": 2}, {"A": 1}, {"A": 2}, True, {}, True),
        ({"A": 1}, {"A": 1}, {"A": 2}, False, {"A": 1}, True),
        ({"A": 3}, {"A": 1}, {"A": 2}, True, {"A": 3}, True),
        ({"A": 1, "B": 2}, {"A": 1, "B": 1}, {}, True, {"B": 2}, True),
    ],
)
def test_plan(wanted, live, pending, applies, sent, changed):
    plan, to_send = bios.plan_bios(wanted, live, pending, applies)
    assert to_send == sent and plan.changed is changed


def test_near_names():
    names = ["SriovGlobalEnable", "ProcVirtualization", "BootMode", "Bootmode2"]
    assert bios.near_names("sriovglobalenable", names) == ["SriovGlobalEnable"]
    assert "ProcVirtualization" in bios.near_names("ProcVirtualisation", names)
    assert bios.near_names("zzz", names) == []


@pytest.mark.parametrize(
    ("value", "live", "found"),
    [(1, "0", "1"), ("5", 3, 5), (5.0, 3, 5), ("true", False, True), ("Enabled", "Disabled", "Enabled"), (7, None, 7)],
)
def test_kinds(value, live, found):
    assert bios.as_kind_of(value, live) == found and type(bios.as_kind_of(value, live)) is type(found)


@pytest.mark.parametrize(("value", "live"), [(True, "Disabled"), ("many", 3), ([1], "x"), (1, True)])
def test_kinds_that_cannot_be(value, live):
    with pytest.raises(errors.InvalidInput) as caught:
        bios.as_kind_of(value, live, "gpu01", "Attribute")
    assert caught.value.thing == "Attribute"


REGISTRY = {
    "RegistryEntries": {
        "Attributes": [
            {"AttributeName": "Mode", "Type": "Enumeration", "Value": [{"ValueName": "Fast"}, {"ValueName": "Slow"}]},
            {"AttributeName": "Level", "Type": "Integer", "LowerBound": 0, "UpperBound": 9},
            {"AttributeName": "Ip", "Type": "String", "ReadOnly": True},
            {"AttributeName": None},
            7,
        ],
        "Dependencies": [
            {"DependencyFor": "Ip", "Dependency": {"MapFrom": [{"MapFromAttribute": "Mode"}], "MapToAttribute": "Ip"}},
            {"Dependency": {"MapFrom": None}},
            None,
        ],
    }
}


def test_the_registry():
    rules = bios.registry_attributes(REGISTRY)
    assert set(rules) == {"Mode", "Level", "Ip"} and rules["Ip"]["needs"] == ["Mode"]
    assert bios.in_order(["Ip", "Level", "Mode"], rules) == [["Level", "Mode"], ["Ip"]]
    assert bios.in_order(["A", "B"], {"A": {"needs": ["B"]}, "B": {"needs": ["A"]}}) == [["A", "B"]]
    assert bios.check_values({"Mode": "Fast", "Level": 3, "Ip": "x"}, rules) == ["Ip"]
    for wrong in ({"Mode": "fast"}, {"Level": 10}, {"Level": -1}):
        with pytest.raises(errors.InvalidInput):
            bios.check_values(wrong, rules)
    with pytest.raises(errors.InvalidInput) as caught:
        bios.check_values({"Mode": "fast"}, rules)
    assert "Fast" in caught.value.next_step
    for nothing in (None, {}, {"RegistryEntries": None}, {"RegistryEntries": {"Attributes": None}}):
        assert bios.registry_attributes(nothing) == {}


# ---- the simulator --------------------------------------------------------------------------------------------------------
@pytest.fixture
def lab(fresh):
    return fresh


def two(lab):
    """Two attributes of the simulated BIOS, with values other than now; and the values now."""
    with connect(endpoint(lab)) as client:
        live = client.get("/redfish/v1/Systems/1/Bios")["Attributes"]
        rules = bios._rules(client, client.get("/redfish/v1/Systems/1/Bios"))
    wanted = {}
    for name, value in live.items():
        other = next((item for item in rules.get(name, {}).get("values", ()) if item != value), None)
        if other is not None:
            wanted[name] = other
        if len(wanted) == 2:
            break
    assert len(wanted) == 2
    return wanted, {name: live[name] for name in wanted}


def test_pending_then_applied_then_nothing(lab):
    there, (wanted, now) = endpoint(lab), two(lab)
    planned = operations.bios(there, wanted, check=True)
    assert planned.changed and not writes(lab) and planned.before["attributes"] == now
    done = operations.bios(there, wanted, interval=0.05)
    assert done.changed and done.more["reboot_required"] and done.plan.diff() == planned.plan.diff()
    assert done.after == planned.after == {"attributes": now, "pending": wanted}
    again = operations.bios(there, wanted, interval=0.05)
    assert not again.changed and again.more["reboot_required"] and writes(lab) == ["PATCH Settings"]
    planned = operations.bios(there, wanted, reboot="force", check=True)
    assert 'restart: "force"' in planned.plan.diff()["after"]
    assert planned.more["restart"] == "force" and "restart: absent -> force" in planned.as_result()["msg"]
    assert again.more["restart"] is None
    assert "restart" not in operations.bios(there, wanted, check=True).plan.diff()["after"]
    assert planned.changed
    applied = operations.bios(there, wanted, reboot="force", interval=0.05)
    assert applied.changed and not applied.more["reboot_required"] and applied.after["attributes"] == wanted
    assert applied.plan.diff() == planned.plan.diff() and applied.after == planned.after
    assert (
        lab.state("gpu01")["bios_pending"] == {}
        and {name: lab.state("gpu01")["bios"][name] for name in wanted} == wanted
    )
    before = len(writes(lab))
    assert not operations.bios(there, wanted, reboot="force").changed and len(writes(lab)) == before
    assert lab.state("gpu01")["sessions"] == 0


def test_back_before_it_was_applied(lab):
    """The running value is wanted again while another is pending: that has to be sent, although nothing differs from what runs."""
    there, (wanted, now) = endpoint(lab), two(lab)
    operations.bios(there, wanted, interval=0.05)
    back = operations.bios(there, now, interval=0.05)
    assert back.changed and not back.more["reboot_required"] and lab.state("gpu01")["bios_pending"] == {}


@pytest.mark.parametrize("reboot", ["graceful", "force"])
def test_a_job_is_followed_to_its_end(lab, reboot):
    there, (wanted, _unused) = endpoint(lab), two(lab)
    lab.set_behaviour("gpu01", bios_job=True, bios_job_s=0.5)
    operations.power(there, "on", interval=0.05)
    done = operations.bios(there, wanted, reboot=reboot, interval=0.05)
    assert done.changed and done.more["job"] and lab.state("gpu01")["power"] == "On"
    with connect(there) as client:
        assert client.get(done.more["job"])["TaskState"] == "Completed"


def test_a_queued_job_is_named_and_can_be_cleared(lab):
    there, (wanted, _now) = endpoint(lab), two(lab)
    lab.set_behaviour("gpu01", bios_job=True)
    first, second = list(wanted)
    operations.bios(there, {first: wanted[first]}, interval=0.05)
    with pytest.raises(errors.BaremetalError) as caught:
        operations.bios(there, {second: wanted[second]}, deadline_s=5, interval=0.05)
    assert "job" in caught.value.seen and "clear_pending" in caught.value.next_step


def test_an_unknown_attribute_lists_near_names(lab):
    there, (wanted, _unused) = endpoint(lab), two(lab)
    name = next(iter(wanted))
    for check in (True, False):
        with pytest.raises(errors.NotFound) as caught:
            operations.bios(there, {name.lower() + "x": "y"}, check=check)
        assert name in caught.value.seen and not writes(lab)
    with pytest.raises(errors.InvalidInput) as caught:
        operations.bios(there, {name: "no such value"}, check=True)
    assert caught.value.thing == name


def test_accepted_and_not_pending(lab, monkeypatch):
    monkeypatch.setattr(bios, "PENDING_SHOWS_S", 0.3)
    there, (wanted, _now) = endpoint(lab), two(lab)
    lab.set_behaviour("gpu01", accept_and_do_nothing=["bios"])
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.bios(there, wanted, interval=0.05)
    assert caught.value.code == "accepted_not_moved" and next(iter(wanted)) in caught.value.seen


def test_the_fence_is_asked(lab):
    def fence():
        raise errors.FencedOut("a newer attempt owns the node")

    wanted, unused = two(lab)
    with pytest.raises(errors.FencedOut):
        operations.bios(endpoint(lab), wanted, fence=fence)
    assert not writes(lab)


@pytest.mark.parametrize(
    "arguments",
    [{"attributes": {}}, {"attributes": {"A": 1}, "reboot": "now"}, {"attributes": {"A": 1}, "deadline_s": 0}],
)
def test_what_cannot_be(there, arguments):
    with pytest.raises(errors.InvalidInput):
        operations.bios(there, **arguments)


def test_not_over_ipmi(there):
    with pytest.raises(errors.Unsupported):
        operations.bios(endpoint_of_ipmi(), {"A": 1})


def endpoint_of_ipmi():
    from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint

    return Endpoint("192.0.2.1", protocol="ipmi", username="a", password="b")


# ---- BMCs of other kinds --------------------------------------------------------------------------------------------------
def bmc_of(bios_resource, **more):
    return serving(
        {
            "GET /redfish/v1/": {"Vendor": more.pop("vendor", None), "Systems": {"@odata.id": "/redfish/v1/Systems"}},
            "GET /redfish/v1/Systems": {"Members": [SYSTEM]},
            "GET /redfish/v1/Systems/1": SYSTEM,
            "GET /redfish/v1/Systems/1/Bios": bios_resource,
            **more,
        }
    )


def test_ami_without_a_link():
    """Gigabyte: @Redfish.Settings has no SettingsObject; AMI's settings are at Bios/SD."""
    live, pending = {"Attributes": {"A": "x"}, "@Redfish.Settings": {"ETag": "Dummyetag"}}, {"Attributes": {"A": "x"}}

    def take(body):
        pending["Attributes"] = body["Attributes"]
        return (204, None)

    with bmc_of(
        live,
        vendor="AMI",
        **{"GET /redfish/v1/Systems/1/Bios/SD": lambda body: pending, "PATCH /redfish/v1/Systems/1/Bios/SD": take},
    ) as (script, where):
        done = operations.bios(where, {"A": "y"}, interval=0.05)
    assert done.changed and script.count("PATCH", "/redfish/v1/Systems/1/Bios/SD") == 1
    assert all("@Redfish.SettingsApplyTime" not in (body or {}) for unused, unused2, body in script.seen)


def test_no_settings_object_at_all():
    live = {"Attributes": {"A": "x"}}

    def take(body):
        live["Attributes"] = body["Attributes"]
        return (200, live)

    with bmc_of(lambda body: live, **{"PATCH /redfish/v1/Systems/1/Bios": take}) as (script, where):
        done = operations.bios(where, {"A": "y"}, interval=0.05)
    assert done.changed and script.count("PATCH") == 1


def test_an_apply_time_that_is_refused_is_left_out():
    place = "/redfish/v1/Systems/1/Bios/Settings"
    live = {
        "Attributes": {"A": "x"},
        "@Redfish.Settings": {"SettingsObject": {"@odata.id": place}, "SupportedApplyTimes": ["OnReset"]},
    }
    pending = {"Attributes": {}}

    def take(body):
        if "@Redfish.SettingsApplyTime" in body:
            return (
                400,
                {
                    "error": {
                        "@Message.ExtendedInfo": [
                            {"MessageId": "Base.1.0.PropertyUnknown", "MessageArgs": ["@Redfish.SettingsApplyTime"]}
                        ]
                    }
                },
            )
        pending["Attributes"] = body["Attributes"]
        return (204, None)

    with bmc_of(live, **{f"GET {place}": lambda body: pending, f"PATCH {place}": take}) as (script, where):
        assert operations.bios(where, {"A": "y"}, interval=0.05).changed
    assert script.count("PATCH", place) == 2


def test_a_server_without_bios():
    system = {key: value for key, value in SYSTEM.items() if key != "Bios"}
    with (
        serving({"GET /redfish/v1/Systems": {"Members": [system]}}) as (unused, where),
        pytest.raises(errors.Unsupported),
    ):
        operations.bios(where, {"A": 1})


@pytest.mark.parametrize("attributes", [None, [], "x", {"A": None}])
def test_null_attributes_are_no_traceback(attributes):
    with (
        bmc_of({"Attributes": attributes, "@Redfish.Settings": None}) as (unused, where),
        pytest.raises(errors.BaremetalError),
    ):
        operations.bios(where, {"B": 1}, interval=0.05)


@pytest.mark.parametrize("check", [True, False])
def test_attributes_that_are_objects_are_not_written(check):
    """Cray EX has an object for each attribute; no rule says what a PATCH of one is."""
    live = {"Attributes": {"Boost": {"current_value": "Auto", "AllowableValues": ["Auto", "Disabled"]}}}
    with bmc_of(live) as (script, where), pytest.raises(errors.Unsupported) as caught:
        operations.bios(where, {"Boost": "Disabled"}, check=check)
    assert "current_value" in caught.value.seen and not script.count("PATCH")


PLACE = "/redfish/v1/Systems/1/Bios/Settings"
CLEAR = PLACE + "/Actions/Oem/DellManager.ClearPending"
WITH_LINK = {"Attributes": {"A": "x", "B": "x"}, "@Redfish.Settings": {"SettingsObject": {"@odata.id": PLACE}}}


@pytest.mark.parametrize("how", ["action", "job", "values"])
def test_what_others_left_pending_is_thrown_away_when_asked(how):
    """By Dell's action, by deleting the job, or by setting the present values again."""
    settings = {"Attributes": {"B": "other"}}
    if how == "action":
        settings["Actions"] = {"Oem": {"DellManager.v1_0_0#DellManager.ClearPending": {"target": CLEAR}}}
    jobs = "/redfish/v1/JobService/Jobs"
    job = {"@odata.id": jobs + "/1", "Id": "1", "Name": "Configure: BIOS.Setup.1-1", "JobState": "Scheduled"}

    def clear(body):
        settings["Attributes"] = {}
        return (204, None)

    def take(body):
        settings["Attributes"] = {
            name: value
            for name, value in {**settings["Attributes"], **body["Attributes"]}.items()
            if WITH_LINK["Attributes"][name] != value
        }
        return (204, None)

    more = {f"GET {PLACE}": lambda body: settings, f"PATCH {PLACE}": take, f"POST {CLEAR}": clear}
    if how == "job":
        more["GET /redfish/v1/JobService"] = {"Jobs": {"@odata.id": jobs}}
        more[f"GET {jobs}"] = {"Members": [job]}
        more[f"DELETE {jobs}/1"] = clear
    with bmc_of(WITH_LINK, **more) as (script, where):
        root = {"Systems": {"@odata.id": "/redfish/v1/Systems"}, "JobService": {"@odata.id": "/redfish/v1/JobService"}}
        script.answers["GET /redfish/v1/"] = root
        planned = operations.bios(where, {"A": "y"}, clear_pending=True, check=True)
        assert not script.count("PATCH") and not script.count("DELETE") and script.count("POST", CLEAR) == 0
        done = operations.bios(where, {"A": "y"}, clear_pending=True, interval=0.05)
        assert settings["Attributes"] == {"A": "y"} and done.plan.diff() == planned.plan.diff()
        assert script.count("POST", CLEAR) == (how == "action") and script.count("DELETE") == (how == "job")
        assert done.after["pending"] == {"A": "y"}


def test_in_waves_only_where_the_bmc_refuses_one_because_of_another():
    """The registry says that B depends on A; the BMC takes B only when A is pending already."""
    pending = {"Attributes": {}}
    registry = {
        "RegistryEntries": {
            "Attributes": [{"AttributeName": "A"}, {"AttributeName": "B"}],
            "Dependencies": [
                {"DependencyFor": "B", "Dependency": {"MapFrom": [{"MapFromAttribute": "A"}], "MapToAttribute": "B"}}
            ],
        }
    }

    def take(body):
        if "B" in body["Attributes"] and "A" not in pending["Attributes"]:
            info = {"MessageId": "Base.1.8.PropertyNotWritable", "MessageArgs": ["B"], "Message": "B is read only"}
            return (400, {"error": {"@Message.ExtendedInfo": [info]}})
        pending["Attributes"].update(body["Attributes"])
        return (204, None)

    registries = "/redfish/v1/Registries"
    more = {
        f"GET {PLACE}": lambda body: pending,
        f"PATCH {PLACE}": take,
        f"GET {registries}": {"Members": [{"@odata.id": f"{registries}/BiosAttributeRegistry.1.0"}]},
        f"GET {registries}/BiosAttributeRegistry.1.0": {"Location": [{"Language": "en", "Uri": "/registry.json"}]},
        "GET /registry.json": registry,
    }
    with bmc_of({**WITH_LINK, "AttributeRegistry": "BiosAttributeRegistry.1.0"}, **more) as (script, where):
        root = {"Systems": {"@odata.id": "/redfish/v1/Systems"}, "Registries": {"@odata.id": registries}}
        script.answers["GET /redfish/v1/"] = root
        operations.bios(where, {"B": "y", "A": "y"}, interval=0.05)
        sent = [list(body["Attributes"]) for method, unused, body in script.seen if method == "PATCH"]
        assert sent == [["B", "A"], ["A"], ["B"]]


@pytest.mark.parametrize("how", ["action", "values"])
def test_what_others_left_pending_and_the_bmc_keeps(monkeypatch, how):
    monkeypatch.setattr(bios, "PENDING_SHOWS_S", 0.3)
    kept = {"Attributes": {"B": "other"}}
    if how == "action":
        kept["Actions"] = {"Oem": {"DellManager.v1_0_0#DellManager.ClearPending": {"target": CLEAR}}}
    more = {f"GET {PLACE}": kept, f"PATCH {PLACE}": (204, None), f"POST {CLEAR}": (204, None)}
    with bmc_of(WITH_LINK, **more) as (unused, where), pytest.raises(errors.DeadlineExceeded) as caught:
        operations.bios(where, {"A": "x"}, clear_pending=True, interval=0.05)
    assert caught.value.code == "accepted_not_moved" and caught.value.seen == "B=other"
