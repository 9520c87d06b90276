# The IPMI commands that a simulated BMC answers, apart from how they came: bytes in, bytes or a completion code out.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any

from .fru import fru_data
from .journal import differences

if TYPE_CHECKING:
    from .node import Node

# IPMI 2.0, tables 5-2 (completion codes) and 13-15 (RMCP+ status codes)
INVALID_COMMAND, OUT_OF_RANGE, REQUEST_TOO_SHORT, INVALID_FIELD, NO_PRIVILEGE, UNSPECIFIED = (
    0xC1,
    0xC9,
    0xC7,
    0xCC,
    0xD4,
    0xFF,
)
# 28.3, Chassis Control
CHASSIS_CONTROL = {0: "ForceOff", 1: "On", 2: "PowerCycle", 3: "ForceRestart", 4: "Nmi", 5: "GracefulShutdown"}
# 28.13, boot flags, data 2 bits 5:2
BOOT_DEVICES = {0: "None", 1: "Pxe", 2: "Hdd", 5: "Cd", 6: "BiosSetup"}
ROLES = {"Administrator": 4, "Operator": 3, "ReadOnly": 2}
NO_ACCESS = 15
LAN_CHANNEL = 1
# the one sensor data record: the BMC itself (43.9, management controller device locator), entity 7 is the system board
SDR = bytes([0, 0, 0x51, 0x12, 0x0E, 0x20, 0, 0, 0x9F, 0, 0, 0, 7, 1, 0, 0xC3]) + b"BMC"
MAX_USERS = 16


# ---- what the commands need of a node ----------------------------------------------------------


def password(node: Node, username: str) -> str | None:
    """The password of an account that may log in by IPMI."""
    account = node.account_named(username) if username else None
    usable = account is not None and account.enabled and not account.locked and not account.change_required
    return account.password if usable else None


def observe(node: Node) -> dict[str, Any]:
    node.stats["ipmi"] += 1
    return {
        "power": "on" if node.driver.running else "off",
        "override": dict(node.override),
        "guid": node.config["uuid"],
        "version": node.firmware.get("BMC", "1.0.0"),
        "delay": node.behaviour.delay_s,
        "hardware": {"serial": node.config["serial"]},
    }


def users(node: Node) -> list[dict[str, Any]]:
    """User ids of IPMI: 1 is the one without a name, so account n is user n + 1."""
    return [
        {"uid": int(account.id) + 1, "name": account.username, "role": account.role, "enabled": account.enabled}
        for account in node.accounts.values()
    ]


def _account(node: Node, identity: str) -> dict[str, Any]:
    """An account as the write log compares it, in Redfish's words."""
    account = node.accounts.get(identity)
    return {"UserName": account.username, "RoleId": account.role, "Enabled": account.enabled} if account else {}


def carry_out(node: Node, message: dict[str, Any]) -> int:
    """A write that came by IPMI: journalled like the ones that came by Redfish. Returns an IPMI completion code."""
    from . import resources  # not at the top: pyghmi's process needs only the commands

    what, _colon, detail = message["what"].partition(":")
    code, changes = 0, []
    if what == "power":
        node.request_reset(detail)
    elif what == "boot":
        before = resources.boot_body(node)
        node.set_override(**message["values"])
        changes = differences({"Boot": before}, {"Boot": resources.boot_body(node)})
    elif what == "bmc":
        node.restart_bmc()
    elif what == "user":
        identity = str(message["uid"] - 1)
        before = _account(node, identity)
        code = node.ipmi_user(detail, identity, message.get("value", ""))
        changes = differences(before, _account(node, identity))
    if message["what"] != "user:test":
        entry = {"body": message["values"]} if "values" in message else {}
        if changes:
            entry["changes"] = changes
        node.requests.append(
            method="IPMI", path=message["what"], account=message.get("account"), status=code, via="ipmi", **entry
        )
        node.stats["writes"] += 1
    return code


class Commands:
    """The commands; a subclass says how the node is reached."""

    ADDITIONAL_DEVICES = 0b10001011  # chassis, FRU inventory, SDR repository, sensors
    fru = b""

    def ask(self) -> dict[str, Any]:
        raise NotImplementedError

    def do(self, session: Any, what: str, **arguments: Any) -> Any:
        raise NotImplementedError

    def users(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def run(self, netfn: int, command: int, data: bytes, session: Any, privilege: int) -> bytes | int:
        """The answer's data, or a completion code. Writes need the operator privilege, accounts the administrator's."""
        handler = COMMANDS.get((netfn, command))
        if handler is None:
            return INVALID_COMMAND
        function, needed = handler
        if privilege < needed:
            return NO_PRIVILEGE
        try:
            answer = function(self, session, data)
        except IndexError:
            return REQUEST_TOO_SHORT
        return b"" if answer is None else answer

    # ---- commands: bytes are the answer's data, a number is a completion code ----------------------

    def device_id(self, session: Any, data: bytes) -> bytes:
        numbers = [int(part) for part in re.findall(r"\d+", self.ask()["version"])]
        major, minor, *_rest = (*numbers, 0, 0)
        # the minor version is binary coded decimal
        return bytes(
            [0x20, 0x01, major & 0x7F, int(str(minor % 100), 16), 0x02, self.ADDITIONAL_DEVICES, 0, 0, 0, 0, 0]
        )

    def cold_reset(self, session: Any, data: bytes) -> None:
        self.do(session, "bmc:reset")

    def guid(self, session: Any, data: bytes) -> bytes:
        return uuid.UUID(self.ask()["guid"]).bytes_le

    def chassis_status(self, session: Any, data: bytes) -> bytes:
        return bytes([1 if self.ask()["power"] == "on" else 0, 0, 0x40])

    def chassis_control(self, session: Any, data: bytes) -> int | None:
        kind = CHASSIS_CONTROL.get(data[0] & 0x0F)
        if kind is None:
            return INVALID_FIELD
        # a reset of a machine that is off is refused (28.3: 0xD5, not supported in the present state)
        if kind in ("PowerCycle", "ForceRestart") and self.ask()["power"] == "off":
            return 0xD5
        self.do(session, f"power:{kind}")
        return None

    def get_boot(self, session: Any, data: bytes) -> bytes | int:
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

    def set_boot(self, session: Any, data: bytes) -> int | None:
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

    def fru_info(self, session: Any, data: bytes) -> bytes | int:
        return 0xCB if data[0] else len(self._fru()).to_bytes(2, "little") + b"\0"

    def fru_read(self, session: Any, data: bytes) -> bytes | int:
        if data[0]:
            return 0xCB
        start = int.from_bytes(data[1:3], "little")
        part = self._fru()[start : start + data[3]]
        return bytes([len(part)]) + part if start < len(self._fru()) else OUT_OF_RANGE

    def _fru(self) -> bytes:
        if not self.fru:
            self.fru = fru_data(self.ask()["hardware"])
        return self.fru

    def sdr_info(self, session: Any, data: bytes) -> bytes:
        return bytes([0x51, 1, 0, 0, 0, *bytes(8), 0x02])

    def sdr_reserve(self, session: Any, data: bytes) -> bytes:
        return bytes([1, 0])

    def sdr_read(self, session: Any, data: bytes) -> bytes | int:
        record, start, size = int.from_bytes(data[2:4], "little"), data[4], data[5]
        return 0xCB if record else b"\xff\xff" + SDR[start : start + size]

    def user_access(self, session: Any, data: bytes) -> bytes | int:
        users = self.users()
        uid = data[1] & 0x3F
        if not 1 <= uid <= MAX_USERS:
            return INVALID_FIELD
        user = next((user for user in users if user["uid"] == uid), None)
        enabled = sum(user["enabled"] for user in users)
        # a role that IPMI has not (Redfish can make it) is shown as no access
        access = 0x30 | ROLES.get(user["role"], NO_ACCESS) if user and user["name"] else NO_ACCESS
        return bytes([MAX_USERS, enabled | (0x40 if user and user["enabled"] else 0x80), 0, access])

    def set_user_access(self, session: Any, data: bytes) -> int | None:
        """22.26, Set User Access. What it says of callback and link authentication means nothing on a LAN of RMCP+."""
        channel, uid, limit = data[0] & 0x0F, data[1] & 0x3F, data[2] & 0x0F
        role = next((name for name, level in ROLES.items() if level == limit), None)
        if channel not in (LAN_CHANNEL, 0x0E) or not 2 <= uid <= MAX_USERS or (role is None and limit != NO_ACCESS):
            return INVALID_FIELD
        return self.do(session, "user:role" if role else "user:disable", uid=uid, value=role or "") or None

    def set_user_name(self, session: Any, data: bytes) -> int | None:
        """22.28, Set User Name: a name makes the account of a free slot, an empty one removes it. User 1 has none ever."""
        uid = data[0] & 0x3F
        if len(data) < 17:
            return REQUEST_TOO_SHORT
        if not 2 <= uid <= MAX_USERS:
            return INVALID_FIELD
        name = data[1:17].split(b"\0")[0].decode("latin-1")
        return self.do(session, "user:name", uid=uid, value=name) or None

    def user_name(self, session: Any, data: bytes) -> bytes | int:
        users = self.users()
        uid = data[0] & 0x3F
        if not 1 <= uid <= MAX_USERS:
            return INVALID_FIELD
        name = next((user["name"] for user in users if user["uid"] == uid), "")
        return name.encode()[:16].ljust(16, b"\0")

    def user_password(self, session: Any, data: bytes) -> int | None:
        """22.30, Set User Password: 0 disable, 1 enable, 2 set, 3 test."""
        uid, operation = data[0] & 0x3F, data[1] & 0x03
        password = data[2:].split(b"\0")[0].decode("utf-8", "replace")
        answer = self.do(
            session,
            ("user:disable", "user:enable", "user:password", "user:test")[operation],
            uid=uid,
            value=password,
        )
        return None if answer == 0 else answer

    def channel_info(self, session: Any, data: bytes) -> bytes | int:
        # 22.24: channel 1, 802.3 LAN, IPMB 1.0 protocol, multi-session
        return (
            bytes([LAN_CHANNEL, 0x04, 0x01, 0x80, 0xF2, 0x1B, 0, 0, 0])
            if data[0] & 0x0F in (LAN_CHANNEL, 0x0E)
            else INVALID_FIELD
        )


READ, OPERATE, ADMINISTER = 2, 3, 4
COMMANDS = {
    (0x06, 0x01): (Commands.device_id, READ),
    (0x06, 0x02): (Commands.cold_reset, ADMINISTER),
    (0x06, 0x37): (Commands.guid, READ),
    (0x06, 0x42): (Commands.channel_info, READ),
    (0x06, 0x43): (Commands.set_user_access, ADMINISTER),
    (0x06, 0x44): (Commands.user_access, OPERATE),
    (0x06, 0x45): (Commands.set_user_name, ADMINISTER),
    (0x06, 0x46): (Commands.user_name, OPERATE),
    (0x06, 0x47): (Commands.user_password, ADMINISTER),
    (0x00, 0x01): (Commands.chassis_status, READ),
    (0x00, 0x02): (Commands.chassis_control, OPERATE),
    (0x00, 0x08): (Commands.set_boot, OPERATE),
    (0x00, 0x09): (Commands.get_boot, OPERATE),
    (0x0A, 0x10): (Commands.fru_info, READ),
    (0x0A, 0x11): (Commands.fru_read, READ),
    (0x0A, 0x20): (Commands.sdr_info, READ),
    (0x0A, 0x22): (Commands.sdr_reserve, READ),
    (0x0A, 0x23): (Commands.sdr_read, READ),
}
