# Text of unknown origin (BMCs, logs, programs) in a form that every database, file and terminal takes.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

# Control characters but tab and line ends, and lone surrogates: PostgreSQL takes no NUL, UTF-8 no surrogate, a terminal obeys escape sequences.
_BROKEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def clean(text):
    """`text` without control characters and broken ones; tabs and line ends stay."""
    return _BROKEN.sub("", text)


def clean_all(value):
    """`value` with every text in it cleaned, keys of dictionaries included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key) if isinstance(key, str) else key: clean_all(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_all(item) for item in value]
    return value
