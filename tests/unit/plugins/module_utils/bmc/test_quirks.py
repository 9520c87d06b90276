# The quirk table: its form, and one case for each row (the test counts them), with a BMC that the row means and one that it does not.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import quirks

PLAIN = {name: default for name, (_meaning, default) in quirks.SWITCHES.items()}

# in the order of quirks.QUIRKS: (identity that is meant, switch, value, a near one that is not meant)
CASES = [
    ({"manufacturer": "Dell Inc."}, "serial", "SKU", {"manufacturer": "HPE", "model": "dell"}),
    ({"manufacturer": "Supermicro"}, "cd_targets", ("UsbCd", "Cd", "CD/DVD"), {"manufacturer": "Lenovo"}),
    ({"manufacturer": "Dell Inc."}, "reserved_slots", ("1",), {"manufacturer": "HPE"}),
    ({"manufacturer": "Lenovo", "model": "ThinkSystem GB300"}, "expand", False, {"manufacturer": "Lenovo", "model": "SR670 V2"}),
    ({"vendor": "AMI", "manufacturer": "GIGABYTE"}, "bios_settings", ("SD", "Settings"), {"vendor": "NVIDIA"}),
    ({"manufacturer": "Lenovo"}, "media_by_patch", True, {"manufacturer": "HPE"}),
    ({"vendor": "AMI", "manufacturer": "NVIDIA"}, "firmware_list_s", 240.0, {"vendor": "AMI", "manufacturer": "GIGABYTE"}),
    ({"manager": "OpenBmc"}, "reset_time_counts", False, {"manager": "iLO 5"}),
]  # fmt: skip


def test_every_row_has_a_match_known_switches_and_a_source():
    for row in quirks.QUIRKS:
        assert set(row) == {"match", "switches", "source"} and row["match"] and len(row["source"]) > 20
        assert set(row["match"]) <= set(quirks.MATCH_KEYS)
        assert set(row["switches"]) <= set(quirks.SWITCHES)
        for pattern in row["match"].values():
            re.compile(pattern)


def test_every_row_has_a_case():
    assert len(CASES) == len(quirks.QUIRKS)
    for row, (meant, switch, value, _other) in zip(quirks.QUIRKS, CASES):
        assert quirks.fits(row["match"], meant) and row["switches"][switch] == value


@pytest.mark.parametrize(("meant", "switch", "value", "other"), CASES)
def test_rows(meant, switch, value, other):
    assert quirks.switches_for(meant)[switch] == value
    assert quirks.switches_for(other)[switch] == PLAIN[switch]


def test_a_system_that_is_no_system():
    assert quirks.of_system(7) == PLAIN and quirks.of_system({"Manufacturer": None}) == PLAIN


def test_firmware_bounds():
    def fits(firmware, **bounds):
        return quirks.fits(bounds, {"firmware": firmware})

    assert fits("iLO 5 v2.72", firmware_from="2.72") and not fits("iLO 5 v2.72", firmware_before="2.72")
    assert fits("6.00.30.00", firmware_from="6.0", firmware_before="7") and not fits("7.10", firmware_before="7")
    assert not fits(None, firmware_from="1") and not fits(None, firmware_before="99")
    assert quirks.version_key("TGBT42S 2.83 2023-07-05") == (2, 83)


def test_identity_of_null_resources():
    assert quirks.identity_of({}, {}, {})["vendor"] is None
    assert quirks.identity_of({"Oem": {"Ami": {}}, "Vendor": None}, None, {"Manufacturer": 7})["vendor"] == "Ami"
    assert quirks.switches_for(quirks.identity_of(None, {"Model": None}, None)) == PLAIN
