# A baseline made ready for a twin: stand-in images, servers that run what a real one runs, and complaints that say what is missing.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json
import pathlib

import pytest

from bmc_simulator import firmware, rehearsal
from bmc_simulator.fleet import Fleet, describe, parser, rehearse
from bmc_simulator.schema import SchemaError

EXAMPLES = pathlib.Path(__file__).resolve().parents[5] / "docs" / "examples" / "firmware"
BASELINE, SERVER = str(EXAMPLES / "hgx-h100.yml"), str(EXAMPLES / "server.json")


def test_stand_in_images(tmp_path):
    components, platform = rehearsal.prepare(BASELINE, SERVER, tmp_path, None, "supermicro")
    assert platform == "hgx-h100"
    data = json.loads((tmp_path / "baseline.yml").read_text())["platforms"][platform]
    assert (data["pause_s"], data["settle_s"], data["match"]["manufacturer"]) == (0, 1, "Supermicro")
    for name, component in data["components"].items():
        for entry in [component["image"], *(hop["image"] for hop in component.get("hops", []))]:
            content = (tmp_path / entry["path"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == entry["sha256"], name
    bmc = firmware.read_image(tmp_path / data["components"]["bmc"]["image"]["path"])
    assert bmc["components"] == {"BMC": "01.04.02"} and bmc["from"] == [">=01.02"]
    assert firmware.read_image(tmp_path / data["components"]["bmc"]["hops"][0]["image"]["path"])["components"] == {
        "BMC": "01.02.30"
    }
    tray = firmware.read_image(tmp_path / data["components"]["gpu_tray"]["image"]["path"])
    # one image for both; the profile calls the first of them HGX
    assert tray["components"] == {"HGX": "1.6.0", "HGX_FW_FPGA_0": "1.6.0"}
    # the baseline itself is not touched
    assert "path: bmc-01.04.02.bin" in (EXAMPLES / "hgx-h100.yml").read_text()


def test_the_servers_run_what_the_list_says(tmp_path):
    words = [
        "--count",
        "3",
        "--profile",
        "supermicro",
        "--dir",
        str(tmp_path),
        "--baseline",
        BASELINE,
        "--server",
        SERVER,
    ]
    options = parser().parse_args(words)
    value = describe(options)
    assert rehearse(options, value) == "hgx-h100"
    group = Fleet(value).groups[0]
    rows = {row.id or name: (row.version, row.activation, row.auto) for name, row in group.components.items()}
    assert rows == {
        "BMC": ("01.01.04", "bmc_reset", True),
        "BIOS": ("2.1", "host_reboot", False),
        "CPLD_Motherboard": ("0x17", "ac_cycle", False),
        "HGX_FW_BMC_0": ("1.4.0", "ac_cycle", False),
        "HGX_FW_FPGA_0": ("1.4.0", "ac_cycle", False),
        "PSU_0": ("3.10", "host_reboot", False),
    }


def test_what_ansible_prints_is_a_server(tmp_path):
    rows = json.loads(pathlib.Path(SERVER).read_text())
    result = {"changed": False, "inventory": [{**row, "updateable": True} for row in rows], "methods": ["push"]}
    printed = tmp_path / "server.txt"
    printed.write_text("gpu07 | SUCCESS => " + json.dumps(result, indent=4) + "\n")
    components, _platform = rehearsal.prepare(BASELINE, str(printed), tmp_path, None, "supermicro")
    assert components == rehearsal.prepare(BASELINE, SERVER, tmp_path, None, "supermicro")[0]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--baseline", BASELINE], "missing: --server, --dir"),
        (
            ["--baseline", BASELINE, "--server", SERVER, "--dir", "x", "--platform", "y"],
            "--platform wants one of hgx-h100",
        ),
        (["--baseline", "none.yml", "--server", SERVER, "--dir", "x"], "none.yml"),
        (["--baseline", SERVER, "--server", SERVER, "--dir", "x"], "this is no firmware baseline"),
        (["--baseline", BASELINE, "--server", BASELINE, "--dir", "x"], "wants the result of bmc_firmware_info"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, monkeypatch, words, complaint):
    monkeypatch.chdir(tmp_path)
    options = parser().parse_args(words)
    with pytest.raises(SchemaError) as caught:
        rehearse(options, describe(options))
    assert complaint in " ".join(caught.value.problems)
