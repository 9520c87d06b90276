# The key that one boot of the deploy ramdisk talks with: signed, so that it survives a restart of the service and cannot be guessed.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib

from ..core.errors import Refused

try:
    import itsdangerous
except ImportError:  # reported when it is used: ansible-test imports this file without third-party packages
    itsdangerous = None

_SALT = "aicluster.boot-session.1"


def _serializer(key):
    if itsdangerous is None:
        raise ImportError("itsdangerous is missing: pip install Flask")
    return itsdangerous.URLSafeTimedSerializer(key, salt=_SALT, signer_kwargs={"digest_method": hashlib.sha256})


def issue(key, grant_id, mac, address):
    """A session for the boot that just consumed `grant_id`, bound to the MAC and to the address that asked."""
    return _serializer(key).dumps([grant_id, mac, address])


def read(key, text, max_age_s, address):
    """The (grant id, MAC) of a session; raises Refused with code session_missing, session_forged, session_expired or session_foreign."""
    if not text:
        raise Refused(
            "the request has no session", thing="boot session", wanted="header X-Boot-Session", code="session_missing"
        )
    try:
        grant_id, mac, bound = _serializer(key).loads(text, max_age=max_age_s)
    except itsdangerous.SignatureExpired:
        raise Refused(
            "the session is too old", thing="boot session", wanted=f"at most {max_age_s} s old", code="session_expired"
        )
    except (itsdangerous.BadData, ValueError, TypeError):
        raise Refused("the session was not issued by this service", thing="boot session", code="session_forged")
    if bound != address:
        raise Refused(
            "the session belongs to another address",
            thing="boot session",
            wanted=bound,
            seen=address,
            code="session_foreign",
        )
    return grant_id, mac
