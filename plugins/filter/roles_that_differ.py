# Door: which of the roles that make up a node have to be applied, by what node-check found.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
name: roles_that_differ
short_description: Roles to which the differences of a node belong
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Takes the items of M(aicluster.baremetal.node_check) and the wanted state of each role, and gives the names of the roles that own an item that
    failed or could not be tested.
  - Gives all roles where there are no such items, for example because C(node-check) is not installed, or where no role owns one of them.
options:
  _input:
    description: The items.
    type: list
    elements: dict
    required: true
  wanted:
    description: Wanted state by role, in the order in which the roles are applied.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show which roles a node needs
  ansible.builtin.debug:
    msg: "{{ seen['items'] | aicluster.baremetal.roles_that_differ({'my.own.role': my_role_wanted}) }}"
"""

RETURN = r"""
_value:
  description: Names of roles.
  type: list
  elements: str
"""

from ansible_collections.aicluster.baremetal.plugins.module_utils.health.verify import owners_of_differences


class FilterModule:
    def filters(self):
        return {"roles_that_differ": owners_of_differences}
