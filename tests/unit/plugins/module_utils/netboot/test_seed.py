# The cloud-init seed: identity, keys, static addresses by MAC; same input, same archive; bad input refused by name.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import io
import json
import tarfile

import pytest
import yaml

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import seed

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NA someone@somewhere"


def interfaces():
    return [
        seed.interface("prov0", "52-54-00-77-00-01", "10.77.1.11/24", gateway="10.77.1.1", nameservers=["10.77.1.1"]),
        seed.interface("rail0", "52:54:00:77:01:01", "10.77.2.11/24", mtu=9000),
        seed.interface("rail1", "52:54:00:77:02:01"),
    ]


def test_files_are_valid_yaml_with_the_node_in_them():
    files = seed.render("gpu01", "LAB-1-7", [KEY], interfaces(), {"timezone": "UTC"})
    meta, user, network = (yaml.safe_load(files[name]) for name in ("meta-data", "user-data", "network-config"))
    assert meta == {"instance-id": "LAB-1-7", "local-hostname": "gpu01", "dsmode": "local"}
    assert files["user-data"].startswith("#cloud-config\n")
    assert (
        user["users"][0]["ssh_authorized_keys"] == [KEY]
        and user["ssh_deletekeys"] is False
        and user["timezone"] == "UTC"
    )
    prov = network["ethernets"]["prov0"]
    assert prov["match"]["macaddress"] == "52:54:00:77:00:01" and prov["addresses"] == ["10.77.1.11/24"]
    assert prov["routes"] == [{"to": "0.0.0.0/0", "via": "10.77.1.1"}]
    assert network["ethernets"]["rail0"]["mtu"] == 9000 and "addresses" not in network["ethernets"]["rail1"]


def test_archive_is_reproducible_and_complete():
    files = seed.render("gpu01", "LAB-1-7", [KEY], interfaces())
    data = seed.archive(files)
    assert data == seed.archive(json.loads(json.dumps(files)))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert {m.name: tar.extractfile(m).read().decode() for m in tar} == files


@pytest.mark.parametrize(
    "call",
    [
        lambda: seed.render("bad_name!", "i", [KEY], []),
        lambda: seed.render("gpu01", "i", [], []),
        lambda: seed.render("gpu01", "i", ["-----BEGIN OPENSSH PRIVATE KEY-----"], []),
        lambda: seed.render("gpu01", "i", [KEY + "\nssh-rsa AAAA"], []),
        lambda: seed.render("gpu01", "i", [KEY], [], {"ssh_deletekeys": True}),
        lambda: seed.interface("prov0", "52:54:00:77:00:01", "10.77.1.11"),
        lambda: seed.interface("prov0", "nonsense", "10.77.1.11/24"),
        lambda: seed.render("gpu01", "i", [KEY], [interfaces()[0], interfaces()[0]]),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(InvalidInput):
        call()
