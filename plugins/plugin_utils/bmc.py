# Controller-side base of the bmc_* action plugins: host variables and credentials in, then the work here or, with delegate_to, as a shipped module.
#
# The client's imports are at the top on purpose: the controller loads the plugin before it forks its workers, so they are paid once.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import signal

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import ipmi, redfish, tls
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import host_port, port_of
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors, process
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.redact import Redactor
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import bmc as door
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import COMMON_ARGUMENTS, RegistryAction

HERE = ("localhost", "127.0.0.1", "::1")
FROM_HOST = (
    "bmc_address",
    "bmc_fingerprint",
    "bmc_ca_path",
    "bmc_tls",
    "bmc_ipmi_privilege",
    "bmc_ipmi_cipher_suite",
    "system_id",
)

tls.warm()
LOADED = (ipmi, redfish)  # before the fork, so that no worker pays for their imports


class BmcAction(RegistryAction):
    """A subclass names its MODULE; the rest comes from the door's table."""

    MODULE = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if cls.MODULE in door.MODULES:
            rules = door.rules(cls.MODULE)
            cls.ARGUMENT_SPEC = rules.pop("argument_spec")
            cls.ARGUMENT_RULES = rules

    @property
    def far(self):
        """The host that the module is to be sent to, or None when the work is done here."""
        target = self._task.delegate_to
        return None if not target or str(target) in HERE else str(target)

    def fill_in(self):
        """The task's options, completed from the host's variables and the secret store."""
        params, given = self.params, self._task.args
        for key in FROM_HOST:
            if key not in given:
                variable = "bmc_system_id" if key == "system_id" else key
                params[key] = self.variable(variable, params.get(key))
        usual = self.variable("bmc_protocol", "redfish")
        params["bmc_protocol"] = params.get("bmc_protocol") or usual
        if params.get("bmc_port") is None:
            # The host's port belongs to its usual protocol; a task that asks for the other one gets that one's own.
            own = self.variable("bmc_port") if params["bmc_protocol"] == usual else None
            params["bmc_port"] = host_port(params["bmc_protocol"], own, self.variable("bmc_ipmi_port"), self.host)
        if (
            "bmc_address" in given
            and "bmc_fingerprint" not in given
            and given["bmc_address"] != self.variable("bmc_address")
        ):
            params["bmc_fingerprint"] = None  # another BMC than the host's own
        if not params.get("bmc_username"):
            reference = params.get("bmc_credential") or self.variable("bmc_credential")
            if reference:
                params["bmc_username"], params["bmc_password"] = self.login(reference)
        params["bmc_credential"] = None
        if params.get("credential"):
            params["password"], params["credential"] = self.login(params["credential"], ("password",))[1], None
        if params.get("bmc_port") is not None:
            params["bmc_port"] = port_of(params["bmc_port"], params["bmc_protocol"], self.host)
        return params

    def take_in(self, params):
        """Read the files that the options name: they lie on the controller, also when the work is done on another machine."""
        if params.get("profile"):
            profile = door.read_profile(params["profile"])
            params["attributes"], params["profile"] = {**profile, **(params.get("attributes") or {})}, None
        door.read_files(params)

    def fence(self):
        """The check before each write, or None outside an attempt."""
        return self.check_fence if self.attempt[1] is not None else None

    def execute(self):
        params = self.fill_in()
        self.take_in(params)
        fence = self.fence()
        if self.far:
            result = self._ship(params, fence)
        else:
            # When the controller ends, this worker gets the time to delete its session; whatever else it was doing ends at once.
            process.die_with_parent(os.getppid(), signal.SIGTERM)
            result = door.execute(self.MODULE, params, self.check_mode, bool(self._task.diff), fence, self.host)
        self.remember(params, result)
        for warning in result.get("bmc_warnings") or ():
            self._display.warning(f"{self.host}: {warning}")
        return Redactor(
            [
                params.get("bmc_password"),
                params.get("password"),
                params.get("image_password"),
                params.get("private_key"),
            ]
        )(result)

    def remember(self, params, result):
        """What a subclass keeps of a result, for the rest of the run and in the registry."""

    def _name_the_host(self, result, address):
        """The module on the delegate knows the BMC by its address only; people know the host."""
        error = result.get("error")
        if isinstance(error, dict) and error.get("host") in (None, address):
            text = str(result.get("msg") or "")
            result["msg"] = f"{self.host}: {text.removeprefix(f'{address}: ')}"
            result["error"] = {**error, "host": self.host}

    def _ship(self, params, fence):
        """Run the module on the delegate. The fence can only be checked here, immediately before it is sent."""
        if fence and not self.check_mode:
            fence()
        arguments = {key: value for key, value in params.items() if value is not None and key not in COMMON_ARGUMENTS}
        result = self._execute_module(
            module_name=f"aicluster.baremetal.{self.MODULE}", module_args=arguments, task_vars=self.task_vars
        )
        result.pop("warnings", None)  # the module's own copy of bmc_warnings
        result.pop("invocation", None)
        self._name_the_host(result, str(params.get("bmc_address")))
        if result.get("failed") and "error" not in result and "sushy" in str(result.get("msg", "")):
            raise errors.Unsupported(
                "the delegate cannot run the module",
                host=self.far,
                thing=f"aicluster.baremetal.{self.MODULE}",
                seen=result["msg"],
                next_step="install sushy (and pyghmi for IPMI) for its Python, or leave delegate_to out",
            )
        return result
