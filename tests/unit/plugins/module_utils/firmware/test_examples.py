# The example baselines of the documentation are baselines: read by the real reader, and planned for the server that stands beside them.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import pathlib
import re

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import baseline, planner

DOCS = pathlib.Path(__file__).resolve().parents[5] / "docs"
EXAMPLES = DOCS / "examples" / "firmware"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yml")), ids=lambda path: path.name)
def test_read(path):
    found = baseline.load(str(path))
    assert len(found.platforms) == 1 and found.name.startswith("example")


def test_planned():
    found = baseline.load(str(EXAMPLES / "hgx-h100.yml"))
    platform = found.platform_for({"manufacturer": "Supermicro", "model": "SYS-821GE-TNHR"})
    plan = planner.plan(found, platform, json.loads((EXAMPLES / "server.json").read_text()))
    assert [(step.component, step.from_version, step.to_version) for step in plan.steps] == [
        ("bmc", "01.01.04", "01.02.30"),
        ("bmc", "01.02.30", "01.04.02"),
        ("bios", "2.1", "2.5"),
        ("cpld", "0x17", "0x1A"),
        ("gpu_tray", "1.4.0", "1.6.0"),
    ]
    # the BIOS rides along with the AC cycle that the CPLD needs
    assert plan.resets == 1 and plan.consent_needed == ["cpld"] and not plan.problems


def test_the_baseline_in_the_documentation(tmp_path):
    """The one in docs/firmware.md shows each key; only its shortened checksums are filled up."""
    text = (DOCS / "firmware.md").read_text(encoding="utf-8")
    block = re.search(r"```yaml\n(schema: 1\n.*?)```", text, re.DOTALL).group(1)
    path = tmp_path / "docs.yml"
    # `cpld` is only mentioned there
    path.write_text(
        re.sub(r"sha256: [0-9a-f]+\.\.\.", "sha256: " + "ab" * 32, block)
        + "      cpld: {wanted: '3.1', activation: ac_cycle, image: {path: c, sha256: "
        + "ab" * 32
        + "}}\n"
    )
    assert set(baseline.load(str(path)).platforms["hgx-h100"].components) == {"bmc", "bios", "cpld"}
