# Settings of the BMC: what is compared, what is sent where, and BMCs that keep them elsewhere or not at all.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import operations, redfish, settings
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from .conftest import endpoint, writes
from .scripted import serving

EVENT = {"destination": "10.0.0.1:514", "protocol": "SyslogUDP"}


# ---- pure ---------------------------------------------------------------------------------------------------------------
def test_fillers_are_no_entries():
    assert settings.real_items(["10.0.0.1", "0.0.0.0", "::", "(null)", "", None, " 216.239.35.4"]) == [
        "10.0.0.1",
        "216.239.35.4",
    ]
    assert settings.real_items(None) == [] and settings.real_items("x") == []


def test_plan():
    have = {
        "hostname": "a",
        "ntp_servers": ["x"],
        "event_destinations": [{"destination": "http://r/", "protocol": "Redfish", "uri": "/s/1"}],
    }
    wanted = settings.clean(
        {"hostname": "a", "ntp_servers": ["x", " "], "event_destinations": [{"destination": "http://r"}]}
    )
    assert not settings.plan_settings(have, wanted).changed
    wanted = settings.clean(
        {"hostname": "b", "event_destinations": [{"destination": "http://r", "state": "absent"}, EVENT]}
    )
    assert [change.thing for change in settings.plan_settings(have, wanted).changes] == [
        "hostname",
        "event Redfish http://r",
        "event SyslogUDP 10.0.0.1:514",
    ]
    gone = settings.clean({"event_destinations": [{**EVENT, "state": "absent"}]})
    assert not settings.plan_settings(have, gone).changed


@pytest.mark.parametrize(
    "wrong", [{}, {"event_destinations": [{}]}, {"event_destinations": [{**EVENT, "protocol": "SNMP"}]}]
)
def test_what_cannot_be(there, wrong):
    with pytest.raises(errors.InvalidInput):
        operations.settings(there, wrong)


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("hostname", ["bad host_name", "a_b", "-a", "a-", "a..b", "", "x" * 64, "ä", "10.0.0.1", "12", "a" + ".bc" * 85]),
        ("ntp_servers", [["not a host!"], ["10.0.0.1", "10.0.0.300"], ["a_b"], ["http://time.example"], ["1::2::3"]]),
        ("dns_servers", [["ns1.example.org"], ["10.0.0.1", "10.0.0"], ["10.0.0.1:53"]]),
        ("event_destinations", [[{"destination": "10.0.0.1:514"}], [{"destination": "ftp://a/"}], [{"destination": "https://"}],
                                [{"destination": "http://a b/"}], [{**EVENT, "destination": "10.0.0.1:99999"}], [{**EVENT, "destination": "a_b:514"}]]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("check", [True, False])
def test_names_and_addresses_that_cannot_be_are_refused_before_anything_is_sent(bmc, there, option, wrong, check):
    before = bmc.requests("gpu01", sessions=True)
    for value in wrong:
        with pytest.raises(errors.InvalidInput) as caught:
            operations.settings(there, {option: value}, check=check)
        found = caught.value
        assert found.thing == option and found.host and found.wanted and found.seen and found.next_step, value
    assert bmc.requests("gpu01", sessions=True) == before


def test_names_and_addresses_that_can_be():
    good = {
        "hostname": "gpu01-bmc.oob.example",
        "ntp_servers": ["10.0.0.1", "2001:db8::1", "fe80::1%eth0", "time.example.org.", "0.pool.ntp.org", "ntp"],
        "dns_servers": ["10.0.0.53", "2001:db8::53"],
        "event_destinations": [{"destination": "https://[2001:db8::1]:8443/events"}, EVENT,
                               {**EVENT, "destination": "syslog://log.example:514"}, {**EVENT, "destination": "loghost"}],
    }  # fmt: skip
    wanted = settings.clean(good)
    assert [wanted[name] for name in ("hostname", "ntp_servers", "dns_servers")] == list(good.values())[:3]
    settings.clean({"ntp_servers": [], "dns_servers": []})
    settings.clean({"event_destinations": [{"destination": "what the BMC ever had", "state": "absent"}]})


# ---- a BMC of the test's own -----------------------------------------------------------------------------------------------
ROOT = {"Systems": {"@odata.id": "/redfish/v1/Systems"}, "EventService": {"@odata.id": "/events"}}
SYSTEM = {
    "@odata.id": "/redfish/v1/Systems/1", "Id": "1", "SecureBoot": {"@odata.id": "/secure"},
    "Links": {"ManagedBy": [{"@odata.id": "/manager"}]},
}  # fmt: skip


class Bmc:
    """State and answers: a PATCH is merged into its resource, unless `deaf`."""

    def __init__(self, deaf=False, **resources):
        self.deaf = deaf
        self.manager = {
            "@odata.id": "/manager",
            "Id": "m",
            "NetworkProtocol": {"@odata.id": "/network"},
            "EthernetInterfaces": {"@odata.id": "/nics"},
        }
        self.network = {
            "NTP": {"ProtocolEnabled": False, "NTPServers": ["localhost"]},
            "IPMI": {"ProtocolEnabled": True},
            "HostName": "old",
        }
        self.nic = {
            "@odata.id": "/nics/eth0", "Id": "eth0", "Name": "x", "HostName": "old", "StaticNameServers": ["0.0.0.0", "::"],
            "DHCPv4": {"UseDNSServers": True}, "IPv4Addresses": [{"Address": "127.0.0.1"}],
        }  # fmt: skip
        self.secure = {"SecureBootEnable": False, "SecureBootCurrentBoot": "Disabled"}
        self.subscriptions = [
            {"@odata.id": "/subs/1", "Id": "1", "Name": "x", "Destination": "http://other/", "Protocol": "Redfish"}
        ]
        for name, value in resources.items():
            setattr(self, name, value)

    def merge(self, resource):
        def take(body):
            if not self.deaf:
                for key, value in body.items():
                    if isinstance(value, dict) and isinstance(resource.get(key), dict):
                        resource[key].update(value)
                    else:
                        resource[key] = value
            return (204, None)

        return take

    def subscribe(self, body):
        number = len(self.subscriptions) + 1
        if not self.deaf:
            self.subscriptions.append({"@odata.id": f"/subs/{number}", "Id": str(number), "Name": "x", **body})
        return (201, None, {"Location": f"/subs/{number}"})

    def drop(self, body):
        self.subscriptions = self.subscriptions[1:]
        return (204, None)

    def serve(self, **more):
        inner = {"@odata.id": "/nics/usb0", "Id": "usb0", "Name": "x", "HostName": "old"}
        return serving(
            {
                "GET /redfish/v1/": ROOT, "GET /redfish/v1/Systems": {"Members": [SYSTEM]}, "GET /redfish/v1/Systems/1": SYSTEM,
                "GET /manager": self.manager, "GET /network": lambda body: self.network, "PATCH /network": self.merge(self.network),
                "GET /nics": lambda body: {"Members": [inner, self.nic]}, "GET /nics/eth0": lambda body: self.nic, "PATCH /nics/eth0": self.merge(self.nic),
                "GET /secure": lambda body: self.secure, "PATCH /secure": self.merge(self.secure),
                "GET /events": {"Subscriptions": {"@odata.id": "/subs"}}, "GET /subs": lambda body: {"Members": self.subscriptions},
                "POST /subs": self.subscribe, "DELETE /subs/1": self.drop, **more,
            }
        )  # fmt: skip


ALL = {
    "hostname": "gpu01-bmc", "ntp_servers": ["10.0.0.1"], "ntp_enabled": True, "dns_servers": ["10.0.0.2"], "ipmi_over_lan": False,
    "secure_boot": True, "event_destinations": [EVENT, {"destination": "http://other", "state": "absent"}],
}  # fmt: skip


def test_everything_once():
    bmc = Bmc()
    with bmc.serve() as (script, where):
        planned = operations.settings(where, ALL, check=True)
        assert planned.changed and not [
            path for method, path, unused in script.seen if method != "GET" and "Sessions" not in path
        ]
        done = operations.settings(where, ALL, interval=0.05)
        assert done.changed and done.plan.diff() == planned.plan.diff() and done.after == planned.after
        sent = [
            (method, path, body) for method, path, body in script.seen if method != "GET" and "Sessions" not in path
        ]
        assert sent == [
            (
                "PATCH",
                "/nics/eth0",
                {"HostName": "gpu01-bmc", "StaticNameServers": ["10.0.0.2"], "DHCPv4": {"UseDNSServers": False}},
            ),
            ("PATCH", "/secure", {"SecureBootEnable": True}),
            (
                "POST",
                "/subs",
                {
                    "Destination": "10.0.0.1:514",
                    "Protocol": "SyslogUDP",
                    "Context": "aicluster",
                    "SubscriptionType": "Syslog",
                },
            ),
            ("DELETE", "/subs/1", None),
            (
                "PATCH",
                "/network",
                {"NTP": {"NTPServers": ["10.0.0.1"], "ProtocolEnabled": True}, "IPMI": {"ProtocolEnabled": False}},
            ),
        ]
        again = operations.settings(where, ALL, interval=0.05)
        assert not again.changed and again.more["reboot_required"]
        bmc.secure["SecureBootCurrentBoot"] = "Enabled"
        assert not operations.settings(where, {"secure_boot": True}).more["reboot_required"]


def test_only_what_is_given_is_read_and_sent():
    bmc = Bmc()
    with bmc.serve() as (script, where):
        operations.settings(where, {"ntp_servers": ["10.0.0.1"]}, interval=0.05)
        paths = {path for unused, path, unused2 in script.seen}
        assert "/network" in paths and not paths & {"/secure", "/nics", "/subs"}


def test_accepted_and_not_shown(monkeypatch):
    monkeypatch.setattr(settings, "VERIFY_S", 0.3)
    with Bmc(deaf=True).serve() as (unused, where), pytest.raises(errors.DeadlineExceeded) as caught:
        operations.settings(where, {"hostname": "new", "ntp_enabled": True}, interval=0.05)
    assert caught.value.code == "accepted_not_moved" and "hostname: old" in caught.value.seen


@pytest.mark.parametrize("option", [{"ntp_servers": ["x"]}, {"ipmi_over_lan": True}])
def test_a_bmc_that_keeps_it_elsewhere(option):
    """iLO: NTP is null in NetworkProtocol."""
    with (
        Bmc(network={"NTP": None, "IPMI": None, "HostName": "x"}).serve() as (script, where),
        pytest.raises(errors.Unsupported) as caught,
    ):
        operations.settings(where, option)
    assert caught.value.code == "setting_not_offered" and caught.value.next_step and not script.count("PATCH")


def ilo(clock, answer=None):
    """An iLO: no NTP in NetworkProtocol, time servers in the resource that the manager's Oem names."""
    bmc = Bmc(network={"NTP": None, "IPMI": {"ProtocolEnabled": True}, "HostName": "x"})
    bmc.manager["Oem"] = {"Hpe": {"Links": {"DateTimeService": {"@odata.id": "/clock"}}}}
    take = bmc.merge(clock)
    return bmc.serve(
        **{"GET /clock": lambda body: clock, "PATCH /clock": lambda body: answer(body) if answer else take(body)}
    )


def message(key, text="", status=400):
    return status, {"error": {"@Message.ExtendedInfo": [{"MessageId": key, "Message": text}]}}


def test_time_servers_of_an_ilo():
    clock = {"StaticNTPServers": ["10.0.0.9", "10.0.0.8"], "NTPServers": ["dhcp"], "ConfigurationSettings": "Current"}
    with ilo(clock) as (script, where):
        wanted = {"ntp_servers": ["10.0.0.1"]}
        planned = operations.settings(where, wanted, check=True)
        assert planned.before == {"ntp_servers": ["10.0.0.9", "10.0.0.8"]} and not script.count("PATCH")
        done = operations.settings(where, wanted, interval=0.05)
        assert done.changed and done.plan.diff() == planned.plan.diff()
        assert clock["StaticNTPServers"] == ["10.0.0.1", ""] and not done.more["bmc_reset_required"]
        assert not operations.settings(where, wanted).changed and script.count("PATCH") == 1


def test_an_ilo_has_no_switch_for_time_servers():
    with ilo({"StaticNTPServers": ["", ""]}) as (script, where), pytest.raises(errors.Unsupported) as caught:
        operations.settings(where, {"ntp_enabled": True, "ntp_servers": ["10.0.0.1"]})
    assert caught.value.code == "setting_not_offered" and caught.value.thing == "ntp_enabled"
    assert "leave ntp_enabled out" in caught.value.next_step and not script.count("PATCH")


def test_time_servers_that_dhcp_decides():
    def managed(body):
        return message("iLO.2.15.SNTPConfigurationManagedByDHCPAndIsReadOnly")

    with ilo({"StaticNTPServers": []}, managed) as (unused, where), pytest.raises(errors.Unsupported) as caught:
        operations.settings(where, {"ntp_servers": ["10.0.0.1"]}, interval=0.05)
    assert caught.value.code == "setting_read_only" and caught.value.thing == "ntp_servers"
    assert caught.value.next_step.startswith("DHCP decides")


def test_a_bmc_that_wants_a_restart_first(monkeypatch):
    monkeypatch.setattr(settings, "VERIFY_S", 0.2)
    clock = {"StaticNTPServers": []}

    def later(body):
        return message("iLO.2.15.ResetRequired", status=200)

    with ilo(clock, later) as (unused, where), pytest.raises(errors.DeadlineExceeded) as caught:
        operations.settings(where, {"ntp_servers": ["10.0.0.1"]}, interval=0.05)
    assert "bmc_reset, then run again" in caught.value.next_step

    def now(body):
        clock.update(body)
        return later(body)

    with ilo(clock, now) as (unused, where):
        done = operations.settings(where, {"ntp_servers": ["10.0.0.1"]}, interval=0.05)
    assert done.changed and done.more["bmc_reset_required"]


@pytest.mark.parametrize("status", [400, 200])
@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("Base.1.8.PropertyNotWritable", "setting_read_only"),
        ("iLO.2.15.PropertyNotWritableOrUnknown", "setting_read_only"),
        ("Base.1.8.PropertyUnknown", "setting_not_offered"),
    ],
)
def test_a_refusal_names_the_option(key, code, status):
    """Also where the BMC answers 200 and says in the answer that it left a property as it was."""
    said = {
        "error": {
            "@Message.ExtendedInfo": [
                {"MessageId": key, "Message": "no", "RelatedProperties": ["#/IPMI/ProtocolEnabled"]}
            ]
        }
    }
    with (
        Bmc(deaf=True).serve(**{"PATCH /network": (status, said)}) as (unused, where),
        pytest.raises(errors.Unsupported) as caught,
    ):
        operations.settings(where, {"ipmi_over_lan": False, "ntp_servers": ["10.0.0.1"]}, interval=0.05)
    assert caught.value.code == code and caught.value.thing == "ipmi_over_lan"


@pytest.mark.parametrize(
    ("option", "resources"),
    [
        ({"dns_servers": ["10.0.0.2"]}, {"nic": {"@odata.id": "/nics/eth0", "Id": "eth0"}}),
        ({"hostname": "x"}, {"nic": {"@odata.id": "/nics/eth0", "Id": "eth0"}, "network": {}}),
        ({"secure_boot": True}, {"secure": {"SecureBootCurrentBoot": "Disabled"}}),
    ],
)
def test_what_the_bmc_does_not_show_is_not_sent(option, resources):
    with Bmc(**resources).serve() as (script, where), pytest.raises(errors.Unsupported) as caught:
        operations.settings(where, option, check=True)
    assert caught.value.code == "setting_not_offered" and caught.value.thing == next(iter(option))
    assert not script.count("PATCH")


def test_the_secure_boot_settings_object():
    """AMI: SecureBoot has a settings object of its own, which is where it is changed and seen."""
    later = {"SecureBootEnable": False}
    bmc = Bmc(
        secure={
            "SecureBootEnable": False,
            "SecureBootCurrentBoot": "Disabled",
            "@Redfish.Settings": {"SettingsObject": {"@odata.id": "/later"}},
        }
    )
    with bmc.serve(**{"GET /later": lambda body: later, "PATCH /later": bmc.merge(later)}) as (script, where):
        done = operations.settings(where, {"secure_boot": True}, interval=0.05)
        assert (
            done.changed
            and done.more["reboot_required"]
            and later["SecureBootEnable"]
            and not script.count("PATCH", "/secure")
        )


def test_an_older_event_service():
    bmc = Bmc()

    def older(body):
        for name in ("EventFormatType", "SubscriptionType"):
            if name in body:
                return (
                    400,
                    {
                        "error": {
                            "@Message.ExtendedInfo": [{"MessageId": "Base.1.0.PropertyUnknown", "MessageArgs": [name]}]
                        }
                    },
                )
        if "EventTypes" not in body:
            return (
                400,
                {
                    "error": {
                        "@Message.ExtendedInfo": [
                            {"MessageId": "Base.1.0.CreateFailedMissingReqProperties", "MessageArgs": ["EventTypes"]}
                        ]
                    }
                },
            )
        return bmc.subscribe(body)

    with bmc.serve(**{"POST /subs": older}) as (script, where):
        assert operations.settings(where, {"event_destinations": [{"destination": "http://r"}]}, interval=0.05).changed
        assert script.count("POST", "/subs") == 3


def test_a_bmc_that_sends_no_syslog():
    def refuse(body):
        said = {"MessageId": "Base.1.8.PropertyValueNotInList", "MessageArgs": [body["Protocol"], "Protocol"]}
        return 400, {"error": {"@Message.ExtendedInfo": [said]}}

    with Bmc().serve(**{"POST /subs": refuse}) as (script, where), pytest.raises(errors.Unsupported) as caught:
        operations.settings(where, {"event_destinations": [{"destination": "syslog://r", "protocol": "SyslogUDP"}]})
    assert caught.value.code == "setting_not_offered" and "SyslogUDP" in caught.value.thing
    assert script.count("POST", "/subs") == 1


@pytest.mark.parametrize("value", [None, [], "x", 7])
@pytest.mark.parametrize("name", ["network", "nic", "secure"])
def test_odd_resources_are_no_traceback(name, value):
    odd = {
        "NTP": value,
        "IPMI": value,
        "StaticNameServers": value,
        "DHCPv4": value,
        "SecureBootEnable": value,
        "IPv4Addresses": value if value != 7 else None,
    }
    if name == "nic":
        odd["@odata.id"] = "/nics/eth0"
    with Bmc(deaf=True, **{name: odd}).serve() as (unused, where):
        try:
            operations.settings(where, {**ALL, "event_destinations": None}, check=True)
        except errors.BaremetalError as error:
            assert error.message


def test_the_fence_is_asked():
    def fence():
        raise errors.FencedOut("a newer attempt owns the node")

    with Bmc().serve() as (script, where), pytest.raises(errors.FencedOut):
        operations.settings(where, ALL, fence=fence)
    assert not script.count("PATCH")


def test_the_simulator(fresh):
    there = endpoint(fresh)
    wanted = {
        "hostname": "gpu01-bmc",
        "dns_servers": ["10.0.0.2"],
        "secure_boot": True,
        "event_destinations": [EVENT, {"destination": "https://10.0.0.1/events"}],
    }
    planned = operations.settings(there, wanted, check=True)
    assert planned.changed and not writes(fresh)
    done = operations.settings(there, wanted, interval=0.05)
    assert done.changed and done.after == planned.after and done.plan.diff() == planned.plan.diff()
    before = len(writes(fresh))
    assert not operations.settings(there, wanted).changed and len(writes(fresh)) == before
    assert operations.settings(there, {"event_destinations": [{**EVENT, "state": "absent"}]}, interval=0.05).changed
    assert fresh.state("gpu01")["sessions"] == 0


def test_event_destinations_that_cannot_be_read_are_not_taken_for_gone(monkeypatch):
    monkeypatch.setattr(settings, "VERIFY_S", 0.3)
    monkeypatch.setattr(redfish, "BACKOFF", ())
    gone = {"event_destinations": [{"destination": "http://other", "state": "absent"}]}
    bmc = Bmc()
    with bmc.serve() as (script, where):

        def drop(body):
            script.answers["GET /subs"] = (500, {})
            return (204, None)

        script.answers["DELETE /subs/1"] = drop
        with pytest.raises(errors.DeadlineExceeded) as caught:
            operations.settings(where, gone, interval=0.05)
        assert caught.value.code == "accepted_not_moved" and "HTTP 500" in caught.value.seen
        with pytest.raises(errors.BaremetalError):
            operations.settings(where, gone, interval=0.05)
        assert script.count("DELETE", "/subs/1") == 1
