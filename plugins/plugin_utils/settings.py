# Where the collection-wide settings come from: task option, then variable, then environment, then the [aicluster] section of ansible.cfg.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import configparser
import getpass
import os
import socket

from ansible import constants

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

# name: (variable, environment, key in [aicluster])
SETTINGS = {
    "registry": ("aicluster_registry", "AICLUSTER_REGISTRY", "registry"),
    "secrets": ("aicluster_secrets", "AICLUSTER_SECRETS", "secrets"),
    "secret_lookup": ("aicluster_secret_lookup", "AICLUSTER_SECRET_LOOKUP", "secret_lookup"),
    "actor": ("aicluster_actor", "AICLUSTER_ACTOR", "actor"),
    "known_hosts": ("aicluster_known_hosts", "AICLUSTER_KNOWN_HOSTS", "known_hosts"),
}
_WORDS = {"secrets": "secret store"}
_FIRST = {
    "registry": "for a first registry: aicluster_registry=sqlite:////absolute/path.db",
    "secrets": "make a YAML file of mode 0600, {reference: {username: ..., password: ...}}, and set aicluster_secrets to its path",
}


def find(name, option=None, variable=None):
    """The value of a setting or None. `variable`: a function from a variable's name to its value, or None."""
    variable_name, environment, key = SETTINGS[name]
    value = option or (variable(variable_name) if variable else None) or os.environ.get(environment)
    if not value and constants.CONFIG_FILE:
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(constants.CONFIG_FILE)
        value = parser.get("aicluster", key, fallback=None)
    return str(value) if value else None


def require(name, option=None, variable=None):
    """As find, but InvalidInput when the setting is nowhere."""
    value = find(name, option, variable)
    if value is None:
        variable_name, environment, key = SETTINGS[name]
        raise errors.InvalidInput(
            f"the {_WORDS.get(name, name)} is not set",
            thing=variable_name,
            wanted=f"variable {variable_name}, environment {environment}, or {key} in section [aicluster] of ansible.cfg",
            seen="nothing in any of these",
            next_step=_FIRST.get(name, f"set {variable_name}"),
        )
    return value


def actor(variable=None):
    """Who acts, for the audit: the setting, or user@host of this process."""
    return find("actor", None, variable) or f"{getpass.getuser()}@{socket.gethostname()}"
