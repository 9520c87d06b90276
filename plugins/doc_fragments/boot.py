# What the modules about a node's boot share in their documentation.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


class ModuleDocFragment:
    # Whose boot it is, for all that write.
    DOCUMENTATION = r"""
options:
  attempt:
    description: Attempt. Default is the host variable C(aicluster_attempt).
    type: int
  fencing:
    description: Fencing number. Default is the host variable C(aicluster_fencing).
    type: int
"""

    LIMITS = r"""
options:
  limits:
    description:
      - Seconds allowed for steps of the boot, by step, counted from the step before.
      - Steps are C(power_on), C(dhcp), C(loader), C(kernel), C(ramdisk), C(disk_chosen), C(writing), C(written), C(seeded), C(boot_order), C(done),
        C(disk_boot) and C(ssh); C(reserved) is the limit for the DHCP reservation.
    type: dict
    default: {}
"""

    # The login to the node that was written.
    SSH = r"""
options:
  private_key:
    description: Private key for SSH. Default is the host variable C(ansible_ssh_private_key_file), else the caller's own keys.
    type: path
  port:
    description: Port of SSH. Default is the host variable C(ansible_port), else 22.
    type: int
"""
