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
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from controller import PLAYBOOK, ROOT, Directory

from bmc_simulator import testing


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


def test_the_examples_for_drives_and_ipmi_run_on_a_twin_without_a_profile(tmp_path):
    """The examples of bmc_storage as they stand in its documentation; and IPMI by nothing but the protocol."""
    text = (ROOT / "plugins" / "modules" / "bmc_storage.py").read_text(encoding="utf-8")
    tasks = yaml.safe_load(re.search(r'EXAMPLES = r"""(.*?)"""', text, re.DOTALL)[1])
    play = tmp_path / "play.yml"
    with testing.fleet(count=1, address="127.28.0.1", ipmi=True, behaviour={"power_lag_s": 0.1}) as lab:
        environment = Directory(tmp_path, {}).environment
        for name in ("AICLUSTER_REGISTRY", "AICLUSTER_SECRETS"):
            environment.pop(name, None)

        def run(tasks, *arguments):
            play.write_text(yaml.safe_dump([{"hosts": "nodes", "gather_facts": False, "tasks": tasks}]))
            done = subprocess.run(
                [PLAYBOOK, "-i", lab.inventory, play, *arguments],
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            return done.returncode, done.stdout + done.stderr

        serial = lab.bmcs[0].serial
        without = [
            {key: {name: value for name, value in task[key].items() if name != "consent"} for key in task if "." in key}
            for task in tasks
        ]
        status, output = run(without, "--check", "--diff")
        assert status == 0 and f"needs consent: [{serial}]" in output and f"[{serial}-disk0]" in output, output
        status, output = run(tasks)
        assert status == 0 and re.search(r"changed=2 .*failed=0", output), output
        status, output = run([{"aicluster.baremetal.bmc_power": {"state": "on"}}], "-e", "bmc_protocol=ipmi", "-v")
        assert status == 0 and '"source": "ipmi"' in output, output
