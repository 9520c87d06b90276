# Fingerprints and the shared contexts.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ssl

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import tls
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors


def test_one_context_for_a_profile():
    assert tls.context_for("pinned") is tls.context_for("pinned")
    assert tls.context_for("pinned") is not tls.context_for("verify")


def test_what_a_profile_checks():
    verify, pinned = tls.context_for("verify"), tls.context_for("pinned")
    assert verify.verify_mode == ssl.CERT_REQUIRED and verify.check_hostname
    assert pinned.verify_mode == ssl.CERT_NONE
    assert tls.context_for("legacy").verify_mode == ssl.CERT_REQUIRED
    assert tls.context_for("legacy", checked=False).minimum_version == ssl.TLSVersion.TLSv1
    assert verify.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("text", ["AB:" * 31 + "AB", "sha256:" + "ab" * 32, "ab" * 32, " " + "AB" * 32])
def test_forms_of_a_fingerprint(text):
    assert tls.normal_fingerprint(text) == "ab" * 32


@pytest.mark.parametrize("text", ["ab", "zz" * 32, "ab" * 20])
def test_what_is_no_fingerprint(text):
    with pytest.raises(errors.InvalidInput):
        tls.normal_fingerprint(text)


def test_unknown_profile_and_missing_ca():
    with pytest.raises(errors.InvalidInput):
        tls.context_for("none")
    with pytest.raises(errors.InvalidInput):
        tls.context_for("verify", "/does/not/exist.pem")


def test_the_fingerprint_of_a_server(bmc):
    there = bmc["gpu01"]
    assert tls.fetch_fingerprint(there.address, there.port) == there.fingerprint.replace(":", "").lower()
    with pytest.raises(errors.Unreachable):
        tls.fetch_fingerprint("127.0.0.1", 9, 1)
