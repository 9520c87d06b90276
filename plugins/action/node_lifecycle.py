# Door: begin, step, finish and bare transitions. Documentation: plugins/modules/node_lifecycle.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors, process
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Change, Plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import transitions
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction, plain

# Nothing was done in check mode, so nothing passed.
NOT_KNOWN = "with an outcome that only the real run can tell"


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": ["begin", "step", "finish", "transition"], "required": True},
        "stage": {"type": "str", "choices": list(transitions.STAGES)},
        "name": {"type": "str"},
        "names": {"type": "list", "elements": "str"},
        "attempt": {"type": "int"},
        "fencing": {"type": "int"},
        "deadline": {"type": "float"},
        "retry_failed": {"type": "bool", "default": False},
        "stale_after": {"type": "float"},
        "step": {"type": "str"},
        "detail": {"type": "raw"},
        "outcome": {"type": "str", "choices": ["pass", "fail", "could_not_test"]},
        "reason": {"type": "str"},
        "from_state": {"type": "str"},
        "to_state": {"type": "str"},
        "consent": {"type": "str", "no_log": False},
        "consents": {"type": "dict", "no_log": False},
    }
    ARGUMENT_RULES = {
        "mutually_exclusive": [("name", "names"), ("names", "consent"), ("name", "consents")],
        "required_if": [
            ("state", "begin", ("stage",)),
            ("state", "step", ("step",)),
            ("state", "finish", ("outcome",)),
            ("state", "transition", ("to_state",)),
        ],
    }

    def execute(self):
        if self.params["stale_after"] is not None:
            self.registry.stale_after = self.params["stale_after"]
        act = getattr(self, f"_{self.params['state']}")
        if self.params["names"] is None:
            name = self.params["name"] or self.host
            entry = act(name)
            entry.pop("name")
            if self.params["state"] != "step":
                self._tell_ansible(name, entry)
            return entry
        self._require_consents()
        return self._bulk(act)

    def _require_consents(self):
        """What cannot be taken back is refused for all nodes together, before the first is moved."""
        refused = []
        if self.params["state"] == "transition":
            for name in self.params["names"]:
                try:
                    self._move(name, check=True)
                except errors.BaremetalError as error:
                    if error.code == "consent_required":
                        refused.append((name, error))
        if refused:
            names = [name for name, _error in refused]
            raise errors.Refused(
                f"{len(names)} of {len(self.params['names'])} nodes lack consent by serial number; none was moved",
                host=names[0],
                thing="consents",
                wanted="the chassis serial of each node, under the name that names has",
                seen=f"no serial, or another one, for {', '.join(names[:10])}" + (", ..." if len(names) > 10 else ""),
                next_step="give consents with a line 'node: serial' for each of them",
                code="consent_required",
            )

    def _bulk(self, act):
        """One entry a node; an error of one node is in its entry and the others go on."""
        entries = []
        for name in self.params["names"]:
            try:
                entries.append(act(name))
            except errors.BaremetalError as error:
                entries.append({"name": name, "changed": False, **error.with_host(name).as_result()})
        failed = [entry["name"] for entry in entries if entry.get("failed")]
        result = {
            "changed": any(entry["changed"] for entry in entries),
            "nodes": entries,
            "failed_names": failed,
            "selected_names": [entry["name"] for entry in entries if entry.get("selected")],
            "diff": [entry.pop("diff") for entry in entries if "diff" in entry],
        }
        if failed and len(failed) == len(entries):
            result.update(
                failed=True,
                msg=entries[0]["msg"]
                if len(failed) == 1
                else f"all {len(failed)} nodes failed; first: {entries[0]['msg']}",
            )
        return result

    def _begin(self, name):
        stage = self.params["stage"]
        before = self.registry.node(name)["state"] if self._task.diff else None
        begin = self.registry.begin(
            name,
            stage,
            owner=process.this_controller(),
            deadline_s=self.params["deadline"],
            actor=self.actor,
            retry_failed=self.params["retry_failed"],
            check=self.check_mode,
        )
        # A node that is simply at another stage is no news; one that somebody or something keeps back is.
        if not begin.selected and (not begin.reason.startswith("state ") or "ask for a retry" in begin.reason):
            self._display.warning(f"{name} is not taken for stage {stage}: {begin.reason}")
        entry = {"name": name, **begin.as_dict()}
        if begin.adopted:
            entry["diff"] = self._diff(f"{name}.owner of the attempt", "a controller that is gone", "this controller")
        elif begin.changed:
            entry["diff"] = self._diff(f"{name}.state", before, transitions.STAGES[stage]["working"])
        return entry

    @staticmethod
    def _diff(thing, before, after):
        return Plan([Change(thing, before, after)]).diff()

    def _numbers(self, name):
        """The attempt and fencing number of a node of the bulk form come from its own variables."""
        if self.params["names"] is None and name == self.host or self.params["attempt"]:
            return self.require_attempt()
        found = (self.task_vars.get("hostvars") or {}).get(name) or {}
        attempt, fencing = (plain(found.get(key)) for key in ("aicluster_attempt", "aicluster_fencing"))
        if not attempt or not fencing:
            raise errors.InvalidInput("the node has no running attempt in this run", host=name, thing="attempt")
        return int(attempt), int(fencing)

    def _step(self, name):
        if not self.check_mode:
            attempt, fencing = self._numbers(name)
            self.registry.step(name, attempt, fencing, self.params["step"], self.params["detail"])
        return {"name": name, "changed": False}

    def _finish(self, name):
        if self.check_mode:
            # Begin wrote nothing in check mode, so there is no attempt to end; what would follow depends on work that was not done.
            ended = NOT_KNOWN if self.params["outcome"] == "pass" else self.params["to_state"] or self.params["outcome"]
            return {
                "name": name,
                "changed": True,
                "diff": self._diff(f"{name}.attempt", "under way", f"ended: {ended}"),
            }
        attempt, fencing = self._numbers(name)
        stage = transitions.STAGES[self.registry.attempt(attempt)["stage"]]
        new = self.registry.finish(
            name, attempt, fencing, self.params["outcome"], self.actor, self.params["reason"], self.params["to_state"]
        )
        return {
            "name": name,
            "changed": True,
            "node_state": new,
            "diff": self._diff(f"{name}.state", stage["working"], new),
        }

    def _move(self, name, check):
        """(before, after) of a bare transition, or None where the node is there already."""
        new = self.params["to_state"]
        node = self.registry.node(name)
        if node["state"] == new:
            return None
        wanted = self.params["from_state"] or node["state"]
        consent = self.params["consent"] if self.params["names"] is None else (self.params["consents"] or {}).get(name)
        self.registry.transition(name, wanted, new, self.actor, self.params["reason"], check=check, consent=consent)
        return wanted, new

    def _transition(self, name):
        new = self.params["to_state"]
        moved = self._move(name, self.check_mode)
        if moved is None:
            return {"name": name, "changed": False, "node_state": new}
        wanted = moved[0]
        return {"name": name, "changed": True, "node_state": new, "diff": self._diff(f"{name}.state", wanted, new)}

    def _tell_ansible(self, name, entry):
        """Put the outcome into the running inventory."""
        if name not in ((self.task_vars.get("groups") or {}).get("all") or []):
            return
        groups, variables = [], {}
        if self.params["state"] == "begin" and entry["selected"]:
            groups = [f"stage_{self.params['stage']}"]
            if not self.check_mode:
                variables = {"aicluster_attempt": entry["attempt"], "aicluster_fencing": entry["fencing"]}
                variables["aicluster_state"] = entry["state"]
        elif not self.check_mode and entry.get("node_state"):
            variables = {"aicluster_state": entry["node_state"]}
            if self.params["state"] == "finish":
                variables["aicluster_attempt"] = None
        if groups or variables:
            self.tell_inventory(entry, name, groups, variables)
