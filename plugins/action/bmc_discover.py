# Controller-side door of bmc_discover: the stage runs here, with the registry and the secret store; the BMC work may be sent to a delegate.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import discover, sources
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors, process
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import discover as door
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.discovery import Here
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import expected_list
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.bmc import BmcAction


class _Secrets:
    """The secret store as the stage sees it: read through the lookup where one is set, written to the file store."""

    def __init__(self, action):
        self._action = action

    @property
    def path(self):
        """Where a person finds the entries, for messages."""
        lookup = self._action.setting("secret_lookup")
        file = self._action.secret_store.path if self._action.setting("secrets") else None
        return " or ".join(filter(None, (f"the store of lookup {lookup}" if lookup else None, file)))

    def check(self):
        """Raise unless the store can be read. With a lookup in its place the file only has to be well where there is one."""
        if not self._action.setting("secret_lookup") or self._has_file():
            self._action.secret_store.check()

    def _has_file(self):
        return bool(self._action.setting("secrets")) and os.path.lexists(self._action.secret_store.path)

    def get(self, reference):
        if self._action.setting("secret_lookup"):
            try:
                return self._action.credential(reference)
            except Exception as error:  # a lookup says "not there" in its own way; the file store is asked next
                if not self._has_file():
                    raise errors.NotFound(
                        "the secret lookup does not give this reference",
                        thing=f"aicluster_secret_lookup {self._action.setting('secret_lookup')}",
                        wanted=reference,
                        seen=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
                        next_step="see that the lookup's store answers and has the reference, or name another one",
                        code="secret_not_found",
                    ) from error
        return self._action.secret_store.get(reference)

    def has(self, reference):
        try:
            self.get(reference)
        except errors.NotFound as error:
            if error.code != "secret_not_found":
                raise
            return False
        return True

    def add(self, reference, values):
        return self._action.secret_store.add(reference, values)


class _Sent:
    """The work of Here on another machine: each call is the module, sent there."""

    def __init__(self, action):
        self._action = action

    def scan(self, ranges, port, ipmi_port, timeout):
        return self._send(errand="scan", ranges=ranges, port=port, ipmi_port=ipmi_port, scan_timeout=timeout)

    def ssdp(self, wait_s):
        return [tuple(found) for found in self._send(errand="ssdp", ssdp_wait=wait_s)["answers"]]

    def visit(self, targets):
        return self._send(errand="visit", targets=json.dumps(targets))["answers"] if targets else []

    def rotate(self, targets):
        return self._send(errand="rotate", targets=json.dumps(targets))["answers"] if targets else []

    def _send(self, **arguments):
        arguments["concurrency"] = self._action.params["concurrency"]
        result = self._action._execute_module(
            module_name="aicluster.baremetal.bmc_discover", module_args=arguments, task_vars=self._action.task_vars
        )
        if result.get("failed"):
            raise errors.BaremetalError(
                "the delegate could not do its part of the discovery",
                host=self._action.far,
                thing=arguments["errand"],
                seen=result.get("msg") or result.get("module_stderr"),
                next_step="the delegate needs Python with sushy (Redfish) and pyghmi (IPMI)",
            )
        return result


class ActionModule(BmcAction):
    MODULE = "bmc_discover"
    ARGUMENT_SPEC = door.STAGE
    ARGUMENT_RULES = door.RULES

    def execute(self):
        params = self.params
        if not params["ranges"] and not params["lease_files"] and not params["ssdp"]:
            raise errors.InvalidInput(
                "no address range was given",
                thing="ranges",
                wanted="10.0.0.0/24, 10.0.0.5-10.0.0.9, or single addresses; or lease_files, or ssdp",
                next_step="set discover_ranges",
            )
        if self.far and self.far not in (self.task_vars.get("groups") or {}).get("all", [self.far]):
            raise errors.NotFound(
                "the delegate is no host of the inventory",
                thing="delegate_to (in the role and the playbook: discover_delegate)",
                wanted="the name of a host of the inventory, or localhost",
                seen=self.far,
                next_step="correct discover_delegate, or add the host to the inventory",
            )
        if "{serial}" not in params["site_credential"]:
            raise errors.InvalidInput(
                "every BMC needs an entry of its own in the secret store",
                thing="site_credential",
                wanted="a name with {serial} in it",
                seen=params["site_credential"],
                next_step="correct discover_site_credential",
            )
        for key, least, most in (("port", 1, 65535), ("ipmi_port", 0, 65535), ("concurrency", 1, 1024)):
            if not least <= params[key] <= most:
                raise errors.InvalidInput(
                    f"{key} cannot be right",
                    thing=key,
                    wanted=f"a number from {least} to {most}",
                    seen=params[key],
                    next_step=f"correct discover_{key}",
                )
        if not 0 < params["scan_timeout"] <= 60:
            raise errors.InvalidInput(
                "scan_timeout cannot be right",
                thing="scan_timeout",
                wanted="seconds, above 0 and at most 60",
                seen=params["scan_timeout"],
                next_step="correct discover_scan_timeout",
            )
        options = {
            key: params[key]
            for key in (
                "ranges",
                "port",
                "ipmi_port",
                "scan_timeout",
                "rotate",
                "password_length",
                "approve",
                "accept_misplaced",
                "provision_nic",
                "sections",
            )
        }
        options["ranges"] = params["ranges"] or []
        # Lease files lie where the expected list does, on the controller; the search goes out where the BMCs can be reached.
        options["addresses"] = sources.read_leases(params["lease_files"] or [])
        options["ssdp_wait"] = params["ssdp_wait"] if params["ssdp"] else None
        options.update(site_reference=params["site_credential"], factory=params["factory_credentials"])
        far = _Sent(self) if self.far else Here(params["concurrency"], self._display.display)
        # When the controller ends, this worker gets the time to delete its sessions; the engine sends nothing else from then on.
        process.die_with_parent(os.getppid(), signal.SIGTERM)
        rows, places = params["expected"], None
        if params["expected_file"]:
            rows, places = expected_list.read(params["expected_file"])
        with self._some_registry() as registry:
            stage = discover.Stage(options, registry, _Secrets(self), far, self.actor, self.check_mode)
            report = stage.run(rows, places)
        for problem in report["problems"]:
            self._display.warning(problem["msg"])
        if not self._task.diff:
            report.pop("diff")
        return report

    @contextlib.contextmanager
    def _some_registry(self):
        """The registry; in check mode, for one that was not made yet, an empty one that is gone afterwards: so the diff shows all that would be written."""
        try:
            found = self.registry
        except errors.Unsupported as error:
            if not (self.check_mode and error.code == "schema_mismatch" and "is empty" in error.message):
                raise
            found = None
        if found is not None:
            yield found
            return
        with tempfile.TemporaryDirectory(prefix="aicluster-check-") as directory:
            with open_registry(f"sqlite:///{directory}/registry.db", migrate=True) as registry:
                yield registry
