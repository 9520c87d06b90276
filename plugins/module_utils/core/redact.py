# Keeps secrets out of everything that is printed, logged or stored.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools
import re

HIDDEN = "********"
# "pass" alone may also count, or list, what passed: only a text below it is a secret.
_WORDS = (
    r"pass(?:word|wd|phrase)s?|secrets?|tokens?|(?:api|access|private|munge|session)[_-]?keys?|x-auth-token|authorization|cookies?"
    r"|(?:community|communities)(?:[_-]?(?:string|name)s?)?"
)
_SECRET_KEY = re.compile(rf"({_WORDS}|pass)$", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?P<head>[a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@", re.IGNORECASE)
_URL_QUERY = re.compile(rf"(?P<head>[?&][\w.-]*(?:{_WORDS}|signature|sig)=)[^&#\s\"'<>]+", re.IGNORECASE)
_NO, _TEXT, _ALL = range(3)
_NO_SECRETS = frozenset((bool, type(None)))


@functools.lru_cache(maxsize=4096)
def _names_a_secret(key):
    """Whether what stands below this key is a secret: _NO, _TEXT (only where it is a text) or _ALL."""
    # The keys of a thousand BMCs' results are the same few.
    found = _SECRET_KEY.search(key)
    return _NO if found is None else _TEXT if found[0].lower() == "pass" else _ALL


class Redactor:
    """Replaces given secret strings, values under secret-looking keys, and passwords and tokens inside URLs.

    Below such a key everything is hidden but truth values, null and what is empty. Strings shorter than four characters are not searched for as secrets:
    hiding every "a" would hide everything.
    """

    def __init__(self, secrets=()):
        self._secrets = sorted({s for s in secrets if isinstance(s, str) and len(s) >= 4}, key=len, reverse=True)

    def text(self, value):
        for secret in self._secrets:
            value = value.replace(secret, HIDDEN)
        if "://" in value:
            value = _URL_PASSWORD.sub(r"\g<head>" + HIDDEN + "@", value)
        return _URL_QUERY.sub(r"\g<head>" + HIDDEN, value) if "?" in value and "=" in value else value

    def _items(self, pairs):
        """{key: value}; every result of every node comes through here, so what needs no look is not looked at."""
        found = {}
        for key, value in pairs:
            kind = value.__class__
            if kind in _NO_SECRETS:
                found[key] = value
                continue
            named = _names_a_secret(key) if value and isinstance(key, str) else _NO
            if named and (named == _ALL or isinstance(value, (str, bytes))):
                found[key] = HIDDEN
            else:
                found[key] = self.text(value) if kind is str else self(value)
        return found

    def __call__(self, value):
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._items(value.items())
        if isinstance(value, (list, tuple)):
            if hasattr(value, "_fields"):  # a named tuple
                return type(value)._make(self._items(zip(value._fields, value)).values())
            return type(value)(self(item) for item in value)
        return value


def redact(value, secrets=()):
    """Return `value` with every secret hidden; dicts, lists and tuples are walked, other types come back as they are."""
    return Redactor(secrets)(value)
