# What public bug reports say that BMCs do, each as a BMC of a few lines: one test for each report that no other file has. Over both carriers.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import (
    connect,
    log,
    operations,
    power,
    redfish,
    update,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import HttpError
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.wire import Wire
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.deadline import Deadline

from .scripted import reached, serving

pytestmark = pytest.mark.parametrize("carrier", [None, Wire], ids=["connector", "wire"])
S = "/redfish/v1/Systems"
SESSIONS = "/redfish/v1/SessionService/Sessions"
RESET = "/redfish/v1/Systems/1/reset"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(redfish, "BACKOFF", (0.01, 0.02, 0.03))


def system(power_state="On", **more):
    return {
        "@odata.id": f"{S}/1",
        "Id": "1",
        "PowerState": power_state,
        "Boot": {},
        "Actions": {
            "#ComputerSystem.Reset": {"target": RESET, "ResetType@Redfish.AllowableValues": ["On", "ForceOff"]}
        },
        **more,
    }


def server(**more):
    return {f"GET {S}": {"Members": [{"@odata.id": f"{S}/1"}]}, f"GET {S}/1": system(), **more}


def said(key, *args, status=400):
    return status, {
        "error": {"@Message.ExtendedInfo": [{"MessageId": key, "Message": "no", "MessageArgs": list(args)}]}
    }


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_log_in_that_is_redirected_keeps_its_body(carrier, status):
    """check_redfish#187: an old Supermicro sends the session's POST to the same place with a slash; clients drop the body."""
    where_to = {"Location": f"{SESSIONS}/"}
    replies = server(
        **{
            f"POST {SESSIONS}": (status, None, where_to),
            f"POST {SESSIONS}/": (
                201,
                {"@odata.id": f"{SESSIONS}/7"},
                {"X-Auth-Token": "t", "Location": f"{SESSIONS}/7"},
            ),
            f"DELETE {SESSIONS}/7": (204, None),
        }
    )
    with serving(replies, transport=carrier) as (script, where):
        with connect(where) as client:
            client.login()
            client.get(f"{S}/1")
        posts = [(path, body) for method, path, body in script.seen if method == "POST"]
        body = {"UserName": "admin", "Password": "word-12345"}
        assert posts == [(SESSIONS, body), (f"{SESSIONS}/", body)]
        assert script.count("DELETE", f"{SESSIONS}/7") == 1


def test_a_303_is_read_and_not_sent_again(carrier):
    """python-redfish-library#98: the answer to an action leads to its task, which is to be read."""
    replies = server(**{f"POST {RESET}": (303, None, {"Location": "/task/1"}), "GET /task/1": {"TaskState": "Running"}})
    with reached(serving(replies, transport=carrier)) as (script, client):
        assert client.post(RESET, {"ResetType": "On"}).body == {"TaskState": "Running"}
        assert script.count("POST") == 1


def test_a_redirect_to_another_address_stays_here(carrier):
    """idrac_exporter#201: iLO 4 redirects to its own address, which behind NAT is nobody's; credentials go nowhere else."""
    replies = server(
        **{f"GET {S}/1": (308, None, {"Location": f"https://192.0.2.77:1{S}/1/"}), f"GET {S}/1/": system()}
    )
    with reached(serving(replies, transport=carrier)) as (unused, client):
        assert client.get(f"{S}/1")["Id"] == "1"


def test_redirects_without_end(carrier):
    replies = server(**{f"GET {S}/1": (301, None, {"Location": f"{S}/1"})})
    with reached(serving(replies, transport=carrier)) as (script, client):
        with pytest.raises(HttpError, match="redirects without end"):
            client.get(f"{S}/1")
        assert script.count("GET", f"{S}/1") < 6


def test_a_bmc_that_wants_to_compress(carrier):
    """sushy's note on accept-encoding: HPE registries answer 406 to "no compression"; everybody else must be asked for none, or ETags become weak."""
    replies = server(**{f"GET {S}/1": [(406, {}), system()]})
    with reached(serving(replies, transport=carrier)) as (script, client):
        client.get(f"{S}/1")
        asked = [headers.get("Accept-Encoding") for headers in script.headers]
        assert asked[0] == "identity" and asked[1] != "identity"


@pytest.mark.parametrize("order", [("1", "HGX_Baseboard_0"), ("HGX_Baseboard_0", "1")])
def test_a_second_system_that_fails_is_a_warning(carrier, order):
    """infra-controller#5418: with the host off, the GPU board of a DGX H100 answers 503."""
    replies = server(
        **{
            f"GET {S}": {"Members": [{"@odata.id": f"{S}/{name}"} for name in order]},
            f"GET {S}/HGX_Baseboard_0": said("Base.1.15.HMCCommunicationFailed", status=503),
        }
    )
    with reached(serving(replies, transport=carrier, timeout=30.0)) as (unused, client):
        assert client.system()["Id"] == "1"
        assert any("HGX_Baseboard_0 could not be read" in text for text in client.warnings)


@pytest.mark.parametrize("empty", [(200, None), (200, "null"), (200, "<html>wait</html>")])
def test_an_empty_answer_while_the_power_moves(carrier, empty):
    """device-management-toolkit/console#1051: 200 with an empty body during a transition is "not yet"."""
    replies = server(
        **{
            f"GET {S}/1": [system("Off"), *[empty] * 5, system("PoweringOn"), *[empty] * 3, system("On")],
            f"POST {RESET}": (204, None),
        }
    )
    with serving(replies, transport=carrier) as (script, where):
        done = operations.power(where, "on", interval=0.02)
        assert done.changed and done.after == {"power": "on"} and script.count("POST", RESET) == 1


def test_an_empty_answer_for_ever_ends_at_the_deadline(carrier):
    replies = server(**{f"GET {S}/1": [system("Off"), (200, None)], f"POST {RESET}": (204, None)})
    with serving(replies, transport=carrier) as (script, where), pytest.raises(errors.DeadlineExceeded) as caught:
        operations.power(where, "on", deadline_s=0.6, interval=0.02)
    assert caught.value.code == "accepted_not_moved" and "no usable answer" in caught.value.seen


def test_no_power_state_yet_and_empty_answers_before_anything_is_sent(carrier, monkeypatch):
    monkeypatch.setattr(power, "SETTLE_S", 5.0)
    replies = server(**{f"GET {S}/1": [system("PoweringOff"), (200, None), (200, None), (200, None), system("Off")]})
    with serving(replies, transport=carrier) as (script, where):
        assert not operations.power(where, "off", interval=0.02).changed
        assert script.count("POST") == 0


@pytest.mark.parametrize(
    ("key", "status"),
    [
        ("IDRAC.2.8.RAC0218", 503),
        ("IDRAC.2.8.RAC0218", 400),
        ("Base.1.8.SessionLimitExceeded", 503),
        ("Base.1.8.SessionLimitExceeded", 403),
        ("Base.1.4.CreateLimitReachedForResource", 400),
    ],
)
def test_the_session_limit_in_every_form(carrier, key, status):
    """check_redfish#198, gofish#75: at the limit Basic is used, nobody's session is deleted and nothing is tried again."""
    replies = server(**{f"POST {SESSIONS}": said(key, status=status)})
    with serving(replies, transport=carrier) as (script, where):
        with connect(where) as client:
            client.login()
            client.login()
            assert client.get(f"{S}/1")["Id"] == "1"
            assert any("no free session" in text for text in client.warnings)
        assert script.count("POST", SESSIONS) == 1 and script.count("DELETE") == 0
        assert script.headers[-1]["Authorization"].startswith("Basic ")


def test_a_session_that_ended_before_its_end(carrier):
    """check_redfish#119: the deletion of an expired session answers 401, which is no failure."""
    made = (201, None, {"X-Auth-Token": "t", "Location": f"{SESSIONS}/7"})
    replies = server(**{f"POST {SESSIONS}": made, f"DELETE {SESSIONS}/7": (401, {})})
    with serving(replies, transport=carrier) as (unused, where):
        with connect(where) as client:
            client.login()


def test_how_long_an_idrac_wants_to_be_left_alone(carrier, monkeypatch):
    """metal-operator#170: SYS518 with the seconds in MessageArgs and no Retry-After."""
    waits = []
    monkeypatch.setattr(redfish.time, "sleep", waits.append)
    answer = {
        "error": {
            "@Message.ExtendedInfo": [
                {"MessageId": "IDRAC.2.8.SYS518", "Message": "data sources unavailable", "MessageArgs": []},
                {"MessageId": "Base.1.12.ServiceTemporarilyUnavailable", "Message": "wait", "MessageArgs": ["7"]},
            ]
        }
    }
    with serving(server(**{f"GET {S}/1": [(503, answer), system()]}), transport=carrier) as (unused, where):
        with connect(where) as client:
            client.get(f"{S}/1")
    assert waits == [7.0]


def test_pages_that_lead_in_a_circle(carrier):
    """gofish#243: pages are followed, but not round and round."""
    replies = server(
        **{
            "GET /c": {"Members": [{"@odata.id": "/c/1", "Id": "1"}], "Members@odata.nextLink": "/c?page=2"},
            "GET /c?page=2": {"Members": [{"@odata.id": "/c/2", "Id": "2"}], "@odata.nextLink": "/c?page=2"},
        }
    )
    with reached(serving(replies, transport=carrier)) as (script, client):
        assert [item["Id"] for item in client.members("/c")] == ["1", "2"]
        assert script.count("GET", "/c?page=2") <= 2


def test_a_lost_answer_to_an_action_is_one_post(carrier):
    with reached(serving(server(**{f"POST {RESET}": ("cut", None)}), transport=carrier)) as (script, client):
        with pytest.raises(errors.BaremetalError, match="may have been done"):
            client.post(RESET, {"ResetType": "Nmi"})
        assert script.count("POST", RESET) == 1


def test_the_sel_of_a_bmc_that_has_none_by_redfish(carrier, monkeypatch):
    """python-ilorest-library#173: iLO has no SEL among its logs; IPMI reads it, and the result says so."""
    asked = []

    class Sel:
        """What IpmiClient is to the log."""

        source = "ipmi"

        def __init__(self, endpoint, deadline=None, before_write=None):
            asked.append(endpoint)
            self.endpoint, self.deadline, self.warnings = endpoint, deadline or Deadline(5, "x"), []

        def __enter__(self):
            return self

        def __exit__(self, *unused):
            pass

        def read_log(self, most):
            return [bytes([1, 0, 2, 0x80, 0xEE, 0x7D, 0x69, 0x20, 0, 4, 4, 3, 1, 0x52, 1, 0]).hex()]

    real = log.connect

    def by_protocol(endpoint, *more):
        return Sel(endpoint, *more) if endpoint.protocol == "ipmi" else real(endpoint, *more)

    monkeypatch.setattr(log, "connect", by_protocol)
    with serving(server(), transport=carrier) as (unused, where):
        found = operations.log(where, logs=["SEL"])
        assert found.source == "ipmi" and len(found.more["logs"][0]["entries"]) == 1
        assert any("by IPMI" in text for text in found.warnings)
        assert (asked[0].port, asked[0].address, asked[0].protocol) == (623, where.address, "ipmi")
        with pytest.raises(errors.NotFound):
            operations.log(where, logs=["IML"])
        with pytest.raises(errors.NotFound):  # nothing is cleared by a way that was not asked for
            operations.log(where, state="cleared", logs=["SEL"])


def test_targets_that_only_the_settings_of_the_system_list(carrier):
    """iDRAC-Redfish-Scripting#324: iDRAC 10 has the allowable boot targets in the settings resource, which is where they are set."""
    allowed = {"BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe"], "BootSourceOverrideTarget": "None"}
    later = {
        "@odata.id": f"{S}/1/Settings",
        "Id": "Settings",
        "Boot": {**allowed, "BootSourceOverrideEnabled": "Disabled"},
    }
    now = system(Boot={"BootSourceOverrideTarget": "None"})
    now["@Redfish.Settings"] = {"SettingsObject": {"@odata.id": f"{S}/1/Settings"}}

    def take(body):
        later["Boot"].update(body["Boot"])
        return 204, None

    replies = server(**{f"GET {S}/1": now, f"GET {S}/1/Settings": lambda body: later, f"PATCH {S}/1/Settings": take})
    with serving(replies, transport=carrier) as (script, where):
        done = operations.boot(where, "pxe", interval=0.02)
        assert done.changed and done.after["target"] == "pxe" and script.count("PATCH", f"{S}/1") == 0


def test_a_child_that_is_not_there_before_its_parent_was_read(carrier):
    """infra-controller#5178: a Lenovo answers 404 for a member until its collection was read."""
    known, item = set(), {"@odata.id": "/fw/BMC", "Id": "BMC", "Name": "BMC", "Version": "1.0"}

    def collection(body):
        known.add("BMC")
        return {"Members": [{"@odata.id": "/fw/BMC"}]}

    replies = server(
        **{
            "GET /redfish/v1/": {"Systems": {"@odata.id": S}, "UpdateService": {"@odata.id": "/update"}},
            "GET /update": {"@odata.id": "/update", "FirmwareInventory": {"@odata.id": "/fw"}},
            "GET /fw": collection,
            "GET /fw/BMC": lambda body: (200, item) if known else (404, {}),
        }
    )
    with serving(replies, transport=carrier) as (unused, where):
        with update.RedfishUpdater(where) as updater:
            assert updater.inventory()[0]["version"] == "1.0"
            known.clear()  # the BMC was restarted
            assert [row["version"] for row in updater.inventory(["BMC"])] == ["1.0"]
