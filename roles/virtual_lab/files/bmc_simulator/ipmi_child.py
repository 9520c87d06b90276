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
from .ipmi_commands import UNSPECIFIED, Commands

PR_SET_PDEATHSIG = 1
# IPMI 2.0, table 13-15 (RMCP+ status codes)
RMCP_INVALID_AUTHENTICATION, RAKP_UNAUTHORIZED_NAME = 0x04, 0x0D
AUTHENTICATION_SHA1 = 1


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


class LabBmc(Commands, bmc.Bmc):
    def __init__(self, control: Control, node: str, address: str, port: int, system_uuid: uuid.UUID):
        super().__init__(Passwords(control, node), port=port, address=address, bmcuuid=system_uuid)
        self.control, self.node = control, node

    def ask(self) -> dict[str, Any]:
        return self.control.call("ipmi_get", node=self.node)

    def do(self, session: Session, what: str, **arguments: Any) -> Any:
        return self.control.call("ipmi_do", node=self.node, what=what, account=session.username.decode(), **arguments)

    def users(self) -> list[dict[str, Any]]:
        return self.control.call("ipmi_users", node=self.node)

    def handle_raw_request(self, request: dict[str, Any], session: Session) -> None:
        data = bytes(bytearray(request["data"]))
        try:
            delay = self.ask()["delay"]
            if delay:
                time.sleep(delay)
            answer = self.run(request["netfn"], request["command"], data, session, getattr(session, "clientpriv", 0))
        except (OSError, ControlError) as error:
            print(f"{request['netfn'], request['command']}: {error}", file=sys.stderr, flush=True)
            answer = UNSPECIFIED
        if isinstance(answer, int):
            session.send_ipmi_response(code=answer)
        else:
            session.send_ipmi_response(data=list(answer))


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
