# Reads the manifest of an image, from the image store's directory or from the image server.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import urllib.error
import urllib.request

from ..core.errors import InvalidInput, NotFound, Unreachable
from .spec import check_image_name, image_from_manifest

_LIMIT = 8 << 20
_NEXT = "build the image (role os_image), or correct deploy_image and deploy_image_store"


def _from_directory(store, name):
    directory = os.path.join(store, name)
    path = os.path.join(directory, "manifest.json")
    try:
        with open(path, encoding="utf-8") as handle:
            manifest = json.load(handle)
    except OSError as error:
        raise NotFound("cannot be read", thing=f"image {name}", wanted=path, seen=error.strerror, next_step=_NEXT)
    except ValueError as error:
        raise InvalidInput("is no valid JSON", thing=path, seen=str(error), next_step=_NEXT)
    image = image_from_manifest(manifest, name)
    for file in ("disk.raw", "vmlinuz", "deploy.img"):
        try:
            size = os.stat(os.path.join(directory, file)).st_size
        except OSError as error:
            raise NotFound(
                f"has no {file}",
                thing=f"image {name}",
                wanted=os.path.join(directory, file),
                seen=error.strerror,
                next_step=_NEXT,
            )
        if file == "disk.raw" and size != image["size_bytes"]:
            raise InvalidInput(
                "disk.raw has another size than its manifest says",
                thing=f"image {name}",
                wanted=f"{image['size_bytes']} bytes",
                seen=f"{size} bytes",
                next_step=_NEXT,
            )
    return image


def _from_server(url, name, timeout):
    address = f"{url.rstrip('/')}/{name}/manifest.json"
    try:
        # the image server is a neighbour: no proxy of the controller's environment stands between
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=timeout) as answer:
            manifest = json.loads(answer.read(_LIMIT))
    except urllib.error.HTTPError as error:
        raise NotFound(
            "is not on the image server",
            thing=f"image {name}",
            wanted=address,
            seen=f"HTTP {error.code}",
            next_step=_NEXT,
        )
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise Unreachable(
            "the image server does not answer",
            thing=address,
            seen=str(reason),
            next_step="check nginx on the boot server",
        )
    except ValueError as error:
        raise InvalidInput("is no valid JSON", thing=address, seen=str(error), next_step=_NEXT)
    return image_from_manifest(manifest, name)


def image(store, name, timeout=20):
    """The image part of a deploy spec. `store`: a directory, or the http(s) URL of the image server's directory of images."""
    check_image_name(name)
    if str(store).startswith(("http://", "https://")):
        return _from_server(str(store), name, timeout)
    if not os.path.isabs(str(store)):
        raise InvalidInput(
            "is neither an absolute path nor an HTTP URL",
            thing="image store",
            wanted="for example /var/cache/aicluster/images",
            seen=store,
        )
    return _from_directory(str(store), name)
