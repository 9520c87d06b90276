# Secrets never reach output: by key, by value, inside URLs and nested anywhere.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.redact import redact


def test_by_key_value_and_url():
    seen = redact(
        {
            "user": "admin",
            "Password": "hunter22",
            "list": [{"X-Auth-Token": "abc"}, "login with s3cretword"],
            "url": "postgresql+psycopg://u:pw123@db/x",
        },
        secrets=["s3cretword"],
    )
    text = str(seen)
    for secret in ("hunter22", "abc", "s3cretword", "pw123"):
        assert secret not in text
    assert seen["user"] == "admin" and seen["url"].endswith("@db/x")


def test_short_secrets_do_not_hide_everything():
    assert redact("a cat", secrets=["a"]) == "a cat"


def test_error_result_is_redacted():
    result = BaremetalError("cannot open registry", seen="postgresql://u:topsecret@db/x").as_result()
    assert "topsecret" not in str(result)
