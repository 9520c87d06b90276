# A recorded Redfish tree served over HTTPS by the mock-up server of the outside test set, which keeps the writes; what it got is on record, word for word.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The server is looked for in AICLUSTER_MOCKUP_SERVER, else beside the corpus. Four things are added to it, because a BMC does them and a folder of files does
not: a restart can be seen (LastResetTime moves, a power cycle goes over Off), BIOS settings can be written where the recorded settings object is empty, an
image that was sent runs when its task is over, and one that is to be pulled is fetched."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import ssl
import subprocess
import threading
import time
import urllib.request

from recorded_trees import CORPUS

SERVER = pathlib.Path(os.environ.get("AICLUSTER_MOCKUP_SERVER") or CORPUS.parent / "tools" / "serve_mockup.py")
PASSWORD = "corpus-word-1"
OFF_S = 1.2
NEVER_SHOWN = ("ForceRestart", "GracefulRestart")


def mockup():
    """The server's program as a module."""
    spec = importlib.util.spec_from_file_location("serve_mockup", SERVER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def certificate(folder):
    """(certificate, key) files for 127.0.0.1; the certificate is its own authority."""
    cert, key = str(folder / "bmc.pem"), str(folder / "bmc.key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2"]
        + ["-subj", "/CN=bmc.test", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )
    return cert, key


class Served:
    """One tree. `writes`: [(method, path, body)] but for sessions; `body` of an upload is {"parameters", "sha256"}. `flash`: (path of a firmware row,
    version that it shows when the task of the next image is over); `lie(path, resource)` gives what is answered instead; `held`: BIOS settings until a
    restart."""

    def __init__(self, server, service, cert):
        self.server, self.service, self.ca_path = server, service, cert
        self.port = server.server_address[1]
        self.writes, self.flash, self.lie, self.held = [], None, None, {}

    def take(self):
        """The writes since the last call."""
        found, self.writes[:] = list(self.writes), []
        return found

    @property
    def sessions(self):
        return len(self.service.sessions)


@contextlib.contextmanager
def served(module, folder, cert, key):
    """A Served of the tree in `folder`."""
    server, service, _options = module.build(
        [str(folder), "--port", "0", "--user", "admin", "--password", PASSWORD, "--task-seconds", "0.3"]
        + ["--tls", "--cert", cert, "--key", key]
    )
    found = Served(server, service, cert)
    server.RequestHandlerClass = _handler(server.RequestHandlerClass, found)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _handler(base, found):
    service = found.service

    class Handler(base):
        disable_nagle_algorithm = True

        def handle(self):
            # a client that hangs up after a refused certificate is its own business
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                super().handle()

        def body(self):
            raw = super().body()
            path = self.path.split("?")[0].rstrip("/")
            if self.command not in ("GET", "HEAD") and "/SessionService/Sessions" not in path:
                found.writes.append((self.command, path, _words(raw, self.headers.get("Content-Type") or "")))
            return raw

        def send(self, code, body=None, headers=None, raw=None, ctype="application/json"):
            self.status = code
            if found.lie and self.command == "GET" and isinstance(body, dict):
                body = found.lie(self.path, body)
            super().send(code, body, headers, raw, ctype)

        def on_patch(self, uri, split, data, raw):
            now = service.own(uri)
            if now is not None and isinstance(data, dict) and "Attributes" in data:
                if "Attributes" not in now:
                    service.write(uri, {**now, "Attributes": {}})
                found.held.setdefault(uri, {}).update(data["Attributes"])
            super().on_patch(uri, split, data, raw)

        def power(self, owner, now, action, data):
            kind, was = data.get("ResetType"), now.get("PowerState")
            super().power(owner, now, action, data)
            if action != "ComputerSystem.Reset" or kind == "Nmi" or self.status >= 300:
                return
            with service.lock:
                # the server takes the settings and forgets the object that held them; a BMC shows there what runs now
                for place, values in found.held.items():
                    settings = service.own(place)
                    if settings.get("Attributes"):
                        service.write(place, {**settings, "Attributes": {**settings["Attributes"], **values}})
                found.held.clear()
                after = service.own(owner)
                if "LastResetTime" in after and not (_is_openbmc(service, after) and kind in NEVER_SHOWN):
                    after["LastResetTime"] = datetime.datetime.now(datetime.timezone.utc).isoformat()
                if kind in ("PowerCycle", "FullPowerCycle") and was == "On":
                    after["PowerState"] = "Off"
                    service.pending_power[owner] = (time.monotonic() + OFF_S, "On")
                service.write(owner, after)

        def on_post(self, uri, split, data, raw):
            # the standard's name of the action, and the shorter one that AMI and Cray have for it
            super().on_post(
                re.sub("/Actions/SimpleUpdate$", "/Actions/UpdateService.SimpleUpdate", uri), split, data, raw
            )

        def accepted(self, name):
            super().accepted(name)
            if found.flash and "SimpleUpdate" in name:
                image = (found.writes[-1][2] or {}).get("ImageURI")
                with urllib.request.urlopen(image, timeout=10) as answer:
                    found.writes.append(("PULLED", image.rsplit("/", 1)[-1], hashlib.sha256(answer.read()).hexdigest()))
            if found.flash:
                threading.Timer(0.2, _run, (service, *found.flash)).start()
                found.flash = None

    return Handler


def _is_openbmc(service, system):
    """OpenBMC's LastResetTime is the last time that the power went on or off: a warm restart does not move it."""
    managers = (system.get("Links") or {}).get("ManagedBy") or [{}]
    manager = service.load(managers[0].get("@odata.id") or "") or {}
    return "openbmc" in str(manager.get("Model")).lower()


def _run(service, path, version):
    service.write(path, {**service.own(path), "Version": version})


def _words(raw, kind):
    """What a request says: JSON as it is, of a form its JSON parts and the digest of its file, of anything else the digest."""
    if "multipart" in kind:
        mark = re.search(r"boundary=\"?([^\";]+)", kind).group(1).encode()
        out = {}
        for part in raw.split(b"--" + mark)[1:-1]:
            head, _blank, content = part[2:-2].partition(b"\r\n\r\n")
            name = re.search(rb'name="([^"]*)"', head).group(1).decode()
            out[name] = json.loads(content) if b"application/json" in head else hashlib.sha256(content).hexdigest()
        return out
    if not raw:
        return None
    if "json" in kind:
        return json.loads(raw)
    return hashlib.sha256(raw).hexdigest()
