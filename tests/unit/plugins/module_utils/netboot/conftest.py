# A real registry on SQLite with two nodes, one of them being deployed, and the boot service's settings for it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import seed, settings, spec
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry

MAC, ADDRESS = "52:54:00:77:00:01", "10.77.1.11"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NA test"
MANIFEST = {
    "name": "deb",
    "sha256": "a" * 64,
    "size_bytes": 1 << 20,
    "root_uuid": "0b5a63b1-3c2a-4a3e-8d4d-2d2a1f0c9f11",
}


class Lab:
    """The registry with gpu01 (deploying) and gpu02 (available), and shortcuts."""

    def __init__(self, registry):
        self.registry = registry
        for number in (1, 2):
            serial = f"S-{number}"
            registry.save_node(
                serial,
                "test",
                name=f"gpu0{number}",
                provision_mac=f"52:54:00:77:00:0{number}",
                provision_ip=f"10.77.1.1{number}",
                provision_prefix=24,
            )
            state = registry.node(serial)["state"]
            for new in ("verifying", "manageable", "available"):
                registry.transition(serial, state, new, "test")
                state = new
        self.begin = registry.begin("gpu01", "deploy", actor="test")
        assert self.begin.selected, self.begin

    def spec(self):
        files = seed.render("gpu01", f"S-1-{self.begin.attempt}", [KEY], [])
        image = spec.image_from_manifest(MANIFEST, "deb")
        return spec.build("gpu01", "S-1", self.begin.attempt, image, spec.disk_rule(), files)

    def grant(self, ttl_s=60, mac=MAC):
        return self.registry.issue_grant(
            "gpu01", self.begin.attempt, self.begin.fencing, mac, ttl_s, self.spec(), "test"
        )

    def steps(self, node="gpu01"):
        return [event["step"] for event in self.registry.boot_events(node)]

    def audit_codes(self):
        return [row["action"] for row in self.registry.audit_rows()]


@pytest.fixture
def lab(tmp_path):
    with open_registry(f"sqlite:///{tmp_path}/registry.db", migrate=True) as registry:
        yield Lab(registry)


@pytest.fixture
def boot_settings(tmp_path):
    (tmp_path / "hosts").mkdir()
    (tmp_path / "state").mkdir()
    return settings.from_dict(
        {
            "registry": f"sqlite:///{tmp_path}/registry.db",
            "session_key": "k" * 40,
            "api_url": "http://10.77.1.1:8000",
            "image_url": "http://10.77.1.1:8080/images",
            "provision_networks": ["10.77.1.0/24"],
            "reservation_dir": str(tmp_path / "hosts"),
            "dnsmasq_pid_file": str(tmp_path / "dnsmasq.pid"),
            "dnsmasq_log": str(tmp_path / "dnsmasq.log"),
            "nginx_log": str(tmp_path / "access.log"),
            "state_dir": str(tmp_path / "state"),
        }
    )
