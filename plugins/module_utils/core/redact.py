# Keeps secrets out of everything that is printed, logged or stored.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools
import re

HIDDEN = "********"
_SECRET_KEY = re.compile(
    r"(pass(word|wd|phrase)?|secret|token|private_?key|munge_?key|x-auth-token|authorization|cookie|session_?key)$",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"(?P<head>[a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@", re.IGNORECASE)


@functools.lru_cache(maxsize=4096)
def _names_a_secret(key):
    # The keys of a thousand BMCs' results are the same few.
    return bool(_SECRET_KEY.search(key))


class Redactor:
    """Replaces given secret strings, values under secret-looking keys, and passwords inside URLs.

    Strings shorter than four characters are not searched for as secrets: hiding every "a" would hide everything.
    """

    def __init__(self, secrets=()):
        self._secrets = sorted({s for s in secrets if isinstance(s, str) and len(s) >= 4}, key=len, reverse=True)

    def text(self, value):
        for secret in self._secrets:
            value = value.replace(secret, HIDDEN)
        return _URL_PASSWORD.sub(r"\g<head>" + HIDDEN + "@", value) if "://" in value else value

    def __call__(self, value):
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                key: HIDDEN
                if isinstance(item, (str, bytes)) and item and isinstance(key, str) and _names_a_secret(key)
                else self(item)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return type(value)(self(item) for item in value)
        return value


def redact(value, secrets=()):
    """Return `value` with every secret hidden; dicts, lists and tuples are walked, other types come back as they are."""
    return Redactor(secrets)(value)
