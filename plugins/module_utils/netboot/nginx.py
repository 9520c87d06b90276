# nginx configuration: the image store and the HTTP loader, read-only, for the provisioning networks. Rendering is pure.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import re
import subprocess
import tempfile

from ..core.errors import InvalidInput

_PATH = re.compile(r"/[A-Za-z0-9_./+@-]*")

# One JSON object a request: facts for the boot timeline and the proof of how many bytes went to which node.
LOG_FORMAT = (
    """'{"time":$msec,"address":"$remote_addr","method":"$request_method","path":"$uri","status":$status,' """
    """'"bytes":$body_bytes_sent,"complete":"$request_completion","seconds":$request_time}'"""
)


def _path(value, what):
    if not _PATH.fullmatch(str(value)) or ".." in str(value):
        raise InvalidInput(
            f"{what} cannot stand in the configuration",
            thing="nginx configuration",
            wanted="an absolute path of letters, digits and _./+@-",
            seen=repr(value)[:60],
        )
    return str(value)


def render(
    listen, port, networks, image_dir, loader_dir, state_dir, log_file, error_log, pid_file, workers="auto", user=None
):
    """The configuration text; nginx runs in the foreground under whoever supervises it."""
    address = ipaddress.ip_address(listen)
    shown = f"[{address}]" if address.version == 6 else str(address)
    allowed = "".join(f"      allow {ipaddress.ip_network(network)};\n" for network in networks)
    paths = {
        key: _path(value, key)
        for key, value in (("image_dir", image_dir), ("loader_dir", loader_dir), ("state_dir", state_dir))
    }
    temporary = "".join(
        f"  {name}_temp_path {paths['state_dir']}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        "# Image store of the provisioning network. Written by aicluster.baremetal (role boot_server): changes are overwritten.\n"
        "daemon off;\n" + (f"user {user};\n" if user else "") + f"worker_processes {workers};\n"
        f"pid {_path(pid_file, 'pid_file')};\n"
        f"error_log {_path(error_log, 'error_log')} warn;\n"
        "events {\n  worker_connections 1024;\n}\n"
        "http {\n"
        f"  log_format aicluster escape=json {LOG_FORMAT};\n"
        f"  access_log {_path(log_file, 'log_file')} aicluster;\n"
        f"{temporary}"
        "  server_tokens off;\n"
        "  sendfile on;\n"
        "  tcp_nopush on;\n"
        # Without a bound one fast node holds a worker for the whole image while others wait.
        "  sendfile_max_chunk 2m;\n"
        "  types { }\n"
        "  default_type application/octet-stream;\n"
        "  server {\n"
        f"    listen {shown}:{int(port)};\n"
        # Only the files of a netboot: an image store also holds whole system trees (directory images), which are nobody's to read here.
        "    location ~ ^/images/(?<image>[^/.][^/]*)/(?<file>disk[.]raw|vmlinuz|deploy[.]img|manifest[.]json)$ {\n"
        f"      alias {paths['image_dir'].rstrip('/')}/$image/$file;\n"
        "      limit_except GET { deny all; }\n"
        f"{allowed}"
        "      deny all;\n"
        "    }\n"
        "    location /loader/ {\n"
        f"      alias {paths['loader_dir'].rstrip('/')}/;\n"
        "      limit_except GET { deny all; }\n"
        f"{allowed}"
        "      deny all;\n"
        "    }\n"
        "    location / {\n      return 404;\n    }\n"
        "  }\n"
        "}\n"
    )


def check(text, binary="nginx"):
    """Let nginx itself check a configuration; raises InvalidInput with what it said. Needs the directories that the text names."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        done = subprocess.run(
            [binary, "-t", "-q", "-c", handle.name], capture_output=True, text=True, timeout=20, check=False
        )
    if done.returncode != 0:
        raise InvalidInput(
            "nginx refuses the configuration", thing="nginx configuration", seen=done.stderr.strip()[-300:]
        )
