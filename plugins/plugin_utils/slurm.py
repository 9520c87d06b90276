# What the Slurm actions share: running a command on another inventory host through that host's own Ansible connection, and the port over it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import shlex
import signal

from ansible import constants
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.loader import become_loader, connection_loader

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler.slurm import SlurmPort
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction, plain

NODE_ARGUMENT = {"name": {"type": "str"}}
CONTROLLER_ARGUMENT = {"slurm_controller": {"type": "str"}}
_LOCAL = ("localhost", "127.0.0.1", "::1")
COMMAND_SECONDS = 60.0


class _Alarm(Exception):
    """The time for one command is over."""


@contextlib.contextmanager
def _alarm(seconds):
    """Raise _Alarm in the body after `seconds`. Ansible runs actions in the main thread of a forked worker, where a signal can do that."""

    def ring(_signum, _frame):
        raise _Alarm(f"no answer within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _drop(connection):
    """Forget a connection that hangs, with the shared SSH master behind it: the next command must open a new one."""
    try:
        with _alarm(5):
            connection.reset()
    except (AnsibleError, AttributeError, _Alarm):
        pass


class SlurmAction(RegistryAction):
    """A registry action that also speaks to Slurm. `self.node` is the node meant, `self.port()` its scheduler."""

    @property
    def node(self):
        return self.params.get("name") or self.host

    @property
    def controller(self):
        """The inventory host through which scontrol runs: the option, the variable aicluster_slurm_controller, or the first of slurm_controllers."""
        name = self.params.get("slurm_controller") or self.variable("aicluster_slurm_controller")
        members = (self.task_vars.get("groups") or {}).get("slurm_controllers") or []
        if not name and not members:
            raise errors.InvalidInput(
                "no Slurm controller is known",
                thing="slurm_controller",
                wanted="the option slurm_controller, the variable aicluster_slurm_controller, or a host in group slurm_controllers",
                next_step="add the controller to the inventory, or use scheduler: none",
            )
        return plain(name or members[0])

    def port(self, seconds=COMMAND_SECONDS):
        """The SlurmPort through the controller; `seconds` limits each command. Inside an attempt each write is preceded by the fencing check."""
        host = self.controller
        return SlurmPort(
            self.runner(host, "the Slurm controller", seconds),
            where=host,
            before_write=lambda: self.check_fence(self.node),
        )

    def heartbeat(self):
        """Say that the attempt is alive; nothing outside one."""
        attempt, fencing = self.attempt
        if attempt is not None and fencing is not None:
            self.registry.heartbeat(attempt, fencing)

    def runner(self, host, what, seconds=COMMAND_SECONDS):
        """run(argv) -> (rc, out, err) on an inventory host; `what` names its part in errors. The connection is opened with the first call.

        After `seconds` a command is given up: a shared SSH connection to a host that vanished would be waited for without end.
        """
        state = {}

        def run(argv):
            command = shlex.join([*self._environment(), *argv])
            try:
                if "connection" not in state:
                    state["connection"] = self._connect(host)
                connection = state["connection"]
                command = f"/bin/sh -c {shlex.quote(command)}"
                if connection.become:
                    command = connection.become.build_become_command(command, connection._shell)
                with _alarm(seconds):
                    rc, out, err = connection.exec_command(command, in_data=None, sudoable=bool(connection.become))
            except (AnsibleConnectionFailure, AnsibleError, _Alarm) as error:
                if isinstance(error, _Alarm):
                    _drop(state.pop("connection", None))
                raise errors.Unreachable(
                    f"{what} cannot be reached",
                    host=self.host,
                    thing=host,
                    wanted="an answer over Ansible's connection to it",
                    seen=" ".join(str(error).split())[:300],
                    next_step=f"start {host} or mend its network or SSH, then run this again; "
                    f"`ansible -m ansible.builtin.ping {host}` shows when it is well",
                    code="host_unreachable",
                ) from error
            return rc, out.decode(errors="replace"), err.decode(errors="replace")

        return run

    def _environment(self):
        """The task's `environment` as the argv of env, so that SLURM_CONF and the like reach the command."""
        merged = {}
        for item in self._task.environment or []:
            merged.update(plain(self._templar.template(item)) or {})
        return ["env", *(f"{key}={value}" for key, value in merged.items())] if merged else []

    def _connect(self, host):
        hostvars = self.task_vars["hostvars"]
        if host not in hostvars and host not in _LOCAL:
            raise errors.InvalidInput(
                "there is no such host in the inventory",
                thing="slurm_controller",
                seen=host,
                next_step="add it to the inventory",
            )
        variables = hostvars[host] if host in hostvars else {}  # noqa: SIM401  HostVars.get does not template
        kind = plain(variables.get("ansible_connection")) or (
            "local" if host in _LOCAL else constants.DEFAULT_TRANSPORT
        )
        kind = "ssh" if kind == "smart" else kind
        context = self._play_context.copy()
        context.connection = kind
        context.remote_addr = plain(variables.get("ansible_host")) or host
        context.remote_user = plain(variables.get("ansible_user")) or constants.DEFAULT_REMOTE_USER
        context.port = plain(variables.get("ansible_port"))
        connection = connection_loader.get(kind, context, new_stdin=None, task_uuid=self._task._uuid)
        if connection is None:
            raise errors.InvalidInput(
                "there is no such connection plugin", host=host, thing="ansible_connection", seen=kind
            )
        connection.set_options(var_options=self._options("connection", connection._load_name, variables))
        if plain(variables.get("ansible_become")):
            method = plain(variables.get("ansible_become_method")) or constants.DEFAULT_BECOME_METHOD
            become = become_loader.get(method)
            become.set_options(var_options=self._options("become", method, variables))
            connection.set_become_plugin(become)
        return connection

    @staticmethod
    def _options(kind, name, variables):
        names = constants.config.get_plugin_vars(kind, name)
        return {key: plain(variables[key]) for key in names if key in variables}
