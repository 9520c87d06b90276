# The lab's networks, with real namespaces of a name of this test's own.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError, Refused
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab import network, processes
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab.description import describe

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2"),
]
NODES = [{}, {"driver": "nspawn", "root": "/nowhere"}, {"driver": "none"}]


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def make(description):
    network.apply(description, network.plan(description, network.observe(description)))


def remove(description):
    network.apply(description, network.plan(description, network.observe(description), False))


@pytest.fixture
def description():
    lab = describe(f"ut{os.getpid() % 100000}", "/tmp/aicluster-unit/state", "/tmp/aicluster-unit/run", nodes=NODES)
    yield lab
    remove(lab)
    assert not [name for name in network.existing() if name.startswith(lab["name"] + "-")]


def test_made_once_then_unchanged(description):
    make(description)
    network.verify(description)
    assert network.plan(description, network.observe(description)).changed is False
    net = ip("-n", description["namespaces"]["net"], "-br", "link")
    assert "gpu01n0" in net and "gpu03n0" not in net
    oob = ip("-n", description["namespaces"]["oob"], "-4", "-br", "address")
    assert all(f"10.77.0.{host}/24" in oob for host in (5, 11, 12, 13))


def power_on(description):
    """What the simulator's nspawn driver makes."""
    namespace, net = f"{description['name']}-gpu02", description["namespaces"]["net"]
    ip("netns", "add", namespace)
    ip(
        "-n",
        namespace,
        "link",
        "set",
        "lo",
        "up",
        "alias",
        network.owner_alias(description["name"], description["dir"]),
    )
    ip("-n", net, "link", "add", "gpu02n0", "type", "veth", "peer", "name", "eth0", "netns", namespace)
    return namespace


def test_a_running_container_is_left_alone_and_goes_with_the_lab(description):
    make(description)
    namespace = power_on(description)
    assert not network.plan(description, network.observe(description)).changed
    remove(description)
    assert namespace not in network.existing()


@pytest.mark.parametrize(
    "damage",
    [
        "-n {net} link delete gpu01n1",
        "-n {ctl} link delete prov",
        "-n {ctl} address delete 10.77.0.1/24 dev oob",
        "-n {net} link set rail0 down",
        "-n {net} link set prov-slurm nomaster",
        "netns delete {slurm}",
        "netns delete {oob}",
        "-n {ctl} address add 10.99.0.1/24 dev oob",
    ],
)
def test_damage_is_seen_and_mended(description, damage):
    make(description)
    ip(*damage.format(**description["namespaces"]).split())
    with pytest.raises(BaremetalError, match="not as they were set"):
        network.verify(description)
    make(description)
    network.verify(description)


def test_a_smaller_lab_drops_what_it_no_longer_has(description):
    make(description)
    power_on(description)
    smaller = describe(description["name"], description["dir"], description["run_dir"], nodes=1)
    make(smaller)
    network.verify(smaller)
    assert f"{description['name']}-gpu02" not in network.existing()
    assert "gpu02n0" not in ip("-n", description["namespaces"]["net"], "-br", "link")


def test_a_foreign_namespace_is_refused_and_left_alone(description):
    name = description["namespaces"]["ctl"]
    ip("netns", "add", name)
    ip("-n", name, "link", "set", "lo", "up")
    try:
        for present in (True, False):
            with pytest.raises(Refused, match=name):
                network.plan(description, network.observe(description), present)
        assert network.existing().count(name) == 1
    finally:
        ip("netns", "delete", name)


def test_a_namespace_of_an_interrupted_run_is_taken_over(description):
    ip("netns", "add", description["namespaces"]["ctl"])
    make(description)
    network.verify(description)


def test_an_empty_namespace_that_somebody_works_in_is_not_ours(description):
    name = description["namespaces"]["ctl"]
    ip("netns", "add", name)
    with subprocess.Popen(["ip", "netns", "exec", name, "sleep", "60"]) as theirs:
        try:
            deadline = time.monotonic() + 10
            while not processes.in_namespaces([name]) and time.monotonic() < deadline:
                time.sleep(0.05)
            with pytest.raises(Refused, match=f"{name}.*is not this lab's.*no mark, and in it.*sleep"):
                network.observe(description)
            assert theirs.poll() is None
        finally:
            theirs.kill()
    network.observe(description)


def test_two_labs_with_the_same_addresses(description):
    other = describe(description["name"] + "b", "/tmp/aicluster-unit/state2", "/tmp/aicluster-unit/run2", nodes=1)
    try:
        make(description)
        make(other)
        network.verify(description)
        network.verify(other)
        remove(other)
        network.verify(description)
    finally:
        remove(other)


def test_the_last_lab_leaves_no_mount(description, tmp_path):
    """In a mount namespace whose /run is empty: this machine's own may have other labs."""
    (tmp_path / "lab.json").write_text(json.dumps(description), encoding="utf-8")
    program = f"""
import json, pathlib, subprocess, sys
sys.path[:0] = {sys.path!r}
sys.path.insert(0, {str(pathlib.Path(__file__).resolve().parents[3])!r})
import conftest  # makes the checkout importable as a collection
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab import network
subprocess.run(["mount", "-t", "tmpfs", "run", "/run"], check=True)
lab = json.loads(pathlib.Path({str(tmp_path / "lab.json")!r}).read_text())
lab["nodes"] = []
def mounts():
    return pathlib.Path("/proc/self/mounts").read_text().count(" /run/netns ")
before = mounts()  # hidden below the new /run
network.apply(lab, network.plan(lab, network.observe(lab)))
print(mounts() - before)
network.apply(lab, network.plan(lab, network.observe(lab), False))
print(mounts() - before)
"""
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["1", "0"], done.stderr
