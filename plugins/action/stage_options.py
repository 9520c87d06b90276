# Door: are the options of the stages, as one node sees them, such that a stage can work with them? Documentation: plugins/modules/stage_options.py.
#
# The rules are those of the code that uses the options; here they are only asked, before an attempt is begun.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib

import yaml
from ansible import constants
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.utils.collection_loader._collection_finder import _get_collection_role_path

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import targets
from ansible_collections.aicluster.baremetal.plugins.module_utils.health import limits, plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import network, seed, spec, store, wait
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import transitions
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import options
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction, plain

try:
    from ansible.template import trust_as_template
except ImportError:  # ansible-core before 2.19: every text may be a template

    def trust_as_template(value):
        return value


STAGES = ("deploy", "software", "burn_in")
# Options of the role burn_in that are keys of the plan.
PLAN = ("seconds", "memory_fraction", "memory_rate", "disk_size", "gpu_diag_level", "checks")


def _read(role, *path):
    return yaml.safe_load(pathlib.Path(__file__).parents[2].joinpath("roles", role, *path).read_text("utf-8"))


def _trusted(value):
    if isinstance(value, dict):
        return {key: _trusted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_trusted(item) for item in value]
    return trust_as_template(value) if isinstance(value, str) else value


# Read before the workers are forked, so that none of them pays for it.
SPECS = {stage: _read(stage, "meta", "argument_specs.yml")["argument_specs"]["main"]["options"] for stage in STAGES}
DEFAULTS = {stage: _trusted(_read(stage, "defaults", "main.yml")) for stage in STAGES}


class ActionModule(RegistryAction):
    REGISTRY_LATER = True
    ARGUMENT_SPEC = {"stage": {"type": "str", "choices": list(STAGES)}}

    def execute(self):
        self._mistakes = []
        for stage in STAGES:
            getattr(self, f"_{stage}")(self._values(stage))
        if len(self._mistakes) == 1:
            raise self._mistakes[0]
        if self._mistakes:
            raise errors.InvalidInput(
                " | ".join(str(error) for error in self._mistakes),
                thing=f"{len(self._mistakes)} options of the stages",
                next_step="correct them and run again",
            )
        return {"changed": False}

    def _values(self, stage):
        """{option: value} of a role, of their types: all of them for the stage that is to begin, of the others those that somebody set."""
        begins = self.params["stage"] == stage
        templar = self._templar.copy_with_new_env(available_variables={**DEFAULTS[stage], **self.task_vars})
        found = {}
        for name, rule in SPECS[stage].items():
            if name not in self.task_vars and not (begins and name in DEFAULTS[stage]):
                continue
            given = self.task_vars.get(name, DEFAULTS[stage].get(name))
            try:
                value = plain(templar.template(given))
            except Exception as error:
                # What is not there yet may come from an earlier stage.
                if begins:
                    self._wrong(name, "cannot be worked out", "a value for this host", str(error).splitlines()[0])
                continue
            if value is None:
                continue
            checked = ArgumentSpecValidator({name: {**rule, "required": False}}).validate({name: value})
            if checked.error_messages:
                error = options.refusal({name: rule}, {name: value}, checked.error_messages[0])
                self._wrong(name, error.message, error.wanted, str(value)[:200])
                continue
            found[name] = checked.validated_parameters[name]
        return found

    def _wrong(self, name, message, wanted, seen, next_step=None):
        self._mistakes.append(
            errors.InvalidInput(
                message,
                thing=name,
                wanted=wanted,
                seen=seen,
                next_step=next_step or f"correct {name} and run again",
            )
        )

    def _ask(self, option, check, /, *arguments, **more):
        """The result of `check`; what it refuses becomes a mistake of the option, and the result None."""
        try:
            return check(*arguments, **more)
        except errors.BaremetalError as error:
            message = ": ".join(str(part) for part in (error.thing, error.message) if part)
            usual = not error.next_step or error.next_step.startswith("correct ")
            self._wrong(option, message, error.wanted, error.seen, None if usual else error.next_step)
        except (TypeError, ValueError) as error:
            self._wrong(option, "the value cannot be used", None, str(error))
        return None

    def _deploy(self, own):
        begins = self.params["stage"] == "deploy"
        if begins and not own.get("deploy_image", "unread"):
            self._wrong(
                "deploy_image",
                "no image is named",
                "a directory of the image store",
                "nothing",
                "run again with -e deploy_image=NAME",
            )
        if begins and not own.get("deploy_ssh_public_keys", "unread"):
            self._wrong(
                "deploy_ssh_public_keys", "no SSH public key is given", "at least one, or nobody could log in", "none"
            )
        keys = own.get("deploy_ssh_public_keys") or []
        for key in keys:
            self._ask("deploy_ssh_public_keys", seed.check_public_key, key)
        rule = own.get("deploy_disk") or {}
        disk = self._ask(
            "deploy_disk", spec.disk_rule, **{key: value for key, value in rule.items() if value is not None}
        )
        if own.get("deploy_image"):
            self._image(own, disk, begins)
        self._ask("deploy_limits", wait.limits, own.get("deploy_limits"))
        self._ask("deploy_interface", network.check_options, name=own.get("deploy_interface") or "prov0")
        self._ask("deploy_gateway", network.check_options, gateway=own.get("deploy_gateway"))
        self._ask("deploy_nameservers", network.check_options, nameservers=own.get("deploy_nameservers") or ())
        self._ask("deploy_rails", network.check_options, own.get("deploy_rails") or ())
        self._ask("deploy_user_data", seed.check_user_data, own.get("deploy_user_data"))
        rules = own.get("deploy_stagger") or []
        self._ask("deploy_stagger", targets.check_rules, rules)
        self._ask("deploy_stagger", self._require_groups, rules)

    def _image(self, own, disk, begins):
        name = own["deploy_image"]
        self._ask("deploy_image", spec.check_image_name, name)
        row = transitions.STAGES["deploy"]
        takes = {*row["start"], row["working"], f"{row['working']}_failed"}
        # Whether it is there is asked for those nodes only that the stage may take: the others need it no more.
        if self._mistakes or not begins or self.variable("aicluster_state", row["working"]) not in takes:
            return
        image = self._ask("deploy_image", store.image, own["deploy_image_store"], name)
        if image and disk:
            self._ask("deploy_disk", spec.build, "", "", 0, image, disk, {})

    def _require_groups(self, rules):
        """As in fleet: a limit for groups whose variable is misspelt must not let everything start at once."""
        for rule in rules:
            if rule["by"] in self.task_vars:
                continue
            hostvars = self.task_vars["hostvars"]
            hosts = self.task_vars.get("ansible_play_hosts_all") or []
            if not any(rule["by"] in hostvars.raw_get(host) for host in hosts[:50]):
                raise errors.InvalidInput(
                    "no host has this variable, so there would be no groups",
                    thing="by",
                    wanted="the name of a variable of the hosts, such as aicluster_rack",
                    seen=rule["by"],
                )

    def _software(self, own):
        for role in own.get("software_roles") or []:
            self._ask("software_roles", self._require_role, role)

    def _require_role(self, role):
        found = _get_collection_role_path(role) if role.count(".") >= 2 else None
        base = self.task_vars.get("playbook_dir") or self._loader.get_basedir()
        places = [os.path.join(base, "roles"), *constants.DEFAULT_ROLES_PATH, base]
        there = [found[1]] if found else [os.path.join(place, role) for place in places]
        there = [place for place in there if os.path.isdir(place)]
        if not there:
            raise errors.InvalidInput(
                "there is no such role",
                wanted="a role that is installed, by its full name (namespace.collection.role)",
                seen=role,
                next_step="correct software_roles, or install the collection that has it",
            )
        if not any(os.path.exists(os.path.join(there[0], "tasks", name)) for name in ("expect.yml", "expect.yaml")):
            raise errors.InvalidInput(
                "the role does not say what it wants of a node", wanted=f"{role}: tasks/expect.yml", seen="no such file"
            )

    def _burn_in(self, own):
        for key in PLAN:
            if f"burn_in_{key}" in own:
                self._ask(f"burn_in_{key}", plan.read_plan, {"schema": plan.SCHEMA, key: own[f"burn_in_{key}"]})
        self._ask("burn_in_limits", limits.resolve, own.get("burn_in_limits"))
