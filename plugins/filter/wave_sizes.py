# Filter: how many nodes each wave has, when each of them needs a fork of its own.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


def wave_sizes(serial, forks, nodes):
    """[int] for `serial` of a play (a number, a percentage of `nodes`, or a list of them): as asked for, but none above `forks` and none below one."""
    found = []
    for wanted in serial if isinstance(serial, (list, tuple)) else [serial]:
        text = str(wanted).strip()
        size = int(float(text[:-1]) * nodes / 100) if text.endswith("%") else int(text)
        found.append(max(1, min(size, int(forks))))
    return found


class FilterModule:
    """Filters of this file."""

    def filters(self):
        return {"wave_sizes": wave_sizes}
