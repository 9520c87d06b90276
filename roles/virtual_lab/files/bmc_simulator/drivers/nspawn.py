# A node that is a systemd-nspawn container: an overlay on a shared root, its own network namespace, systemd as process
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What it cannot show is not claimed from it: there is no firmware, no boot loader, no kernel of its own and no disk.
A boot target is kept and reported, and has no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import shutil
import signal

from .. import hardware
from ..journal import now_text
from .base import Boot, Driver, DriverError

START_SECONDS = 30.0
STOP_SECONDS = 15.0
PROPAGATE = pathlib.Path("/run/systemd/nspawn/propagate")
# what a container manager sends to process 1 for an orderly power off (systemd(1), signals)
SIGRTMIN_POWEROFF = signal.SIGRTMIN + 4


def _outside() -> list[str]:
    """How to run a command where the simulator was started from.

    `ip netns exec` gives what it starts a mount namespace of its own: network namespaces and mounts made there would be
    seen by nobody else.
    """
    try:
        outside = os.open(f"/proc/{os.getppid()}/ns/mnt", os.O_RDONLY)
        if os.stat(outside).st_ino == os.stat("/proc/self/ns/mnt").st_ino:
            os.close(outside)
            return []
    except OSError:
        return []
    # the descriptor stays open: the parent may end, its namespace must not
    return ["nsenter", f"--mount=/proc/{os.getpid()}/fd/{outside}", "--"]


OUTSIDE = _outside()


async def run(*command: str, check: bool = True) -> str:
    """Run a short command outside of a private mount namespace; raises DriverError with what it said."""
    process = await asyncio.create_subprocess_exec(
        *OUTSIDE,
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _none = await process.communicate()
    text = output.decode(errors="replace").strip()
    if process.returncode and check:
        raise DriverError(f"{' '.join(command)} ended with {process.returncode}: {text}")
    return text


class NspawnDriver(Driver):
    media_files = False
    resumes = True

    def __init__(self, node, lab):
        super().__init__(node, lab)
        self.namespace = f"{lab['name']}-{node.name}"
        self.root = node.directory / "root"
        self.console = node.directory / "console.log"
        self.pid_file = pathlib.Path(lab["run_dir"]) / f"{node.name}.pid"
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task | None = None
        self._ended = asyncio.Event()
        # off: ends when the container does; restart: start it again
        self._wanted_end = False

    @property
    def running(self) -> bool:
        return self._process is not None

    async def attach(self) -> bool:
        """A container does not outlive the simulator: what a crash left behind is removed."""
        with contextlib.suppress(OSError, ValueError):
            pid = int(self.pid_file.read_text())
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if f"--machine={self.namespace}".encode() in words:
                for child in _descendants(pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                await asyncio.sleep(0.5)
        await self._clean()
        return False

    # ---- network and root ----------------------------------------------------------------------

    async def _prepare(self) -> None:
        """The node's namespace with a veth per NIC into the bridges, and its root, an overlay on the shared one."""
        config, lab_namespace = self.node.config, self.lab["net_namespace"]
        await run("ip", "netns", "add", self.namespace)
        # the mark by which the lab's removal knows whose namespace this is (module_utils/lab/network.py)
        mark = f"aicluster-lab {self.lab['name']} {self.lab['dir']}"
        await run("ip", "-n", self.namespace, "link", "set", "lo", "up", "alias", mark)
        for number, nic in enumerate(config["nics"]):
            outer, inner = nic["tap"] or f"{self.node.name}n{number}", f"eth{number}"
            place = ["-n", lab_namespace] if lab_namespace else []
            # the lab may have made a tap of that name for the same NIC: a container needs a veth in its place
            await run("ip", *place, "link", "del", outer, check=False)
            await run(
                "ip",
                *place,
                "link",
                "add",
                outer,
                "type",
                "veth",
                "peer",
                "name",
                inner,
                "address",
                nic["mac"],
                "netns",
                self.namespace,
            )
            if nic["bridge"]:
                await run("ip", *place, "link", "set", outer, "master", nic["bridge"])
            await run("ip", *place, "link", "set", outer, "up")
            if nic["address"]:
                await run("ip", "-n", self.namespace, "addr", "add", nic["address"], "dev", inner)
            await run("ip", "-n", self.namespace, "link", "set", inner, "up")
            if nic["gateway"]:
                await run("ip", "-n", self.namespace, "route", "add", "default", "via", nic["gateway"])
        upper, work = self.node.directory / "upper", self.node.directory / "work"
        for directory in (upper, work, self.root):
            directory.mkdir(exist_ok=True)
        self._personalise(upper / "etc")
        await self._keys(upper)
        options = f"lowerdir={os.path.realpath(config['root'])},upperdir={upper},workdir={work}"
        await run("mount", "-t", "overlay", "overlay", "-o", options, str(self.root))

    def _personalise(self, etc: pathlib.Path) -> None:
        """What tells this node from its siblings; name and machine id only once, they are the node's own afterwards."""
        strings = [*hardware.oem_strings(self.node.config), f"aicluster.serial={self.node.config['serial']}"]
        (etc / "aicluster").mkdir(parents=True, exist_ok=True)
        (etc / "aicluster" / "hardware-strings").write_text("".join(f"{line}\n" for line in strings))
        if not (etc / "hostname").exists():
            (etc / "hostname").write_text(self.node.name + "\n")
            (etc / "machine-id").write_text(self.node.config["uuid"].replace("-", "") + "\n")

    async def _keys(self, upper: pathlib.Path) -> None:
        """A host key of its own, made once, and the lab's own key to log in with (where the lab has one)."""
        ssh = upper / "etc" / "ssh"
        ssh.mkdir(parents=True, exist_ok=True)
        if not (ssh / "ssh_host_ed25519_key").exists():
            await run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(ssh / "ssh_host_ed25519_key"))
        public = pathlib.Path(self.lab["dir"]) / "ssh" / "id_ed25519.pub"
        if public.exists():
            home = upper / "root" / ".ssh"
            for directory in (home.parent, home):
                directory.mkdir(mode=0o700, exist_ok=True)
            (home / "authorized_keys").write_text(public.read_text())
            (home / "authorized_keys").chmod(0o600)

    async def _mounted(self) -> bool:
        return bool(
            await run("findmnt", "--noheadings", "--output", "TARGET", "--mountpoint", str(self.root), check=False)
        )

    async def _clean(self) -> None:
        """No mount and no namespace stays behind; the overlay's files do, they are the node's disk."""
        for how in ((), ("--lazy",)):
            if await self._mounted():
                await run("umount", *how, str(self.root), check=False)
        place = ["-n", self.lab["net_namespace"]] if self.lab["net_namespace"] else []
        for number, nic in enumerate(self.node.config["nics"]):
            if os.path.exists(f"/run/netns/{self.namespace}"):
                await run("ip", *place, "link", "del", nic["tap"] or f"{self.node.name}n{number}", check=False)
        if os.path.exists(f"/run/netns/{self.namespace}"):
            await run("ip", "netns", "del", self.namespace)
        shutil.rmtree(self.node.directory / "work", ignore_errors=True)
        # systemd-nspawn leaves its own directory where /run is no tmpfs
        with contextlib.suppress(OSError):
            (PROPAGATE / self.namespace).rmdir()
        self.pid_file.unlink(missing_ok=True)

    # ---- life ----------------------------------------------------------------------------------

    async def start(self, first: Boot, then: Boot) -> None:
        if not os.path.isdir(self.node.config["root"]):
            raise DriverError(
                f"{self.node.name}: no operating system at {self.node.config['root']}; build it or correct root"
            )
        await self._clean()
        try:
            await self._prepare()
            await self._spawn()
        except DriverError:
            await self._clean()
            raise
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def _spawn(self) -> None:
        with self.console.open("ab") as output:
            output.write(f"\n=== aicluster power on {now_text()} ===\n".encode())
            output.flush()
            environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
            # it does not end with the simulator by itself: the simulator stops it, or the successor of a crashed one
            self._process = await asyncio.create_subprocess_exec(
                *self._command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        self.pid_file.write_text(f"{self._process.pid}\n")
        self._ended.clear()
        self._wanted_end = False

    def _command(self) -> list[str]:
        command = [
            *OUTSIDE,
            "systemd-nspawn",
            "--quiet",
            "--register=no",
            "--keep-unit",
            "--resolv-conf=off",
            "--console=pipe",
        ]
        command += ["-D", str(self.root), f"--machine={self.namespace}", f"--hostname={self.node.name}"]
        command += [f"--uuid={self.node.config['uuid']}", f"--network-namespace-path=/run/netns/{self.namespace}"]
        # a control group of its own: containers that share one can end each other's services
        keeper = pathlib.Path(__file__).resolve().parents[2] / "in_control_group"
        return [str(keeper), f"aicluster-lab/{self.lab['name']}/{self.namespace}", *command, "--boot"]

    async def _keep(self) -> None:
        """A reboot inside ends nspawn with 133 (for a unit that restarts it): start it again, as a server would."""
        while True:
            code = await self._process.wait()
            if self._wanted_end or code != 133:
                break
            try:
                await self._spawn()
                await self.node.machine_rebooted("reset by the operating system")
            except DriverError:
                break
        # off means that nothing of it is left
        await self._clean()
        self._process = None
        self._ended.set()
        if not self._wanted_end:
            await self.node.machine_stopped(
                "shut down by the operating system" if code == 0 else f"container ended with {code}"
            )

    def _signal_init(self, number: int) -> None:
        """Signal the container's process 1."""
        if self._process:
            for child in _children(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, number)

    async def stop(self) -> None:
        if not self._process:
            return
        self._wanted_end = True
        self._signal_init(signal.SIGKILL)
        try:
            await asyncio.wait_for(self._ended.wait(), STOP_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await asyncio.wait_for(self._ended.wait(), STOP_SECONDS)

    async def shutdown(self) -> None:
        self._signal_init(SIGRTMIN_POWEROFF)

    async def reset(self) -> None:
        await self.stop()
        await self.node.machine_restarted()

    async def close(self, keep: bool) -> None:
        # it cannot be taken over while it runs (console, restarts); with `keep` the next simulator starts it again
        await self.stop()


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _descendants(pid: int) -> list[int]:
    """The process itself last, so that nothing is started again in between."""
    return [*(grandchild for child in _children(pid) for grandchild in _descendants(child)), pid]
