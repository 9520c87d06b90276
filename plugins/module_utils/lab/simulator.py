# What the BMC simulator itself says of a lab: its schema knows the behaviour switches and their values.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import sys

from ..core.errors import InvalidInput


def schema_check(path):
    """The check of lab.json by the package bmc_simulator in directory `path`, as a function that raises InvalidInput; None without a path."""
    if not path:
        return None
    if path not in sys.path:
        sys.path.insert(0, path)
    from bmc_simulator import schema

    def check(lab):
        try:
            schema.check_lab(lab)
        except schema.SchemaError as error:
            names = {f"nodes[{i}]": f"node {node.get('name')}" for i, node in enumerate(lab["nodes"])}
            text = str(error)
            for place, name in names.items():
                text = text.replace(f"{place}.", f"{name}, ")
            raise InvalidInput(
                "the BMC simulator refuses the lab",
                thing="options of the lab",
                wanted="what docs/lab.md and docs/lab-bmc.md list",
                seen=text.replace("\n", "; "),
                next_step="correct virtual_lab_nodes, virtual_lab_node_defaults or virtual_lab_node_settings",
            ) from None

    return check
