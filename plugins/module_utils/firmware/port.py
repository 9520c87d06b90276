# What the engine needs of whatever carries images to a node: the BMC (bmc.update.RedfishUpdater), or a tool on the node itself (inband).
#
# The rooms do not import each other: an implementation has these methods, and a test holds it to them. Errors are core.errors; the engine reads their code.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

# Codes of errors of `push` after which nobody can know whether the whole image arrived. With every other code it certainly did not.
IN_DOUBT = ("answer_lost",)
# Codes after which sending the image from the start again is right: it did not arrive as a whole, and nothing says that it never will.
BROKEN_OFF = ("upload_broken",)
# Codes of errors that a BMC shows while it restarts or is busy: waited out, within the limit of the step.
PASSING = (
    "unreachable",
    "bmc_busy",
    "bmc_failed",
    "not_json",
    "timeout",
    "deadline_exceeded",
    "answer_lost",
    "not_ready",
)
TASK_STATES = ("running", "staged", "done", "failed", "gone")


class FirmwarePort:
    """One node. `fence` given to an implementation is called immediately before each request that changes something."""

    def inventory(self, only=None):
        """[{id, name, version, updateable, staged, path}]: what runs; `staged` is a version that waits for its reset, None where that is not shown.

        `only`: ids that are asked for; more may come.
        """
        raise NotImplementedError

    def tasks(self):
        """{key: {"uri", "state" (TASK_STATES), "percent", "name", "started"}} of all tasks; None where there is no list. A key is never used twice."""
        raise NotImplementedError

    def task(self, handle):
        """{"state" (TASK_STATES), "percent", "text"} of what `push` returned."""
        raise NotImplementedError

    def method(self, step):
        """The name of the way by which this step's image will be sent; Unsupported where there is none."""
        raise NotImplementedError

    def push(self, step, image, method, before_last):
        """Send the image (an images.Local) once; returns {"task": URI or None, "monitor": URI or None, "done": bool}.

        `before_last` is called when all but the last block was sent: until then the image cannot have been taken, whatever happens.
        """
        raise NotImplementedError

    def marks(self):
        """{name: value} that change when the host or the BMC restarts (those that this BMC has)."""
        raise NotImplementedError

    def restart(self, activation):
        """Send the reset for an activation (baseline.ACTIVATIONS) and return; Unsupported where this BMC cannot."""
        raise NotImplementedError

    def power(self):
        """on, off, or what the BMC says."""
        raise NotImplementedError

    def switch_on(self):
        """Bring the power back to on."""
        raise NotImplementedError

    def switch_off(self):
        """Bring the power back to off."""
        raise NotImplementedError

    def health(self):
        """{name of a part: OK, Warning or Critical}."""
        raise NotImplementedError


METHODS = tuple(name for name in vars(FirmwarePort) if not name.startswith("_"))
RANK = {"OK": 0, None: 0, "Warning": 1, "Critical": 2}


def regressions(before, after):
    """["part: OK -> Critical"] of parts whose health is worse than it was; a part that vanished counts as well."""
    found = []
    for name, word in sorted((before or {}).items()):
        now = (after or {}).get(name, "gone")
        if RANK.get(now, 3) > RANK.get(word, 0):
            found.append(f"{name}: {word or 'unknown'} -> {now}")
    return found
