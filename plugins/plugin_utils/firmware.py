# What the firmware action plugins share: their options, the baseline and the images of a task, and one node's call.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import dataclasses

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.redact import Redactor
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import baseline as baselines
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.engine import Limits
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.images import Store
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.serve import ImageServer
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import firmware

OPTIONS = {
    "baseline": {"type": "path", "required": True},
    "components": {"type": "list", "elements": "str"},
    "downgrade": {"type": "bool", "default": False},
    "consent": {"type": "list", "elements": "str", "default": []},
    "retry": {"type": "bool", "default": False},
    "partial": {"type": "bool", "default": False},
    "in_service": {"type": "bool", "default": False},
    "restore_power": {"type": "bool", "default": True},
    "image_cache": {"type": "path"},
    "image_server": {"type": "str"},
    "image_server_port": {"type": "int", "default": 0},
    "limits": {"type": "dict", "default": {}},
}
# `pause` and `settle` belong to the platform: they stand in the baseline.
LIMIT_NAMES = tuple(item.name for item in dataclasses.fields(Limits) if item.name not in ("pause", "settle"))


def limits_of(given):
    """Limits with the seconds of the option `limits`."""
    found = {}
    for name, value in given.items():
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = -1.0
        if name not in LIMIT_NAMES or not seconds > 0:
            raise errors.InvalidInput(
                "a limit cannot be right",
                thing=f"limits.{name}",
                wanted=f"seconds above 0 for any of {', '.join(LIMIT_NAMES)}",
                seen=value,
                next_step="correct it, or leave it out for the usual value",
            )
        found[name] = seconds
    return Limits(**found)


@contextlib.contextmanager
def prepared(params):
    """(baseline, images, function from siblings to firmware.Options) for a task; the image server runs inside."""
    limits = limits_of(params["limits"])  # before any node is asked: a slip here must not be each node's failure
    baseline = baselines.load(params["baseline"])
    with contextlib.ExitStack() as stack:
        publish = None
        if params["image_server"]:
            publish = stack.enter_context(ImageServer(params["image_server"], params["image_server_port"])).publish

        def options(siblings=()):
            return firmware.Options(
                limits=limits,
                publish=publish,
                siblings=list(siblings or ()),
                **{
                    key: params[key]
                    for key in ("components", "downgrade", "consent", "retry", "partial", "in_service", "restore_power")
                },
            )

        yield baseline, Store(params["image_cache"]), options


def finish(result, diff, secret):
    """The result as Ansible gets it: the diff where it was asked for, nothing secret."""
    result = dict(result)
    if not diff:
        result.pop("diff", None)
    return Redactor([secret])(result)
