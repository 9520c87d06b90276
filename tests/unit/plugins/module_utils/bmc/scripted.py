# A BMC of a few lines for one test: an HTTP server on loopback whose answers the test writes down.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import http.server
import json
import threading

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint


class Script:
    """`answers`: {"GET /path": answer or [answers, the last one stays]}; an answer is a body, or (status, body), or (status, body, headers), or a
    function of (request body) that gives one. What came is in `seen` as (method, path, body)."""

    def __init__(self, answers):
        self.answers = {key: list(value) if isinstance(value, list) else value for key, value in answers.items()}
        self.seen, self.headers = [], []

    def answer(self, method, path, body):
        self.seen.append((method, path, body))
        found = self.answers.get(f"{method} {path}", (404, {}))
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if callable(found):
            found = found(body)
        if not isinstance(found, tuple):
            found = (200, found)
        return (*found, {})[:3]

    def count(self, method, path=None):
        return sum(one == method and path in (None, where) for one, where, unused in self.seen)


@contextlib.contextmanager
def serving(answers, **more):
    """(script, endpoint) of a BMC with these answers; without a /redfish/v1 of its own it gets an empty one."""
    script = Script({"GET /redfish/v1/": {"Systems": {"@odata.id": "/redfish/v1/Systems"}}, **answers})

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self):
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                body = json.loads(raw) if raw else None
            except ValueError:
                body = raw
            script.headers.append(dict(self.headers))
            status, content, headers = script.answer(self.command, self.path, body)
            if status == "cut":
                self.connection.close()
                self.close_connection = True
                return
            payload = (
                content.encode()
                if isinstance(content, str)
                else b""
                if content is None
                else json.dumps(content).encode()
            )
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _any

        def log_message(self, *unused):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    where = Endpoint(
        "127.0.0.1",
        server.server_address[1],
        **{
            "username": "admin",
            "password": "word-12345",
            "scheme": "http",
            "tls": "insecure",
            "name": "gpu01",
            "timeout": 20.0,
            **more,
        },
    )
    try:
        yield script, where
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def reached(served):
    """(script, client): what `serving` gives, and a client that has logged in there."""
    with served as (script, where):
        with connect(where) as client:
            yield script, client
