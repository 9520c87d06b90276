# Controller-side door of bmc_discover: the stage runs here, with the registry and the secret store; the BMC work may be sent to a delegate.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import csv
import json
import os

import yaml

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import discover
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import discover as door
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.bmc import BmcAction


class _Secrets:
    """The secret store as the stage sees it: read through the lookup where one is set, written to the file store."""

    def __init__(self, action):
        self._action = action

    def get(self, reference):
        if self._action.setting("secret_lookup"):
            try:
                return self._action.credential(reference)
            except Exception:  # a lookup says "not there" in its own way; the file store is asked next
                if not self._action.setting("secrets"):
                    raise errors.NotFound(
                        "the secret lookup has no such reference", thing="aicluster_secret_lookup", wanted=reference
                    )
        return self._action.secret_store.get(reference)

    def has(self, reference):
        try:
            self.get(reference)
        except errors.NotFound:
            return False
        return True

    def add(self, reference, values):
        return self._action.secret_store.add(reference, values)


class _Sent:
    """discover.Here on another machine: each call is the module, sent there."""

    def __init__(self, action):
        self._action = action

    def scan(self, ranges, port, ipmi_port, timeout):
        return self._send(errand="scan", ranges=ranges, port=port, ipmi_port=ipmi_port, scan_timeout=timeout)

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
        if not params["ranges"]:
            raise errors.InvalidInput(
                "no address range was given",
                thing="ranges",
                wanted="10.0.0.0/24, 10.0.0.5-10.0.0.9, or single addresses",
                next_step="set discover_ranges",
            )
        if "{serial}" not in params["site_credential"]:
            raise errors.InvalidInput(
                "every BMC needs an entry of its own in the secret store",
                thing="site_credential",
                wanted="a name with {serial} in it",
                seen=params["site_credential"],
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
        options.update(site_reference=params["site_credential"], factory=params["factory_credentials"])
        far = _Sent(self) if self.far else discover.Here(params["concurrency"])
        stage = discover.Stage(options, self._registry_or_none(), _Secrets(self), far, self.actor, self.check_mode)
        report = stage.run(self._expected())
        for problem in report["problems"]:
            self._display.warning(problem["msg"])
        if not self._task.diff:
            report.pop("diff")
        return report

    def _registry_or_none(self):
        """The registry; in check mode a registry that was not made yet is an empty one."""
        try:
            return self.registry
        except errors.Unsupported as error:
            if self.check_mode and error.code == "schema_mismatch" and "is empty" in error.message:
                return None
            raise

    def _expected(self):
        """Rows of the expected-servers list, None for the one that the registry holds."""
        path = self.params["expected_file"]
        if not path:
            return self.params["expected"]
        path = os.path.expanduser(path)
        try:
            with open(path, encoding="utf-8-sig", newline="") as handle:
                if path.lower().endswith(".csv"):
                    rows = [dict(row) for row in csv.DictReader(handle, skipinitialspace=True)]
                else:
                    rows = yaml.safe_load(handle)
        except OSError as error:
            raise errors.InvalidInput(
                "the expected-servers list cannot be read",
                thing=path,
                seen=error.strerror,
                next_step="correct discover_expected_file",
            )
        except (yaml.YAMLError, csv.Error) as error:
            raise errors.InvalidInput("the expected-servers list cannot be parsed", thing=path, seen=error)
        if isinstance(rows, dict) and len(rows) == 1:
            rows = next(iter(rows.values()))
        if not isinstance(rows, list):
            raise errors.InvalidInput(
                "the expected-servers list has another shape",
                thing=path,
                wanted="a list of rows, each with a serial",
                seen=type(rows).__name__,
            )
        if not rows:
            # A file that was cut short must not read as "everything that is found is welcome".
            raise errors.InvalidInput(
                "the expected-servers list has no rows",
                thing=path,
                wanted="a row for each server",
                seen="none",
                next_step="correct the file, or leave discover_expected_file out",
            )
        return rows
