# The process that answers IPMI 2.0 for one BMC (pyghmi's server); it asks the simulator over its control socket.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import uuid
from typing import Any

import pyghmi.ipmi.private.session as ipmi_session
from pyghmi.ipmi import bmc
from pyghmi.ipmi.private import constants, serversession

from .control import Control, ControlError
from .fru import fru_data

PR_SET_PDEATHSIG = 1
# IPMI 2.0, tables 5-2 (completion codes) and 13-15 (RMCP+ status codes)
INVALID_COMMAND, OUT_OF_RANGE, REQUEST_TOO_SHORT, INVALID_FIELD, NO_PRIVILEGE, UNSPECIFIED = (
    0xC1,
    0xC9,
    0xC7,
    0xCC,
    0xD4,
    0xFF,
)
RMCP_INVALID_AUTHENTICATION, RAKP_UNAUTHORIZED_NAME = 0x04, 0x0D
AUTHENTICATION_SHA1 = 1
# 28.3, Chassis Control
CHASSIS_CONTROL = {0: "ForceOff", 1: "On", 2: "PowerCycle", 3: "ForceRestart", 4: "Nmi", 5: "GracefulShutdown"}
# 28.13, boot flags, data 2 bits 5:2
BOOT_DEVICES = {0: "None", 1: "Pxe", 2: "Hdd", 5: "Cd", 6: "BiosSetup"}
ROLES = {"Administrator": 4, "Operator": 3, "ReadOnly": 2}
LAN_CHANNEL = 1
# the one sensor data record: the BMC itself (43.9, management controller device locator), entity 7 is the system board
SDR = bytes([0, 0, 0x51, 0x12, 0x0E, 0x20, 0, 0, 0x9F, 0, 0, 0, 7, 1, 0, 0xC3]) + b"BMC"
MAX_USERS = 16


class Session(serversession.ServerSession):
    """pyghmi's server session, with a refusal of what it cannot do, an answer to unknown names, and an end."""

    def create_open_session_response(self, request: bytes) -> bytearray:
        if request[12] != AUTHENTICATION_SHA1:
            # pyghmi agrees to everything and then uses SHA-1; a client that offered SHA-256 has to hear it
            return bytearray([request[0], RMCP_INVALID_AUTHENTICATION, 0, 0]) + request[4:8]
        return super().create_open_session_response(request)

    def _got_rakp1(self, data: bytearray) -> None:
        name = bytes(data[28:]).decode("utf-8", "replace")
        if not data[27] or self.authdata.get(name) is None:
            # pyghmi says nothing, which a client cannot tell from a lost packet
            answer = bytearray([data[0], RAKP_UNAUTHORIZED_NAME, 0, 0]) + self.clientsessionid
            self.send_payload(answer, constants.payload_types["rakp2"], retry=False)
            return
        super()._got_rakp1(data)

    def close_server_session(self) -> None:
        handlers = ipmi_session.Session.bmc_handlers
        handlers.get(self.sockaddr, {}).pop(self.bmc.port, None)
        if not handlers.get(self.sockaddr, True):
            del handlers[self.sockaddr]


class Passwords:
    """What pyghmi takes for a dictionary of passwords: asks each time, so that a changed password counts at once."""

    def __init__(self, control: Control, node: str):
        self.control, self.node = control, node

    def get(self, username: str) -> str | None:
        return self.control.call("ipmi_password", node=self.node, username=username)


class LabBmc(bmc.Bmc):
    def __init__(self, control: Control, node: str, address: str, port: int, system_uuid: uuid.UUID):
        super().__init__(Passwords(control, node), port=port, address=address, bmcuuid=system_uuid)
        self.control, self.node = control, node
        self.fru = b""
        self.additionaldevices = 0b10001011  # chassis, FRU inventory, SDR repository, sensors

    def ask(self) -> dict[str, Any]:
        return self.control.call("ipmi_get", node=self.node)

    def do(self, session: Session, what: str, **arguments: Any) -> Any:
        return self.control.call("ipmi_do", node=self.node, what=what, account=session.username.decode(), **arguments)

    def handle_raw_request(self, request: dict[str, Any], session: Session) -> None:
        """One IPMI command. Writes need the operator privilege, accounts the administrator's."""
        key, data = (request["netfn"], request["command"]), bytes(bytearray(request["data"]))
        handler = COMMANDS.get(key)
        try:
            if handler is None:
                session.send_ipmi_response(code=INVALID_COMMAND)
                return
            function, privilege = handler
            if getattr(session, "clientpriv", 0) < privilege:
                session.send_ipmi_response(code=NO_PRIVILEGE)
                return
            delay = self.ask()["delay"]
            if delay:
                time.sleep(delay)
            answer = function(self, session, data)
            if isinstance(answer, int):
                session.send_ipmi_response(code=answer)
            else:
                session.send_ipmi_response(data=list(answer or b""))
        except IndexError:
            session.send_ipmi_response(code=REQUEST_TOO_SHORT)
        except (OSError, ControlError) as error:
            print(f"{key}: {error}", file=sys.stderr, flush=True)
            session.send_ipmi_response(code=UNSPECIFIED)

    # ---- commands: bytes are the answer's data, a number is a completion code ----------------------

    def device_id(self, session: Session, data: bytes) -> bytes:
        major, minor, *_rest = (*(int(part) for part in self.ask()["version"].split(".")), 0)
        # the minor version is binary coded decimal
        return bytes([0x20, 0x01, major & 0x7F, int(str(minor % 100), 16), 0x02, self.additionaldevices, 0, 0, 0, 0, 0])

    def cold_reset(self, session: Session, data: bytes) -> None:
        self.do(session, "bmc:reset")

    def guid(self, session: Session, data: bytes) -> bytes:
        return uuid.UUID(self.ask()["guid"]).bytes_le

    def chassis_status(self, session: Session, data: bytes) -> bytes:
        return bytes([1 if self.ask()["power"] == "on" else 0, 0, 0x40])

    def chassis_control(self, session: Session, data: bytes) -> int | None:
        kind = CHASSIS_CONTROL.get(data[0] & 0x0F)
        if kind is None:
            return INVALID_FIELD
        # a reset of a machine that is off is refused (28.3: 0xD5, not supported in the present state)
        if kind in ("PowerCycle", "ForceRestart") and self.ask()["power"] == "off":
            return 0xD5
        self.do(session, f"power:{kind}")
        return None

    def get_boot(self, session: Session, data: bytes) -> bytes | int:
        if data[0] & 0x7F != 5:
            return 0x80
        override = self.ask()["override"]
        device = next((code for code, target in BOOT_DEVICES.items() if target == override["target"]), 0)
        if override["enabled"] == "Disabled" or not device:
            return bytes([1, 5, 0, 0, 0, 0, 0])
        flags = (
            0x80 | (0x40 if override["enabled"] == "Continuous" else 0) | (0x20 if override["mode"] == "UEFI" else 0)
        )
        return bytes([1, 5, flags, device << 2, 0, 0, 0])

    def set_boot(self, session: Session, data: bytes) -> int | None:
        parameter = data[0] & 0x7F
        if parameter in (0, 3, 4):
            return None  # set-in-progress, clearing of flags, acknowledgement: nothing to keep
        if parameter != 5:
            return 0x80
        flags, device = data[1], (data[2] >> 2) & 0x0F
        target = BOOT_DEVICES.get(device)
        if target is None:
            return INVALID_FIELD
        if not flags & 0x80 or target == "None":
            values = {"target": "None", "enabled": "Disabled"}
        else:
            values = {
                "target": target,
                "enabled": "Continuous" if flags & 0x40 else "Once",
                "mode": "UEFI" if flags & 0x20 else "Legacy",
            }
        self.do(session, f"boot:{values['target']}", values=values)
        return None

    def fru_info(self, session: Session, data: bytes) -> bytes | int:
        return 0xCB if data[0] else len(self._fru()).to_bytes(2, "little") + b"\0"

    def fru_read(self, session: Session, data: bytes) -> bytes | int:
        if data[0]:
            return 0xCB
        start = int.from_bytes(data[1:3], "little")
        part = self._fru()[start : start + data[3]]
        return bytes([len(part)]) + part if start < len(self._fru()) else OUT_OF_RANGE

    def _fru(self) -> bytes:
        if not self.fru:
            self.fru = fru_data(self.ask()["hardware"])
        return self.fru

    def sdr_info(self, session: Session, data: bytes) -> bytes:
        return bytes([0x51, 1, 0, 0, 0, *bytes(8), 0x02])

    def sdr_reserve(self, session: Session, data: bytes) -> bytes:
        return bytes([1, 0])

    def sdr_read(self, session: Session, data: bytes) -> bytes | int:
        record, start, size = int.from_bytes(data[2:4], "little"), data[4], data[5]
        return 0xCB if record else b"\xff\xff" + SDR[start : start + size]

    def user_access(self, session: Session, data: bytes) -> bytes | int:
        users = self.control.call("ipmi_users", node=self.node)
        uid = data[1] & 0x3F
        if not 1 <= uid <= MAX_USERS:
            return INVALID_FIELD
        user = next((user for user in users if user["uid"] == uid), None)
        enabled = sum(user["enabled"] for user in users)
        access = 0x30 | ROLES[user["role"]] if user and user["enabled"] else 0x0F
        return bytes([MAX_USERS, enabled | 0x40, 0, access])

    def user_name(self, session: Session, data: bytes) -> bytes | int:
        users = self.control.call("ipmi_users", node=self.node)
        uid = data[0] & 0x3F
        if not 1 <= uid <= MAX_USERS:
            return INVALID_FIELD
        name = next((user["name"] for user in users if user["uid"] == uid), "")
        return name.encode()[:16].ljust(16, b"\0")

    def user_password(self, session: Session, data: bytes) -> int | None:
        """22.30, Set User Password: 0 disable, 1 enable, 2 set, 3 test."""
        uid, operation = data[0] & 0x3F, data[1] & 0x03
        password = data[2:].split(b"\0")[0].decode("utf-8", "replace")
        answer = self.do(
            session,
            ("user:disable", "user:enable", "user:password", "user:test")[operation],
            uid=uid,
            password=password,
        )
        return None if answer == 0 else answer

    def channel_info(self, session: Session, data: bytes) -> bytes | int:
        # 22.24: channel 1, 802.3 LAN, IPMB 1.0 protocol, multi-session
        return (
            bytes([LAN_CHANNEL, 0x04, 0x01, 0x80, 0xF2, 0x1B, 0, 0, 0])
            if data[0] & 0x0F in (LAN_CHANNEL, 0x0E)
            else INVALID_FIELD
        )


READ, OPERATE, ADMINISTER = 2, 3, 4
COMMANDS = {
    (0x06, 0x01): (LabBmc.device_id, READ),
    (0x06, 0x02): (LabBmc.cold_reset, ADMINISTER),
    (0x06, 0x37): (LabBmc.guid, READ),
    (0x06, 0x42): (LabBmc.channel_info, READ),
    (0x06, 0x44): (LabBmc.user_access, OPERATE),
    (0x06, 0x46): (LabBmc.user_name, OPERATE),
    (0x06, 0x47): (LabBmc.user_password, ADMINISTER),
    (0x00, 0x01): (LabBmc.chassis_status, READ),
    (0x00, 0x02): (LabBmc.chassis_control, OPERATE),
    (0x00, 0x08): (LabBmc.set_boot, OPERATE),
    (0x00, 0x09): (LabBmc.get_boot, OPERATE),
    (0x0A, 0x10): (LabBmc.fru_info, READ),
    (0x0A, 0x11): (LabBmc.fru_read, READ),
    (0x0A, 0x20): (LabBmc.sdr_info, READ),
    (0x0A, 0x22): (LabBmc.sdr_reserve, READ),
    (0x0A, 0x23): (LabBmc.sdr_read, READ),
}


def main() -> None:
    parent, control_path, node, address, port, system_uuid = sys.argv[1:7]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        return
    serversession.ServerSession = Session
    server = LabBmc(Control(control_path), node, address, int(port), uuid.UUID(system_uuid))
    print("ready", flush=True)
    server.listen()


if __name__ == "__main__":
    main()
