# Catalogue of NVIDIA Xid codes: what each asks for. Data with its source; the reader of kernel lines is kernel_log.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

# Actions, from harmless to hard. `application` and `ignore` say nothing against the hardware; all others do.
IGNORE, APPLICATION, CHECK, RESET, REBOOT, ISOLATE = "ignore", "application", "check", "reset", "reboot", "isolate"
HARDWARE = (CHECK, RESET, REBOOT, ISOLATE)

# Sources: N = NVIDIA "Xid errors" catalogue (r590 column of recommended actions); A = AWS node checks, July 2026.
# Code -> (action, words, source). Codes that are not listed are CHECK: an unknown code is never a pass.
CATALOGUE = {
    13: (APPLICATION, "graphics engine exception", "N"),
    31: (APPLICATION, "GPU memory page fault", "N"),
    32: (APPLICATION, "invalid or corrupted push buffer", "N"),
    37: (IGNORE, "driver firmware error, informational", "N"),
    38: (IGNORE, "driver firmware error, informational", "N"),
    39: (APPLICATION, "copy engine exception", "N"),
    40: (APPLICATION, "copy engine exception", "N"),
    41: (APPLICATION, "copy engine exception", "N"),
    43: (IGNORE, "GPU stopped processing a channel", "N"),
    44: (IGNORE, "graphics engine fault during context switch", "N"),
    45: (APPLICATION, "preemptive cleanup after an earlier error", "N"),
    46: (RESET, "GPU stopped processing", "N"),
    48: (RESET, "uncorrectable (double bit) ECC error", "N"),
    54: (ISOLATE, "auxiliary power is not connected", "N"),
    62: (RESET, "internal microcontroller halt", "N"),
    63: (IGNORE, "row remapping recorded; the state of the remapped rows decides", "N"),
    64: (ISOLATE, "row remapping failed", "A"),
    66: (IGNORE, "illegal access by driver, informational", "N"),
    67: (IGNORE, "illegal access by driver, informational", "N"),
    68: (APPLICATION, "video processor exception", "N"),
    69: (APPLICATION, "graphics engine class error", "N"),
    70: (APPLICATION, "copy engine exception", "N"),
    71: (APPLICATION, "copy engine exception", "N"),
    74: (CHECK, "NVLink error; the register bits decide", "N"),
    79: (REBOOT, "GPU has fallen off the bus", "N"),
    80: (APPLICATION, "corrupted data sent to the GPU", "N"),
    92: (IGNORE, "high single-bit ECC error rate, informational", "N"),
    93: (IGNORE, "non-fatal violation of provisioned information ROM", "N"),
    94: (APPLICATION, "contained ECC error", "N"),
    95: (RESET, "uncontained ECC error", "N"),
    109: (RESET, "context switch timeout", "N"),
    110: (RESET, "security fault", "N"),
    119: (RESET, "GSP remote procedure call timeout", "N"),
    120: (RESET, "GSP error", "N"),
    121: (IGNORE, "corrected C2C link error", "N"),
    136: (RESET, "link training failed", "N"),
    137: (IGNORE, "NVLink fault of a privileged write, informational", "N"),
    140: (RESET, "unrecovered ECC error", "N"),
    141: (IGNORE, "power state event, informational", "N"),
    143: (RESET, "GPU initialisation failure", "N"),
    151: (REBOOT, "key rotation failed", "N"),
    152: (IGNORE, "SLC error, informational", "N"),
    153: (IGNORE, "informational", "N"),
    155: (RESET, "NVLink software error", "N"),
    156: (RESET, "resource retirement event", "N"),
    157: (IGNORE, "resource retirement failure, informational", "N"),
    158: (RESET, "GPU fatal timeout", "N"),
    159: (CHECK, "CHI non-data error", "N"),
    160: (IGNORE, "channel retirement event", "N"),
    161: (IGNORE, "channel retirement, informational", "N"),
    162: (IGNORE, "power smoothing, informational", "N"),
    163: (IGNORE, "power smoothing, informational", "N"),
    164: (IGNORE, "power smoothing, informational", "N"),
    165: (IGNORE, "power smoothing, informational", "N"),
    168: (REBOOT, "write-protected memory error", "N"),
    171: (RESET, "uncorrectable DRAM error, beside 48", "N"),
    172: (RESET, "uncorrectable SRAM error, beside 48", "N"),
}
for _code in range(106, 109):
    CATALOGUE[_code] = (IGNORE, "informational", "N")
for _code in range(126, 136):
    CATALOGUE[_code] = (APPLICATION, "channel error of an application", "N")

# Xid 154 carries the action as text; longest match first. Source: N.
RECOVERY_TEXT = (
    ("node reboot required", REBOOT),
    ("drain and reset", RESET),
    ("gpu reset required", RESET),
    ("drain p2p", CHECK),
    ("none", IGNORE),
)


def action(code, text=""):
    """(action, words) for one event. 144 to 150 (NVLink 5) are decided by "Fatal" or "Nonfatal" in the text, 154 by its recovery action."""
    if 144 <= code <= 150:
        lowered = text.lower()
        if "nonfatal" in lowered or "non-fatal" in lowered:
            return IGNORE, "NVLink 5 error, non-fatal"
        return RESET, "NVLink 5 error, fatal"
    if code == 154:
        lowered = text.lower()
        for words, wanted in RECOVERY_TEXT:
            if words in lowered:
                return wanted, f"recovery action: {words}"
        return CHECK, "recovery action of unknown kind"
    if code in CATALOGUE:
        return CATALOGUE[code][:2]
    return CHECK, "not in the catalogue"
