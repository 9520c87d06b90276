# The rehearsal of docs/twin.md as it is printed there: its shell blocks in one shell, in a directory of the test's own.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from controller import ROOT, Directory


def blocks():
    text = (ROOT / "docs" / "twin.md").read_text(encoding="utf-8")
    section = text[text.index("## Rehearse a firmware baseline") : text.index("## Profiles")]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


@pytest.mark.slow
def test_the_rehearsal_runs_as_it_is_printed(tmp_path):
    first, second, third = blocks()
    lines = ["set -eu", first, "echo MARK 1", second, "echo MARK 2", third]
    # the only change: a directory and addresses of the test's own
    script = "\n".join(lines).replace("/tmp/twin", str(tmp_path / "twin")).replace("127.20.0.", "127.29.0.")
    script = script.replace("--count 12", "--count 12 --address 127.29.0.1")
    environment = Directory(tmp_path, {}).environment
    for name in ("AICLUSTER_REGISTRY", "AICLUSTER_SECRETS"):
        del environment[name]
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"
    log = tmp_path / "output"
    with log.open("w") as said:
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        process.wait(900)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # the simulator too, where the script did not get to its end
        except ProcessLookupError:
            pass
    output = log.read_text()
    assert process.returncode == 0, output[-6000:]
    planned, stopped, done = re.split(r"MARK \d\n", output)
    assert "push bmc 01.01.04 -> 01.02.30" in planned and "then ac_cycle" in planned
    assert (
        "stopped, as it should" in stopped
        and "writing the flash failed" in stopped
        and "firmware_retry_failed=true" in stopped
    )
    first_run, last_run = done.split("PLAY RECAP", 1)[1].split("PLAY RECAP", 1)
    assert "failed=1" not in done and len(re.findall(r"^sim\d+ .*changed=[1-9]", first_run, re.MULTILINE)) <= 12
    assert len(re.findall(r"^sim\d+ .*changed=0 ", last_run, re.MULTILINE)) == 12
