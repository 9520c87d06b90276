# The Redfish client against a BMC that fails in known ways: what is repeated, what never is, what is left behind.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import email.utils
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect, redfish
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import (
    AnswerLost,
    HttpError,
    TransportError,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.deadline import Deadline

from .conftest import endpoint
from .scripted import serving

SYSTEM = "/redfish/v1/Systems/1"


def system_uri(client):
    return client.system()["@odata.id"]


def writes(lab, since=0):
    return [entry["method"] for entry in lab.requests("gpu01")][since:]


def open_sessions(lab):
    return lab.state("gpu01")["sessions"]


# ---- pure ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5", 5),
        ("0", 1),
        ("0.2", 1),
        ("100000", 60),
        ("-3", 1),
        ("soon", None),
        (None, None),
        ("", None),
        ("nan", None),
    ],
)
def test_retry_after_in_seconds(value, seconds):
    assert redfish.retry_after(value) == seconds


def test_retry_after_as_a_date():
    now = 1_700_000_000
    assert redfish.retry_after(email.utils.formatdate(now + 20, usegmt=True), now) == 20
    assert redfish.retry_after(email.utils.formatdate(now - 20, usegmt=True), now) == 1


def test_etag_ladder():
    assert redfish.etag_ladder('W/"abc"') == ['W/"abc"', '"abc"', "abc", "*", None]
    assert redfish.etag_ladder('"abc"') == ['"abc"', "abc", "*", None]
    assert redfish.etag_ladder(None) == ["*", None]


# ---- what is repeated -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("form", ["seconds", "date", "none"])
def test_a_busy_bmc_is_asked_again(bmc, there, form):
    bmc.set_behaviour("gpu01", busy_every_n=3, retry_after_form=form)
    with connect(there) as client:
        for _unused in range(4):
            assert client.get(system_uri(client))["SerialNumber"] == "LAB-test-0001"
        assert 503 in [status for unused, unused2, status in client.sent]


def test_busy_for_ever_ends_at_the_deadline(bmc, there):
    bmc.set_behaviour("gpu01", faults=[{"method": "GET", "path": ".*", "status": 503, "times": -1}])
    began = time.monotonic()
    with connect(there, Deadline(3, "test")) as client, pytest.raises((HttpError, errors.DeadlineExceeded)):
        client.root()
    assert time.monotonic() - began < 6


def test_a_page_of_html_is_a_typed_error(bmc, there):
    bmc.set_behaviour("gpu01", html_504_every_n=1)
    with connect(there) as client, pytest.raises(HttpError) as caught:
        client.root()
    assert caught.value.status == 504 and "not JSON" in str(caught.value)


def test_a_lost_answer_to_post_is_never_sent_again(bmc, there):
    with connect(there) as client:
        client.system()
        before = len(writes(bmc))
        bmc.set_behaviour("gpu01", answer_lost_after_post=1)
        with pytest.raises(AnswerLost):
            client.reset("On")
    assert writes(bmc)[before:] == ["POST"]
    bmc.wait("gpu01", lambda state: state["power"] == "On")
    with connect(there) as client:
        client.reset("ForceOff")
    bmc.wait("gpu01", lambda state: state["power"] == "Off")


def test_get_is_repeated_when_the_connection_breaks(bmc, there):
    with connect(there) as client:
        uri = system_uri(client)
        bmc.set_behaviour("gpu01", faults=[{"method": "GET", "path": ".*", "drop": True, "times": 1}])
        assert client.get(uri)["@odata.id"] == uri


def test_an_idle_connection_that_was_closed_does_no_harm(bmc, there):
    bmc.set_behaviour("gpu01", close_connections=True)
    with connect(there) as client:
        for _unused in range(3):
            client.get(system_uri(client))


# ---- sessions ---------------------------------------------------------------------------------------------------------------
def test_a_session_is_deleted_on_every_way_out(bmc, there):
    with pytest.raises(RuntimeError), connect(there) as client:
        client.login()
        client.system()
        assert open_sessions(bmc) == 1
        raise RuntimeError("anything")
    assert open_sessions(bmc) == 0


# What Ansible's workers do on SIGTERM and SIGINT (ansible-core 2.19, executor/process/worker.py): out at once, no `finally` runs.
LIKE_A_WORKER = (
    "import os, signal; [signal.signal(n, lambda *unused: os._exit(7)) for n in (signal.SIGTERM, signal.SIGINT)]"
)


@pytest.mark.parametrize(
    ("first", "number", "status"),
    [
        ("", signal.SIGTERM, 128 + signal.SIGTERM),
        ("", signal.SIGINT, None),
        (LIKE_A_WORKER, signal.SIGTERM, 7),
        (LIKE_A_WORKER, signal.SIGINT, 7),
    ],
)
@pytest.mark.parametrize(
    ("waiting", "wire"),
    [
        ("time.sleep(30)", "None"),
        ("client.get('/redfish/v1/Systems/1/Memory')", "None"),
        ("client.get('/redfish/v1/Systems/1/Memory')", "Wire"),
    ],
)
def test_session_is_deleted_on_a_signal(bmc, there, first, number, status, waiting, wire):
    """In the middle of a wait or of a request: the process ends as it would have, the session does not stay."""
    bmc.set_behaviour("gpu01", slow_path=".*/Memory", slow_s=60)
    unit = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    code = textwrap.dedent(
        f"""
        import signal, sys, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored
        sys.path[:0] = {[unit, *sys.path]!r}
        import conftest
        from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect
        from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
        from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.wire import Wire
        {first}
        account = dict(username={there.username!r}, password={there.password!r}, fingerprint={there.fingerprint!r}, transport={wire})
        with connect(Endpoint({there.address!r}, {there.port}, **account)) as client:
            client.login()
            print("in", flush=True)
            {waiting}
        """
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline().strip() == "in"
        assert open_sessions(bmc) == 1
        time.sleep(0.3)
        child.send_signal(number)
        found = child.wait(40)
        assert found == status if status is not None else found != 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        child.stderr.close()
    assert open_sessions(bmc) == 0


def test_a_second_signal_does_not_stop_the_deletion_and_one_during_login_waits_for_the_session(bmc, there, tmp_path):
    """As with Ctrl-C: the worker hears it, and a moment later that its controller is gone; every answer of the BMC takes a while."""
    bmc.set_behaviour("gpu01", delay_s=0.6)
    unit = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    code = textwrap.dedent(
        f"""
        import os, signal, sys, threading, time
        sys.path[:0] = {[unit, *sys.path]!r}
        import conftest
        from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect
        from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
        {LIKE_A_WORKER}
        account = dict(username={there.username!r}, password={there.password!r}, fingerprint={there.fingerprint!r})
        delays = [float(word) for word in sys.argv[1:]]
        with connect(Endpoint({there.address!r}, {there.port}, **account)) as client:
            client.root()
            def hurry():
                for delay in delays:
                    time.sleep(delay)
                    os.kill(os.getpid(), signal.SIGTERM)
            threading.Thread(target=hurry, daemon=True).start()
            client.login()
            print("in", flush=True)
            time.sleep(30)
        """
    )
    for delays, said in ((("1.5", "0.3"), "in\n"), (("0.2", "0.2"), "")):
        done = subprocess.run(
            [sys.executable, "-c", code, *delays], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (7, said), done.stderr
        assert open_sessions(bmc) == 0


@pytest.mark.parametrize(
    ("first", "number", "status"),
    [
        ("", signal.SIGTERM, 128 + signal.SIGTERM),
        ("", signal.SIGINT, None),
        (LIKE_A_WORKER, signal.SIGTERM, 7),
        (LIKE_A_WORKER, signal.SIGINT, 7),
    ],
)
def test_a_signal_while_the_session_is_being_deleted_waits_for_that(bmc, there, first, number, status):
    """As with Ctrl-C at the end of a task on a slow BMC: the deletion is under way, and its answer comes late."""
    bmc.set_behaviour("gpu01", slow_path=".*/Sessions/.*", slow_s=1.5)
    unit = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    code = textwrap.dedent(
        f"""
        import signal, sys, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored
        sys.path[:0] = {[unit, *sys.path]!r}
        import conftest
        from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect
        from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
        from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.wire import Wire
        {first}
        account = dict(username={there.username!r}, password={there.password!r}, fingerprint={there.fingerprint!r}, transport=Wire)
        with connect(Endpoint({there.address!r}, {there.port}, **account)) as client:
            client.login()
            print("in", flush=True)
        time.sleep(30)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline().strip() == "in"
        time.sleep(0.5)
        child.send_signal(number)
        found = child.wait(20)  # it ends by the signal, and not after the sleep
        assert found == status if status is not None else found != 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        child.stderr.close()
    assert open_sessions(bmc) == 0


def test_a_session_is_deleted_on_a_new_connection_where_the_old_one_breaks(bmc, there):
    with connect(there) as client:
        client.login()
        exchange, broken = client._connector.exchange, []

        def breaks_once(method, *rest, **more):
            if method == "DELETE" and not broken:
                broken.append(method)
                raise TransportError("the connection broke", True)
            return exchange(method, *rest, **more)

        client._connector.exchange = breaks_once
    assert broken and open_sessions(bmc) == 0


def test_at_the_session_limit_basic_is_used_and_others_stay(bmc, there):
    bmc.set_behaviour("gpu01", session_limit=1)
    with connect(there) as first, connect(there) as second:
        first.login()
        second.login()
        assert second.system()["SerialNumber"] == "LAB-test-0001"
        assert any("Basic" in text for text in second.warnings)
        assert first.get(system_uri(first))
    assert open_sessions(bmc) == 0


def test_an_expired_session_is_renewed_once(bmc, there):
    with connect(there) as client:
        client.login()
        uri = system_uri(client)
        bmc.set_behaviour("gpu01", session_expires_after=2)
        for _unused in range(6):
            assert client.get(uri)
    bmc.reset_behaviour("gpu01")


def test_a_bmc_without_basic(bmc, there):
    bmc.set_behaviour("gpu01", no_basic_auth=True)
    with connect(there) as client:
        assert client.system()["SerialNumber"] == "LAB-test-0001"
    assert open_sessions(bmc) == 0


def test_wrong_password_is_tried_once(bmc):
    wrong = endpoint(bmc, password="not-the-one")
    with connect(wrong) as client, pytest.raises(errors.AuthenticationFailed) as caught:
        client.system()
    assert [status for unused, unused2, status in client.sent].count(401) == 1
    assert "not-the-one" not in str(caught.value)


def test_password_change_required_is_recognised(fresh):
    fresh.set_behaviour("gpu01", password_change_required=True)
    for login in (False, True):
        with connect(endpoint(fresh)) as client, pytest.raises(errors.AuthenticationFailed) as caught:
            if login:
                client.login()
            client.system()
        assert caught.value.code == "password_change_required"
        assert caught.value.thing.startswith("/redfish/v1/AccountService/Accounts/")


# ---- ETags, shapes, redirects -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "behaviour",
    [
        {"etag_required": True},
        {"etag_required": True, "weak_etag": True},
        {"weak_etag": True, "etag_refuses_own_weak": True},
        {},
    ],
)
def test_patch_finds_the_form_of_etag_that_the_bmc_takes(bmc, there, behaviour):
    bmc.set_behaviour("gpu01", **behaviour)
    with connect(there) as client:
        uri = system_uri(client)
        for target in ("Pxe", "None"):
            client.patch(
                uri,
                {
                    "Boot": {
                        "BootSourceOverrideTarget": target,
                        "BootSourceOverrideEnabled": "Once" if target != "None" else "Disabled",
                    }
                },
            )
            assert client.refresh_system()["Boot"]["BootSourceOverrideTarget"] == target


def test_the_ladder_ends(bmc, there):
    bmc.set_behaviour("gpu01", faults=[{"method": "PATCH", "path": ".*", "status": 412, "times": -1}])
    with connect(there) as client, pytest.raises(HttpError) as caught:
        client.patch(system_uri(client), {"Boot": {}})
    assert caught.value.status == 412
    assert [method for method, unused, unused2 in client.sent].count("PATCH") <= 5


@pytest.mark.parametrize(
    "behaviour", [{"redirect_slash": True}, {"paging": 2}, {"no_query_support": True}, {"members_null": True}]
)
def test_shapes_do_not_matter(bmc, there, behaviour):
    bmc.set_behaviour("gpu01", **behaviour)
    with connect(there) as client:
        assert client.system()["SerialNumber"] == "LAB-test-0001"
        nics = client.members(client.system()["EthernetInterfaces"]["@odata.id"])
        assert len({nic["MACAddress"] for nic in nics}) == 3


@pytest.mark.parametrize("order", ["hgx_first", "hgx_last"])
def test_the_gpu_board_is_not_the_host(bmc, there, order):
    bmc.set_behaviour("gpu01", two_systems=order)
    with connect(there) as client:
        assert client.system()["SerialNumber"] == "LAB-test-0001"
        assert len(client.systems_seen()) == 2


# ---- trust ----------------------------------------------------------------------------------------------------------------------
def test_another_certificate_is_refused_before_anything_is_sent(bmc):
    other = endpoint(bmc, fingerprint="ab" * 32)
    before = bmc.stats("gpu01")["requests"]
    with connect(other) as client, pytest.raises(errors.Refused) as caught:
        client.system()
    assert caught.value.code == "certificate_changed"
    assert bmc.stats("gpu01")["requests"] == before


def test_a_self_signed_certificate_is_not_trusted_by_default(bmc, monkeypatch):
    # What the environment says must not switch verification off, nor send us through a proxy.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with connect(endpoint(bmc, fingerprint=None)) as client, pytest.raises(errors.Refused) as caught:
        client.system()
    assert caught.value.code == "certificate_not_trusted"
    with connect(endpoint(bmc, fingerprint=None, tls="insecure")) as client:
        assert client.system()


def test_nobody_there():
    began = time.monotonic()
    with (
        connect(Endpoint("127.0.0.1", 9, username="x", password="y", tls="insecure", timeout=3)) as client,
        pytest.raises(errors.Unreachable),
    ):
        client.system()
    assert time.monotonic() - began < 5


def test_a_silent_bmc_ends_at_the_deadline():
    """Something takes the connection and never says a word."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        where = Endpoint("127.0.0.1", silent.getsockname()[1], username="x", password="y", tls="insecure", timeout=3)
        began = time.monotonic()
        with connect(where) as client, pytest.raises((errors.Unreachable, errors.DeadlineExceeded)):
            client.system()
        assert time.monotonic() - began < 6


# ---- the fence -------------------------------------------------------------------------------------------------------------------
def test_the_fence_is_asked_before_every_write_and_stops_it(bmc, there):
    def fence():
        raise errors.FencedOut("a newer attempt owns the node")

    before = len(writes(bmc))
    with connect(there, before_write=fence) as client:
        assert client.system()
        with pytest.raises(errors.FencedOut):
            client.reset("On")
        with pytest.raises(errors.FencedOut):
            client.patch(system_uri(client), {"Boot": {}})
    assert len(writes(bmc)) == before


def test_what_to_do_depends_on_what_is_wrong_with_the_certificate():
    def advice(reason):
        return redfish.trust_advice("certificate_not_trusted", "ab" * 32, reason)

    assert "renew" in advice("its certificate is not trusted: certificate has expired")
    assert "give bmc_ca_path" not in advice("its certificate is not trusted: certificate has expired")
    assert "bmc_address" in advice(
        "its certificate is not trusted: IP address mismatch, certificate is not valid for 'x'"
    )
    assert "give bmc_ca_path" in advice("its certificate is not trusted: self-signed certificate")
    assert all("ab" * 32 in advice(reason) for reason in ("expired", "mismatch", ""))


def test_a_certificate_that_is_refused_is_shown_with_what_to_do(bmc):
    shown = bmc["gpu01"].fingerprint
    for fingerprint, code in (("ab" * 32, "certificate_changed"), (None, "certificate_not_trusted")):
        with connect(endpoint(bmc, fingerprint=fingerprint)) as client, pytest.raises(errors.Refused) as caught:
            client.system()
        assert caught.value.code == code and shown in caught.value.seen and shown in caught.value.next_step
    assert "aicluster.baremetal.node" in redfish.trust_advice("certificate_changed", shown)


STATUSES = [400, 403, 404, 405, 409, 412, 428, 429, 500, 501, 503]


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("method", ["GET", "PATCH", "POST"])
def test_every_refusal_says_what_was_seen_and_what_to_do(bmc, there, monkeypatch, status, method):
    monkeypatch.setattr(redfish, "BACKOFF", ())
    bmc.set_behaviour("gpu01", faults=[{"method": method, "path": ".*Systems/1.*", "status": status, "times": -1}])
    with connect(there, Deadline(3, "test")) as client, pytest.raises(HttpError) as caught:
        if method == "GET":
            client.get(SYSTEM)
        elif method == "PATCH":
            client.patch(SYSTEM, {"AssetTag": "x"})
        else:
            client.post(SYSTEM + "/Actions/ComputerSystem.Reset", {"ResetType": "On"})
    assert caught.value.seen.startswith(f"HTTP {status}") and caught.value.next_step and caught.value.code != "error"


@pytest.mark.parametrize("status", [412, 428])
def test_a_delete_that_wants_an_etag_gets_it(fresh, status):
    there = endpoint(fresh)
    with connect(there) as client:
        client.login()
        client.post(
            "/redfish/v1/AccountService/Accounts",
            {"UserName": "monitor", "Password": "Monitor-12345", "RoleId": "ReadOnly"},
        )
        fresh.set_behaviour(
            "gpu01", faults=[{"method": "DELETE", "path": ".*Accounts.*", "status": status, "times": 1}]
        )
        account = next(
            item for item in client.members("/redfish/v1/AccountService/Accounts") if item["UserName"] == "monitor"
        )
        client.delete(account["@odata.id"])
        assert [method for method, unused, unused2 in client.sent].count("DELETE") == 2
        assert all(item["UserName"] != "monitor" for item in client.members("/redfish/v1/AccountService/Accounts"))


def test_broken_json_is_asked_for_once_more_also_at_the_root_and_at_a_task():
    good, broken = {"Systems": {"@odata.id": "/redfish/v1/Systems"}}, (200, '{"a": ""b"", ')
    task = {"@odata.id": "/t", "TaskState": "Running"}
    with serving({"GET /redfish/v1/": [broken, good], "GET /t": [broken, task], "GET /x": broken}) as (script, there):
        with connect(there) as client:
            assert client.root() == good
            assert client.look("/t").body == task
            for read in (client.get, client.look):
                with pytest.raises(errors.BaremetalError) as caught:
                    read("/x")
                assert caught.value.code == "not_json"
    assert script.count("GET", "/redfish/v1/") == 2 and script.count("GET", "/x") == 4
