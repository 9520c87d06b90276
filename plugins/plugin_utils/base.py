# The base of the action plugins that run in the controller: settings, registry, credentials, fencing, typed errors.
#
# A subclass gives ARGUMENT_SPEC (and ARGUMENT_RULES) and `execute()`, which returns the result's keys or raises BaremetalError. It reads `self.params`,
# `self.host`, `self.check_mode`; `self.registry` is opened when first used and closed after the task, inside the forked worker.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.redact import redact
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import (
    known_hosts,
    options,
    places,
    secret_store,
    settings,
    workers,
)

workers.arm()

COMMON_ARGUMENTS = {"registry": {"type": "str"}}


def plain(value):
    """The value as plain str, int, ... all the way down: Ansible's tagged and lazy types stay out of the database and of capability code."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def registry_opener():
    """`open_registry`. SQLAlchemy takes a quarter of a second and 18 MB, so it is loaded here and not at the top of this file."""
    from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry

    return open_registry


class RegistryAction(ActionBase):
    """See the top of this file."""

    # True: runs once for all hosts and often without the registry, which is then loaded when it is needed. The others have it before their workers are forked.
    REGISTRY_LATER = False

    def __init_subclass__(cls, **more):
        super().__init_subclass__(**more)
        if not cls.REGISTRY_LATER:
            registry_opener()

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    ARGUMENT_SPEC = {}
    ARGUMENT_RULES = {}  # mutually_exclusive, required_if, ...

    def execute(self):
        """Do the work; returns the result's keys."""
        raise NotImplementedError

    def run(self, tmp=None, task_vars=None):
        self.task_vars = task_vars or {}
        self._registry = None
        result = super().run(tmp, task_vars)
        self.host = str(self.task_vars.get("inventory_hostname") or "localhost")
        self.check_mode = bool(self._task.check_mode)
        spec = {**COMMON_ARGUMENTS, **self.ARGUMENT_SPEC}
        try:
            try:
                _validated, params = self.validate_argument_spec(argument_spec=spec, **self.ARGUMENT_RULES)
            except AnsibleActionFail as error:
                raise options.refusal(spec, plain(self._task.args), error.message) from None
            self.params = plain(params)
            result.update(self.execute())
        except errors.BaremetalError as error:
            result.update(error.with_host(self.host).as_result())
        except OSError as error:
            if not error.filename:  # not about a file: a fault of ours, shown as one
                raise
            result.update(places.unusable(error).with_host(self.host).as_result())
        finally:
            if self._registry is not None:
                self._registry.close()
        return result

    # what subclasses use

    def variable(self, name, default=None):
        """A variable of the host, templated; `default` when it is not set or empty."""
        if name not in self.task_vars:
            return default
        value = plain(self._templar.template(self.task_vars[name]))
        return default if value is None or value == "" else value

    def setting(self, name):
        """A collection-wide setting or None (see plugin_utils.settings)."""
        return settings.find(name, self.params.get(name), self.variable)

    @property
    def registry_url(self):
        return settings.require("registry", self.params.get("registry"), self.variable)

    @property
    def registry(self):
        if self._registry is None:
            self._registry = registry_opener()(self.registry_url)
        return self._registry

    @property
    def actor(self):
        return settings.actor(self.variable)

    @property
    def attempt(self):
        """(attempt, fencing) of this run for the host: the task's options, else the host's variables; (None, None) outside an attempt."""
        attempt = self.params.get("attempt") or self.variable("aicluster_attempt")
        fencing = self.params.get("fencing") or self.variable("aicluster_fencing")
        return (int(attempt) if attempt else None), (int(fencing) if fencing else None)

    def require_attempt(self):
        """As `attempt`, but InvalidInput outside one."""
        attempt, fencing = self.attempt
        if attempt is None or fencing is None:
            raise errors.InvalidInput(
                "this task needs a running attempt",
                host=self.host,
                thing="attempt",
                wanted="aicluster_attempt and aicluster_fencing, which node_lifecycle sets with state=begin",
                next_step="run it for hosts of the group stage_<stage> only",
            )
        return attempt, fencing

    def check_fence(self, node=None):
        """Raise FencedOut when this run's number for the node is not the newest; nothing is asked outside an attempt. Call it right before a write."""
        _attempt, fencing = self.attempt
        if fencing is not None:
            self.registry.check_fence(node or self.host, fencing)

    def credential(self, reference):
        """{username, password, ...} for a reference: from the lookup named by aicluster_secret_lookup, else from the secret store."""
        lookup = self.setting("secret_lookup")
        if lookup:
            plugin = lookup_loader.get(lookup, loader=self._loader, templar=self._templar)
            if plugin is None:
                raise errors.NotFound(
                    "there is no such lookup plugin",
                    thing="aicluster_secret_lookup",
                    wanted="the full name of a lookup plugin that is installed",
                    seen=lookup,
                    next_step="correct aicluster_secret_lookup, or install the collection that has it",
                )
            found = plugin.run([reference], variables=self.task_vars)
            value = plain(found[0]) if found else None
            if not isinstance(value, dict):
                raise errors.InvalidInput(
                    "the lookup gave something else",
                    thing=f"lookup {lookup}",
                    wanted="one dict with username and password",
                    seen=type(value).__name__ if found else "nothing",
                    next_step=f"correct the entry {reference} in its store, or aicluster_secret_lookup",
                )
            return value
        return self.secret_store.get(reference)

    def login(self, reference, needed=("username", "password")):
        """(user name, password) for a reference; InvalidInput where what is stored has no such thing."""
        lookup = self.setting("secret_lookup")
        return secret_store.login_of(
            self.credential(reference), reference, needed, f"lookup {lookup}" if lookup else self.secret_store.path
        )

    @property
    def secret_store(self):
        """The file store, for those who also write credentials (account rotation)."""
        return secret_store.SecretStore(settings.require("secrets", self.params.get("secrets"), self.variable))

    def refresh_known_hosts(self):
        """Write the pinned host keys to the file that the inventory's ssh arguments name. Returns its path."""
        path = known_hosts.path_for(self.registry_url, self.setting("known_hosts"))
        known_hosts.refresh(path, self.registry.nodes)
        return path

    def tell_inventory(self, result, name, groups=(), variables=None):
        """Give a host groups and variables for the rest of the run, as add_host does on a host that exists. Call it last: it puts itself into `result`.

        Facts would do for the variables, but a fact cache keeps them for the next run, where a fencing number is wrong.
        """
        # The program `ansible` (its argument is a pattern of hosts) runs one task: there is no rest, and it would print what is meant for Ansible.
        if isinstance(context.CLIARGS.get("args"), str):
            return
        # From ansible-core 2.21 on it is a call to the controller, before that a key of the result.
        if hasattr(ActionBase, "add_host"):
            self.add_host(name, host_vars=dict(variables or {}), parent_group_names=list(groups))
        else:
            result["add_host"] = {"host_name": name, "groups": list(groups), "host_vars": dict(variables or {})}

    @staticmethod
    def planned(what, **extra):
        """The result of a Plan: changed and diff from one object."""
        return redact({"changed": what.changed, "diff": what.diff()}) | extra
