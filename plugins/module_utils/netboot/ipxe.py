# iPXE scripts: the local disk by default, the deploy ramdisk for a consumed grant. Pure.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ..core.errors import InvalidInput

# What may stand in a script unquoted. iPXE expands ${...} and splits on blanks, so anything else from the registry is refused, not escaped.
_WORD = re.compile(r"[A-Za-z0-9_.,:/?&=%+@~-]+")


def _word(value, what):
    if not _WORD.fullmatch(str(value)):
        raise InvalidInput(
            f"{what} cannot be put into a boot script",
            thing="iPXE script",
            wanted="letters, digits and _.,:/?&=%+@~-",
            seen=repr(value)[:60],
        )
    return str(value)


def _comment(text):
    return re.sub(r"[^A-Za-z0-9 _.,:/=+@-]", " ", str(text))[:120]


def local_disk(reason="no deployment is pending"):
    """Boot the local disk.

    UEFI: leaving with an *error* makes the firmware go on to its next boot option; leaving with success would stop in its setup menu (UEFI
    specification 2.10, section 3.1.1). BIOS: the same exit lets the BIOS try the next device.
    """
    return f"#!ipxe\necho aicluster: booting the local disk: {_comment(reason)}\nexit 1\n"


def deploy(node, attempt, image_url, api_url, session, mac, kernel_arguments=""):
    """Boot the deploy ramdisk of the image at `image_url` (.../images/NAME) with the session for this boot.

    Each download is tried three times: at a fleet's reboot the first one may time out, and a second grant would cost a power cycle.
    """
    base = _word(image_url, "image URL")
    arguments = [
        "initrd=deploy.img",
        f"aicluster.api={_word(api_url, 'API URL')}",
        f"aicluster.session={_word(session, 'session')}",
        f"aicluster.mac={_word(mac, 'MAC')}",
    ]
    arguments += [_word(argument, "kernel argument") for argument in kernel_arguments.split()]
    kernel = f"kernel {base}/vmlinuz {' '.join(arguments)}"
    initrd = f"initrd --name deploy.img {base}/deploy.img"
    return "\n".join(
        [
            "#!ipxe",
            f"echo aicluster: deploying {_comment(node)}, attempt {_comment(attempt)}",
            " || ".join([kernel] * 3 + ["goto failed"]),
            " || ".join([initrd] * 3 + ["goto failed"]),
            "boot || goto failed",
            ":failed",
            "echo aicluster: the deploy ramdisk could not be loaded",
            "exit 1",
            "",
        ]
    )
