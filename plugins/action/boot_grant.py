# Door: what a node is to be given, checked, and the one-time grant for its deploy boot. Documentation: plugins/modules/boot_grant.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import network, seed, spec, store
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "image": {"type": "str", "required": True},
        "image_store": {"type": "str", "required": True},
        "disk": {
            "type": "dict",
            "default": {},
            "options": {
                "type": {"type": "str", "choices": list(spec.DISK_TYPES), "default": "any"},
                "min_size": {"type": "str"},
                "max_size": {"type": "str"},
                "serial": {"type": "str"},
            },
        },
        "ssh_public_keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
        "interface": {"type": "str", "default": "prov0"},
        "gateway": {"type": "str"},
        "nameservers": {"type": "list", "elements": "str", "default": []},
        "rails": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "name": {"type": "str"},
                "nic": {"type": "str"},
                "network": {"type": "str"},
                "address": {"type": "str"},
                "mtu": {"type": "int"},
            },
        },
        "hostname": {"type": "str"},
        "user_data": {"type": "dict", "default": {}},
        "ttl": {"type": "float", "default": 1800.0},
        "attempt": {"type": "int"},
        "fencing": {"type": "int"},
    }

    def execute(self):
        p = self.params
        node = self.registry.node(self.host)
        attempt, fencing = self.attempt if self.check_mode else self.require_attempt()
        image = store.image(p["image_store"], p["image"])
        disk = spec.disk_rule(**{key: value for key, value in (p["disk"] or {}).items() if value is not None})
        if p["ttl"] <= 0:
            raise errors.InvalidInput("must be above 0", thing="ttl", wanted="seconds", seen=p["ttl"])
        interfaces = network.interfaces(
            node, self._nics(node), p["rails"], p["gateway"], p["nameservers"], p["interface"]
        )
        files = seed.render(
            p["hostname"] or node["name"],
            # cloud-init treats another instance as a first boot; the attempt makes a second deployment one.
            f"{node['serial']}-{attempt or 0}",
            p["ssh_public_keys"],
            interfaces,
            p["user_data"],
        )
        made = spec.build(node["name"], node["serial"], attempt or 0, image, disk, files)
        if not self.check_mode:
            self.registry.issue_grant(
                node["serial"], attempt, fencing, node["provision_mac"], p["ttl"], made, self.actor
            )
        return {
            "changed": True,
            "image": image,
            "disk": disk,
            "interfaces": {name: entry.get("addresses", []) for name, entry in interfaces},
            "mac": node["provision_mac"],
            "diff": {
                "before": "",
                "after": f"one-time boot grant for {node['provision_mac']}: image {image['name']}\n",
            },
        }

    @staticmethod
    def _nics(node):
        """[{slot, mac, name}] from the last inventory, else from the parts."""
        nics = (node.get("facts") or {}).get("nics")
        if nics:
            return nics
        parts = [part for part in node.get("parts") or [] if part["kind"] == "nic"]
        return [
            {
                "slot": part["slot"],
                "mac": (part.get("detail") or {}).get("mac"),
                "name": (part.get("detail") or {}).get("name"),
            }
            for part in parts
        ]
