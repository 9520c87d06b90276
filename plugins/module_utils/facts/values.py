# Small readers shared by all: numbers with units and the many spellings of "this tool does not say".
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

# What NVIDIA's tools print where a value does not exist on this part; all of them mean "not reported", none means zero or good.
_NOT_REPORTED = (
    "n/a",
    "[n/a]",
    "none",
    "not supported",
    "[not supported]",
    "requested functionality has been deprecated",
    "[requested functionality has been deprecated]",
    "redacted",
    "",
)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


class Unreadable(ValueError):
    """The text is not what the reader understands. Never to be taken for a good result."""


def reported(text):
    """The stripped text, or None where the tool says that it has no such value."""
    if text is None:
        return None
    text = str(text).strip()
    return None if text.lower() in _NOT_REPORTED else text


def number(text):
    """The leading number of "81559 MiB", "16x", "-8 C", "26.562 GB/s" as int or float; None where not reported; Unreadable on anything else."""
    text = reported(text)
    if text is None:
        return None
    match = _NUMBER.match(text)
    if not match:
        raise Unreadable(f"not a number: {text!r}")
    return float(match.group(0)) if "." in match.group(0) else int(match.group(0))


def yes(text):
    """True for Yes/Enabled/Active/On, False for No/Disabled/Not Active/Off, None where not reported; Unreadable on anything else."""
    text = reported(text)
    if text is None:
        return None
    word = text.lower()
    if word in ("yes", "enabled", "active", "on", "true", "1"):
        return True
    if word in ("no", "disabled", "not active", "off", "false", "0"):
        return False
    raise Unreadable(f"neither yes nor no: {text!r}")
