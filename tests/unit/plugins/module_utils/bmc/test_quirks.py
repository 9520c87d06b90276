# The quirk table: its form, and one case for each row.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import quirks


def test_every_row_has_a_match_known_switches_and_a_source():
    for row in quirks.QUIRKS:
        assert set(row) == {"match", "switches", "source"} and row["match"] and row["source"]
        assert set(row["match"]) <= {"vendor", "product", "manager", "firmware", "manufacturer"}
        assert set(row["switches"]) <= set(quirks.SWITCHES)
        for pattern in row["match"].values():
            re.compile(pattern)


def test_rows():
    plain = quirks.of_system({"Manufacturer": None})
    assert plain == {name: default for name, (_meaning, default) in quirks.SWITCHES.items()}
    dell = quirks.of_system({"Manufacturer": "Dell Inc."})
    assert dell["serial"] == "SKU" and dell["reserved_slots"] == ("1",) and dell["cd_targets"] == plain["cd_targets"]
    assert quirks.of_system({"Manufacturer": "Supermicro"})["cd_targets"][0] == "UsbCd"
    assert quirks.of_system(7) == plain
