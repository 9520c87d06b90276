# Where the controller keeps what it can make again: one directory for the whole collection.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os


def below(*names):
    """A path below the user's cache: $XDG_CACHE_HOME/aicluster, else ~/.cache/aicluster."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "aicluster", *names)
