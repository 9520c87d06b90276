# A web server on the out-of-band network that is no BMC (a PDU's or a KVM switch's page): discovery must not take it for one.
# usage: decoy_web.py ADDRESS PORT DIRECTORY     DIRECTORY keeps its certificate
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import http.server
import pathlib
import sys

from bmc_simulator.certificate import make_certificate, server_context

PAGE = b"<!doctype html><title>Rack power strip</title><p>Rack power strip: 8 outlets on, 0 off.</p>\n"


class Page(http.server.BaseHTTPRequestHandler):
    """One page; everything else is 404 in HTML, as such devices answer."""

    server_version = "PowerStrip/1.0"
    timeout = 10

    def setup(self):
        # The handshake belongs into the handler's thread: a client that opens a connection and says nothing must not stop the others.
        self.request.settimeout(self.timeout)
        self.request.do_handshake()
        super().setup()

    def do_GET(self):
        known = self.path == "/"
        body = PAGE if known else b"<!doctype html><title>Not found</title>\n"
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_HEAD = do_GET

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # port scanners hang up in the middle of the handshake: that is no event


def main(address, port, directory):
    pem = pathlib.Path(directory) / "decoy-web.pem"
    pem.touch(mode=0o600)
    pem.write_bytes(make_certificate("power-strip", address))
    server = Server((address, int(port)), Page)
    server.socket = server_context(pem).wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
