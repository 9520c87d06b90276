# The key of an image from its options and the content of what is put into it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
name: image_key
short_description: Key and identifiers of an operating-system image
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Computes a digest of everything that decides what an image holds, and the fixed identifiers that follow from it.
  - A build whose key did not change need not be repeated.
options:
  _terms:
    description: One dictionary with the options of the build.
    type: list
    elements: dict
    required: true
  roles:
    description: Roles that are applied to the image, as names of this collection's roles or as paths. Their content is part of the key.
    type: list
    elements: str
    default: []
  paths:
    description: Further directories or files whose content is part of the key.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show the key
  ansible.builtin.debug:
    msg: "{{ lookup('aicluster.baremetal.image_key', {'suite': 'bookworm'}, roles=['aicluster.baremetal.node_base']) }}"
"""

RETURN = r"""
_raw:
  description: The key and the identifiers.
  type: list
  elements: dict
  contains:
    key:
      description: Sixteen hexadecimal digits.
      type: str
    root_uuid:
      description: UUID of the root file system.
      type: str
    disk_guid:
      description: GUID of the disk.
      type: str
    esp_guid:
      description: GUID of the EFI system partition.
      type: str
    root_guid:
      description: GUID of the root partition.
      type: str
    esp_id:
      description: Volume number of the EFI system partition, eight hexadecimal digits.
      type: str
"""

import pathlib

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.image.key import identifiers, image_key, tree_digest

COLLECTION = pathlib.Path(__file__).resolve().parents[2]
PREFIX = "aicluster.baremetal."
# What the collection's roles copy into images from outside their own directory (node-check is built from these).
SHARED = ("core", "facts", "health")


def _name(path):
    """What a path is called in the key: where the collection is installed must make no difference."""
    path = pathlib.Path(path).resolve()
    return path.relative_to(COLLECTION) if path.is_relative_to(COLLECTION) else path


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
        roles, paths = self.get_option("roles"), self.get_option("paths")
        try:
            digests = {f"path {_name(path)}": tree_digest(path) for path in paths}
            for role in roles:
                ours = role.startswith(PREFIX)
                digests[f"role {role}"] = tree_digest(COLLECTION / "roles" / role[len(PREFIX) :] if ours else role)
                if ours:
                    for room in SHARED:
                        digests[f"room {room}"] = tree_digest(COLLECTION / "plugins" / "module_utils" / room)
        except BaremetalError as error:
            raise AnsibleError(str(error))
        results = []
        for inputs in terms:
            # The order of the roles is the order of their effects.
            key = image_key({"options": inputs, "roles": roles}, digests)
            results.append({"key": key, **identifiers(key)})
        return results
