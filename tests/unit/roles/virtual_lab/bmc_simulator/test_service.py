# The HTTP side of a BMC: authentication, headers, ETags, and each fault that the behaviour can ask for.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import email.utils
import hashlib
import http.client
import ssl
import threading

import pytest
from bmc_http import RESET, S, ask

SESSIONS = "/redfish/v1/SessionService/Sessions"


def login(bmc, password=None):
    return ask(bmc, "POST", SESSIONS, {"UserName": bmc.username, "Password": password or bmc.password}, auth=False)


def test_every_link_leads_somewhere(bmc):
    seen, todo = set(), ["/redfish/v1/"]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = ask(bmc, "GET", path)
        assert answer.status == 200, path
        assert {"GET", "HEAD"} <= set(answer.headers["Allow"].split(", ")) and answer.headers["ETag"]
        stack = [answer.json]
        while stack:
            value = stack.pop()
            if isinstance(value, dict):
                todo += [value["@odata.id"]] if isinstance(value.get("@odata.id"), str) else []
                stack += value.values()
            elif isinstance(value, list):
                stack += value
    assert len(seen) > 60


def test_only_the_root_is_open(bmc):
    assert ask(bmc, "GET", "/redfish/v1/", auth=False).status == 200
    refused = ask(bmc, "GET", S, auth=False)
    assert refused.status == 401 and refused.headers["WWW-Authenticate"].startswith("Basic")
    assert ask(bmc, "GET", S, password="wrong").status == 401
    assert ask(bmc, "GET", "/redfish/v1/Nothing").status == 404
    assert ask(bmc, "DELETE", S).status == 405


def test_fingerprint_is_that_of_the_certificate(bmc):
    der = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((bmc.address, bmc.port)))
    assert hashlib.sha256(der).hexdigest() == bmc.fingerprint


def test_a_session_lives_until_it_is_deleted(bmc):
    answer = login(bmc)
    token, place = answer.headers["X-Auth-Token"], answer.headers["Location"]
    assert answer.status == 201 and answer.json["Password"] is None
    assert ask(bmc, "GET", S, headers={"X-Auth-Token": token}).status == 200
    assert ask(bmc, "DELETE", place, headers={"X-Auth-Token": token}).status == 204
    assert ask(bmc, "GET", S, headers={"X-Auth-Token": token}).status == 401


def test_sessions_have_a_limit_and_expire(lab, bmc):
    lab.control.call("drop_sessions")
    lab.set_behaviour(session_limit=2, session_idle_s=0.3)
    assert [login(bmc).status for _turn in range(3)] == [201, 201, 503]
    assert login(bmc).message_ids == ["SessionLimitExceeded"]
    threading.Event().wait(0.4)
    assert login(bmc).status == 201


def test_a_session_can_end_in_mid_run(lab, bmc):
    lab.set_behaviour(session_expires_after=2)
    headers = {"X-Auth-Token": login(bmc).headers["X-Auth-Token"]}
    assert [ask(bmc, "GET", S, headers=headers).status for _turn in range(3)] == [200, 200, 401]


def test_etags(lab, bmc):
    tag = ask(bmc, "GET", S).headers["ETag"]
    assert ask(bmc, "GET", S, headers={"If-None-Match": tag}).status == 304
    assert ask(bmc, "PATCH", S, {"AssetTag": "a"}, headers={"If-Match": tag}).status == 200
    assert ask(bmc, "PATCH", S, {"AssetTag": "b"}, headers={"If-Match": tag}).status == 412
    lab.set_behaviour(etag_required=True, weak_etag=True)
    assert ask(bmc, "PATCH", S, {"AssetTag": "b"}).status == 428
    weak = ask(bmc, "GET", S).headers["ETag"]
    assert weak.startswith('W/"')
    assert ask(bmc, "PATCH", S, {"AssetTag": "b"}, headers={"If-Match": weak}).status == 200
    lab.set_behaviour(etag_refuses_own_weak=True)
    weak = ask(bmc, "GET", S).headers["ETag"]
    assert ask(bmc, "PATCH", S, {"AssetTag": "c"}, headers={"If-Match": weak}).status == 412
    assert ask(bmc, "PATCH", S, {"AssetTag": "c"}, headers={"If-Match": weak[2:]}).status == 200


def test_one_of_several_writers_with_the_same_etag_wins(bmc):
    # also when nothing that can be read changes: a password is never shown
    path = "/redfish/v1/AccountService/Accounts/1"
    tag, statuses = ask(bmc, "GET", path).headers["ETag"], []

    def writer():
        statuses.append(ask(bmc, "PATCH", path, {"Password": bmc.password}, headers={"If-Match": tag}).status)

    threads = [threading.Thread(target=writer) for _turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 412, 412, 412]


def test_busy(lab, bmc):
    lab.set_behaviour(busy_every_n=2, retry_after_s=3)
    answers = [ask(bmc, "GET", S) for _turn in range(4)]
    busy = [answer for answer in answers if answer.status == 503]
    assert len(busy) == 2 and busy[0].headers["Retry-After"] == "3"
    lab.set_behaviour(busy_every_n=1, retry_after_form="date")
    assert email.utils.parsedate_to_datetime(ask(bmc, "GET", S).headers["Retry-After"])


def test_the_answer_is_lost_and_the_work_is_done(lab, bmc):
    lab.set_behaviour(answer_lost_after_post=1)
    before = len(lab.requests("gpu01"))
    log = "/redfish/v1/Managers/BMC/LogServices/Log/Actions/LogService.ClearLog"
    with pytest.raises((http.client.HTTPException, ConnectionError, ssl.SSLError)):
        ask(bmc, "POST", log, {})
    assert [entry["path"] for entry in lab.requests("gpu01")[before:]] == [log]
    assert ask(bmc, "POST", log, {}).status == 204


def test_general_faults(lab, bmc):
    lab.set_behaviour(faults=[{"method": "GET", "path": "/Bios$", "status": 500, "times": 1}])
    assert [ask(bmc, "GET", f"{S}/Bios").status for _turn in range(2)] == [500, 200]
    assert ask(bmc, "GET", S).status == 200


def test_html_and_redirect(lab, bmc):
    lab.set_behaviour(html_504_every_n=1)
    answer = ask(bmc, "GET", S)
    assert answer.status == 504 and answer.json is None and b"<html>" in answer.raw
    lab.set_behaviour(html_504_every_n=0, redirect_slash=True)
    answer = ask(bmc, "GET", S)
    assert answer.status == 308 and answer.headers["Location"] == S + "/"
    assert ask(bmc, "GET", S + "/").status == 200


def test_shapes(lab, bmc):
    volumes = f"{S}/Storage/nvme/Volumes"
    assert ask(bmc, "GET", volumes).json["Members"] == []
    lab.set_behaviour(members_null=True, drop_properties=["Model"], null_properties=["Manufacturer"])
    assert ask(bmc, "GET", volumes).json["Members"] is None
    system = ask(bmc, "GET", S).json
    assert "Model" not in system and system["Manufacturer"] is None
    lab.reset_behaviour()
    lab.set_behaviour(paging=3)
    page = ask(bmc, "GET", f"{S}/Processors").json
    assert len(page["Members"]) == 3 and page["Members@odata.count"] == 9
    assert len(ask(bmc, "GET", page["Members@odata.nextLink"]).json["Members"]) == 3


def test_two_systems(lab, bmc):
    lab.set_behaviour(two_systems="hgx_first")
    members = [member["@odata.id"] for member in ask(bmc, "GET", "/redfish/v1/Systems").json["Members"]]
    assert members == ["/redfish/v1/Systems/HGX_Baseboard_0", S]
    assert "Actions" not in ask(bmc, "GET", members[0]).json
    lab.set_behaviour(two_systems="hgx_last")
    assert ask(bmc, "GET", "/redfish/v1/Systems").json["Members"][0]["@odata.id"] == S


def test_allowable_values_only_by_action_info(lab, bmc):
    lab.set_behaviour(no_allowable_values=True)
    action = ask(bmc, "GET", S).json["Actions"]["#ComputerSystem.Reset"]
    assert "ResetType@Redfish.AllowableValues" not in action
    assert "On" in ask(bmc, "GET", action["@Redfish.ActionInfo"]).json["Parameters"][0]["AllowableValues"]
    lab.set_behaviour(no_action_info=True)
    assert list(ask(bmc, "GET", S).json["Actions"]["#ComputerSystem.Reset"]) == ["target"]


def test_case(lab, bmc):
    assert ask(bmc, "GET", "/redfish/v1/systems/1/bios").status == 404
    lab.set_behaviour(case_insensitive=True)
    assert ask(bmc, "GET", "/redfish/v1/systems/1/bios/").json["Id"] == "Bios"


def test_unreachable(lab, bmc):
    lab.set_behaviour("gpu01", unreachable="refuse")
    with pytest.raises(ConnectionRefusedError):
        ask(bmc, "GET", S)
    lab.set_behaviour("gpu01", unreachable="silent")
    with pytest.raises(TimeoutError):
        ask(bmc, "GET", S, timeout=0.5)
    lab.set_behaviour("gpu01", unreachable="no")
    assert ask(bmc, "GET", S).status == 200


def test_a_method_that_does_not_exist(bmc):
    assert ask(bmc, "EXPLODE", S).status in (405, 501)


def test_bodies_that_are_no_json(bmc):
    assert ask(bmc, "POST", RESET, b"{", headers={"Content-Type": "application/json"}).message_ids == ["MalformedJSON"]
    assert ask(bmc, "POST", RESET, b"[]", headers={"Content-Type": "application/json"}).status == 400
    assert ask(bmc, "POST", RESET, b"<a/>", headers={"Content-Type": "application/xml"}).status == 415


def test_writes_are_journalled_and_reads_are_not(lab, bmc):
    before = len(lab.requests("gpu01", sessions=True))
    ask(bmc, "GET", S)
    ask(bmc, "PATCH", S, {"AssetTag": "x"})
    login(bmc)
    new = lab.requests("gpu01", sessions=True)[before:]
    assert [
        (entry["method"], entry["path"], entry["account"], entry["status"], entry.get("session")) for entry in new
    ] == [
        ("PATCH", S, "admin", 200, None),
        ("POST", SESSIONS, "admin", 201, True),
    ]
    assert bmc.password not in (lab.directory / "lab/nodes/gpu01/requests.jsonl").read_text()
