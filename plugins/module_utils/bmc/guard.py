# Two guards for BMCs: an account is not tried until the BMC locks it, and no BMC gets more than two requests at a time.
#
# BMCs lock an account after three to five wrong passwords, often for everybody. Every Ansible task is a process of its own, so what was refused is
# remembered in files: one for each credential at each BMC, without the credential in it. It is forgotten after a while, and when the log-in works.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import hmac
import os
import stat
import tempfile
import threading
import time

from ..core.errors import AuthenticationFailed
from ..core.units import format_seconds
from .errors import TransportError

# One below the smallest threshold that BMCs are shipped with (3).
MOST_REFUSALS = 2
EXPIRES_S = 300.0
MOST_IN_FLIGHT = 2
ENVIRONMENT = "AICLUSTER_BMC_GUARD"


# ---- refused credentials ------------------------------------------------------------------------------------------------------------------
def directory():
    """Where refusals are remembered: the environment variable AICLUSTER_BMC_GUARD, else a directory of this user's own; "off" switches it off."""
    given = os.environ.get(ENVIRONMENT)
    if given == "off":
        return None
    if given:
        return given
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return os.path.join(base, f"aicluster-bmc-guard-{os.getuid()}")


def _place_of(path):
    """(device, inode) of a directory of ours that nobody else can write to; None where it is not: in a shared /tmp somebody may have made it first."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
        return found.st_dev, found.st_ino
    return None


# Read once for each directory: a fleet asks thousands of times.
_keys = {}


def _key(place, create, identity=None):
    """The random key that makes file names say nothing about passwords; None where there is none yet and `create` is false."""
    known = _keys.get((place, identity))
    if known and not create:  # who writes looks at the disk: the directory may have been made anew meanwhile
        return known
    path = os.path.join(place, "key")
    for _unused in range(2):
        try:
            with open(path, "rb") as handle:
                key = handle.read()
            if len(key) == 32:
                if identity:
                    _keys[place, identity] = key
                return key
        except OSError:
            pass
        if not create:
            return None
        handle, draft = tempfile.mkstemp(dir=place)
        with os.fdopen(handle, "wb") as output:
            output.write(os.urandom(32))
        try:
            os.link(draft, path)  # the first of two processes wins, both then read its key
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)
    return None


def _file(endpoint, create=False):
    place = directory()
    if place is None:
        return None
    try:
        if create:
            os.makedirs(place, mode=0o700, exist_ok=True)
        identity = _place_of(place)
        if identity is None:
            return None
        key = _key(place, create, identity)
    except OSError:
        return None  # no place to remember it: the guard is a help, not a condition
    if key is None:
        return None
    who = "\0".join((endpoint.protocol, endpoint.address, str(endpoint.port), endpoint.username, endpoint.password))
    return os.path.join(place, hmac.new(key, who.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest())


def _refusals(path):
    """(how many, seconds until they are forgotten) of a file."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0.0
    left = found.st_mtime + EXPIRES_S - time.time()
    if not 0 < left <= EXPIRES_S:
        return 0, 0.0
    return found.st_size, left


def refused(endpoint):
    """Note that the BMC refused this credential (one byte of the file for each time)."""
    path = _file(endpoint, create=True) if endpoint.guarded else None
    if not path:
        return
    try:
        if not _refusals(path)[0]:
            forget(endpoint)
        with open(path, "ab") as handle:
            handle.write(b"x")
    except OSError:
        pass


def forget(endpoint):
    """The credential works, or was changed on the BMC just now."""
    path = _file(endpoint)
    if path:
        try:
            os.unlink(path)
        except OSError:
            pass


def check(endpoint):
    """Raise AuthenticationFailed (code `lockout_guard`) where this credential was refused too often just now; nothing is sent then.

    Returns how often it was refused, so that the caller knows whether there is something to forget."""
    path = _file(endpoint) if endpoint.guarded else None
    if path is None:
        return 0
    count, left = _refusals(path)
    if count >= MOST_REFUSALS:
        raise AuthenticationFailed(
            "the BMC refused this user name and password before, so they were not tried again: it would lock the account",
            host=endpoint.label,
            thing=f"account {endpoint.username}",
            wanted=f"at most {MOST_REFUSALS} refused log-ins in {format_seconds(EXPIRES_S)}",
            seen=f"{count} refused; tried again in {format_seconds(left)}",
            next_step="correct bmc_credential or the entry in the secret store (another password is tried at once)",
            code="lockout_guard",
        )
    return count


# ---- requests in flight -------------------------------------------------------------------------------------------------------------------
class InFlight:
    """Counts the requests of this process at each BMC; more than MOST_IN_FLIGHT wait for their turn."""

    def __init__(self, most=MOST_IN_FLIGHT):
        self._most, self._counts, self._changed = most, {}, threading.Condition()

    def one(self, endpoint, limit):
        """A context for one request; entering it raises TransportError where its turn does not come within `limit` seconds."""
        return _Turn(self, (endpoint.address, endpoint.port), limit)

    def take(self, key, limit):
        counts = self._counts
        with self._changed:
            if counts.get(key, 0) >= self._most and not self._changed.wait_for(
                lambda: counts.get(key, 0) < self._most, limit
            ):
                raise TransportError(f"{self._most} other requests of this run kept the BMC busy", False, "busy_here")
            counts[key] = counts.get(key, 0) + 1

    def give_back(self, key):
        with self._changed:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
            self._changed.notify_all()


class _Turn:
    """One request's place among those in flight (a class, because a generator costs three times as much and there are thousands)."""

    __slots__ = ("_all", "_key", "_limit")

    def __init__(self, of_all, key, limit):
        self._all, self._key, self._limit = of_all, key, limit

    def __enter__(self):
        self._all.take(self._key, self._limit)

    def __exit__(self, *_unused):
        self._all.give_back(self._key)


IN_FLIGHT = InFlight()
