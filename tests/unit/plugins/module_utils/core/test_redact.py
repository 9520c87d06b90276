# Secrets never reach output: by key, by value, inside URLs and nested anywhere.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import collections

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.redact import HIDDEN, redact


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


@pytest.mark.parametrize(
    "key",
    ["password", "Passwords", "bmc_password", "passphrase", "api_key", "apiKey", "access-key", "private_key", "secrets", "tokens",
     "X-Auth-Token", "community", "CommunityString", "snmp_community", "community_names", "cookies", "pass"],
)  # fmt: skip
def test_keys_that_name_a_secret(key):
    assert redact({key: "hunter22"}) == {key: HIDDEN}


@pytest.mark.parametrize(
    "value", [12345678, 1.5, b"hunter22", ["hunter22"], {"a": "hunter22"}, ("hunter22",), {"hunter22"}]
)
def test_what_is_no_text_below_such_a_key(value):
    assert redact({"list": [{"password": value}]}) == {"list": [{"password": HIDDEN}]}


def test_what_is_no_secret_stays():
    kept = {
        "password": None, "token": "", "secret": False, "Passwords": [], "unlock_password": True,
        "pass": 12, "bypass": ["gpu01"], "community.general": "8.0.0", "MaxPasswordLength": 20, "keys": ["a"], "tokenize": "x",
    }  # fmt: skip
    assert redact(kept) == kept
    assert redact({"tests": {"pass": ["gpu01", "login s3cretword"]}}, ["s3cretword"]) == {
        "tests": {"pass": ["gpu01", f"login {HIDDEN}"]}
    }


@pytest.mark.parametrize(
    "name", ["token", "access_token", "X-Auth-Token", "api_key", "password", "sig", "X-Amz-Signature"]
)
def test_secrets_in_the_query_of_a_url(name):
    for text in (f"GET https://h/p?{name}=abc%20d failed", f"/p?a=1&{name}=abc%20d&b=2", f'"http://h/?{name}=abc%20d"'):
        shown = redact(text)
        assert "abc" not in shown and "%20d" not in shown and f"{name}={HIDDEN}" in shown
    assert redact(f"/p?a=1&{name}=abc&b=2") == f"/p?a=1&{name}={HIDDEN}&b=2"


def test_a_url_without_secrets_stays():
    text = "https://h/redfish/v1/Systems?$expand=.($levels=1)&$skip=20&tokens_left=3"
    assert redact(text) == text


def test_named_tuples():
    Login = collections.namedtuple("Login", "user password port")
    seen = redact([Login("admin", "hunter22", 443), ("a", "hunter22")], ["hunter22"])
    assert seen == [Login("admin", HIDDEN, 443), ("a", HIDDEN)] and isinstance(seen[0], Login)
