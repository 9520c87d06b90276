# A few lines of HTTP for the simulator's tests: JSON in, JSON out, no verification of the self-signed certificate.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import warnings

# Second number of the loopback addresses that a test process gives to its fleets: test processes side by side must not meet.
WORKER = 21 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
S = "/redfish/v1/Systems/1"
RESET = f"{S}/Actions/ComputerSystem.Reset"
CONTEXT = ssl.create_default_context()
CONTEXT.check_hostname = False
CONTEXT.verify_mode = ssl.CERT_NONE
# profile x10 speaks nothing newer than TLS 1.1
CONTEXT.set_ciphers("DEFAULT:@SECLEVEL=0")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    CONTEXT.minimum_version = ssl.TLSVersion.TLSv1


class Answer:
    def __init__(self, response, raw):
        self.status, self.headers, self.raw = response.status, response.headers, raw
        self.json = json.loads(raw) if raw and "json" in response.headers.get("Content-Type", "") else None

    @property
    def message_ids(self):
        return [entry["MessageId"].split(".")[-1] for entry in self.json["error"]["@Message.ExtendedInfo"]]


def ask(bmc, method, path, body=None, headers=None, auth=True, password=None, username=None, timeout=10):
    """One request on a connection of its own. `body` is JSON, or bytes as they are."""
    connection = http.client.HTTPSConnection(bmc.address, bmc.port, timeout=timeout, context=CONTEXT)
    sent = dict(headers or {})
    if auth and "X-Auth-Token" not in sent:
        blob = f"{username or bmc.username}:{password or bmc.password}".encode()
        sent["Authorization"] = "Basic " + base64.b64encode(blob).decode()
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        sent.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, path, body=body, headers=sent)
        response = connection.getresponse()
        return Answer(response, response.read())
    finally:
        connection.close()
