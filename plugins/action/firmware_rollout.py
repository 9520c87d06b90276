# Controller-side door of firmware_rollout: the nodes of the batch in one process, few at a time in each group, and an end at the first that got worse.
#
# Runs once for all hosts (BYPASS_HOST_LOOP) and does not fail, because that would end the playbook for every host: who failed is in the result.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools
import time

from ansible_collections.aicluster.baremetal.plugins.action.fleet import ActionModule as Fleet
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import host_port
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import bmc as door
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import summary, targets
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.breaker import Breaker
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.engine import Engine, Job
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.pace import Pacer
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.progress import Progress
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import firmware as shared
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import plain

EVERYBODY = "all"
# Nodes that are read at the same time before the rollout begins; nothing is sent to them yet, so the rollout's own limits are not for this.
LOOKS_AT_ONCE = 64
REFUSED_LOGINS = 3


class _Breaker(Breaker):
    """A reset that waits for a person's hands is no sign that the firmware is bad."""

    def told(self, failed, code=None, credential=None):
        super().told(failed and code != "awaiting_activation", code, credential)


class ActionModule(Fleet):
    """Shares with fleet what it means to run once for all hosts: no `when`, no delegate, and a mark for playbooks/fleet_failures.yml."""

    BYPASS_HOST_LOOP = True
    ARGUMENT_SPEC = {
        **shared.OPTIONS,
        "names": {"type": "list", "elements": "str"},
        "stage": {"type": "bool", "default": True},
        "states": {"type": "list", "elements": "str", "default": ["available"]},
        "group_by": {"type": "str", "default": "aicluster_rack"},
        "limit": {"type": "str", "default": "25%"},
        "concurrency": {"type": "int", "default": 16},
        "canary": {"type": "int", "default": 1},
        "max_fail_percentage": {"type": "float", "default": 0.0},
        "node_timeout": {"type": "float", "default": 14400.0},
        "progress": {"type": "float", "default": 30.0},
    }

    def execute(self):
        try:
            return self._execute()
        except errors.InvalidInput as error:
            # Most come here by the role, whose options have a prefix.
            if error.thing in self.ARGUMENT_SPEC and error.thing not in ("names", "progress", "node_timeout"):
                variable = "path" if error.thing == "baseline" else error.thing
                error.thing += f" (in the role and the playbook: firmware_baseline_{variable})"
                if error.next_step == "correct it":
                    error.next_step = "correct it, or leave it out for the usual value"
            raise

    def _execute(self):
        self._refuse_what_means_the_first_host()
        params, begun = self.params, time.monotonic()
        targets.check_numbers(params)
        names = self._asked(params["names"], "names")
        shared.firmware.parse_limit(params["limit"])
        results, hosts = {}, {}
        if params["stage"]:
            # the state alone settles most of a large site: no secret is read and no BMC asked for these
            looked_for = {*params["states"], "updating", "updating_failed"}
            known = {
                key: row["state"] for row in self.registry.nodes(names=names) for key in (row["name"], row["serial"])
            }
            for name in names:
                if known.get(name, "updating") not in looked_for:
                    results[name] = shared.firmware.left_alone(f"its state is {known[name]}")
        for name in names:
            if name in results:
                continue
            try:
                host = self._host(name)
                protocol = host["params"]["bmc_protocol"]
                if params["stage"] and protocol != "redfish":
                    # The stage is asked for all nodes; that one of them has no update service is known and no failure of it.
                    results[name] = shared.firmware.left_alone(
                        f"its BMC is driven by {protocol}, and firmware by plan needs Redfish"
                    )
                else:
                    hosts[name] = host
            except Exception as error:  # a host whose variables or secrets cannot be read is that host's failure alone
                known = isinstance(error, errors.BaremetalError)
                found = (
                    error
                    if known
                    else errors.InvalidInput(
                        "a variable of this host cannot be read",
                        thing="host variables",
                        seen=(str(error) or type(error).__name__).splitlines()[0],
                        next_step="correct the inventory",
                    )
                )
                results[name] = found.with_host(name).as_result()
        if params["group_by"] != self.ARGUMENT_SPEC["group_by"]["default"]:
            groups = {
                name: {"stagger 0": None if host["group"] == EVERYBODY else host["group"]}
                for name, host in hosts.items()
            }
            self._require_groups([{"by": params["group_by"]}], groups, "group_by")
        keys = targets.bmc_keys({name: host["bmc"] for name, host in hosts.items()})
        for name, error in targets.shared({name: host["bmc"] for name, host in hosts.items()}, keys).items():
            results[name] = error.as_result()
            hosts.pop(name, None)
        with shared.prepared(params) as prepared:
            lacking = {} if self.check_mode else self._without_consent(hosts, keys, prepared)
            if lacking:
                return shared.firmware.consent_incomplete(lacking, params["consent"]).as_result()
            self._run(hosts, keys, prepared, results)
        skipped = [name for name in names if results.get(name, {}).get("skipped")]
        found = summary.summarise(
            names,
            {name: results[name] for name in results if name not in skipped},
            skipped,
            wall_s=time.monotonic() - begun,
        )
        found["results"] = {name: results[name] for name in names if name in results}
        if self.check_mode:
            self._foretell(found)
        self._say_why(found)
        if self._task.diff:
            found["diff"] = summary.joined_diff(results)
        self._leave_a_mark(found)
        return found

    def _host(self, name):
        """What is needed of one host: its endpoint, group, siblings, and the numbers of its attempt."""
        hostvars = self.task_vars["hostvars"]
        if name not in hostvars:
            raise errors.NotFound("no such host in the inventory", thing="names", next_step="correct the name")
        mine = hostvars[name]

        def value(variable, default=None):
            found = plain(mine[variable]) if variable in mine else None
            return default if found is None or found == "" else found

        reference = value("bmc_credential")
        username, password = self.login(str(reference)) if reference else ("", "")
        own = {
            "bmc_address": value("bmc_address"),
            "bmc_port": value("bmc_port"),
            "bmc_protocol": value("bmc_protocol", "redfish"),
            "bmc_fingerprint": value("bmc_fingerprint"),
            "bmc_ca_path": value("bmc_ca_path"),
            "bmc_tls": value("bmc_tls", "verify"),
            "system_id": value("bmc_system_id"),
            "bmc_username": username,
            "bmc_password": password,
            "timeout": None,
        }
        own["bmc_port"] = host_port(own["bmc_protocol"], own["bmc_port"], value("bmc_ipmi_port"), name)
        siblings = [str(item) for item in value("aicluster_siblings", [])]
        attempt, fencing = value("aicluster_attempt"), value("aicluster_fencing")
        return {
            "params": own,
            "bmc": {"address": own["bmc_address"], "port": own["bmc_port"], "system_id": own["system_id"]},
            "group": str(value(self.params["group_by"], EVERYBODY)),
            "siblings": siblings,
            "chassis": ",".join(sorted({name, *siblings})) if siblings else None,
            "attempt": (int(attempt), int(fencing)) if attempt and fencing else (None, None),
        }

    def _foretell(self, found):
        """What a real run would refuse, said where the run says what came of it."""
        results, serials = found["results"], self._serials(found["results"])
        lacking = {
            name: (serials.get(name, name), result["consent_missing"])
            for name, result in results.items()
            if result.get("consent_missing")
        }
        found["consent_missing"] = [serial for serial, _components in lacking.values()]
        if lacking:
            refused = shared.firmware.consent_incomplete(lacking, self.params["consent"])
            found["would_refuse"] = str(refused)
            found["msg"] += f"; a real run would send nothing: consent is missing for {len(lacking)} nodes"
            self._display.warning(f"a real run would stop at once: {refused}")
        others = [name for name, result in results.items() if result.get("would_refuse") and name not in lacking]
        if others:
            found["msg"] += f"; a real run would refuse {len(others)} nodes"
            more = f" (and {len(others) - 1} more nodes, see their plans)" if len(others) > 1 else ""
            self._display.warning(f"a real run would refuse {results[others[0]]['would_refuse']}{more}")

    def _serials(self, names):
        """{name or serial: serial} of the nodes."""
        rows = self.registry.nodes(names=list(names), only=("platform",)) if names else []
        return {row[key]: row["serial"] for row in rows for key in ("name", "serial")}

    def _without_consent(self, hosts, keys, prepared):
        """{node: (serial, components)} of all nodes whose plan wants consent that nobody gave: looked up before the first node is touched.

        A node that cannot be read now has no plan; it fails in the run, which refuses it for itself where it has come back.
        """
        baseline, _images, options = prepared
        if not shared.firmware.may_want_consent(baseline, self.params["components"]):
            return {}
        serials, given = self._serials(hosts), set(self.params["consent"])
        asked = {name: host for name, host in hosts.items() if serials.get(name) not in given}
        found = {}

        def told(name, result):
            if result.get("consent_missing"):
                found[name] = (serials.get(name, name), result["consent_missing"])

        jobs = [Job(name, host, key=keys.get(name), limit=self.params["node_timeout"]) for name, host in asked.items()]
        engine = Engine(
            functools.partial(self._look, baseline, options),
            concurrency=max(LOOKS_AT_ONCE, self.params["concurrency"]),
            breaker=Breaker(len(jobs), None, REFUSED_LOGINS),
            progress=Progress("firmware consent", len(jobs), self.params["progress"], self._display.display),
        )
        engine.run(jobs, told)
        return {name: found[name] for name in hosts if name in found}

    def _look(self, baseline, options, job, _seconds, _before_write):
        """What check mode says of one node, as far as it is about consent."""
        host, params = job.params, self.params
        endpoint, asked = door.endpoint_of(host["params"], job.host), options(host["siblings"])
        if params["stage"]:
            update = functools.partial(shared.firmware.update_in_stage, states=params["states"])
        else:
            update = shared.firmware.update
        result = update(endpoint, self.registry, job.host, baseline, asked, actor=self.actor, check=True)
        return {"changed": False, "consent_missing": result.get("consent_missing")}

    def _run(self, hosts, keys, prepared, results):
        baseline, images, options = prepared
        params, check, diff = self.params, self.check_mode, bool(self._task.diff)
        limits = shared.firmware.group_limits({name: host["group"] for name, host in hosts.items()}, params["limit"])
        groups = sorted(limits)
        pacers = [Pacer(limits[group], 0) for group in groups]
        # Nodes of one chassis one after the other: what they share has one owner at a time.
        chassis = Pacer(1, 0)
        pacers.append(chassis)
        registry, actor = self.registry, self.actor
        jobs = []
        for name, host in hosts.items():
            places = [(groups.index(host["group"]), host["group"])]
            if host["chassis"]:
                places.append((len(groups), host["chassis"]))
            # In the stage the inventory's number is that of a dead controller's attempt: the one that takes it over has another, and checks it itself.
            fencing = None if params["stage"] else host["attempt"][1]
            fence = functools.partial(registry.check_fence, name, fencing) if fencing is not None else None
            jobs.append(Job(name, host, key=keys.get(name), groups=places, fence=fence, limit=params["node_timeout"]))

        def call(job, _seconds, before_write):
            host = job.params
            common = {
                "images": images,
                "actor": actor,
                "fence": before_write,
                "check": check,
                "tell": self._display.v,
            }
            endpoint = door.endpoint_of(host["params"], job.host)
            if params["stage"]:
                result = shared.firmware.update_in_stage(
                    endpoint, registry, job.host, baseline, options(host["siblings"]), states=params["states"], **common
                )
            else:
                result = shared.firmware.update(
                    endpoint, registry, job.host, baseline, options(host["siblings"]), attempt=host["attempt"], **common
                )
            return shared.finish(result, diff, host["params"]["bmc_password"])

        engine = Engine(
            call,
            concurrency=params["concurrency"],
            pacers=pacers,
            breaker=_Breaker(len(jobs), None if check else params["max_fail_percentage"]),
            progress=Progress("firmware", len(jobs), params["progress"], self._display.display),
            canary=0 if check else params["canary"],
        )
        engine.run(jobs, results.__setitem__)
