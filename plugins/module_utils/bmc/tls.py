# TLS towards BMCs: one shared context per profile, and certificate fingerprints.
#
# Loading the system's CA store is three quarters of the cost of a connection, so a context is made once per profile and process and shared by
# every connection; ansible's parent process makes them before it forks its workers (`warm`).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import re
import socket
import ssl
import threading
import warnings

from ..core.errors import InvalidInput, Unreachable

PROFILES = ("verify", "pinned", "legacy", "insecure")
_contexts = {}
_lock = threading.Lock()


def context_for(profile, ca_path=None, checked=True):
    """The shared SSLContext of a profile.

    verify    certificates must chain to the system's CAs or to `ca_path` and carry the name or address asked for.
    pinned    no chain is checked: the caller compares the certificate's SHA-256 with the pinned one on every connection.
    legacy    like verify (`checked`) or pinned (not `checked`), but TLS 1.0 and old ciphers are allowed; only ever asked for by name.
    insecure  nothing is checked.
    """
    key = (profile, ca_path, bool(checked))
    with _lock:
        if key not in _contexts:
            _contexts[key] = _make(profile, ca_path, checked)
        return _contexts[key]


def _make(profile, ca_path, checked):
    if profile not in PROFILES:
        raise InvalidInput("there is no such TLS profile", thing="bmc_tls", wanted=", ".join(PROFILES), seen=profile)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if profile == "verify" or (profile == "legacy" and checked):
        if ca_path:
            try:
                context.load_verify_locations(**_locations(ca_path))
            except (OSError, ssl.SSLError) as error:
                raise InvalidInput(
                    "the CA file cannot be read",
                    thing=ca_path,
                    seen=error,
                    next_step="give a PEM file or a hashed directory as bmc_ca_path",
                )
        else:
            context.load_default_certs()
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if profile == "legacy":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
    return context


def _locations(ca_path):
    import os

    return {"capath": ca_path} if os.path.isdir(ca_path) else {"cafile": ca_path}


def warm():
    """Make the contexts that nearly every run needs (called once in the parent process)."""
    context_for("verify")
    context_for("pinned")


def normal_fingerprint(text):
    """`AA:BB...` or `sha256:aabb...` -> 64 lower-case hex digits; raises InvalidInput."""
    if not text:
        return None
    plain = re.sub(r"^sha-?256[:=]", "", str(text).strip().lower()).replace(":", "").replace(" ", "")
    if not re.fullmatch(r"[0-9a-f]{64}", plain):
        raise InvalidInput(
            "this is no SHA-256 fingerprint",
            thing="bmc_fingerprint",
            wanted="64 hex digits",
            seen=text,
            next_step="correct it, or leave it out and run the discover stage, which records it",
        )
    return plain


def fingerprint_of(der):
    return hashlib.sha256(der).hexdigest()


def fetch_fingerprint(address, port, timeout=5.0):
    """SHA-256 of the certificate that `address` shows now. Nothing is sent but the handshake; no credentials, no trust."""
    last = None
    for profile in ("insecure", "legacy"):
        context = context_for(profile, checked=False)
        try:
            with socket.create_connection((address, port), timeout=timeout) as raw:
                with context.wrap_socket(raw, server_hostname=address) as wrapped:
                    return fingerprint_of(wrapped.getpeercert(binary_form=True))
        except ssl.SSLError as error:
            last = error
        except OSError as error:
            raise Unreachable(
                "no TLS connection",
                host=address,
                thing=f"port {port}",
                seen=error,
                next_step="check that the BMC is powered and reachable",
            )
    raise Unreachable(
        "the TLS handshake failed",
        host=address,
        thing=f"port {port}",
        seen=last,
        next_step="check that a BMC listens there; one that knows only SSL 3 needs new firmware",
        code="tls_handshake",
    )
