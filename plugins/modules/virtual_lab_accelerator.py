#!/usr/bin/python
# Door: whether the virtual servers of a lab run on KVM or on emulation.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: virtual_lab_accelerator
short_description: Find out whether KVM really works
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description:
  - Boots a kernel in QEMU under KVM and waits for it on the serial console. That C(/dev/kvm) exists proves nothing.
  - Where that fails, or no kernel is at hand, emulation (TCG) is chosen.
  - Changes nothing but a cache file, which holds for one boot of the machine and one version of QEMU.
requirements:
  - qemu-system-x86_64
options:
  accel:
    description: V(auto) probes, V(tcg) does not, V(kvm) fails where the probe fails.
    type: str
    choices: [auto, kvm, tcg]
    default: auto
  kernels:
    description: Kernels to boot for the probe. The first that exists is taken.
    type: list
    elements: path
    default: []
  cache:
    description: File that keeps the finding.
    type: path
  timeout:
    description: Seconds that the kernel gets.
    type: int
    default: 20
attributes:
  check_mode:
    description: Can run in check mode. The probe runs then too, but the finding is not kept.
    support: full
"""

EXAMPLES = r"""
- name: KVM or TCG
  aicluster.baremetal.virtual_lab_accelerator:
    kernels: [/var/cache/aicluster/images/demo/vmlinuz]
    cache: /var/cache/aicluster/accelerator.json
  register: accelerator
"""

RETURN = r"""
accel:
  description: Argument for the option C(-accel) of QEMU.
  returned: always
  type: str
  sample: tcg,thread=multi
cpu:
  description: Argument for the option C(-cpu) of QEMU.
  returned: always
  type: str
  sample: Nehalem
reason:
  description: Why.
  returned: always
  type: str
summary:
  description: The same in a few words for people.
  returned: always
  type: str
  sample: "KVM does not work here (/dev/kvm does not exist): emulation (TCG)"
probed:
  description: Whether a kernel was booted in this call.
  returned: always
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab.accelerator import decide


def main():
    module = AnsibleModule(
        argument_spec={
            "accel": {"type": "str", "choices": ["auto", "kvm", "tcg"], "default": "auto"},
            "kernels": {"type": "list", "elements": "path", "default": []},
            "cache": {"type": "path"},
            "timeout": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        found = decide(given["accel"], given["kernels"], given["cache"], given["timeout"], keep=not module.check_mode)
    except BaremetalError as error:
        module.fail_json(**{key: value for key, value in error.as_result().items() if key != "failed"})
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
