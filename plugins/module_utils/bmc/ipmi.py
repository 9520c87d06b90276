# The IPMI client: pyghmi in a worker process of its own, which is killed at its deadline.
#
# pyghmi keeps process-wide state and one I/O thread: after one failed login a second one in the same process can never work, and with enough silent
# BMCs every session hangs. So each client is one child process with one session; a second try is a new process, and a call that does not come
# back in time ends with SIGKILL, whatever pyghmi does.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import socket
import time

from ..core.deadline import Deadline
from ..core.errors import AuthenticationFailed, BaremetalError, InvalidInput, Refused, Unreachable, Unsupported
from ..core.process import die_with_parent
from ..core.redact import Redactor
from . import guard
from .endpoint import PRIVILEGES
from .errors import AnswerLost

try:
    from pyghmi import exceptions as pyghmi_exceptions
    from pyghmi.ipmi import command as pyghmi_command

    IMPORT_ERROR = None
except ImportError as error:  # ansible-test imports every file without the controller's requirements
    IMPORT_ERROR = error

CALL_LIMIT = 20.0
# A sensor repository is read record by record, and then each sensor: minutes on slow BMCs.
SENSORS_LIMIT = 180.0
LOGIN_TRIES = 2
# IPMI 2.0, 28.3 Chassis Control
POWER_CODES = {"off": 0, "on": 1, "cycle": 2, "reset": 3, "nmi": 4, "graceful": 5}
# our boot target -> pyghmi's; UEFI HTTP does not exist in IPMI
BOOT_DEVICES = {"pxe": "network", "disk": "hd", "cd": "optical", "bios": "setup", "none": "default"}
BOOT_WORDS = {"network": "pxe", "hd": "disk", "optical": "cd", "setup": "bios", "default": "none"}
# The least privilege of what is asked (what is not listed: user)
NEEDS = {
    "set_power": "operator",
    "set_boot": "operator",
    "get_boot": "operator",
    "get_user": "operator",
    "get_free_user": "operator",
    "set_user": "administrator",
    "clear_user": "administrator",
    "reset_bmc": "administrator",
    "clear_log": "operator",
}
DENIED = re.compile(r"incorrect password|unauthorized name|invalid role|privilege|RAKP|password", re.IGNORECASE)


def read_suite(answer):
    """(authentication, integrity, confidentiality) algorithm numbers of an RMCP+ Open Session Response (IPMI 2.0, 13.18); None for a refusal."""
    if len(answer) < 36 or answer[1] != 0:
        return None
    return answer[16] & 0x3F, answer[24] & 0x3F, answer[32] & 0x3F


def _teach_pyghmi(pinned=None):
    """Let pyghmi use the cipher suite that the BMC chose, and no other than `pinned` (3 or 17; None: 17, and 3 where the BMC has no 17).

    pyghmi offers 17 (SHA-256) and takes for granted that it got it; BMCs that only know suite 3 answer with that and the login fails in a strange way. A BMC
    that chose no authentication or no encryption is refused, and so is one that speaks only IPMI 1.5, which encrypts nothing.
    """
    session = pyghmi_command.session.Session
    if getattr(session, "aicluster_patched", False):
        return
    original, ask = session._got_rmcp_response, session._open_rmcpplus_request

    def chosen(self, data):
        suite = read_suite(data)
        if suite is None:
            if pinned == 17 and len(data) > 1 and data[1]:
                self.onlogon({"error": f"no cipher suite in common (the BMC refused suite 17 with code {data[1]:#x})"})
                return -9
        elif suite[0] == 1 and pinned != 17:
            self.attemptedhash, self.currhashlib, self.currhashlen = 1, hashlib.sha1, 12
        elif suite[0] != 3 or suite[2] == 0:
            wanted = f"suite {pinned}" if pinned else "suite 17 or 3"
            self.onlogon({"error": f"no cipher suite in common (the BMC chose {suite}, wanted {wanted})"})
            return -9
        return original(self, data)

    def offer(self):
        if pinned == 3:
            self.attemptedhash = 1
        return ask(self)

    def refuse(self):
        self.onlogon({"error": "the BMC speaks only IPMI 1.5"})

    session._got_rmcp_response, session._open_rmcpplus_request = chosen, offer
    session._get_session_challenge = refuse
    session.aicluster_patched = True


# ---- the worker process -------------------------------------------------------------------------------------------------------------------
class _Worker:
    """What runs in the child: one pyghmi session, one function for each request."""

    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.command = None

    def login(self):
        _teach_pyghmi(self.endpoint.cipher_suite)
        self.command = pyghmi_command.Command(
            bmc=self.endpoint.address,
            userid=self.endpoint.username,
            password=self.endpoint.password,
            port=self.endpoint.port,
            privlevel=PRIVILEGES[self.endpoint.privilege],
        )
        return True

    def logout(self):
        """Give the session back: a BMC has a few, and keeps one that was left for a minute."""
        self.command.ipmi_session.logout()
        return True

    def _raw(self, netfn, command, data=()):
        answer = self.command.raw_command(netfn=netfn, command=command, data=data)
        if "error" in answer:
            raise pyghmi_exceptions.IpmiException(answer["error"], code=answer.get("code", 0))
        return bytearray(answer.get("data") or ())

    def get_power(self):
        return "on" if self._raw(0, 1)[0] & 1 else "off"

    def set_power(self, code):
        self._raw(0, 2, [code])
        return True

    def get_boot(self):
        return self.command.get_bootdev()

    def set_boot(self, device, persistent, uefi):
        answer = self.command.set_bootdev(device, persist=persistent, uefiboot=uefi)
        if (
            isinstance(answer, dict) and "error" in answer
        ):  # an unknown device comes back as a dict, not as an exception
            raise pyghmi_exceptions.IpmiException(answer["error"])
        return True

    def reset_bmc(self):
        """Cold reset (IPMI 2.0, 20.2). Many BMCs are gone before they answer; then the call ends without an answer, which the client says."""
        self._raw(6, 2)
        return True

    def get_log(self, most):
        """The newest `most` records of the SEL, oldest first, in hexadecimal (IPMI 2.0, 31.5)."""
        records, following = [], 0
        while following != 0xFFFF and len(records) < 65536:
            data = self._raw(0x0A, 0x43, [0, 0, following & 0xFF, following >> 8, 0, 0xFF])
            records.append(bytes(data[2:18]).hex())
            after = data[0] | data[1] << 8
            if after == following:
                break
            following = after
        return records[-most:]

    def get_log_count(self):
        data = self._raw(0x0A, 0x40)
        return data[1] | data[2] << 8

    def clear_log(self):
        held = self._raw(0x0A, 0x42)
        head = [held[0], held[1], 0x43, 0x4C, 0x52]  # "CLR" (31.9)
        self._raw(0x0A, 0x47, [*head, 0xAA])
        return True

    def get_device(self):
        data = self._raw(6, 1)
        return {
            "firmware": f"{data[2] & 0x7F}.{data[3]:02x}",
            "manufacturer": int.from_bytes(data[6:9], "little"),
            "product": int.from_bytes(data[9:11], "little"),
        }

    def get_guid(self):
        return bytes(self._raw(6, 0x37)).hex()

    def get_fru(self):
        info = pyghmi_command.fru.FRU(ipmicmd=self.command).info or {}
        return {str(key): str(value) for key, value in info.items() if isinstance(value, (str, int))}

    def get_sensors(self):
        """[{name, type, value, units, health, states}] by the sensor data records (IPMI 2.0, 33 and 35.14); a sensor that cannot be read has no value.

        `health` is pyghmi's: 0 well, 1 warning, 2 critical, 4 failed. Its own loop ends at the first sensor that a BMC refuses.
        """
        repository, found = self.command.init_sdr(), []
        for number in repository.get_sensor_numbers():
            sensor = repository.sensors[number]
            row = {"name": sensor.name, "type": sensor.sensor_type, "units": sensor.unit_suffix}
            row.update(value=None, health=None, states=[])
            try:
                answer = self.command.raw_command(
                    netfn=4, command=0x2D, rslun=sensor.sensor_lun, data=(sensor.sensor_number,)
                )
                if "error" not in answer:
                    seen = sensor.decode_sensor_reading(self.command, answer["data"])
                    if not seen.unavailable:
                        row.update(value=seen.value, health=int(seen.health), states=[str(one) for one in seen.states])
            except (pyghmi_exceptions.IpmiException, IndexError, KeyError, ValueError, ArithmeticError):
                pass  # the row without a value says so
            found.append(row)
        return found

    def get_watts(self):
        """The present draw by DCMI 1.5, 6.6.1 (Get Power Reading), None where the BMC has no DCMI."""
        try:
            data = self._raw(0x2C, 0x02, [0xDC, 1, 0, 0])
        except pyghmi_exceptions.IpmiException:
            return None
        return data[1] | data[2] << 8 if len(data) > 2 and data[0] == 0xDC else None

    def _uid(self, username):
        """The user's id on the channel that we came in by (channel 0x0e), read without OEM helpers; for "" the first free one (1 has no name ever)."""
        most = self._raw(6, 0x44, [0x0E, 1])[0] & 0x3F
        for uid in range(1 if username else 2, most + 1):
            try:
                name = bytes(self._raw(6, 0x46, [uid])).split(b"\0")[0].decode("ascii", "replace")
            except pyghmi_exceptions.IpmiException:
                continue
            if name == username:
                return uid
        return None

    def get_user(self, username):
        """{name, uid, privilege, enabled} or None. IPMI 2.0, 22.27: "no access" is how a user is switched off that keeps its name."""
        uid = self._uid(username)
        if uid is None:
            return None
        access = self._raw(6, 0x44, [0x0E, uid])
        privilege = access[3] & 0x0F
        return {
            "name": username,
            "uid": uid,
            "privilege": privilege,
            "enabled": access[1] >> 6 != 2 and privilege != 15,
        }

    def get_free_user(self):
        return self._uid("")

    def set_user(self, uid, name, password, privilege, enabled):
        """Only what is not None. The privilege goes before the switch, so that a user never has more than it shall."""
        if name is not None:
            self._raw(6, 0x45, [uid, *name.encode().ljust(16, b"\0")])
        if password is not None:
            raw = password.encode()
            long = len(raw) > 16
            self._raw(6, 0x47, [uid | (0x80 if long else 0), 2, *raw.ljust(20 if long else 16, b"\0")])
        if privilege is not None:
            self._raw(6, 0x43, [0x80 | 0x20 | 0x10 | 0x0E, uid, privilege, 0])
        if enabled is not None:
            self._raw(6, 0x47, [uid, 1 if enabled else 0])
        return uid

    def clear_user(self, uid):
        """IPMI has no deletion: the user is switched off, may nothing, and loses its name."""
        self._raw(6, 0x47, [uid, 0])
        self._raw(6, 0x43, [0x80 | 0x0E, uid, 15, 0])
        self._raw(6, 0x45, [uid, *bytes(16)])
        return uid


def _serve(endpoint, channel):
    """The child's loop: one JSON line in, one out. Every error travels as words; nothing is printed."""
    worker = _Worker(endpoint)
    with channel.makefile("r") as lines:
        for line in lines:
            request = json.loads(line)
            try:
                reply = {"value": getattr(worker, request["call"])(*request["args"])}
            except IndexError:
                reply = {"error": "the BMC's answer is shorter than IPMI says", "kind": "Short", "code": None}
            except Exception as error:  # the child has no other place to tell it
                reply = {
                    "error": str(error) or type(error).__name__,
                    "kind": type(error).__name__,
                    "code": getattr(error, "ipmicode", None),
                }
            channel.sendall(json.dumps(reply).encode() + b"\n")


# ---- the client ---------------------------------------------------------------------------------------------------------------------------
class IpmiClient:
    """One BMC over IPMI 2.0. Use it in a `with` block. Same words as RedfishClient where IPMI can say them."""

    source = "ipmi"

    def __init__(self, endpoint, deadline=None, before_write=None):
        if IMPORT_ERROR is not None:
            raise Unsupported(
                "a Python library that IPMI needs is missing",
                host=endpoint.label,
                thing="pyghmi",
                seen=IMPORT_ERROR,
                next_step="pip install pyghmi on the machine that runs this task",
            )
        self.endpoint = endpoint
        self.deadline = deadline or Deadline(endpoint.timeout, "the work with the BMC", host=endpoint.label)
        self.before_write = before_write
        self.warnings = []
        self.sent = []
        self._redact = Redactor([endpoint.password])
        self._pid = self._channel = None
        self._pending = b""
        self._logged_in = False

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def hide(self, *secrets):
        self._redact = Redactor([self.endpoint.password, *secrets])

    def login(self):
        """Start the worker and log in; a second try is a new process."""
        if self._pid:
            return
        refusals = guard.check(self.endpoint)
        last = None
        for number in range(LOGIN_TRIES):
            self._start()
            try:
                self._ask("login", (), write=False)
                self._logged_in = True
                if refusals:
                    guard.forget(self.endpoint)
                return
            except (Unreachable, BaremetalError) as error:
                self.close()
                last = error
                if not isinstance(error, Unreachable) or self.deadline.expired() or number == LOGIN_TRIES - 1:
                    raise
        raise last

    def _start(self):
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                die_with_parent(parent)
                ours.close()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                null = os.open(os.devnull, os.O_RDWR)
                for fd in (0, 1, 2):
                    os.dup2(null, fd)
                _serve(self.endpoint, theirs)
                status = 0
            finally:
                os._exit(status)
        theirs.close()
        self._pid, self._channel, self._pending = pid, ours, b""

    def close(self):
        pid, channel, self._pid, self._channel = self._pid, self._channel, None, None
        if channel is not None:
            if self._logged_in:
                self._logged_in = False
                try:
                    channel.sendall(b'{"call": "logout", "args": []}\n')
                    select.select([channel], [], [], 1.0)
                except OSError:
                    pass  # the worker is gone, and its session with it
            channel.close()
        if pid is None:
            return
        # Closing the channel ends an idle worker by itself; one that is stuck in pyghmi needs the hard way.
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.005)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def _check_privilege(self, name):
        """IPMI 2.0, appendix G: what a privilege level cannot do is refused here, before it is sent."""
        needed = NEEDS.get(name, "user")
        if PRIVILEGES[self.endpoint.privilege] < PRIVILEGES[needed]:
            raise InvalidInput(
                "the privilege asked for does not allow this",
                host=self.endpoint.label,
                thing="bmc_ipmi_privilege",
                wanted=needed,
                seen=self.endpoint.privilege,
                next_step=f"set bmc_ipmi_privilege to {needed}, with an account that has it",
            )

    def call(self, name, *args, write=False, limit=CALL_LIMIT):
        self._check_privilege(name)
        self.login()
        if write and self.before_write:
            self.before_write()
        return self._ask(name, args, write, limit)

    def _ask(self, name, args, write, limit=CALL_LIMIT):
        limit = min(limit, max(0.2, self.deadline.remaining()))
        self.sent.append(("write" if write else "read", name, None))
        try:
            self._channel.sendall(json.dumps({"call": name, "args": args}).encode() + b"\n")
            reply = self._read_line(limit)
        except OSError:
            reply = b""
        if reply is None or reply == b"":
            self._logged_in = False  # a worker that is stuck or gone cannot log out
            self.close()
            what = f"no answer within {limit:.0f} s" if reply is None else "the IPMI worker ended"
            if write:
                raise AnswerLost(
                    "the answer to a write was lost, it may have been done",
                    host=self.endpoint.label,
                    thing=f"IPMI {name}",
                    seen=what,
                    next_step="run again: the present state is read first",
                )
            raise self._unreachable(name, what)
        reply = json.loads(reply)
        if "error" not in reply:
            return reply["value"]
        text = self._redact.text(reply["error"])
        if name == "login" and DENIED.search(text):
            guard.refused(self.endpoint)
            raise AuthenticationFailed(
                "the BMC refused the user name, password or privilege",
                host=self.endpoint.label,
                thing=f"account {self.endpoint.username}",
                wanted="a log-in over IPMI with privilege administrator",
                seen=text,
                next_step="check bmc_credential; some BMCs refuse the privilege administrator",
            )
        if name == "login" and "IPMI 1.5" in text:
            raise Unsupported(
                "the BMC speaks only IPMI 1.5, which sends everything in the clear",
                host=self.endpoint.label,
                thing=f"{self.endpoint.address} port {self.endpoint.port}/udp",
                wanted="IPMI 2.0 (RMCP+)",
                seen=text,
                next_step="update the BMC's firmware, or use Redfish",
                code="ipmi_1_5",
            )
        if name == "login" and "cipher suite" in text:
            raise Refused(
                "the BMC offers no safe IPMI cipher suite",
                host=self.endpoint.label,
                thing=f"{self.endpoint.address} port {self.endpoint.port}/udp",
                seen=text,
                next_step="switch on cipher suite 17 or 3 on the BMC (or leave bmc_ipmi_cipher_suite out), or use Redfish",
                code="cipher_suite",
            )
        if text == "timeout" or "no longer connected" in text or name == "login":
            self.close()
            if write:
                raise AnswerLost(
                    "the answer to a write was lost, it may have been done",
                    host=self.endpoint.label,
                    thing=f"IPMI {name}",
                    seen=text,
                    next_step="run again: the present state is read first",
                )
            raise self._unreachable(name, text)
        raise Refused(
            "the BMC refused an IPMI command",
            host=self.endpoint.label,
            thing=f"IPMI {name}",
            wanted="completion code 0",
            seen=text,
            next_step="check that the account's privilege allows it and that the BMC has this command; Redfish can do more",
            code="bmc_refused",
        )

    def _read_line(self, limit):
        end = time.monotonic() + limit
        while b"\n" not in self._pending:
            left = end - time.monotonic()
            if left <= 0:
                return None
            ready, unused, unused2 = select.select([self._channel], [], [], left)
            if not ready:
                return None
            chunk = self._channel.recv(65536)
            if not chunk:
                return b""
            self._pending += chunk
        line, unused, self._pending = self._pending.partition(b"\n")
        return line

    def _unreachable(self, name, seen):
        return Unreachable(
            "the BMC does not answer over IPMI",
            host=self.endpoint.label,
            thing=f"{self.endpoint.address} port {self.endpoint.port}/udp",
            wanted=f"an answer to {name}",
            # pyghmi ends some time-outs with an exception that holds nothing but None.
            seen="no answer" if str(seen) in ("", "None") else seen,
            next_step="check the address, the port (bmc_ipmi_port of the host, else bmc_port; usually 623), the BMC's power, and that IPMI over LAN is on",
        )

    # ---- domain words ---------------------------------------------------------------------------------------------------------------------
    def identity(self):
        device = self.call("get_device")
        return {"vendor": None, "model": f"IPMI manufacturer {device['manufacturer']}", "firmware": device["firmware"]}

    def read_power(self, fresh=True):
        return self.call("get_power")

    def power_said(self):
        return "no power state"

    def restart_marks(self, fresh=True):
        """What changes when the system restarts: IPMI shows only the power."""
        return (self.read_power(),)

    def send_power(self, action):
        return self.call("set_power", POWER_CODES[action], write=True)

    def read_boot(self):
        """{target, enabled, mode, targets}. Only fields that mean something are kept: for "no override" IPMI still says persistent."""
        have = self.call("get_boot")
        target = BOOT_WORDS.get(have.get("bootdev"), str(have.get("bootdev")))
        enabled = "disabled" if target == "none" else ("persistent" if have.get("persistent") else "once")
        mode = None if target == "none" else ("uefi" if have.get("uefimode") else "legacy")
        return {"target": target, "enabled": enabled, "mode": mode, "targets": sorted(BOOT_DEVICES)}

    def send_boot(self, target, persistent, mode):
        if target not in BOOT_DEVICES:
            raise Unsupported(
                "IPMI has no such boot target",
                host=self.endpoint.label,
                thing="target",
                wanted=target,
                seen=", ".join(sorted(BOOT_DEVICES)),
                next_step="use Redfish for this node",
            )
        return self.call("set_boot", BOOT_DEVICES[target], persistent, mode != "legacy", write=True)

    def read_fru(self):
        return self.call("get_fru")

    def read_sensors(self):
        return self.call("get_sensors", limit=SENSORS_LIMIT)

    def read_watts(self):
        return self.call("get_watts")

    def read_guid(self):
        return self.call("get_guid")

    def reset_bmc(self):
        return self.call("reset_bmc", write=True)

    def abandon(self):
        """End without a log-out: the session is gone with the BMC's restart."""
        self._logged_in = False
        self.close()

    def log_count(self):
        return self.call("get_log_count")

    def read_log(self, most):
        """Records of the SEL in hexadecimal; an empty one is not asked for, because BMCs answer that with an error."""
        return self.call("get_log", most) if self.log_count() else []

    def clear_log(self):
        return self.call("clear_log", write=True)

    def read_user(self, username):
        """{name, uid, privilege, enabled}, or None."""
        return self.call("get_user", username)

    def free_user(self):
        uid = self.call("get_free_user")
        if uid is None:
            raise Refused(
                "the BMC has no free IPMI user",
                host=self.endpoint.label,
                thing="users",
                seen="all slots have a name",
                next_step="remove one with bmc_account state: absent",
            )
        return uid

    def write_user(self, uid, name=None, password=None, privilege=None, enabled=None):
        return self.call("set_user", uid, name, password, privilege, enabled, write=True)

    def remove_user(self, uid):
        return self.call("clear_user", uid, write=True)
