# The IPMI client against pyghmi's own server in another process, and against addresses where nobody answers.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect, ipmi, operations, scan
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import AnswerLost
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.deadline import Deadline
from bmc_simulator import testing

SERVER = """
import sys
from pyghmi.cmd.fakebmc import FakeBmc
deaf = len(sys.argv) > 2
class Server(FakeBmc):
    def power_on(self):
        if not deaf:
            super().power_on()
    # the system event log of IPMI 2.0, 31: three records of a fan that fell below a limit
    sel = [bytes([n, 0, 2, 0x80, 0xEE, 0x7D, 0x69, 0x20, 0, 4, 4, 3, 1, 0x52, n, 0]) for n in (1, 2, 3)]
    def log(self, command, data, session):
        if command == 0x40:
            return session.send_ipmi_response(data=[0x51, len(self.sel), 0] + [0] * 10 + [2])
        if command == 0x42:
            return session.send_ipmi_response(data=[7, 0])
        if command == 0x47:
            good = data[:5] == bytes([7, 0, 0x43, 0x4C, 0x52]) and data[5] == 0xAA
            if good and not deaf:
                self.sel.clear()
            return session.send_ipmi_response(data=[1]) if good else session.send_ipmi_response(code=0xcc)
        wanted = data[2] | data[3] << 8
        place = 0 if wanted == 0 else next((n for n, record in enumerate(self.sel) if record[0] == wanted), None)
        if not self.sel or place is None:
            return session.send_ipmi_response(code=0xcb)
        after = [self.sel[place + 1][0], 0] if place + 1 < len(self.sel) else [0xff, 0xff]
        session.send_ipmi_response(data=after + list(self.sel[place]))
    # sensor data records of IPMI 2.0, 43.1: [number, sensor type, reading type, unit, M, name]
    sensors = [(1, 1, 1, 1, 1, b'CPU0_Temp'), (2, 4, 1, 18, 100, b'FAN0'), (3, 8, 0x6f, 0, 1, b'PSU0'), (4, 11, 1, 6, 8, b'Total_Power'),
               (5, 1, 1, 1, 1, b'GPU0_Temp'), (6, 4, 1, 18, 100, b'FAN1')]
    # 35.14: reading, flags, states; FAN1 is refused, GPU0 has no reading (server off)
    readings = {1: [48, 0x40, 0], 2: [42, 0x40, 2], 3: [0, 0x40, 1], 4: [100, 0x40, 0], 5: [0, 0x60, 0]}
    def sensor(self, netfn, command, data, session):
        if netfn == 4:
            found = self.readings.get(data[0])
            return session.send_ipmi_response(data=found) if found else session.send_ipmi_response(code=0xd5)
        if command == 0x20:
            return session.send_ipmi_response(data=[0x51, len(self.sensors), 0] + [0] * 10 + [2])
        if command == 0x22:
            return session.send_ipmi_response(data=[1, 0])
        place, start, size = data[2] | data[3] << 8, data[4], data[5]
        number, kind, reading, unit, factor, name = self.sensors[place]
        limits = 0x0c if reading == 1 else 0
        body = [0x20, 0, number, 7, 1, 0x7f, limits, kind, reading, 0, 0, 0, 0, 0, 0, 0 if reading == 1 else 0xc0, unit, 0, 0, factor]
        body += [0] * (42 - len(body)) + [0xc0 | len(name)] + list(name)
        record = [place, 0, 0x51, 1, len(body)] + body
        after = [place + 1, 0] if place + 1 < len(self.sensors) else [0xff, 0xff]
        session.send_ipmi_response(data=after + record[start:start + size])
    # the user table of IPMI 2.0, 22.26 to 22.30: [name, password, privilege, enabled]
    users = {1: ['', '', 15, False], 2: ['admin', 'password', 4, True], 3: ['', '', 15, False]}
    def handle_raw_request(self, request, session):
        netfn, command, data = request['netfn'], request['command'], bytes(bytearray(request['data']))
        if netfn == 0x0A and command in (0x40, 0x42, 0x43, 0x47):  # not the FRU, which is asked for there too
            return self.log(command, data, session)
        if (netfn, command) in ((0x0A, 0x20), (0x0A, 0x22), (0x0A, 0x23), (4, 0x2D)):
            return self.sensor(netfn, command, data, session)
        if (netfn, command) == (0x2C, 2) and not deaf:
            return session.send_ipmi_response(data=[0xdc, 0x20, 3, 0, 0, 0, 0])
        if netfn != 6 or command not in (0x43, 0x44, 0x45, 0x46, 0x47):
            return super().handle_raw_request(request, session)
        user = self.users.get((data[1] if command in (0x43, 0x44) else data[0]) & 0x3f)
        if user is None:
            return session.send_ipmi_response(code=0xcc)
        answer = []
        if command == 0x44:
            answer = [3, (0x40 if user[3] else 0x80) | 1, 0, 0x30 | user[2]]
        elif command == 0x46:
            answer = list(user[0].encode().ljust(16, bytes(1)))
        elif deaf:
            pass
        elif command == 0x43:
            user[2] = data[2] & 0x0f
        elif command == 0x45:
            user[0] = data[1:].rstrip(bytes(1)).decode()
        elif data[1] & 3 == 2:
            user[1] = data[2:].rstrip(bytes(1)).decode()
        else:
            user[3] = data[1] & 3 == 1
        self.authdata.clear()
        self.authdata.update({name: word for name, word, priv, on in self.users.values() if name and on and priv != 15})
        session.send_ipmi_response(data=answer)
server = Server({'admin': 'password'}, port=int(sys.argv[1]))
print('up', flush=True)
server.listen(1)
while True:
    server.listen(1)
"""


@contextlib.contextmanager
def server(*more):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as free:
        free.bind(("::", 0))
        port = free.getsockname()[1]
    child = subprocess.Popen([sys.executable, "-c", SERVER, str(port), *more], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline().strip() == "up"
        yield port
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.fixture(autouse=True)
def no_worker_stays(port):
    before = children()
    yield
    assert children() == before


@pytest.fixture(scope="module")
def port():
    with server() as number:
        yield number


def endpoint(port, **changes):
    return Endpoint(
        **{
            "address": "127.0.0.1",
            "port": port,
            "protocol": "ipmi",
            "username": "admin",
            "password": "password",
            "name": "gpu02",
            "timeout": 15,
            **changes,
        }
    )


@pytest.fixture
def silent_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        yield silent.getsockname()[1]


def children():
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children", encoding="ascii") as handle:
        return handle.read().split()


def test_power_and_boot_change_once(port):
    there = endpoint(port)
    assert operations.power(there, "off", interval=0.1).after == {"power": "off"}
    planned = operations.power(there, "on", check=True)
    assert planned.changed and planned.source == "ipmi"
    assert operations.power(there, "on", interval=0.1).changed
    assert not operations.power(there, "on").changed
    assert operations.boot(there, "pxe", interval=0.1).changed
    again = operations.boot(there, "pxe")
    assert not again.changed and again.after["target"] == "pxe"
    assert operations.boot(there, "none", interval=0.1).changed
    assert not operations.boot(there, "none").changed


def test_the_chosen_cipher_suite_is_read():
    """IPMI 2.0 table 13-10: three algorithm payloads of eight bytes after twelve bytes of head."""
    head = bytes([1, 0, 4, 0]) + bytes(8)
    payloads = bytes([0, 0, 0, 8, 3, 0, 0, 0]) + bytes([1, 0, 0, 8, 4, 0, 0, 0]) + bytes([2, 0, 0, 8, 1, 0, 0, 0])
    assert ipmi.read_suite(head + payloads) == (3, 4, 1)
    assert ipmi.read_suite(bytes([1, 0x11, 0, 0]) + bytes(4)) is None


def test_uefi_http_does_not_exist_in_ipmi(port):
    with pytest.raises(errors.Unsupported):
        operations.boot(endpoint(port), "uefi_http")


def test_accepted_and_not_done_is_named():
    with server("deaf") as number, pytest.raises(errors.DeadlineExceeded) as caught:
        operations.power(endpoint(number), "on", deadline_s=3, interval=0.3)
    assert caught.value.code == "accepted_not_moved"


def test_info_says_what_ipmi_cannot_tell(port):
    found = operations.info(endpoint(port))
    assert found["source"] == "ipmi" and found["system"]["power"] in ("on", "off")
    assert any("IPMI cannot tell" in text and "memory" in text for text in found["warnings"])


def test_sensors_and_log_over_ipmi(port):
    found = operations.info(endpoint(port), ["thermal", "power", "logs", "firmware"])
    assert found["thermal"]["temperatures"] == [
        {"name": "CPU0_Temp", "celsius": 48.0, "critical": None, "health": "OK"},
        {"name": "GPU0_Temp", "celsius": None, "critical": None, "health": None},
    ]
    assert found["thermal"]["fans"] == [
        {"name": "FAN0", "speed": 4200.0, "unit": "RPM", "health": "Critical"},
        {"name": "FAN1", "speed": None, "unit": None, "health": None},
    ]
    assert found["power"]["consumed_watts"] == 800  # as DCMI says
    assert [(one["slot"], one["health"]) for one in found["power"]["supplies"]] == [("PSU0", "OK")]
    assert found["logs"][0]["log"] == "sel" and len(found["logs"][0]["entries"]) == 3
    assert found["firmware"][0]["id"] == "BMC" and not any("cannot tell" in text for text in found["warnings"])


def test_the_draw_where_there_is_no_dcmi():
    with server("deaf") as number:
        found = operations.info(endpoint(number), ["power"])
    assert found["power"]["consumed_watts"] == 800.0  # 100 times the factor 8 of the sensor


def test_wrong_password_is_typed_and_does_not_poison_the_next_try(port):
    with pytest.raises(errors.AuthenticationFailed) as caught:
        operations.power(endpoint(port, password="wrong-one"), "on")
    assert "wrong-one" not in str(caught.value)
    assert operations.power(endpoint(port), "on", interval=0.1).after == {"power": "on"}
    assert not operations.can_log_in(endpoint(port), "admin", "wrong-one")
    wrong = endpoint(port, password="wrong-two")
    with pytest.raises(errors.AuthenticationFailed, match="wanted: a log-in over IPMI"), connect(wrong) as client:
        client.read_power()
    assert operations.can_log_in(endpoint(port), "admin", "password")


def test_a_silent_bmc_ends_at_the_deadline_and_leaves_no_process(silent_port):
    began = time.monotonic()
    with pytest.raises(errors.Unreachable), connect(endpoint(silent_port), Deadline(2, "test")) as client:
        client.read_power()
    assert time.monotonic() - began < 4


def test_an_exception_without_a_reason_is_no_answer(silent_port):
    """As pyghmi gives it after some time-outs; a refused log-in says what was wanted."""
    client = ipmi.IpmiClient.__new__(ipmi.IpmiClient)
    client.endpoint = endpoint(silent_port)
    assert client._unreachable("login", "None").seen == "no answer"
    assert client._unreachable("login", "timeout").seen == "timeout"


def test_a_write_whose_answer_is_lost_is_not_sent_again(port):
    with connect(endpoint(port), Deadline(10, "test")) as client:
        client.read_power()
        os.kill(client._pid, 9)
        with pytest.raises(AnswerLost):
            client._ask("set_power", (1,), True)


def test_the_fence_stops_a_write(port):
    def fence():
        raise errors.FencedOut("a newer attempt owns the node")

    there = endpoint(port)
    operations.power(there, "off", interval=0.1)
    with pytest.raises(errors.FencedOut):
        operations.power(there, "on", fence=fence)
    assert operations.power(there, "off").changed is False


@pytest.mark.parametrize(("key", "value"), [("password", "x" * 21), ("username", "u" * 17)])
def test_what_ipmi_cannot_hold_is_refused_before_sending(key, value):
    with pytest.raises(errors.InvalidInput) as caught:
        endpoint(1, **{key: value})
    assert value not in str(caught.value)


def test_presence_is_asked_without_a_login(port, silent_port):
    assert scan.ipmi_presence(["127.0.0.1"], port, 1.0) == {"127.0.0.1"}
    assert scan.ipmi_presence(["127.0.0.1"], silent_port, 0.3) == set()


# ---- accounts ---------------------------------------------------------------------------------------------------------------
def test_accounts_over_ipmi():
    with server() as number:
        there = endpoint(number)
        wanted = {"password": "Monitor-1234567890", "role": "ReadOnly"}
        planned = operations.account(there, "monitor", check=True, **wanted)
        assert planned.changed and planned.source == "ipmi" and "Monitor-1234567890" not in str(planned.plan.diff())
        done = operations.account(there, "monitor", **wanted)
        assert done.after == planned.after == {"username": "monitor", "role": "ReadOnly", "enabled": True}
        assert not operations.account(there, "monitor", **wanted).changed
        assert operations.account(there, "monitor", role="Operator").after["role"] == "Operator"
        assert operations.account(there, "monitor", password="Short-123").changed
        assert operations.account(there, "monitor", enabled=False).after["enabled"] is False
        assert not operations.account(there, "monitor", enabled=False).changed
        with pytest.raises(errors.Refused) as caught:
            operations.account(there, "another", password="Another-12345")
        assert "no free IPMI user" in str(caught.value)
        assert operations.account(there, "monitor", state="absent").changed
        assert not operations.account(there, "monitor", state="absent").changed
        assert operations.account(there, "admin", password="Rotated-12345").changed
        assert operations.can_log_in(there, "admin", "Rotated-12345")


def test_what_ipmi_accounts_refuse(port):
    there = endpoint(port)
    for arguments in ({"role": "Auditor"}, {"password": "x" * 21}):
        for check in (True, False):
            with pytest.raises(errors.InvalidInput):
                operations.account(there, "monitor", check=check, **arguments)
    for change in ({"state": "absent"}, {"enabled": False}):
        with pytest.raises(errors.Refused):
            operations.account(there, "admin", **change)


def test_an_ipmi_account_that_is_accepted_and_not_changed():
    with server("deaf") as number, pytest.raises(errors.Refused) as caught:
        operations.account(endpoint(number), "monitor", password="Monitor-12345", role="Operator", enabled=False)
    assert caught.value.code == "accepted_not_moved"


# ---- cipher suites and privileges ---------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def lab():
    """The simulator's IPMI side refuses SHA-256 (suite 17) and takes SHA-1 (suite 3)."""
    with testing.running([testing.node_config(bmc={"protocols": ["redfish", "ipmi"]})]) as running:
        yield running


@pytest.mark.parametrize("suite", [None, 3])
def test_suite_3_is_taken(lab, suite):
    there = endpoint(lab["gpu01"].ipmi_port, username=testing.USERNAME, password=testing.PASSWORD, cipher_suite=suite)
    assert operations.info(there, ["system"])["system"]["power"] in ("on", "off")


def test_a_pinned_suite_is_not_given_up(lab):
    there = endpoint(lab["gpu01"].ipmi_port, username=testing.USERNAME, password=testing.PASSWORD, cipher_suite=17)
    with pytest.raises(errors.Refused) as caught:
        operations.power(there, "on")
    assert caught.value.code == "cipher_suite" and "17" in caught.value.seen


def test_what_the_privilege_does_not_allow_is_not_sent(lab):
    there = endpoint(lab["gpu01"].ipmi_port, username=testing.USERNAME, password=testing.PASSWORD, privilege="user")
    assert operations.power(there, "off").changed is False
    before = lab.stats("gpu01").get("writes", 0)
    for action in (
        lambda: operations.power(there, "on"),
        lambda: operations.account(there, "monitor", "Monitor-12345"),
    ):
        with pytest.raises(errors.InvalidInput) as caught:
            action()
        assert caught.value.thing == "bmc_ipmi_privilege" and caught.value.wanted in ("operator", "administrator")
    assert lab.stats("gpu01").get("writes", 0) == before


def test_accounts_of_the_lab_over_ipmi_are_those_of_redfish(lab):
    there = endpoint(lab["gpu01"].ipmi_port, username=testing.USERNAME, password=testing.PASSWORD)

    def seen():
        return [(row["username"], row["role"], row["enabled"]) for row in lab.state("gpu01")["accounts"]]

    first = seen()
    with pytest.raises(errors.Refused):  # too short for this BMC, which shows itself when the user has its name already
        operations.account(there, "monitor", "x")
    assert seen() == first
    made = {"password": "Monitor-12345", "role": "Operator"}
    assert operations.account(there, "monitor", check=True, **made).changed and seen() == first
    done = operations.account(there, "monitor", **made)
    assert done.after == {"username": "monitor", "role": "Operator", "enabled": True}
    assert seen() == [*first, ("monitor", "Operator", True)]
    assert not operations.account(there, "monitor", **made).changed
    assert operations.account(there, "monitor", role="ReadOnly", enabled=False).changed
    assert seen() == [*first, ("monitor", "ReadOnly", False)]
    assert not operations.account(there, "monitor", role="ReadOnly", enabled=False).changed
    assert operations.account(there, "monitor", state="absent").changed
    assert seen() == first
    assert not operations.account(there, "monitor", state="absent").changed


# ---- the system event log -------------------------------------------------------------------------------------------------------
def test_the_sel_is_read_and_cleared():
    with server() as number:
        there = endpoint(number)
        entries = operations.log(there).more["logs"][0]["entries"]
        assert [item["id"] for item in entries] == ["1", "2", "3"] and entries[0]["created"].startswith("2026-01-31")
        assert [item["id"] for item in operations.log(there, limit=1).more["logs"][0]["entries"]] == ["3"]
        assert operations.log(there, "cleared", ["SEL"], check=True).changed
        assert operations.log(there, "cleared", ["SEL"]).changed
        assert not operations.log(there, "cleared", ["SEL"]).changed
        assert operations.log(there).more["logs"][0]["entries"] == []
        with pytest.raises(errors.NotFound):
            operations.log(there, logs=["IML"])


def test_a_sel_that_is_not_cleared():
    with server("deaf") as number, pytest.raises(errors.DeadlineExceeded) as caught:
        operations.log(endpoint(number), "cleared", ["sel"], deadline_s=5)
    assert caught.value.code == "accepted_not_moved" and caught.value.seen == "3 entries"
