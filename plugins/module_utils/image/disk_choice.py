# The rule by which a deployment picks the one disk that may be overwritten, as the controller can foresee it from a node's inventory.
# The ramdisk has the last word with the same rule in shell (roles/os_image/files/deploy/disks.sh); one test runs both on the same cases.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core.errors import Refused


def matches(disk, rule):
    """Whether `disk` {name, size_bytes, type, serial} is allowed by `rule` {type, min_bytes, max_bytes, serial}."""
    size = disk["size_bytes"]
    if size < (rule.get("min_bytes") or 0) or (rule.get("max_bytes") and size > rule["max_bytes"]):
        return False
    if (rule.get("type") or "any") not in ("any", disk["type"]):
        return False
    return not rule.get("serial") or rule["serial"] == disk.get("serial")


def choose(disks, rule, image_bytes=0, host=None):
    """The one disk of `disks` that the rule names. Raises Refused (code disk_none, disk_many, disk_small) and never guesses."""
    wanted = "type {}, {} to {} bytes (0: no limit), serial {}".format(
        rule.get("type") or "any", rule.get("min_bytes") or 0, rule.get("max_bytes") or 0, rule.get("serial") or "any"
    )
    seen = "; ".join(
        f"{disk['name']} {disk['size_bytes']} {disk['type']} {disk.get('serial') or '-'}" for disk in disks
    )
    found = [disk for disk in disks if matches(disk, rule)]
    if not found:
        raise Refused(
            "no disk matches the rule", host=host, thing="deploy disk", wanted=wanted, seen=seen or "no disks",
            next_step="change the rule or the disk", code="disk_none",
        )  # fmt: skip
    if len(found) > 1:
        raise Refused(
            "more than one disk matches the rule", host=host, thing="deploy disk", wanted=wanted, seen=seen,
            next_step="give the serial of the disk to use", code="disk_many",
        )  # fmt: skip
    if found[0]["size_bytes"] < image_bytes:
        raise Refused(
            "the disk is too small for the image", host=host, thing="deploy disk", wanted=f"at least {image_bytes} bytes",
            seen=f"{found[0]['name']} with {found[0]['size_bytes']} bytes", next_step="use a larger disk or a smaller image", code="disk_small",
        )  # fmt: skip
    return found[0]
