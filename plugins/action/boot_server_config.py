# Renders the boot server's configuration and builds the boot service's bundle, in the controller; roles/boot_server puts them in place.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import os
import tempfile

from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import bundle, dnsmasq, nginx
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import user_cache
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    """See the module of the same name for options and results."""

    ARGUMENT_SPEC = {
        "interface": {"type": "str", "required": True},
        "address": {"type": "str", "required": True},
        "network": {"type": "str", "required": True},
        "directory": {"type": "path", "required": True},
        "run_directory": {"type": "path", "required": True},
        "log_directory": {"type": "path", "required": True},
        "image_directory": {"type": "path", "required": True},
        "api_port": {"type": "int", "default": 8000},
        "image_port": {"type": "int", "default": 8080},
        "kernel_arguments": {"type": "str", "default": ""},
        "lease_time": {"type": "str", "default": "10m"},
        "session_ttl": {"type": "int", "default": 7200},
        "user": {"type": "str", "default": "root"},
        "image_user": {"type": "str", "default": "root"},
    }

    def execute(self):
        p = self.params
        api = f"http://{p['address']}:{p['api_port']}"
        files = f"http://{p['address']}:{p['image_port']}"
        dnsmasq_log = f"{p['log_directory']}/dnsmasq.log"
        access_log = f"{p['log_directory']}/image-access.log"
        dnsmasq_pid = f"{p['run_directory']}/dnsmasq.pid"
        return {
            "changed": False,
            "dnsmasq": dnsmasq.render(
                interface=p["interface"],
                address=p["address"],
                network=p["network"],
                tftp_root=f"{p['directory']}/loader",
                reservation_dir=f"{p['directory']}/reservations",
                lease_file=f"{p['directory']}/state/leases",
                pid_file=dnsmasq_pid,
                log_file=dnsmasq_log,
                boot_url=f"{api}/boot.ipxe",
                http_loader_url=f"{files}/loader/snponly.efi",
                user=p["user"],
                lease_time=p["lease_time"],
            ),
            "nginx": nginx.render(
                listen=p["address"],
                port=p["image_port"],
                networks=[p["network"]],
                image_dir=p["image_directory"],
                loader_dir=f"{p['directory']}/loader",
                state_dir=f"{p['directory']}/nginx",
                log_file=access_log,
                error_log=f"{p['log_directory']}/image-error.log",
                pid_file=f"{p['run_directory']}/nginx.pid",
                user=p["image_user"],
            ),
            "settings": {
                "api_url": api,
                "image_url": f"{files}/images",
                "provision_networks": [p["network"]],
                "listen": p["address"],
                "port": p["api_port"],
                "session_ttl_s": p["session_ttl"],
                "kernel_arguments": p["kernel_arguments"],
                "reservation_dir": f"{p['directory']}/reservations",
                "dnsmasq_pid_file": dnsmasq_pid,
                "dnsmasq_log": dnsmasq_log,
                "nginx_log": access_log,
                "state_dir": f"{p['directory']}/state",
                "interface": p["interface"],
            },
            "bundle": self._bundle(),
        }

    @staticmethod
    def _bundle():
        """The path of the built boot service in the user's cache; its name holds its checksum, so an old one is never taken for a new one."""
        data = bundle.build()
        path = user_cache.below(f"boot-service-{hashlib.sha256(data).hexdigest()[:16]}.pyz")
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
            with os.fdopen(handle, "wb") as out:
                out.write(data)
            os.replace(temporary, path)
        return path
