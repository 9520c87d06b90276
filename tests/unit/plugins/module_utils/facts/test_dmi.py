# Reader of the SMBIOS table, on a table made here.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.facts import dmi
from ansible_collections.aicluster.baremetal.plugins.module_utils.facts.values import Unreadable


def structure(kind, body, *texts):
    area = bytes([kind, 4 + len(body), 0, kind]) + body
    return area + (b"".join(text.encode() + b"\0" for text in texts) or b"\0") + b"\0"


TABLE = (
    structure(1, bytes([1, 2, 0, 3]) + bytes(19), "QEMU", "Virtual GPU Server", "LAB-1")
    + structure(2, b"")
    + structure(11, bytes([2]), "aicluster.gpu_profile=h100x8", "aicluster.fault=gpu3_ecc_dbe", "not counted")
    + structure(127, b"")
)


def test_identity_and_strings():
    found = dmi.read_dmi(TABLE)
    assert found == dmi.Identity(
        "QEMU", "Virtual GPU Server", "LAB-1", ("aicluster.gpu_profile=h100x8", "aicluster.fault=gpu3_ecc_dbe")
    )
    assert dmi.hardware_strings(found.oem) == {"gpu_profile": "h100x8", "fault": "gpu3_ecc_dbe"}
    assert dmi.hardware_strings(["other=1", "aicluster.a=b=c\n", "aicluster.none"]) == {"a": "b=c"}


@pytest.mark.parametrize("table", [TABLE[:20], b"\x01\x02\x00\x00", TABLE[:-6] + b"\x0b\xff\x00\x00"])
def test_damaged_tables_are_refused(table):
    with pytest.raises(Unreadable):
        dmi.read_dmi(table)
