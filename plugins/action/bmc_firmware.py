# Controller-side door of bmc_firmware: one node. The work needs the registry before and after each image, so it is done here and nowhere else.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import dataclasses
import os
import shlex

from ansible.errors import AnsibleError

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import bmc as door
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import firmware as shared
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.bmc import BmcAction


class ActionModule(BmcAction):
    ARGUMENT_SPEC = {
        **door.CONNECTION,
        **shared.OPTIONS,
        "siblings": {"type": "list", "elements": "str"},
        "in_band": {"type": "bool", "default": False},
    }
    ARGUMENT_RULES = {
        "required_together": door.TOGETHER,
        "mutually_exclusive": [["bmc_credential", "bmc_username"]],
    }

    def _run_there(self, argv):
        """(rc, out, err) of a command on the node itself. After a restart the shared SSH connection is dead, so a failure closes it."""
        try:
            found = self._low_level_execute_command(shlex.join(argv), sudoable=True)
        except AnsibleError as error:
            self._forget_connection()
            raise self._not_there(error)
        rc = int(found.get("rc") or 0)
        return rc, str(found.get("stdout") or ""), str(found.get("stderr") or "")

    def _copy_there(self, path):
        """Copy a file into a directory of its own on the node; returns its path there."""
        try:
            if not self._connection._shell.tmpdir:
                self._make_tmp_path()
            target = self._connection._shell.join_path(self._connection._shell.tmpdir, os.path.basename(path))
            self._transfer_file(path, target)
        except AnsibleError as error:
            self._forget_connection()
            raise self._not_there(error)
        return target

    def _forget_connection(self):
        try:
            self._connection.reset()
        except (AnsibleError, AttributeError):
            pass

    def _not_there(self, error):
        return errors.Unreachable(
            "the node's operating system cannot be reached",
            host=self.host,
            thing="ansible_host",
            wanted="an answer over Ansible's connection",
            seen=" ".join(str(error).split())[:300],
            next_step="in-band firmware needs a running operating system on the node",
            code="host_unreachable",
        )

    def execute(self):
        if self.far:
            raise errors.InvalidInput(
                "firmware is sent from the controller only",
                thing="delegate_to",
                wanted="no delegate_to",
                seen=self.far,
                next_step="run ansible-playbook where the BMC network is reachable",
            )
        params = self.fill_in()
        siblings = params["siblings"] if params["siblings"] is not None else self.variable("aicluster_siblings", [])
        fence = self.fence()
        with shared.prepared(params) as (baseline, images, options):
            result = shared.firmware.update(
                door.endpoint_of(params, self.host),
                self.registry,
                self.host,
                baseline,
                dataclasses.replace(
                    options(siblings), inband=(self._run_there, self._copy_there) if params["in_band"] else None
                ),
                images=images,
                actor=self.actor,
                fence=fence,
                attempt=self.attempt,
                check=self.check_mode,
                tell=self._display.v,
            )
        for warning in result.get("bmc_warnings") or ():
            self._display.warning(f"{self.host}: {warning}")
        if result.get("would_refuse"):
            self._display.warning(f"a real run would refuse {result['would_refuse']}")
        return shared.finish(result, bool(self._task.diff), params.get("bmc_password"))
