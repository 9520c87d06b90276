# The Slurm port: error texts, and the whole port against a real slurmctld with real slurmds.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import subprocess

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import (
    BaremetalError,
    DeadlineExceeded,
    NotFound,
    Refused,
    Unreachable,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler.slurm import SlurmPort


@pytest.mark.parametrize(
    "rc, err, code",
    [
        (1, "slurm_load_node error: Unable to contact slurm controller (connect failure)", "slurm_down"),
        (124, "", "slurm_down"),
        (127, "timeout: failed to run command 'scontrol': No such file or directory", "slurm_client_missing"),
        (127, "sh: 1: timeout: not found", "slurm_client_missing"),
        (
            1,
            "scontrol: error: s_p_parse_file: cannot stat file /etc/slurm/slurm.conf: No such file",
            "slurm_not_configured",
        ),
        (1, "slurm_load_node error: Protocol authentication error", "slurm_munge"),
    ],
)
def test_failures_say_what_to_do(rc, err, code):
    with pytest.raises(Unreachable) as error:
        SlurmPort(lambda argv: (rc, "", err), where="slurm1").observe("gpu01")
    assert (
        error.value.code == code
        and error.value.next_step
        and error.value.host == "gpu01"
        and "slurm1" in str(error.value)
    )


def test_only_slurms_own_words_mean_that_a_node_is_not_there():
    def port(said):
        return SlurmPort(lambda argv: (1, "", said))

    for said in ("Node gpu01 not found", "slurm_load_node error: Invalid node name specified"):
        assert port(said).observe("gpu01")["present"] is False
    for said in ("fatal: plugin auth/none not found", "sudo: scontrol: command not found"):
        with pytest.raises(BaremetalError) as error:
            port(said).observe("gpu01")
        assert error.value.code == "slurm_failed"


def test_reachable_is_a_command_that_ran():
    SlurmPort(lambda argv: (0, "", "")).reachable()
    with pytest.raises(Unreachable) as error:
        SlurmPort(lambda argv: (1, "", "sudo: a password is required"), where="slurm1").reachable()
    assert "a password is required" in str(error.value) and "slurm1" in error.value.next_step


def test_denied():
    with pytest.raises(Refused):
        SlurmPort(lambda argv: (1, "", "slurm_update error: Access/permission denied")).observe("gpu01")


@pytest.mark.parametrize("name", ["gpu[01-04]", "gpu01,gpu02", "ALL nodes", "", "-x", None])
def test_a_list_of_nodes_is_refused_before_any_call(name):
    with pytest.raises(Refused):
        SlurmPort(lambda argv: pytest.fail("called")).observe(name)


@pytest.fixture
def port(slurm):
    yield SlurmPort(slurm.run, interval=0.1, verify_seconds=10)
    slurm.run(["scancel", "--user=root"])
    for node in slurm.nodes:
        slurm.run(["scontrol", "update", f"nodename={node}", "state=resume"])
    slurm.wait("idle again", lambda: all(slurm.state(node) == "idle" for node in slurm.nodes))


@pytest.mark.root
def test_real_observe(port):
    seen = port.observe("gpu01")
    assert seen["present"] and seen["base"] == "IDLE" and seen["registered"] and not seen["invalid"]
    assert seen["gres"] == "gpu:h100:8" and seen["jobs"] == []
    assert port.observe("nowhere")["present"] is False
    assert port.ping()
    with pytest.raises(NotFound):
        port.drain("nowhere", "x", "enroll")


@pytest.mark.root
def test_real_drain_twice_and_resume_twice(port, slurm):
    assert port.drain("gpu01", "attempt 1", "enroll").changed
    assert not port.drain("gpu01", "attempt 1", "enroll").changed
    seen = port.observe("gpu01")
    assert (seen["drained"], seen["drain_owner"], seen["reason"]) == (True, "enroll", "aicluster:enroll: attempt 1")
    assert port.observe("gpu02")["drained"] is False
    assert port.resume("gpu01", "enroll").changed
    assert not port.resume("gpu01", "enroll").changed
    assert not port.observe("gpu01")["drained"]


@pytest.mark.root
def test_real_check_mode(port):
    assert port.drain("gpu01", "x", "enroll", check=True).changed
    assert not port.observe("gpu01")["drained"]


@pytest.mark.root
def test_real_admin_drain_is_kept(port, slurm):
    slurm.scontrol("update", "nodename=gpu01", "state=drain", "reason=disk swap")
    assert not port.drain("gpu01", "attempt 1", "enroll").changed
    with pytest.raises(Refused):
        port.resume("gpu01", "enroll")
    seen = port.observe("gpu01")
    assert (seen["reason"], seen["drain_owner"], seen["reason_user"]) == ("disk swap", "user:root", "root")


@pytest.mark.root
def test_real_admin_who_takes_our_drain_over(port, slurm):
    port.drain("gpu01", "attempt 1", "enroll")
    slurm.scontrol("update", "nodename=gpu01", "state=drain", "reason=waiting for parts")
    with pytest.raises(Refused):
        port.resume("gpu01", "enroll")


@pytest.mark.root
def test_real_drain_waits_for_the_job(port, slurm):
    job = subprocess.Popen(
        ["srun", "-N1", "-w", "gpu02", "--gres=gpu:8", "sleep", "3"], env=slurm.environment, stderr=subprocess.PIPE
    )
    slurm.wait("job running", lambda: slurm.state("gpu02") in ("allocated", "mixed"))
    port.drain("gpu02", "maintenance", "repair")
    assert not port.idle("gpu02")
    with pytest.raises(DeadlineExceeded) as error:
        port.wait_idle("gpu02", 0.3)
    assert "of root (RUNNING)" in str(error.value)
    beats = []
    seen = port.wait_idle("gpu02", 20, each=lambda: beats.append(1))
    assert seen["drained"] and not seen["jobs"] and beats
    assert job.wait(10) == 0, job.stderr.read()
    job.stderr.close()


@pytest.mark.root
def test_real_controller_down(port, slurm):
    slurm.kill("slurmctld")
    try:
        with pytest.raises(Unreachable) as error:
            port.ping()
        assert error.value.code == "slurm_down"
        with pytest.raises(Unreachable) as error:
            port.drain("gpu01", "x", "enroll")
        assert error.value.code == "slurm_down" and "start slurmctld" in error.value.next_step
    finally:
        slurm.start_controller()
