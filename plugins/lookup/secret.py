# Credentials by reference from the secret store.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
name: secret
short_description: Credential by reference from the secret store
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Returns the entry of the secret store for each reference, or one field of it.
  - The store is a YAML file of references, each with C(username) and C(password). It is refused when others than its owner can read it.
  - Another store takes its place for all plugins of this collection when the variable C(aicluster_secret_lookup) names a lookup plugin that returns the
    same dictionary for a reference.
options:
  _terms:
    description: References into the store, for example the value of the host variable C(bmc_credential).
    type: list
    elements: str
    required: true
  field:
    description: Return only this field of the entry.
    type: str
  store:
    description: The file of the secret store.
    type: path
    vars:
      - name: aicluster_secrets
    env:
      - name: AICLUSTER_SECRETS
    ini:
      - section: aicluster
        key: secrets
"""

EXAMPLES = r"""
- name: Ask a BMC that no module of this collection knows
  ansible.builtin.uri:
    url: "https://{{ bmc_address }}/redfish/v1/Chassis"
    url_username: "{{ lookup('aicluster.baremetal.secret', bmc_credential, field='username') }}"
    url_password: "{{ lookup('aicluster.baremetal.secret', bmc_credential, field='password') }}"
  no_log: true
"""

RETURN = r"""
_raw:
  description: The entries, or the one field of each. Treat it as secret.
  type: list
  elements: raw
"""

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import secret_store, settings


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
        field = self.get_option("field")
        found = []
        try:
            store = secret_store.SecretStore(settings.require("secrets", self.get_option("store")))
            for term in terms:
                entry = store.get(str(term))
                if field is None:
                    found.append(entry)
                elif field in entry:
                    found.append(entry[field])
                else:
                    raise errors.NotFound(
                        f"the entry {term} has no field {field}",
                        thing=store.path,
                        wanted=field,
                        seen="another set of fields",
                        next_step=f"add `{field}` to the entry `{term}`, or correct the option field",
                    )
        except errors.BaremetalError as error:
            raise AnsibleLookupError(str(error)) from None  # Ansible would print the cause too, which says the same
        return found
