# Door: one operation on the BMCs of all hosts of the batch, in this one process. Documentation: plugins/modules/fleet.py.
#
# Runs once for all hosts (BYPASS_HOST_LOOP). Ansible fills in its arguments with the first host's values, so it takes names of host variables, never
# values; and it must not fail, because that would end the playbook for all hosts: who failed is in the result.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import time

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import ipmi, redfish, tls
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import host_port
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors, process
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import fleet as door
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import sinks, summary, targets
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.breaker import Breaker
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.engine import Engine, Job, Watch
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.pace import IPMI_AT_ONCE, Pacer
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet.progress import Alive
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import host_variables, places
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction, plain
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.secret_store import login_of

HERE = ("localhost", "127.0.0.1", "::1")
# The group that a host joins when its run of fleet left failed hosts behind; its variable of the same name holds them (playbooks/fleet_failures.yml).
MARK = "aicluster_fleet"
MOST_WARNINGS = 10
MOST_REASONS = 3
# Seconds between two signs of life of the hosts' attempts, and what one of them may cost.
HEARTBEAT_S = 60.0
HEARTBEAT_EACH_S = 0.05

tls.warm()
LOADED = (ipmi, redfish)  # before the fork, so that no worker pays for their imports


def _as_it_is(name, *unused, **unused2):
    """In the place of a resolver: names of other batches' BMCs are not looked up."""
    raise OSError(name)


class ActionModule(RegistryAction):
    BYPASS_HOST_LOOP = True
    REGISTRY_LATER = True
    ARGUMENT_SPEC = {
        "operation": {"type": "str", "required": True, "choices": sorted(door.OPERATIONS)},
        "options": {"type": "dict", "default": {}},
        "options_from": {"type": "dict", "default": {}},
        "hosts": {"type": "list", "elements": "str"},
        "states": {"type": "list", "elements": "str"},
        "skip_held": {"type": "bool", "default": False},
        "variables": {"type": "dict", "default": {}},
        "concurrency": {"type": "int", "default": 200},
        "timeout": {"type": "float"},
        "deadline": {"type": "float"},
        "max_fail_percentage": {"type": "float"},
        "max_refused_logins": {"type": "int", "default": 3},
        "canary": {"type": "int", "default": 0},
        "stagger": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "by": {"type": "str", "required": True},
                "batch": {"type": "int", "required": True},
                "pause": {"type": "float", "default": 0.0},
            },
        },
        "note_power_on": {"type": "bool", "default": False},
        "output": {"type": "path"},
        "record": {"type": "bool", "default": False},
        "progress": {"type": "float", "default": 10.0},
        "secrets": {"type": "str", "no_log": False},
    }

    def execute(self):
        # This worker was forked for this one task: what it inherited stays as it is, so collecting garbage there costs time and copies its memory.
        gc.freeze()
        self._refuse_what_means_the_first_host()
        params = self.params
        operation = params["operation"]
        names = targets.variable_names(params["variables"])
        later = {
            option: targets.check_name(name, f"options_from.{option}")
            for option, name in params["options_from"].items()
        }
        rules = self._rules()
        options = door.check_options(operation, params["options"], later)
        hosts = self._asked(params["hosts"], "hosts")
        begun = time.monotonic()
        chosen, skipped = self._select(hosts)
        results = {}
        values = self._read(chosen, {**names, **{f"option {key}": name for key, name in later.items()}}, rules, results)
        self._require_groups(rules, values)
        keys = targets.bmc_keys(values)
        for host, error in self._shared(values, keys, names, hosts).items():
            results[host] = error.as_result()
        jobs = self._jobs(operation, values, keys, rules, results)
        attempts = {} if self.check_mode else self._attempts(values)
        notes = {
            host: functools.partial(self._note_power_on, host, *numbers, [])
            for host, numbers in (attempts.items() if params["note_power_on"] else ())
        }
        secrets = self._secrets(values, later)
        del values
        watch = Watch()
        pacers = [Pacer(rule["batch"], rule["pause"]) for rule in rules] + [Pacer(IPMI_AT_ONCE, 0)]

        def call(job, seconds, before_write):
            own = self._params(job.host, job.params, operation, options, later, secrets)
            check, diff = self.check_mode, bool(self._task.diff)
            return door.call(operation, own, job.host, seconds, check, diff, before_write, watch, notes.get(job.host))

        self._run_jobs(operation, jobs, call, watch, pacers, results, list(attempts.values()))
        diff = summary.joined_diff(results)
        found = summary.summarise(hosts, results, skipped, time.monotonic() - begun)
        self._warn(results)
        found["results"] = {host: results[host] for host in hosts if host in results}
        self._say_why(found)
        if self._task.diff:
            found["diff"] = diff
        if params["output"] and not self.check_mode:
            found["output"] = params["output"]
        self._leave_a_mark(found)
        return found

    # ---- what is asked --------------------------------------------------------------------------------------------------------------------
    def _refuse_what_means_the_first_host(self):
        if self._task.when:
            raise errors.InvalidInput(
                "a condition on this task would count for all hosts as it is for the first one",
                thing="when",
                wanted="no `when` on the task and around it",
                seen=str(self._task.when)[:200],
                next_step="choose the hosts with `hosts:` of the play, `states`, or `hosts` of the task",
            )
        target = self._task.delegate_to
        if target and str(target) not in HERE:
            raise errors.InvalidInput(
                "the fleet works in the controller only",
                thing="delegate_to",
                wanted="no delegate_to",
                seen=str(target),
                next_step="run ansible-playbook where the BMC network is reachable, or use the bmc_* modules with delegate_to",
            )

    def _batch(self):
        return plain(self.task_vars.get("ansible_play_batch") or [self.host])

    def _asked(self, given, thing):
        """The hosts that the task is for: those of the batch, or the names that it gives, every one of which must be a host of this run.

        fleet_failures can fail nobody else, so the failure of a name that is mistyped, or outside of -l, would be seen by nobody.
        """
        if given is None:
            return list(dict.fromkeys(self._batch()))
        names, hostvars = list(dict.fromkeys(str(name) for name in given)), self.task_vars["hostvars"]
        unknown = [name for name in names if name not in hostvars]
        if unknown:
            raise errors.NotFound(
                "no such host in the inventory; nothing was sent to any host",
                thing=thing,
                wanted="names of hosts of the inventory",
                seen=targets.named(unknown),
                next_step="correct the names",
            )
        outside = host_variables.outside_limit(hostvars, names)
        if outside:
            raise errors.InvalidInput(
                "the run is limited to other hosts; nothing was sent to any host",
                thing=thing,
                wanted="hosts that -l (--limit) leaves in the run",
                seen=targets.named(outside),
                next_step="leave them out, or run without the limit",
            )
        if not names:
            self._display.warning(f"{thing} is an empty list: there is nothing to do")
        return names

    def _require_groups(self, rules, values, thing="stagger.by"):
        """A limit for groups whose variable is misspelt must not silently let everything start at once."""
        for number, rule in enumerate(rules):
            lacking = [host for host, own in values.items() if not targets.group_values(own[f"stagger {number}"])]
            if not lacking:
                continue
            hostvars = self.task_vars["hostvars"]
            if len(lacking) == len(values) and not any(rule["by"] in hostvars.raw_get(host) for host in lacking[:50]):
                raise errors.InvalidInput(
                    "no host has this variable, so there would be no groups; nothing was sent to any host",
                    thing=thing,
                    wanted="the name of a variable of the hosts, such as aicluster_rack",
                    seen=rule["by"],
                    next_step="correct the name, or leave it out",
                )
            self._display.warning(
                f"{thing} {rule['by']}: {len(lacking)} of {len(values)} hosts are in no group and count as one group together: "
                f"{targets.named(lacking)}"
            )

    def _shared(self, values, keys, names, hosts):
        """{host: error} for hosts whose BMC is another host's too, of the batch or of the play's other batches (`serial`)."""
        others = self._other_batches(values, keys, names, hosts) if self.params["hosts"] is None else {}
        if not others:
            return targets.shared(values, keys)
        return targets.shared(values, {**targets.bmc_keys(others, _as_it_is), **keys}, others)

    def _other_batches(self, values, keys, names, hosts):
        """{host: values} of the play's hosts outside of this batch that seem to have a BMC of the batch, and that the registry's state does not leave out."""
        mine, hostvars = set(hosts), self.task_vars["hostvars"]
        rest = [host for host in plain(self.task_vars.get("ansible_play_hosts_all") or []) if host not in mine]
        if not rest:
            return {}
        wanted = [(key, names[key]) for key in ("address", "port", "ipmi_port", "protocol", "system_id")]
        places, seen = {key[0] for key in keys.values()}, {}
        places |= {str(own["address"]).lower() for own in values.values() if own["address"]}
        with host_variables.cheap():
            for host in rest:
                # What the inventory says literally is enough to see that most hosts have another BMC; reading all of them properly in every batch is not cheap.
                literal = host_variables.own(hostvars, host).get(names["address"])
                if (
                    isinstance(literal, str)
                    and "{" not in literal
                    and targets.place_of(literal, _as_it_is) not in places
                ):
                    continue
                try:
                    own = self._values(hostvars, host, wanted)
                except Exception:  # its own batch says what is wrong with it
                    continue
                if own["address"] and targets.place_of(own["address"], _as_it_is) in places:
                    seen[host] = own
        chosen = set(self._select(list(seen))[0]) if seen else ()
        return {host: own for host, own in seen.items() if host in chosen}

    def _rules(self):
        rules = self.params["stagger"]
        targets.check_rules(rules)
        targets.check_numbers(self.params)
        if self.params["note_power_on"] and self.params["operation"] != "start":
            raise errors.InvalidInput(
                "only a start can be noted in the boot timeline",
                thing="note_power_on",
                wanted="operation start",
                seen=self.params["operation"],
                next_step="leave note_power_on out",
            )
        if self.params["output"]:
            places.require_writable(self.params["output"], "output")
        return rules

    def _select(self, hosts):
        """(hosts to work on, hosts that the registry's state leaves out)."""
        states, skip_held = self.params["states"], self.params["skip_held"]
        if not states and not skip_held:
            return hosts, []
        # Only what decides: whole records of ten thousand nodes are hundreds of megabytes.
        rows = self.registry.nodes(state=states or None, names=hosts, only=("maintenance",))
        held = {row["serial"] for row in self.registry.holds()} if skip_held else ()
        rows = [row for row in rows if not skip_held or not (row["maintenance"] or row["serial"] in held)]
        fitting = {row[key] for row in rows for key in ("name", "serial")}
        return [host for host in hosts if host in fitting], [host for host in hosts if host not in fitting]

    # ---- the hosts' variables -------------------------------------------------------------------------------------------------------------
    def _read(self, hosts, names, rules, results):
        """{host: {thing: value}} of the variables named; a host whose variables cannot be read gets its result at once."""
        hostvars = self.task_vars["hostvars"]
        wanted = list(names.items()) + [(f"stagger {number}", rule["by"]) for number, rule in enumerate(rules)]
        found = {}
        with host_variables.cheap():
            for host in hosts:
                try:
                    found[host] = self._values(hostvars, host, wanted)
                except Exception as error:  # a template of this host: undefined, a lookup that fails, ...
                    results[host] = errors.InvalidInput(
                        "a variable of this host cannot be read",
                        host=host,
                        thing="host variables",
                        wanted=", ".join(name for _key, name in wanted),
                        seen=str(error).splitlines()[0] if str(error) else type(error).__name__,
                        next_step="correct the inventory",
                    ).as_result()
        return found

    @staticmethod
    def _values(hostvars, host, wanted):
        if host not in hostvars:
            raise errors.NotFound(
                "no such host in the inventory", thing="hosts", seen=str(host), next_step="correct the name"
            )
        raw = hostvars.raw_get(host)
        values, templated = {}, None
        for key, name in wanted:
            value = raw.get(name)
            if isinstance(value, (dict, list)) or (isinstance(value, str) and ("{{" in value or "{%" in value)):
                # Templating costs ten times as much as a literal, so only where there is something to template.
                templated = hostvars[host] if templated is None else templated
                value = templated[name]
            value = plain(value)
            if isinstance(value, str):
                value = sys.intern(value) or None  # most values are the same for thousands of hosts
            values[key] = int(value) if key in ("attempt", "fencing") and value is not None else value
        return values

    def _jobs(self, operation, values, keys, rules, results):
        """One Job for each host that is still without a result."""
        left = [host for host in values if host not in results]
        limit = self.params["timeout"] or door.usual_seconds(operation, self.params["options"])
        jobs = []
        for host in left:
            own = values[host]
            groups = [
                (number, name)
                for number, _rule in enumerate(rules)
                for name in targets.group_values(own[f"stagger {number}"]) or [targets.NO_GROUP]
            ]
            if own["protocol"] == "ipmi":
                groups.append((len(rules), "ipmi"))
            fence = None
            if own["fencing"] is not None:
                # Opened here, in one thread; the threads of the run then share it.
                fence = functools.partial(self.registry.check_fence, host, int(own["fencing"]))
            jobs.append(
                Job(
                    host, own, key=keys.get(host), groups=groups, fence=fence, credential=own["credential"], limit=limit
                )
            )
        return jobs

    @staticmethod
    def _attempts(values):
        """{host: (attempt, fencing)} of the hosts that are inside an attempt."""
        return {
            host: (int(own["attempt"]), int(own["fencing"]))
            for host, own in values.items()
            if own["attempt"] is not None and own["fencing"] is not None
        }

    def _note_power_on(self, host, attempt, fencing, noted):
        if noted:
            return  # a power cycle is two writes and one start
        # The step call checks the fence in the same transaction: an old controller leaves no event.
        self.registry.step(host, attempt, fencing, "boot:power_on")
        self.registry.boot_event(host, attempt, "power_on", None, "controller")
        noted.append(True)

    @staticmethod
    def _params(host, own, operation, options, later, secrets):
        """Everything that the operation needs to know of one host, made when it is its turn."""
        params = dict(options)
        if later:
            params = door.host_options(operation, options, {option: own[f"option {option}"] for option in later})
        for key in ("address", "protocol", "fingerprint", "ca_path", "ipmi_privilege", "ipmi_cipher_suite"):
            params[f"bmc_{key}"] = own[key]
        params["bmc_port"] = host_port(own["protocol"] or "redfish", own["port"], own["ipmi_port"], host)
        params["bmc_tls"] = own["tls"] or "verify"
        params["system_id"] = own["system_id"]
        params["bmc_username"], params["bmc_password"] = ActionModule._secret(secrets, own["credential"], host)
        if params.get("credential"):
            # The operation's own secret (the account's new password), beside the one that we log in with.
            params["password"] = ActionModule._secret(secrets, params.pop("credential"), host, ("password",))[1]
        return params

    def _secrets(self, values, later):
        """{reference: dict or error} of every reference that occurs."""
        wanted = {own["credential"] for own in values.values()}
        wanted.add(self.params["options"].get("credential"))
        if "credential" in later:
            wanted |= {own["option credential"] for own in values.values()}
        wanted = sorted(str(reference) for reference in wanted if reference)
        if not wanted:
            return {}
        if not self.setting("secret_lookup"):
            return self.secret_store.get_many(wanted)
        found = {}
        for reference in wanted:
            try:
                found[reference] = self.credential(reference)
            except Exception as error:  # each lookup has its own way of saying that there is no such thing
                found[reference] = errors.NotFound(
                    "the secret lookup has no such reference",
                    thing="aicluster_secret_lookup",
                    wanted=reference,
                    seen=type(error).__name__,
                    next_step="add it to the place that the lookup reads",
                )
        return found

    @staticmethod
    def _secret(secrets, reference, host, needed=("username", "password")):
        """(user name, password) of a reference; two empty texts where there is none."""
        if not reference:
            return "", ""
        found = secrets[str(reference)]
        if isinstance(found, errors.BaremetalError):
            # A copy: many hosts may name the same reference, and each error names its own host.
            raise type(found)(
                found.message,
                host=host,
                thing=found.thing,
                wanted=found.wanted,
                seen=found.seen,
                next_step=found.next_step,
                code=found.code,
            )
        return login_of(found, reference, needed)

    # ---- the run --------------------------------------------------------------------------------------------------------------------------
    def _run_jobs(self, operation, jobs, call, watch, pacers, results, attempts=()):
        params, shared = self.params, summary.Shared()

        def keep(host, result):
            results[host] = shared(result)

        engine = Engine(
            call,
            concurrency=params["concurrency"],
            pacers=pacers,
            breaker=Breaker(len(jobs), params["max_fail_percentage"], params["max_refused_logins"]),
            progress=Alive(
                functools.partial(self._heartbeat, attempts),
                max(HEARTBEAT_S, len(attempts) * HEARTBEAT_EACH_S),
                operation,
                len(jobs),
                params["progress"],
                self._display.display,
            ),
            deadline_s=params["deadline"],
            canary=params["canary"],
            watch=watch,
        )
        writer = self._writer(operation, keep)
        # When the controller ends, this worker gets the time to delete its sessions; the engine sends nothing else from then on.
        process.die_with_parent(os.getppid(), signal.SIGTERM)
        try:
            engine.run(jobs, writer.put if writer else keep)
        finally:
            if writer:
                writer.close()

    def _heartbeat(self, attempts):
        """A task that staggers its hosts may last long, and all this time their attempts have a living owner."""
        for attempt, fencing in attempts:
            try:
                self.registry.heartbeat(attempt, fencing)
            except errors.FencedOut:
                continue  # its next write says so

    def _writer(self, operation, keep):
        """The writer of large results, or None where they are to stay in memory."""
        found = []
        if self.params["record"]:
            if operation not in ("info", "health"):
                raise errors.InvalidInput(
                    "only what was observed can be recorded",
                    thing="record",
                    wanted="operation info or health",
                    seen=operation,
                    next_step="leave record out",
                )
            found.append(sinks.Inventories(self._save) if operation == "info" else self._save_evidence)
        if self.params["output"] and not self.check_mode:
            found.append(sinks.JsonLines(self.params["output"]))
        if not found:
            return None
        return sinks.Writer(found, lambda host, result: keep(host, sinks.slim(result)))

    def _save(self, host, info, facts, parts):
        """One inventory into the registry. Only the record of the server that was seen: another serial is another server, which is for discovery."""
        node = self.registry.node(host)
        serial = (info.get("system") or {}).get("serial")
        if serial != node["serial"]:
            raise errors.Conflict(
                "the BMC belongs to another server than the record, nothing was recorded",
                host=host,
                thing="serial",
                wanted=node["serial"],
                seen=serial,
                next_step="run the discover stage",
                code="serial_mismatch",
            )
        # What was not asked for this time stays as it is known.
        facts = {**(node["facts"] or {}), **facts}
        if self.check_mode:
            return self.registry.plan_node(serial, facts=facts, parts=parts)
        return self.registry.save_node(serial, self.actor, facts=facts, parts=parts)

    def _save_evidence(self, host, result):
        if result.get("items") and not self.check_mode:
            self.registry.record_evidence(host, None, result["items"], self.actor)

    # ---- afterwards -----------------------------------------------------------------------------------------------------------------------
    def _warn(self, results):
        """The BMCs' warnings, each once with the number of hosts that it is about."""
        hosts_by_text = {}
        for host, result in results.items():
            for text in result.get("bmc_warnings") or ():
                hosts_by_text.setdefault(text, []).append(host)
        often = sorted(hosts_by_text.items(), key=lambda item: -len(item[1]))
        for text, hosts in often[:MOST_WARNINGS]:
            more = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
            self._display.warning(f"{hosts[0]}{more}: {text}")
        if len(often) > MOST_WARNINGS:
            self._display.warning(
                f"fleet: {len(often) - MOST_WARNINGS} further kinds of warnings are in bmc_warnings of the results"
            )

    def _say_why(self, found):
        """The most frequent reasons of failures, once each: who does not import fleet_failures sees them here only."""
        alike = {}
        for host in [*found["failed_hosts"], *found["unreachable_hosts"]]:
            error = found["results"][host].get("error") or {}
            alike.setdefault((error.get("code"), error.get("message")), []).append(host)
        often = sorted(alike.values(), key=len, reverse=True)
        for hosts in often[:MOST_REASONS]:
            more = (
                f" (and {len(hosts) - 1} more hosts of this kind: {targets.named(hosts[1:])})" if len(hosts) > 1 else ""
            )
            self._display.warning(f"failed: {found['reasons'][hosts[0]]}{more}")
        if len(often) > MOST_REASONS:
            self._display.warning(
                f"{len(often) - MOST_REASONS} further kinds of failures are in the result's `reasons`"
            )

    def _leave_a_mark(self, found):
        """Tell fleet_failures which hosts to fail: in a variable of the batch's first host, beside what is there from an earlier task of this run."""
        if not found["failing"]:
            return
        if len(found["failing"]) == len(found["reasons"]):
            # All that were asked failed: one of the play's others keeps the run alive (a later batch of `serial`, a host that was not chosen).
            others = plain(self.task_vars.get("ansible_play_hosts") or [])
            found["failing"] += [host for host in others if host not in found["reasons"]][:1]
        before = self.variable(MARK) or {}
        known = {
            "failing": list(dict.fromkeys([*(before.get("failing") or []), *found["failing"]])),
            "reasons": {**(before.get("reasons") or {}), **found["reasons"]},
        }
        if found["changed"]:
            # Until ansible-core 2.21 the task counts as changed where this variable changes, whatever the task says.
            known["time"] = time.time()
        self.tell_inventory(found, self.host, [MARK], {MARK: known})
