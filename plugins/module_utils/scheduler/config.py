# slurm.conf and gres.conf: node lines from measured hardware (pure), and putting a configuration in place so that a broken one never replaces a
# running one (validated by a scratch slurmctld, rolled back when the real one does not come up with it). Standard library only: runs on the controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import os
import pathlib
import re
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import time

from ..core.deadline import Deadline
from ..core.errors import BaremetalError, InvalidInput, NotFound, Refused
from ..core.plan import Change, Plan

NODES_MARK = "# nodes (written by aicluster.baremetal from the registry)"
# What a scratch slurmctld must not share with the real one, and what it cannot reach from its own network namespace.
_SCRATCH_DROPS = re.compile(
    r"(?im)^\s*(StateSaveLocation|SlurmctldPidFile|SlurmctldLogFile|SlurmctldHost|SlurmctldAddr|ControlMachine|ControlAddr|BackupController|SlurmUser|"
    r"AccountingStorage\w*|PriorityType|JobCompType|JobCompLoc|HealthCheck\w*|SlurmctldPrimaryOnProg|SlurmctldPrimaryOffProg)\s*=.*$"
)
_NOT_ISOLATED = 126  # exit status of the scratch daemon's process when it could not be isolated
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")


def usable_memory(detected_mib, percent=97):
    """RealMemory for slurm.conf. Slurm drains a node that reports less than that, and the same server reports some MiB more or less after each
    change of BIOS, kernel or huge pages; so less than what was detected is promised."""
    return max(1, int(detected_mib) * int(percent) // 100)


def node_lines(name, address, hardware, gpus=0, kind="gpu", memory_percent=97, features=()):
    """(line of slurm.conf, line of gres.conf or "") for one node; `hardware` is transform.hardware(...).

    Sockets, cores and threads are always written: from CPUs alone Slurm assumes one socket per CPU and calls a real server invalid.
    """
    for what, value, pattern in (("node name", name, _NAME), ("address", address, _WORD), ("GPU type", kind, _WORD)):
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise InvalidInput("cannot stand in slurm.conf", host=str(name), thing=what, seen=repr(value))
    words = [
        f"NodeName={name}",
        f"NodeAddr={address}",
        f"CPUs={int(hardware['cpus'])}",
        f"Boards={int(hardware['boards'])}",
        f"SocketsPerBoard={int(hardware['sockets'])}",
        f"CoresPerSocket={int(hardware['cores'])}",
        f"ThreadsPerCore={int(hardware['threads'])}",
        f"RealMemory={usable_memory(hardware['real_memory_mib'], memory_percent)}",
    ]
    gres = ""
    if gpus:
        words.append(f"Gres=gpu:{kind}:{int(gpus)}")
        files = "/dev/nvidia0" if int(gpus) == 1 else f"/dev/nvidia[0-{int(gpus) - 1}]"
        gres = f"NodeName={name} Name=gpu Type={kind} File={files}"
    if features:
        words.append("Feature=" + ",".join(features))
    # UNKNOWN: slurm.conf must not say DRAIN, or the next reconfigure would drain an active node again.
    words.append("State=UNKNOWN")
    return " ".join(words), gres


def split(text):
    """({name: line} of the single-node NodeName lines, the remaining text) of a slurm.conf or gres.conf."""
    nodes, rest = {}, []
    for line in text.splitlines():
        match = re.match(r"\s*NodeName=([A-Za-z0-9.-]+)\s", line + " ")
        if match and match.group(1) != "DEFAULT":
            nodes[match.group(1)] = line.strip()
        elif line != NODES_MARK:
            rest.append(line)
    return nodes, "\n".join(rest).strip()


def merge(present, wanted, remove=()):
    """Node lines after this run: what is there, minus `remove`, with `wanted` on top.

    A run knows only the registry as it was when it read it. Dropping a node that another run added since would kill the node's jobs, so a node goes
    only when it is named.
    """
    merged = {name: line for name, line in present.items() if name not in set(remove)}
    merged.update(wanted)
    return merged


def render(head, nodes, partitions):
    """The text of slurm.conf. A partition over no nodes is an error for Slurm, so partitions come with the first node."""
    lines = [head.strip(), "", NODES_MARK]
    lines += [nodes[name] for name in sorted(nodes)]
    if nodes:
        lines += ["", partitions.strip()]
    return "\n".join(lines) + "\n"


def render_gres(nodes):
    return "\n".join([NODES_MARK] + [nodes[name] for name in sorted(nodes) if nodes[name]]) + "\n"


def scratch_text(text, directory, hostname):
    """The same configuration for a slurmctld that shares nothing with the real one."""
    kept = _SCRATCH_DROPS.sub("", text)
    own = [
        f"SlurmctldHost={hostname}(127.0.0.1)",
        f"StateSaveLocation={directory}/state",
        f"SlurmctldPidFile={directory}/slurmctld.pid",
        f"SlurmctldLogFile={directory}/slurmctld.log",
        "SlurmUser=root",
    ]
    return "\n".join(own) + "\n" + kept


def _loopback():
    """Bring up the loopback of the network namespace this process is in."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        up = struct.pack("16sH14s", b"lo", 0x1 | 0x40, b"")  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(probe, 0x8914, up)  # SIOCSIFFLAGS
        # With 127.0.0.1 alone glibc's AI_ADDRCONFIG, which Slurm asks for, resolves nothing, not even numbers.
        second = struct.pack("16sHH4s8s", b"lo:1", socket.AF_INET, 0, socket.inet_aton("127.0.0.2"), b"")
        fcntl.ioctl(probe, 0x8916, second)  # SIOCSIFADDR


def _map_root(want, done, ask):
    """A helper process in the outer user namespace: writes the maps of the process whose pid comes through `want`, then says so through `done`.

    Only from outside can a map be written that leaves setgroups allowed, and slurmctld ends when it may not call that.
    """
    pid = os.fork()
    if pid:
        return pid
    os.close(ask)  # or this process would wait for itself
    try:
        target = os.read(want, 20).decode()
        for name in ("uid_map", "gid_map") if target else ():
            with open(f"/proc/{int(target)}/{name}", "w", encoding="ascii") as out:
                out.write("0 0 1")
        os.write(done, b"ok" if target else b"")
    except (OSError, ValueError):
        pass
    os._exit(0)


def _isolate(ask, answer):
    """In a child, before exec: a network namespace of its own with only the loopback up, so that no real node or controller is ever spoken to.

    A container's root often may not configure a network; a user namespace of its own, with root as root, gives it that right inside.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    new_network, new_user = 0x40000000, 0x10000000
    try:
        if libc.unshare(new_network) == 0:
            try:
                _loopback()
                return
            except OSError:
                pass
        if libc.unshare(new_user | new_network) == 0:
            os.write(ask, str(os.getpid()).encode())
            if select.select([answer], [], [], 10)[0] and os.read(answer, 2) == b"ok":
                _loopback()
                return
    except OSError:
        pass
    os._exit(_NOT_ISOLATED)


def _start_isolated(argv, **options):
    """Popen of `argv` behind _isolate."""
    want, ask = os.pipe()
    answer, done = os.pipe()
    helper = _map_root(want, done, ask)
    try:
        return subprocess.Popen(argv, preexec_fn=lambda: _isolate(ask, answer), **options)
    finally:
        # The helper ends when nobody can ask it any more; this process held one end too.
        for end in (want, ask, answer, done):
            os.close(end)
        os.waitpid(helper, 0)


def _complaints(text, limit=6):
    lines = [line.strip() for line in text.splitlines() if re.search(r"\b(fatal|error)\b", line)]
    return "; ".join(re.sub(r"^\[[^\]]*\]\s*", "", line) for line in lines[-limit:]) or text.strip()[-300:]


def _tail(text, limit=300):
    return text.strip()[-limit:] or "nothing"


class Controller:
    """The configuration of the slurmctld on this machine."""

    def __init__(
        self,
        directory="/etc/slurm",
        restart=("systemctl", "restart", "slurmctld"),
        start_seconds=60,
        scratch_seconds=30,
        warn=None,
    ):
        self.dir = pathlib.Path(directory)
        self.restart_command, self.start_seconds, self.scratch_seconds = list(restart), start_seconds, scratch_seconds
        self.warn = warn or (lambda text: None)
        self.stamp = self.dir / ".aicluster-loaded"
        self.environment = {
            **os.environ,
            "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin",
            "SLURM_CONF": str(self.dir / "slurm.conf"),
        }

    # observe

    def _read(self, name):
        try:
            return (self.dir / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def _command(self, argv, seconds=30, **options):
        environment = options.pop("environment", self.environment)
        try:
            done = subprocess.run(
                argv, env=environment, capture_output=True, text=True, timeout=seconds, check=False, **options
            )
        except subprocess.TimeoutExpired:
            return 124, f"no answer within {seconds} s"
        except FileNotFoundError:
            return 127, f"{argv[0]} is not installed"
        return done.returncode, done.stdout + done.stderr

    def up(self, seconds=5):
        return " is UP" in self._command(["scontrol", "ping"], seconds)[1]

    @staticmethod
    def digest(files):
        summed = hashlib.sha256()
        for name in sorted(files):
            summed.update(f"{name}\0{files[name]}\0".encode())
        return summed.hexdigest()

    def observe(self, more=()):
        files = {name: self._read(name) for name in ("slurm.conf", "gres.conf", *more)}
        try:
            loaded = self.stamp.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            loaded = None
        return {"files": files, "loaded": loaded, "up": files["slurm.conf"] is not None and self.up()}

    # plan

    def wanted(self, observed, head, partitions, nodes, gres, remove=()):
        """{file name: text} from the head, the partition lines, {name: line} of nodes and gres, and the names to drop."""
        present = split(observed["files"]["slurm.conf"] or "")[0]
        present_gres = split(observed["files"]["gres.conf"] or "")[0]
        return {
            "slurm.conf": render(head, merge(present, nodes, remove), partitions),
            "gres.conf": render_gres(merge(present_gres, gres, remove)),
        }

    def plan(self, observed, wanted):
        changes = [Change(str(self.dir / name), observed["files"][name], text) for name, text in wanted.items()]
        # A controller killed between the write and the restart leaves new files and an old daemon: what was loaded is compared too.
        changes.append(Change("slurmctld", "up" if observed["up"] else "down", "up"))
        if observed["loaded"] != self.digest(wanted):
            changes.append(Change("configuration loaded", observed["loaded"], self.digest(wanted)))
        return Plan(changes)

    # apply

    def ensure(self, head, partitions, nodes, gres, remove=(), check=False, more=None):
        """Bring the controller to this configuration; returns (plan, what was done: None, "validated", "reconfigured" or "restarted").

        `more`: {name: text} of further files beside slurm.conf that configless nodes receive, such as cgroup.conf.
        """
        odd = [
            name
            for name in more or {}
            if not re.fullmatch(r"[a-z_]+\.conf", name) or name in ("slurm.conf", "gres.conf")
        ]
        if odd:
            raise InvalidInput(
                "not a further Slurm file", thing="files", wanted="names such as cgroup.conf", seen=", ".join(odd)
            )
        with self._locked(check):
            observed = self.observe(tuple(more or ()))
            wanted = {**self.wanted(observed, head, partitions, nodes, gres, remove), **(more or {})}
            plan = self.plan(observed, wanted)
            if not plan:
                return plan, None
            changed_files = any(observed["files"][name] != text for name, text in wanted.items())
            tried = changed_files and self.validate(wanted)
            if check:
                return plan, "validated" if tried else None
            return plan, self._apply(observed, wanted)

    @contextlib.contextmanager
    def _locked(self, check):
        """Hold the lock of this configuration. Check mode makes nothing: where no run has left a lock there is nobody to wait for."""
        path = self.dir / ".aicluster-lock"
        if check:
            if not path.exists():
                yield
                return
        else:
            self.dir.mkdir(parents=True, exist_ok=True)
        with open(path, "r" if check else "w", encoding="ascii") as lock:
            limit = Deadline(120, f"the lock {path}", next_step="another run configures Slurm; wait for it")
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    limit.check("held by another process")
                    time.sleep(0.2)
            yield

    def validate(self, files):
        """Start a slurmctld on these files, alone in a network namespace with scratch state; Refused with its own words when it does not come up.

        Returns whether it was tried: with a warning it was not, where no namespace could be made.
        """
        with tempfile.TemporaryDirectory(prefix="aicluster-slurm-check-") as name:
            directory = pathlib.Path(name)
            (directory / "state").mkdir()
            hostname = socket.gethostname().split(".")[0]
            for extra in self.dir.glob("*.conf"):
                if extra.name not in files:
                    shutil.copyfile(extra, directory / extra.name)
            for file, text in files.items():
                text = scratch_text(text, directory, hostname) if file == "slurm.conf" else text
                (directory / file).write_text(text, encoding="utf-8")
            environment = {**self.environment, "SLURM_CONF": str(directory / "slurm.conf")}
            names = sorted(split(files["slurm.conf"])[0])
            with open(directory / "out", "w+", encoding="utf-8") as out:
                try:
                    daemon = _start_isolated(
                        ["slurmctld", "-D", "-i", "-f", str(directory / "slurm.conf")],
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                    )
                except FileNotFoundError as error:
                    raise NotFound(
                        "slurmctld is not installed here",
                        thing="slurmctld",
                        wanted="the program, to try the new configuration",
                        seen="no such program in " + environment["PATH"],
                        next_step="install it (role slurm_controller), or name the right host",
                        code="slurmctld_missing",
                    ) from error
                try:
                    problem = self._watch(daemon, environment, names)
                finally:
                    daemon.kill()
                    daemon.wait()
            said = _complaints((directory / "out").read_text(errors="replace"))
        if daemon.returncode == _NOT_ISOLATED:
            self.warn("the configuration could not be tried: no network namespace could be made here, so it is untried")
            return False
        if problem:
            raise Refused(
                f"slurmctld does not accept the new configuration: {problem}",
                thing="slurm.conf",
                wanted="a slurmctld that comes up with it",
                seen=said,
                next_step="correct the options named there; the running configuration was not touched",
                code="slurm_config_invalid",
            )
        return True

    def _watch(self, daemon, environment, names):
        """None when the scratch slurmctld answers and knows every node; else what is wrong."""
        end = time.monotonic() + self.scratch_seconds
        enter = ["nsenter", f"--net=/proc/{daemon.pid}/ns/net", "scontrol"]
        while True:
            if daemon.poll() is not None:
                return f"it ended with status {daemon.returncode}"
            rc, said = self._command([*enter, "ping"], 5, environment=environment)
            if " is UP" in said:
                break
            if time.monotonic() > end:
                return f"no answer within {self.scratch_seconds} s"
            time.sleep(0.1)
        return self._unknown(enter, names, environment)

    def _unknown(self, scontrol, names, environment=None):
        """None, or which of the nodes the daemon does not know (Slurm leaves out a node whose address does not resolve, and comes up all the same)."""
        said = self._command(
            [*scontrol, "--oneliner", "show", "node"], 10, environment=environment or self.environment
        )[1]
        known = set(re.findall(r"(?m)^NodeName=(\S+)", said))
        missing = [name for name in names if name not in known]
        return f"it does not know {', '.join(missing[:5])}" if missing else None

    def _write(self, name, text, mode=0o644):
        handle, path = tempfile.mkstemp(dir=self.dir, prefix=f".{name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(path, mode)
        os.replace(path, self.dir / name)

    def _apply(self, observed, wanted):
        for name, text in wanted.items():
            if observed["files"][name] is not None and observed["files"][name] != text:
                self._write(f"{name}.previous", observed["files"][name])
            if observed["files"][name] != text:
                self._write(name, text)
        try:
            done = self._load(observed, wanted)
        except BaremetalError as error:
            error.next_step = "; ".join(filter(None, (error.next_step, self._put_back(observed, wanted))))
            raise
        self._write(self.stamp.name, self.digest(wanted) + "\n")
        return done

    def _put_back(self, observed, wanted):
        """Bring back the files that were there before and the daemon with them; returns what came of it, in words."""
        changed = {name: observed["files"][name] for name, text in wanted.items() if observed["files"][name] != text}
        if not changed:
            return "no file had changed"
        if observed["files"]["slurm.conf"] is None:
            return "there was no configuration before, so the new files stay"
        for name, text in changed.items():
            if text is None:
                (self.dir / name).unlink(missing_ok=True)
            else:
                self._write(name, text)
        rc, said = self._command(self.restart_command, self.start_seconds)
        if rc != 0:
            return f"the previous files were put back, and the restart with them ended with status {rc}: {_tail(said)}"
        return "the previous configuration was put back"

    def _started(self):
        """When the slurmctld that answers was started, in its own words; None when it does not say."""
        match = re.search(r"(?m)^BOOT_TIME\s*=\s*(\S+)", self._command(["scontrol", "show", "config"], 10)[1])
        return match and match.group(1)

    def _restart(self, was_up):
        """Restart the daemon; Refused when the command fails, and while the old daemon is the one that answers nothing counts as restarted."""
        before = self._started() if was_up else None
        if before:
            time.sleep(1.1)  # the time has whole seconds: two daemons must not have been started in the same one
        rc, said = self._command(self.restart_command, self.start_seconds)
        if rc != 0:
            raise Refused(
                f"the restart ended with status {rc}",
                thing=" ".join(self.restart_command)[:100],
                wanted="exit status 0",
                seen=_tail(said),
                next_step="journalctl -u slurmctld",
                code="slurm_restart_failed",
            )
        limit = Deadline(
            self.start_seconds, "slurmctld up with the new configuration", next_step="journalctl -u slurmctld"
        )

        def probe():
            if not self.up():
                return False, said.strip() or "no answer to scontrol ping"
            started = self._started() if before else None
            return before is None or started not in (None, before), f"the daemon that answers was started at {started}"

        limit.wait(probe, 0.2)
        return limit

    def _load(self, observed, wanted):
        """Make the daemon use the files. Running jobs survive a restart; a reconfigure with a new node ends slurmctld 22.05 (seen here)."""
        only_partitions = (
            observed["up"]
            and None not in observed["files"].values()
            # The files on disk are what the daemon runs with; otherwise they say nothing about what it has to learn.
            and observed["loaded"] == self.digest(observed["files"])
            and self._same_but_partitions(observed["files"], wanted)
        )
        if only_partitions:
            rc, said = self._command(["scontrol", "reconfigure"], 30)
            if rc == 0:
                return "reconfigured"
            raise Refused(
                "scontrol reconfigure failed", thing="slurmctld", seen=_complaints(said), code="slurm_config_invalid"
            )
        limit = self._restart(observed["up"])
        if split(observed["files"]["slurm.conf"] or "")[0]:
            # Configless slurmds keep the old files until they are told; a node that is down meanwhile fetches them when it starts.
            limit.wait(self._told, 1.0)
            limit.wait(lambda: (self.up(), "no answer after reconfigure"), 0.2)
        names = sorted(split(wanted["slurm.conf"])[0])
        limit.wait(lambda: (self._unknown(["scontrol"], names) is None, self._unknown(["scontrol"], names)), 0.5)
        return "restarted"

    def _told(self):
        rc, said = self._command(["scontrol", "reconfigure"], 30)
        return rc == 0, f"scontrol reconfigure ended with status {rc}: {_tail(said)}"

    @staticmethod
    def _same_but_partitions(old, new):
        def rest(text):
            return [line for line in text.splitlines() if line.strip() and not re.match(r"\s*(#|PartitionName=)", line)]

        others = all(old[name] == text for name, text in new.items() if name != "slurm.conf")
        return others and rest(old["slurm.conf"]) == rest(new["slurm.conf"])
