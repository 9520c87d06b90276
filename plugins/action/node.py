# Door: the rows of nodes in the registry. Documentation: plugins/modules/node.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors, node_columns
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Change, Plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.redact import redact
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import options
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction, plain

_TEXT_COLUMNS = (
    "name",
    "uuid",
    "site",
    "rack",
    "slot",
    "tenant",
    "platform",
    "role",
    "bmc_address",
    "bmc_credential",
    "bmc_fingerprint",
    "provision_mac",
    "provision_ip",
    "ansible_host",
    "maintenance_reason",
)
# What holds for all nodes of the bulk form, unless a node says otherwise.
_COMMON = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "initial_state": {"type": "str", "choices": ["registered", "manageable"], "default": "registered"},
    "reason": {"type": "str"},
}
_OWN = {
    "serial": {"type": "str"},
    **{column: {"type": "str"} for column in _TEXT_COLUMNS},
    "bmc_port": {"type": "int"},
    "bmc_protocol": {"type": "str", "choices": ["redfish", "ipmi"]},
    "provision_prefix": {"type": "int"},
    "maintenance": {"type": "bool"},
    "parts": {"type": "list", "elements": "dict"},
    "facts": {"type": "dict"},
    "host_key": {"type": "str", "no_log": False},
}
_NOT_COLUMNS = {"registry", "nodes", "serial", "host_key", *_COMMON}


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {**_COMMON, **_OWN, "nodes": {"type": "list", "elements": "dict"}}
    ARGUMENT_RULES = {
        "required_one_of": [("serial", "nodes")],
        "mutually_exclusive": [("nodes", option) for option in _OWN],
    }

    def execute(self):
        if self.params["nodes"] is not None:
            return self._bulk(self._clean_nodes(self.params["nodes"]))
        node = self.params
        plan = self._plan(node)
        if not self.check_mode:
            plan = self._save(node)
            if node["host_key"] and node["state"] == "present":
                self.refresh_known_hosts()
        return self.planned(plan, node=self._row(node["serial"]))

    def _row(self, serial):
        try:
            return self.registry.node(serial)
        except errors.NotFound:  # check mode of a new node, or a node that never was
            return None

    @staticmethod
    def _columns(node):
        columns = {key: value for key, value in node.items() if key not in _NOT_COLUMNS and value is not None}
        columns["state"] = node["initial_state"]
        return columns

    def _plan(self, node):
        """What would change. Everything is judged before anything is written, in check mode too: a task that is refused has done nothing."""
        serial = node["serial"]
        if node["state"] == "absent":
            return self._retire(node, check=True)
        plan = self.registry.plan_node(serial, **self._columns(node))
        key_plan = self.registry.plan_host_key(serial, node["host_key"]) if node["host_key"] else Plan()
        return Plan([*plan.changes, *key_plan.changes])

    def _save(self, node):
        serial = node["serial"]
        if node["state"] == "absent":
            return self._retire(node, check=False)
        plan = self.registry.save_node(serial, self.actor, **self._columns(node))
        key_plan = self.registry.pin_host_key(serial, node["host_key"], self.actor) if node["host_key"] else Plan()
        return Plan([*plan.changes, *key_plan.changes])

    def _retire(self, node, check):
        serial = node["serial"]
        row = self._row(serial)
        if row is None:
            return Plan()
        plan = Plan([Change("state", row["state"], "retired")])
        if plan.changed:
            # The serial is the key of this module, so naming it is the consent; a name in its place is none.
            self.registry.transition(
                serial, row["state"], "retired", self.actor, node["reason"], check=check, consent=serial
            )
        return plan

    # the bulk form

    def _clean_nodes(self, entries):
        """The entries with all options; InvalidInput for one that cannot be read or stands twice, before anything is looked at."""
        spec = {**{option: {**rule, "default": self.params[option]} for option, rule in _COMMON.items()}, **_OWN}
        cleaned = {}
        for number, entry in enumerate(entries, 1):
            found = ArgumentSpecValidator(spec).validate(entry)
            try:
                if found.error_messages:
                    raise options.refusal(spec, entry, found.error_messages[0])
                node = plain(found.validated_parameters)
                node["serial"] = node_columns.clean_serial(node["serial"])
            except errors.InvalidInput as error:
                error.thing = f"nodes, row {number}, {error.thing}"
                raise
            if node["serial"] in cleaned:
                self._refuse_twice("serial", node["serial"], f"row {number}", "an earlier row")
            cleaned[node["serial"]] = node
        return cleaned

    @staticmethod
    def _refuse_twice(thing, value, one, other):
        raise errors.InvalidInput(
            f"two nodes of the list have one {thing}",
            thing=f"nodes, {thing}",
            wanted=f"a {thing} for each node",
            seen=f"{value} for {one} and {other}",
            next_step="correct the list; nothing was written",
        )

    def _bulk(self, nodes):
        """One entry a node; an error of one node is in its entry and the others go on."""
        entries, plans = {}, {}
        for serial, node in nodes.items():
            try:
                plans[serial] = self._plan(node)
            except errors.BaremetalError as error:
                entries[serial] = error
        self._refuse_shared(nodes, plans)
        if not self.check_mode:
            for serial in list(plans):
                try:
                    plans[serial] = self._save(nodes[serial])
                except errors.BaremetalError as error:  # somebody else wrote between the two
                    del plans[serial]
                    entries[serial] = error
            if any(nodes[serial]["host_key"] for serial in plans):
                self.refresh_known_hosts()
        rows = {row["serial"]: row for row in self.registry.nodes(names=list(nodes), parts=True)}
        return self._told([self._entry(nodes[serial], rows.get(serial), plans, entries) for serial in nodes])

    def _refuse_shared(self, nodes, plans):
        """No two nodes of the list may come to have what no two machines share: each alone would be fine, and the second write would fail."""
        rows = {row["serial"]: row for row in self.registry.nodes(names=list(plans))}
        seen = {}
        for serial, plan in plans.items():
            if nodes[serial]["state"] == "absent":
                continue
            after = {**rows.get(serial, {}), **{change.thing: change.after for change in plan.changes}}
            for thing, value in {"name": after.get("name"), **node_columns.own_things(after)}.items():
                other = seen.setdefault((thing, value), serial)
                if other != serial:
                    self._refuse_twice(thing, value, f"serial {other}", f"serial {serial}")

    @staticmethod
    def _entry(node, row, plans, failures):
        serial = node["serial"]
        entry = {"serial": serial, "name": (row or node)["name"], "changed": False, "node": row}
        if serial in failures:
            return {**entry, **failures[serial].with_host(entry["name"] or serial).as_result()}
        plan = Plan(
            [Change(f"{serial}.{change.thing}", change.before, change.after) for change in plans[serial].changes]
        )
        return {**entry, "changed": plan.changed, **({"diff": redact(plan.diff())} if plan.changed else {})}

    def _told(self, entries):
        failed = [entry for entry in entries if entry.get("failed")]
        for entry in failed[:10]:
            self._display.warning(entry["msg"])
        result = {
            "changed": any(entry["changed"] for entry in entries),
            "nodes": entries,
            "failed_serials": [entry["serial"] for entry in failed],
            "diff": [entry.pop("diff") for entry in entries if "diff" in entry],
        }
        if failed and len(failed) == len(entries):
            more = f"all {len(failed)} nodes failed; first: " if len(failed) > 1 else ""
            result.update(failed=True, msg=more + failed[0]["msg"])
        return result
