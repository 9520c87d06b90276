# Lookup: builds the node-check program from this collection's sources and says where it lies.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
name: node_check_bundle
short_description: Build the node-check program
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Builds C(node-check), one executable archive with all checks that run on a node, on the controller and returns its path, SHA-256 and version.
  - The same sources always give the same bytes, so the SHA-256 tells whether a node has the current version.
options:
  _terms:
    description: Not used.
  directory:
    description: Where the archive is kept on the controller. By default C(aicluster/node-check) below E(XDG_CACHE_HOME), or below C(~/.cache).
    type: path
    env:
      - name: AICLUSTER_NODE_CHECK_DIR
"""

EXAMPLES = r"""
- name: Install node-check
  ansible.builtin.copy:
    src: "{{ lookup('aicluster.baremetal.node_check_bundle').path }}"
    dest: /usr/local/bin/node-check
    mode: "0755"
"""

RETURN = r"""
_raw:
  description: One dictionary with C(path), C(sha256) and C(version).
  type: list
  elements: dict
"""

from ansible.plugins.lookup import LookupBase

from ansible_collections.aicluster.baremetal.plugins.module_utils.health import bundle
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import user_cache


class LookupModule(LookupBase):
    """See DOCUMENTATION."""

    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
        return [bundle.store(self.get_option("directory") or user_cache.below("node-check"))]
