# A real Slurm on this machine for tests: private munged, slurmctld and one slurmd per node, in the foreground, stopped by pid.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import time

PROGRAMS = ("slurmctld", "slurmd", "scontrol", "squeue", "munged")


def missing():
    """Why a real Slurm cannot run here, or None."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian: slurmctld slurmd munge slurm-client)"
    return None if os.geteuid() == 0 else "needs root (munged, device nodes)"


def _free_ports(count):
    """Port numbers that nobody listens on now; held open together so that they differ."""
    sockets = [socket.socket() for _turn in range(count)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    ports = [item.getsockname()[1] for item in sockets]
    for item in sockets:
        item.close()
    return ports


class RealSlurm:
    """`nodes` names; each has 8 simulated GPUs as character devices. Use as a context manager."""

    def __init__(self, directory, nodes=("gpu01", "gpu02")):
        self.dir, self.nodes, self.processes = pathlib.Path(directory), tuple(nodes), {}
        self.conf = self.dir / "slurm.conf"
        self.environment = {**os.environ, "SLURM_CONF": str(self.conf), "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_exc):
        self.stop()

    def run(self, argv):
        """The runner that SlurmPort takes."""
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def scontrol(self, *argv):
        rc, out, err = self.run(["scontrol", *argv])
        assert rc == 0, out + err
        return out

    def spawn(self, name, *argv, **options):
        log = open(self.dir / f"{name}.out", "ab")  # noqa: SIM115 - handed to the child
        self.processes[name] = subprocess.Popen(
            argv,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=options.pop("env", self.environment),
            **options,
        )
        log.close()

    def kill(self, name):
        process = self.processes.pop(name)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait(10)

    def stop(self):
        for name in reversed(list(self.processes)):
            self.kill(name)

    def wait(self, what, probe, seconds=20):
        end = time.monotonic() + seconds
        while not probe():
            logs = "\n".join(p.read_text(errors="replace")[-1500:] for p in sorted(self.dir.glob("*.out")))
            assert time.monotonic() < end, f"{what} not reached in {seconds} s\n{logs}"
            time.sleep(0.1)

    def start_controller(self):
        self.spawn("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        self.wait("slurmctld UP", lambda: " is UP" in self.run(["scontrol", "ping"])[1])

    def start_node(self, name):
        self.spawn(f"slurmd-{name}", "slurmd", "-D", "-N", name, "-f", str(self.conf))

    def state(self, node):
        return self.run(["sinfo", "-h", "-n", node, "-o", "%T"])[1].strip()

    def _start(self):
        munge = self.dir / "munge"
        for path in (munge, self.dir / "state", self.dir / "spool", self.dir / "dev"):
            path.mkdir(parents=True, exist_ok=True)
        self.dir.chmod(0o755)
        key = munge / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        munge.chmod(0o755)
        for path in (munge, key):
            shutil.chown(path, "munge", "munge")
        sock = munge / "munge.socket.2"
        self.spawn(
            "munged",
            "setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups",
            "munged", "-F", "-f", f"--key-file={key}", f"--socket={sock}", f"--pid-file={munge}/pid",
            f"--log-file={munge}/log", f"--seed-file={munge}/seed",
        )  # fmt: skip
        self.wait("munge socket", sock.exists)
        # An unowned major number: the device exists, nothing answers behind it (Slurm only counts and names it).
        for index in range(8):
            os.mknod(self.dir / "dev" / f"fakegpu{index}", 0o600 | stat.S_IFCHR, os.makedev(195, index))
        controller, *ports = _free_ports(1 + len(self.nodes))
        host = socket.gethostname().split(".")[0]
        lines = [
            "ClusterName=aicltest", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={controller}",
            "SlurmUser=root", "SlurmdUser=root", "AuthType=auth/munge", f"AuthInfo=socket={sock}",
            f"StateSaveLocation={self.dir}/state", f"SlurmdSpoolDir={self.dir}/spool/%n",
            f"SlurmctldPidFile={self.dir}/slurmctld.pid", f"SlurmdPidFile={self.dir}/slurmd-%n.pid",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core_Memory", "GresTypes=gpu",
            "ReturnToService=1", "SlurmctldTimeout=30", "SlurmdTimeout=30", "SlurmdParameters=config_overrides",
        ]  # fmt: skip
        for name, port in zip(self.nodes, ports):
            lines.append(
                f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} Boards=1 SocketsPerBoard=2 "
                "CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:h100:8 State=UNKNOWN"
            )
        lines.append("PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
        self.conf.write_text("\n".join(lines) + "\n")
        (self.dir / "gres.conf").write_text(
            f"NodeName={','.join(self.nodes)} Name=gpu Type=h100 File={self.dir}/dev/fakegpu[0-7]\n"
        )
        self.start_controller()
        for name in self.nodes:
            self.start_node(name)
        self.wait("all nodes idle", lambda: all(self.state(name) == "idle" for name in self.nodes))
