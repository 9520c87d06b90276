# The lab as a user runs it: built twice, two side by side, recovered after a crash, removed without a trace. Servers have driver none, so it takes a minute.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# No Slurm controller: it needs an image, and the full demo shows it.
NODES = {"virtual_lab_nodes": [{"driver": "none"}, {"driver": "none"}], "virtual_lab_slurm_root": ""}

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2"),
]


def play(playbook, lab, *arguments, code=0):
    """(changed, all of the output) of one playbook run against the lab of that name."""
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "inventories/lab/ansible.cfg"),
        "AICLUSTER_LAB": lab,
        "AICLUSTER_REGISTRY": f"sqlite:////var/lib/aicluster/{lab}/registry.db",
        "AICLUSTER_KNOWN_HOSTS": f"/var/lib/aicluster/{lab}/known_hosts",
        "ANSIBLE_NOCOLOR": "1",
    }
    env.pop("ANSIBLE_COLLECTIONS_PATH", None)
    command = [
        str(pathlib.Path(sys.executable).with_name("ansible-playbook")),
        str(ROOT / "playbooks" / playbook),
        "-e",
        json.dumps(NODES),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=ROOT, timeout=300)
    assert done.returncode == code, done.stdout[-4000:] + done.stderr[-2000:]
    return int(re.search(r"changed=(\d+)", done.stdout).group(1)), done.stdout + done.stderr


def world(lab):
    """What a lab could leave behind: namespaces, mounts, files, and processes that carry its mark or run inside its namespaces."""
    namespaces = (
        {name for name in os.listdir("/run/netns") if name.startswith(lab + "-")}
        if os.path.isdir("/run/netns")
        else set()
    )
    mounts = {
        line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if f"aicluster/{lab}" in line
    }
    files = {path for path in (f"/var/lib/aicluster/{lab}", f"/run/aicluster/{lab}") if os.path.exists(path)}
    processes = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"/var/lib/aicluster/{lab}".encode() in text and int(entry.name) != os.getpid():
            processes.add(text[:80])
    return {"namespaces": namespaces, "mounts": mounts, "files": files, "processes": processes}


EMPTY = {"namespaces": set(), "mounts": set(), "files": set(), "processes": set()}


@pytest.fixture
def lab():
    name = f"it{os.getpid() % 100000}"
    yield name
    play("lab_down.yml", name)
    assert world(name) == EMPTY


def test_check_mode_on_a_clean_machine_makes_nothing(lab):
    changed, output = play("lab.yml", lab, "--check", "--diff")
    assert changed > 0 and f"{lab}-ctl" in output
    assert world(lab) == EMPTY


def test_built_twice_mended_and_removed(lab):
    assert play("lab.yml", lab)[0] > 0
    changed, output = play("lab.yml", lab)
    assert changed == 0
    secret = pathlib.Path(f"/var/lib/aicluster/{lab}/secrets.yml").read_text()
    password = re.search(r"password: (\S+)", secret).group(1)
    assert password not in output

    # A supervisord that was killed leaves its programs running and their ports taken.
    pid = int(pathlib.Path(f"/run/aicluster/{lab}/supervisord.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    changed, output = play("lab.yml", lab, "--diff")
    assert changed == 1 and "processes of an earlier run" in output
    assert play("lab.yml", lab)[0] == 0

    subprocess.run(["ip", "-n", f"{lab}-ctl", "link", "delete", "oob"], check=True)
    assert play("lab.yml", lab)[0] == 1

    assert play("lab_down.yml", lab)[0] > 0
    assert world(lab) == EMPTY
    assert play("lab_down.yml", lab)[0] == 0


def test_two_labs_side_by_side(lab):
    other = lab + "b"
    try:
        play("lab.yml", lab)
        play("lab.yml", other)
        assert play("lab.yml", lab)[0] == 0
        before = world(lab)
        play("lab_down.yml", other)
        assert world(other) == EMPTY
        assert world(lab)["namespaces"] == before["namespaces"]
        assert play("lab.yml", lab)[0] == 0
    finally:
        play("lab_down.yml", other)


def test_a_directory_of_somebody_else_stops_the_lab(lab):
    directory = pathlib.Path(f"/var/lib/aicluster/{lab}")
    directory.mkdir(parents=True)
    (directory / "thesis.txt").touch()
    try:
        for playbook in ("lab.yml", "lab_down.yml"):
            _changed, output = play(playbook, lab, code=2)
            assert "not made by a lab" in output
        assert (directory / "thesis.txt").exists()
    finally:
        shutil.rmtree(directory)
        if not os.listdir(directory.parent):
            directory.parent.rmdir()


def test_a_bad_option_is_named_before_anything_is_made():
    name = f"it{os.getpid() % 100000}o"
    output = play("lab.yml", name, "-e", json.dumps({"virtual_lab_nodes": 9}), code=2)[1]
    assert "virtual_lab_nodes" in output and "1 to 8" in output
    assert world(name) == EMPTY
