# FRU data, read back by pyghmi's parser, which is not ours.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from bmc_simulator.fru import fru_data

fru = pytest.importorskip("pyghmi.ipmi.fru")


@pytest.mark.parametrize("serial", ["LAB-test-0001", "X" * 60, "A"])
def test_the_serial_number_is_in_chassis_and_product(serial):
    info = fru.FRU(rawdata=fru_data({"serial": serial})).info
    assert info["Chassis serial number"].strip() == serial and info["Serial Number"].strip() == serial
    assert info["Manufacturer"] == "AI Cluster Lab"
