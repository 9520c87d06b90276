# The door of the bmc_* modules: argument specifications, parameters -> Endpoint, one call, the result. Used by the modules and by the action plugins.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

from ansible.module_utils.basic import AnsibleModule

from ..bmc import cycle, operations, update
from ..bmc.endpoint import Endpoint
from ..bmc.wire import Wire
from ..core.errors import BaremetalError, InvalidInput
from ..core.units import parse_size

try:
    import yaml
except ImportError:  # on the host of delegate_to; there JSON does
    yaml = None

CONNECTION = {
    "bmc_address": {"type": "str"},
    "bmc_port": {"type": "int"},
    "bmc_protocol": {"type": "str", "choices": ["redfish", "ipmi"]},
    "bmc_credential": {"type": "str"},
    "bmc_username": {"type": "str"},
    "bmc_password": {"type": "str", "no_log": True},
    "bmc_fingerprint": {"type": "str"},
    "bmc_ca_path": {"type": "path"},
    "bmc_tls": {"type": "str", "choices": ["verify", "pinned", "legacy", "insecure"], "default": "verify"},
    "bmc_ipmi_privilege": {
        "type": "str",
        "choices": ["user", "operator", "administrator"],
        "default": "administrator",
    },
    "bmc_ipmi_cipher_suite": {"type": "str", "choices": ["auto", "3", "17"], "default": "auto"},
    "system_id": {"type": "str"},
    "timeout": {"type": "float"},
}
INFO = {
    "sections": {
        "type": "list",
        "elements": "str",
        "choices": [*operations.SECTIONS, *operations.MORE_SECTIONS],
    },
    "section_timeout": {"type": "float"},
}
# A BMC whose own power is taken away needs minutes to start, and then the server.
CYCLE_SECONDS = 1200.0
POWER_SECONDS = 300.0
POWER = {
    "state": {
        "type": "str",
        "required": True,
        "choices": ["on", "off", "graceful", "restart", "reset", "cycle", "nmi", "ac_cycle", "aux_cycle"],
    },
    "fallback": {"type": "str", "choices": ["none", "force"], "default": "none"},
    "graceful_timeout": {"type": "float", "default": 120.0},
    "consent": {"type": "str"},
    "siblings": {"type": "list", "elements": "str"},
}
BOOT = {
    "target": {"type": "str", "choices": ["pxe", "uefi_http", "disk", "cd", "bios", "none"]},
    "http_uri": {"type": "str"},
    "order": {"type": "list", "elements": "str"},
    "once": {"type": "bool", "default": True},
    "mode": {"type": "str", "choices": ["uefi", "legacy"]},
}
ACCOUNT = {
    "username": {"type": "str", "required": True},
    "password": {"type": "str", "no_log": True},
    "credential": {"type": "str"},
    "role": {"type": "str"},
    "enabled": {"type": "bool"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "update_password": {"type": "str", "choices": ["always", "on_create"], "default": "always", "no_log": False},
    "unlock": {"type": "bool", "default": False},
}


BIOS = {
    "attributes": {"type": "dict"},
    "profile": {"type": "path"},
    "reboot": {"type": "str", "choices": ["none", "graceful", "force"], "default": "none"},
    "clear_pending": {"type": "bool", "default": False},
}


VIRTUAL_MEDIA = {
    "image": {"type": "str"},
    "state": {"type": "str", "choices": ["inserted", "ejected"], "default": "inserted"},
    "media_type": {"type": "str", "choices": ["cd", "usb", "floppy"], "default": "cd"},
    "device": {"type": "str"},
    "image_username": {"type": "str"},
    "image_password": {"type": "str", "no_log": True},
    "write_protected": {"type": "bool", "default": True},
}


LOG = {
    "state": {"type": "str", "choices": ["read", "cleared"], "default": "read"},
    "logs": {"type": "list", "elements": "str"},
    "since": {"type": "str"},
    "severity": {"type": "str", "choices": ["OK", "Warning", "Critical"]},
    "limit": {"type": "int", "default": 200},
}


RESET = {
    "kind": {"type": "str", "choices": ["graceful", "force"], "default": "graceful"},
    "wait": {"type": "bool", "default": True},
}


SETTINGS = {
    "hostname": {"type": "str"},
    "ntp_servers": {"type": "list", "elements": "str"},
    "ntp_enabled": {"type": "bool"},
    "dns_servers": {"type": "list", "elements": "str"},
    "ipmi_over_lan": {"type": "bool"},
    "secure_boot": {"type": "bool"},
    "event_destinations": {
        "type": "list",
        "elements": "dict",
        "options": {
            "destination": {"type": "str", "required": True},
            "protocol": {
                "type": "str",
                "choices": ["Redfish", "SyslogUDP", "SyslogTCP", "SyslogTLS"],
                "default": "Redfish",
            },
            "context": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
    },
}


STORAGE = {
    "name": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent", "erased"], "default": "present"},
    "raid_type": {
        "type": "str",
        "choices": ["None", "RAID0", "RAID1", "RAID5", "RAID6", "RAID10", "RAID50", "RAID60"],
    },
    "drives": {"type": "list", "elements": "str"},
    "capacity": {"type": "str"},
    "controller": {"type": "str"},
    "consent": {"type": "list", "elements": "str"},
    "sanitization": {"type": "str", "choices": ["CryptographicErase", "BlockErase", "Overwrite"]},
    "overwrite_passes": {"type": "int", "no_log": False},
    "apply_time": {"type": "str", "choices": ["Immediate", "OnReset"]},
}


CERTIFICATE = {
    "state": {"type": "str", "choices": ["installed", "request"], "default": "installed"},
    "certificate": {"type": "str"},
    "certificate_file": {"type": "path"},
    "private_key": {"type": "str", "no_log": True},
    "private_key_file": {"type": "path"},
    "common_name": {"type": "str"},
    "organization": {"type": "str"},
    "organizational_unit": {"type": "str"},
    "city": {"type": "str"},
    "state_name": {"type": "str"},
    "country": {"type": "str"},
    "alternative_names": {"type": "list", "elements": "str"},
    "key_algorithm": {"type": "str"},
}
# option that names a file: option that takes its content
FILES = {"certificate_file": "certificate", "private_key_file": "private_key"}


def _limit(params, usual):
    return usual if params["timeout"] is None else params["timeout"]


def _info(endpoint, params, check, fence):
    found = operations.info(
        endpoint, params["sections"], params["timeout"], params["section_timeout"], any_service=True
    )
    return {
        "changed": False,
        "info": {key: value for key, value in found.items() if key not in ("warnings", "source")},
        "source": found["source"],
        "bmc": found.get("bmc") or {},
        "bmc_warnings": found["warnings"],
    }


def _firmware_info(endpoint, params, check, fence):
    found = update.info(endpoint, _limit(params, 300.0))
    return {"changed": False, "source": "redfish", "bmc_warnings": found.pop("warnings"), **found}


def power_seconds(state):
    """Seconds for one change of power where the task says nothing."""
    return CYCLE_SECONDS if state in cycle.KINDS else POWER_SECONDS


def _power(endpoint, params, check, fence):
    fallback = None if params["fallback"] == "none" else params["fallback"]
    return operations.power(
        endpoint,
        params["state"],
        _limit(params, power_seconds(params["state"])),
        fallback,
        params["graceful_timeout"],
        check,
        fence,
        consent=params["consent"],
        siblings=params["siblings"] or (),
    )


def _boot(endpoint, params, check, fence):
    if params["order"] is not None:
        return operations.boot_order(endpoint, params["order"], _limit(params, 120.0), check, fence)
    return operations.boot(
        endpoint,
        params["target"],
        params["once"],
        params["mode"],
        _limit(params, 60.0),
        check,
        fence,
        http_uri=params["http_uri"],
    )


def _account(endpoint, params, check, fence):
    return operations.account(
        endpoint,
        params["username"],
        params["password"],
        params["role"],
        params["enabled"],
        params["state"],
        params["update_password"],
        _limit(params, 60.0),
        check,
        fence,
        unlock=params["unlock"],
    )


def read_profile(path):
    """{attribute: value} from a YAML or JSON file: the attributes themselves, or under a key `attributes` beside others."""
    try:
        with open(path, encoding="utf-8") as handle:
            text = handle.read()
        found = json.loads(text) if yaml is None or text.lstrip().startswith("{") else yaml.safe_load(text)
    except (OSError, ValueError) as error:
        problem, found = error, None
    except Exception as error:  # yaml's own errors, where there is yaml
        problem, found = error, None
    else:
        problem = type(found).__name__
    if isinstance(found, dict) and isinstance(found.get("attributes"), dict):
        found = found["attributes"]
    if not isinstance(found, dict) or not found:
        raise InvalidInput(
            "the BIOS profile cannot be read",
            thing=path,
            wanted="a YAML or JSON file with attribute names and values",
            seen=problem,
            next_step="see the example in the documentation of bmc_bios",
        )
    return found


def _bios(endpoint, params, check, fence):
    attributes = {**(read_profile(params["profile"]) if params.get("profile") else {}), **(params["attributes"] or {})}
    return operations.bios(
        endpoint, attributes, params["reboot"], params["clear_pending"], params["timeout"], check, fence
    )


def _virtual_media(endpoint, params, check, fence):
    return operations.media(
        endpoint,
        params["image"],
        params["state"],
        params["media_type"],
        params["device"],
        params["image_username"],
        params["image_password"],
        params["write_protected"],
        _limit(params, 180.0),
        check,
        fence,
    )


def _log(endpoint, params, check, fence):
    return operations.log(
        endpoint,
        params["state"],
        params["logs"],
        params["since"],
        params["severity"],
        params["limit"],
        _limit(params, 120.0),
        check,
        fence,
    )


def _reset(endpoint, params, check, fence):
    return operations.reset(endpoint, params["kind"], params["wait"], _limit(params, 600.0), check, fence)


def _settings(endpoint, params, check, fence):
    options = {name: params[name] for name in SETTINGS}
    return operations.settings(endpoint, options, _limit(params, 120.0), check, fence)


def _storage(endpoint, params, check, fence):
    if params["state"] == "erased":
        return operations.erase(
            endpoint,
            params["drives"],
            params["sanitization"],
            params["overwrite_passes"],
            params["controller"],
            params["consent"],
            params["apply_time"],
            _limit(params, 7200.0),
            check,
            fence,
        )
    capacity = params["capacity"]
    try:
        capacity = parse_size(capacity) if capacity else None
    except ValueError as error:
        raise InvalidInput("the size cannot be read", thing="capacity", wanted="such as 480 GB or 1 TiB", seen=error)
    return operations.storage(
        endpoint,
        params["name"],
        params["state"],
        params["raid_type"],
        params["drives"] or (),
        capacity,
        params["controller"],
        params["consent"],
        params["apply_time"],
        _limit(params, 900.0),
        check,
        fence,
    )


def read_files(params):
    """Put the content of named files in the place of their names."""
    for name, content in FILES.items():
        if params.get(name):
            try:
                with open(params[name], encoding="utf-8") as handle:
                    params[content] = handle.read()
            except (OSError, ValueError) as error:
                raise InvalidInput(
                    "the file cannot be read",
                    thing=params[name],
                    wanted="a readable PEM file",
                    seen=getattr(error, "strerror", None) or type(error).__name__,
                    next_step=f"correct {name}, or put the file there (on the controller)",
                )
            params[name] = None


def _certificate(endpoint, params, check, fence):
    read_files(params)
    if params["state"] == "request":
        return operations.signing_request(
            endpoint,
            params,
            params["alternative_names"] or (),
            params["key_algorithm"],
            _limit(params, 180.0),
            check,
            fence,
        )
    return operations.certificate(
        endpoint, params["certificate"], params["private_key"], _limit(params, 300.0), check, fence
    )


# name: (own options, function, more rules of the argument specification)
MODULES = {
    "bmc_info": (INFO, _info, {}),
    "bmc_power": (POWER, _power, {}),
    "bmc_firmware_info": ({}, _firmware_info, {}),
    "bmc_boot": (
        BOOT,
        _boot,
        {
            "required_one_of": [["target", "order"]],
            "mutually_exclusive": [["target", "order"], ["order", "http_uri"], ["order", "mode"]],
        },
    ),
    "bmc_virtual_media": (VIRTUAL_MEDIA, _virtual_media, {"required_if": [["state", "inserted", ["image"]]]}),
    "bmc_log": (LOG, _log, {"required_if": [["state", "cleared", ["logs"]]]}),
    "bmc_reset": (RESET, _reset, {}),
    "bmc_settings": (SETTINGS, _settings, {"required_one_of": [list(SETTINGS)]}),
    "bmc_storage": (
        STORAGE,
        _storage,
        {
            "required_if": [
                ["state", "present", ["name", "raid_type", "drives"]],
                ["state", "absent", ["name"]],
                ["state", "erased", ["drives"]],
            ],
        },
    ),
    "bmc_certificate": (
        CERTIFICATE,
        _certificate,
        {"mutually_exclusive": [["certificate", "certificate_file"], ["private_key", "private_key_file"]]},
    ),
    "bmc_bios": (BIOS, _bios, {"required_one_of": [["attributes", "profile"]]}),
    "bmc_account": (ACCOUNT, _account, {"mutually_exclusive": [["password", "credential"]]}),
}
TOGETHER = [["bmc_username", "bmc_password"]]


def rules(name):
    """Everything that AnsibleModule and an action plugin's validation need for the module `name`."""
    own, unused, more = MODULES[name]
    found = {"argument_spec": {**CONNECTION, **own}, "required_together": TOGETHER}
    exclusive = [["bmc_credential", "bmc_username"], *more.get("mutually_exclusive", [])]
    return {**found, **more, "mutually_exclusive": exclusive}


def _suite(text):
    return None if text in (None, "auto") else int(text)


def endpoint_of(params, name=None, transport=Wire):
    """The Endpoint that the parameters of a bmc_* module describe; secrets must have been put in by now."""
    if not params.get("bmc_username"):
        raise InvalidInput(
            "nobody says who logs in to the BMC",
            host=name or params.get("bmc_address"),
            thing="bmc_credential",
            wanted="bmc_credential, or bmc_username and bmc_password",
            seen="none of them",
            next_step="run the discover stage, which records the credential, or give one",
        )
    protocol = params.get("bmc_protocol") or "redfish"
    more = {"timeout": params["timeout"]} if params.get("timeout") is not None else {}
    return Endpoint(
        address=params.get("bmc_address"),
        port=params.get("bmc_port"),
        protocol=protocol,
        username=params["bmc_username"],
        password=params.get("bmc_password") or "",
        fingerprint=params.get("bmc_fingerprint"),
        ca_path=params.get("bmc_ca_path"),
        tls=params.get("bmc_tls") or "verify",
        privilege=params.get("bmc_ipmi_privilege") or "administrator",
        cipher_suite=_suite(params.get("bmc_ipmi_cipher_suite")),
        system_id=params.get("system_id"),
        name=name,
        transport=transport,  # Wire: a fifth of the CPU time of a task for one BMC
        **more,
    )


def execute(name, params, check=False, diff=False, fence=None, host=None):
    """Run module `name`; returns the result for Ansible, also for an error (`failed`)."""
    try:
        found = MODULES[name][1](endpoint_of(params, host), params, check, fence)
    except BaremetalError as error:
        return error.with_host(host).as_result()
    return found if isinstance(found, dict) else found.as_result(diff)


def main(name):
    """The whole of a shipped bmc_* module."""
    module = AnsibleModule(supports_check_mode=True, **rules(name))
    params = dict(module.params)
    if params.get("bmc_credential"):
        module.fail_json(
            msg="bmc_credential is read by the controller; this module was started without its action plugin: give bmc_username and bmc_password"
        )
    result = execute(name, params, module.check_mode, module._diff)
    for warning in result.get("bmc_warnings") or ():
        module.warn(warning)
    if result.get("failed"):
        module.fail_json(**{key: value for key, value in result.items() if key != "failed"})
    module.exit_json(**result)
