# Image files on the controller: found, fetched, and held to their checksum before a byte of them is sent. Constant memory, whatever their size.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import os
import ssl
import tempfile
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass

from ..core.errors import InvalidInput, NotFound, Refused, Unreachable

BLOCK = 1 << 20


@dataclass(frozen=True)
class Local:
    """A file that was held to its checksum. `url`: where a BMC that pulls can get it, None where only we have it."""

    path: str
    size: int
    sha256: str
    url: str = None

    @property
    def name(self):
        return os.path.basename(self.path)


class Store:
    """Gives images as Local. `cache`: directory for images that the baseline names by address; without one they are only pulled by BMCs."""

    def __init__(self, cache=None, ca_path=None):
        self.cache, self._ca_path = cache, ca_path
        self._seen = {}  # (path, size, mtime) -> sha256: 200 MB are not read again for every node
        self._reading = threading.Lock()  # nor by all the nodes of a rollout at the same time

    def get(self, image, fetch=True):
        """The Local for an image dict {path, url, sha256, size_bytes}; with fetch=False an image with an address stays there (path None)."""
        if image.get("path"):
            return self._checked(image["path"], image)
        if not fetch:
            return Local(None, image.get("size_bytes") or 0, image["sha256"], image["url"])
        if not self.cache:
            raise InvalidInput(
                "the image is only known by its address, and there is no directory to fetch it into",
                thing=f"image {image['url']}",
                wanted="a cache directory",
                next_step="give image_cache, or put the file beside the baseline and name it by path",
            )
        path = os.path.join(self.cache, image["sha256"][:16] + "-" + os.path.basename(image["url"].split("?")[0]))
        if not os.path.exists(path):
            self._fetch(image["url"], path)
        return self._checked(path, image, image["url"])

    def _checked(self, path, image, url=None):
        try:
            about = os.stat(path)
        except OSError as error:
            raise NotFound(
                f"the image file cannot be used: {error.strerror}",
                thing=f"image {path}",
                next_step="put it there, or correct image.path in the baseline",
            ) from None
        if image.get("size_bytes") and about.st_size != image["size_bytes"]:
            raise self._wrong(path, f"{image['size_bytes']} bytes", f"{about.st_size} bytes")
        if not about.st_size:
            raise self._wrong(path, "a file with something in it", "an empty file")
        key = (path, about.st_size, about.st_mtime_ns)
        with self._reading:
            if key not in self._seen:
                self._seen[key] = digest_of(path)
        if self._seen[key] != image["sha256"]:
            raise self._wrong(path, f"SHA-256 {image['sha256']}", self._seen[key])
        return Local(path, about.st_size, image["sha256"], url)

    @staticmethod
    def _wrong(path, wanted, seen):
        return Refused(
            "the image is not the one that the baseline means; nothing was sent",
            thing=f"image {path}",
            wanted=wanted,
            seen=seen,
            next_step="get the right file, or correct sha256 in the baseline after checking where the file comes from",
            code="image_mismatch",
        )

    def _fetch(self, url, path):
        os.makedirs(self.cache, mode=0o755, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=self.cache, prefix=".fetching-")
        try:
            context = ssl.create_default_context(cafile=self._ca_path)
            opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
            with os.fdopen(handle, "wb") as out, opener.open(url, timeout=60) as answer:
                while True:
                    block = answer.read(BLOCK)
                    if not block:
                        break
                    out.write(block)
            os.replace(unfinished, path)
        except (OSError, urllib.error.URLError) as error:
            raise Unreachable(
                "the image cannot be fetched",
                thing=f"image {url}",
                seen=getattr(error, "reason", None) or error,
                next_step="check the address, or put the file beside the baseline",
            ) from None
        finally:
            if os.path.exists(unfinished):
                os.unlink(unfinished)


def digest_of(path):
    """SHA-256 of a file, in hexadecimal."""
    found = hashlib.sha256()
    with open(path, "rb") as handle:
        while True:
            block = handle.read(BLOCK)
            if not block:
                return found.hexdigest()
            found.update(block)
