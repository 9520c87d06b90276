# The door of bmc_discover: its argument specifications, and the module that does the BMC work on another machine for the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

from ansible.module_utils.basic import AnsibleModule

from ..bmc import sources
from ..core.errors import BaremetalError
from ..fleet.discovery import Here

SECTIONS = ["system", "bmc", "processors", "memory", "nics", "drives", "gpus", "firmware", "boot"]

SCAN = {
    "ranges": {"type": "list", "elements": "str"},
    "lease_files": {"type": "list", "elements": "path"},
    "ssdp": {"type": "bool", "default": False},
    "ssdp_wait": {"type": "float", "default": 3.0},
    "port": {"type": "int", "default": 443},
    "ipmi_port": {"type": "int", "default": 623},
    "scan_timeout": {"type": "float", "default": 1.5},
    "concurrency": {"type": "int", "default": 200},
}
STAGE = {
    **SCAN,
    "factory_credentials": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "rotate": {"type": "bool", "default": True},
    "site_credential": {"type": "str", "default": "bmc/{serial}", "no_log": False},
    "password_length": {"type": "int", "default": 16, "no_log": False},
    "expected": {"type": "list", "elements": "dict"},
    "expected_file": {"type": "path"},
    "approve": {"type": "str", "choices": ["expected", "all"], "default": "expected"},
    "accept_misplaced": {"type": "bool", "default": False},
    "provision_nic": {"type": "str"},
    "sections": {"type": "list", "elements": "str", "choices": SECTIONS},
    "registry": {"type": "str"},
    "secrets": {"type": "str", "no_log": False},
}
# Only between the action plugin and the module that it sends to a delegate.
ERRAND = {
    "errand": {"type": "str", "choices": ["scan", "ssdp", "visit", "rotate"], "default": "scan"},
    "targets": {"type": "str", "no_log": True},
}
RULES = {"mutually_exclusive": [["expected", "expected_file"]]}


def main():
    """The shipped module: one errand, done here. Without its action plugin it scans, which needs neither registry nor credentials."""
    module = AnsibleModule(argument_spec={**STAGE, **ERRAND}, supports_check_mode=True, **RULES)
    params = module.params
    here = Here(params["concurrency"])
    try:
        if params["errand"] == "ssdp":
            module.exit_json(changed=False, answers=here.ssdp(params["ssdp_wait"]))
        if params["errand"] == "scan":
            ranges = [*(params["ranges"] or []), *sources.read_leases(params["lease_files"] or [])]
            if params["ssdp"]:
                ranges += [f"{address}:{port}" for address, port in here.ssdp(params["ssdp_wait"])]
            found = here.scan(ranges, params["port"], params["ipmi_port"], params["scan_timeout"])
            module.exit_json(changed=False, **found)
        targets = json.loads(params["targets"] or "[]")
        if params["errand"] == "rotate" and module.check_mode:
            module.exit_json(changed=False, answers=[])
        answers = getattr(here, params["errand"])(targets)
    except BaremetalError as error:
        module.fail_json(**{key: value for key, value in error.as_result().items() if key != "failed"})
    module.exit_json(changed=params["errand"] == "rotate", answers=answers)
