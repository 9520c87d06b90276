# The boot service's settings file: only owner-readable, every key checked, secrets never shown.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import settings

GOOD = {
    "registry": "postgresql+psycopg://u:pw-secret@db/x",
    "session_key": "k" * 40,
    "api_url": "http://10.0.0.1:8000/",
    "image_url": "http://10.0.0.1:8080/images",
    "provision_networks": ["10.0.0.0/24"],
}


def test_load_reads_a_private_file_and_hides_secrets(tmp_path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps(GOOD))
    path.chmod(0o600)
    loaded = settings.load(str(path))
    assert loaded.api_url == "http://10.0.0.1:8000"
    assert "pw-secret" not in repr(loaded) and "kkkk" not in repr(loaded)


def test_a_file_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps(GOOD))
    path.chmod(0o640)
    with pytest.raises(InvalidInput, match="mode 0640"):
        settings.load(str(path))


@pytest.mark.parametrize(
    "change",
    [
        {"session_key": "short"},
        {"registry": ""},
        {"api_url": "ftp://x"},
        {"provision_networks": ["10.0.0.300/24"]},
        {"port": "8000"},
        {"typo": 1},
        {"kernel_arguments": "a\nb"},
    ],
)
def test_bad_values_are_named(change):
    with pytest.raises(InvalidInput) as caught:
        settings.from_dict({**GOOD, **change})
    assert next(iter(change)) in str(caught.value)
