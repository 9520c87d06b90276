#!/usr/bin/python
# Door: writes or checks the manifest of an operating-system image.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: image_manifest
short_description: Write or check the manifest of an operating-system image
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - The manifest says what an image is, which packages it holds and the checksums of its files.
  - With O(state=present) it is written from the finished files of a build.
  - With O(state=verified) the files are compared with the manifest that is there, every checksum computed again.
  - With O(state=read) it is returned with what is missing of the image, by names and sizes of its files; nothing of that is a failure.
options:
  path:
    description: Directory of the image.
    type: path
    required: true
  state:
    description: Write, compare and fail where something differs, or read.
    type: str
    choices: [present, verified, read]
    default: present
  name:
    description: Name of the image. Required with O(state=present).
    type: str
  key:
    description: Key of the build. Required with O(state=present).
    type: str
  format:
    description: A disk image with kernel and deploy ramdisk, or a directory.
    type: str
    choices: [disk, directory]
    default: disk
  tree:
    description: The tree that the image was made of. Required with O(state=present).
    type: path
  root_uuid:
    description: UUID of the root file system of a disk image.
    type: str
  cmdline:
    description: Kernel command line of the installed system.
    type: str
  source:
    description: Where the content came from, such as suite and package lists.
    type: dict
    default: {}
attributes:
  check_mode:
    description: In check mode nothing is written.
    support: full
"""

EXAMPLES = r"""
- name: Write the manifest
  aicluster.baremetal.image_manifest:
    path: /var/cache/aicluster/images/debian-12
    name: debian-12
    key: 0123456789abcdef
    tree: /var/cache/aicluster/build/debian-12
    root_uuid: 3b0e2a0c-3c0f-5b0d-9f7e-0a0b0c0d0e0f

- name: Check an image that was copied here
  aicluster.baremetal.image_manifest:
    path: /var/cache/aicluster/images/debian-12
    state: verified
"""

RETURN = r"""
manifest:
  description: The manifest. Empty with O(state=read) where there is none that can be read.
  returned: success
  type: dict
problems:
  description: What keeps the image from being used, in sentences.
  returned: O(state=read)
  type: list
  elements: str
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError, InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.image import manifest as manifests


def present(params):
    with open(os.path.join(params["tree"], "var/lib/dpkg/status"), encoding="utf-8") as handle:
        status = handle.read()
    described = {}
    release = None
    if params["format"] == "disk":
        # Names of kernel releases sort as numbers: 6.1.0-57 is newer than 6.1.0-9.
        releases = os.listdir(os.path.join(params["tree"], "lib/modules"))
        release = max(
            releases,
            key=lambda name: [int(part) if part.isdigit() else 0 for part in name.replace("-", ".").split(".")],
        )
        for name in manifests.DISK_FILES:
            full = os.path.join(params["path"], name)
            described[name] = {"sha256": manifests.sha256_file(full), "size_bytes": os.path.getsize(full)}
    disk = described.get("disk.raw", {})
    return manifests.build(
        params["name"],
        params["key"],
        params["format"],
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        params["source"],
        status,
        release=release,
        root_uuid=params["root_uuid"],
        files=described,
        size_bytes=disk.get("size_bytes"),
        sha256=disk.get("sha256"),
        cmdline=params["cmdline"],
    )


def verified(params):
    manifest = manifests.load(params["path"])
    problems = manifests.difference(manifest, params["path"])
    if problems:
        raise InvalidInput(
            "; ".join(problems),
            thing=f"image {params['path']}",
            wanted="the files that the manifest names",
            seen="others",
            next_step="build or copy the image again",
        )
    return manifest


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["present", "verified", "read"], "default": "present"},
            "name": {"type": "str"},
            "key": {"type": "str", "no_log": False},
            "format": {"type": "str", "choices": ["disk", "directory"], "default": "disk"},
            "tree": {"type": "path"},
            "root_uuid": {"type": "str"},
            "cmdline": {"type": "str"},
            "source": {"type": "dict", "default": {}},
        },
        required_if=[("state", "present", ["name", "key", "tree"])],
        supports_check_mode=True,
    )
    params = module.params
    try:
        if params["state"] == "verified":
            module.exit_json(changed=False, manifest=verified(params))
        if params["state"] == "read":
            manifest = manifests.load(params["path"])
            problems = manifests.missing_parts(manifest, params["path"])
            module.exit_json(changed=False, manifest=manifest or {}, problems=problems)
        manifest = present(params)
        if not module.check_mode:
            target = os.path.join(params["path"], "manifest.json")
            with open(f"{target}.part", "w", encoding="utf-8") as handle:
                handle.write(manifests.text(manifest))
            os.replace(f"{target}.part", target)
        module.exit_json(changed=True, manifest=manifest)
    except BaremetalError as error:
        module.fail_json(**{key: value for key, value in error.as_result().items() if key != "failed"})
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"image {params['path']}: the manifest cannot be made: {error}")


if __name__ == "__main__":
    main()
