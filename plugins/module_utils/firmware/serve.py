# A small image server for BMCs that only pull: exactly the files that were published, each under a word that nobody can guess, while the update runs.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import http.server
import os
import re
import secrets
import shutil
import socket
import threading

from ..core.errors import InvalidInput

BLOCK = 1 << 18


class ImageServer:
    """Use it in a `with` block. `address`: where the BMCs reach this machine; `port` 0 takes a free one. Starts with the first `publish`."""

    def __init__(self, address, port=0):
        self.address, self.port = address, int(port)
        self._server = self._thread = None
        self._lock = threading.Lock()
        self._files, self._words = {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def publish(self, image):
        """The URL of an images.Local."""
        with self._lock:
            self._start()
            if image.path not in self._words:
                # BMCs look at the end of the name to tell what it is
                name = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.basename(image.path))
                word = f"/{secrets.token_urlsafe(16)}/{name}"
                self._words[image.path], self._files[word] = word, image.path
            host = f"[{self.address}]" if ":" in self.address else self.address
            return f"http://{host}:{self._server.server_port}{self._words[image.path]}"

    def _start(self):
        if self._server is not None:
            return
        try:
            self._server = _Server((self.address, self.port), _Handler)
        except OSError as error:
            raise InvalidInput(
                "the image server cannot use this address",
                thing=f"image_server {self.address} port {self.port}",
                wanted="an address of this machine that the BMCs reach, and a free port",
                seen=error.strerror or error,
                next_step="correct image_server",
            ) from None
        self._server.files = self._files
        self._thread = threading.Thread(target=self._server.serve_forever, name="firmware-images", daemon=True)
        self._thread.start()

    def close(self):
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(5)
            self._server = None


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    files = {}

    def __init__(self, address, handler):
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request, client_address):
        pass  # a BMC that hangs up in the middle is its own business: its task says so


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "images", ""
    timeout = 300

    def do_GET(self):
        self._give(True)

    def do_HEAD(self):
        self._give(False)

    def _give(self, body):
        path = self.server.files.get(self.path.split("?")[0])
        if path is None:
            self.send_error(404)
            return
        try:
            handle = open(path, "rb")  # noqa: SIM115 - closed below, after the headers
        except OSError:
            self.send_error(404)
            return
        with handle:
            size = os.fstat(handle.fileno()).st_size
            # Only "from here to the end" is served as a part, which is what a download that goes on asks for.
            found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
            first = int(found.group(1)) if found and int(found.group(1)) < size else 0
            self.send_response(206 if first else 200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(size - first))
            self.send_header("Accept-Ranges", "bytes")
            if first:
                self.send_header("Content-Range", f"bytes {first}-{size - 1}/{size}")
            self.end_headers()
            if body:
                handle.seek(first)
                shutil.copyfileobj(handle, self.wfile, BLOCK)

    def log_message(self, *unused):
        pass
