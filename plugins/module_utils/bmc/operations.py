# What can be done with one BMC, by name: the doors, the discover stage and the fleet call these. Each is observe, plan (pure), apply, verify.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from .account import account, can_log_in, patch_account, plan_account
from .bios import REBOOTS, bios, plan_bios
from .boot import BOOT_TARGETS, boot, boot_body, plan_boot
from .boot_order import boot_order
from .certificate import certificate, signing_request
from .erase import METHODS as ERASE_METHODS
from .erase import erase
from .info import MORE_SECTIONS, SECTIONS, info, redfish_info
from .log import SEVERITIES, log
from .media import MEDIA_TYPES, media
from .power import POWER_ACTIONS, plan_power, power
from .reset import RESET_TYPES, reset
from .result import Result
from .settings import settings
from .storage import LEVELS, storage

__all__ = [
    "BOOT_TARGETS",
    "ERASE_METHODS",
    "LEVELS",
    "MEDIA_TYPES",
    "MORE_SECTIONS",
    "POWER_ACTIONS",
    "REBOOTS",
    "RESET_TYPES",
    "SECTIONS",
    "SEVERITIES",
    "Result",
    "account",
    "bios",
    "boot",
    "boot_body",
    "boot_order",
    "can_log_in",
    "certificate",
    "erase",
    "info",
    "log",
    "media",
    "patch_account",
    "plan_account",
    "plan_bios",
    "plan_boot",
    "plan_power",
    "power",
    "redfish_info",
    "reset",
    "settings",
    "signing_request",
    "storage",
]
