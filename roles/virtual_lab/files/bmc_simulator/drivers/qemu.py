# A machine under QEMU: firmware, disks, NICs on taps, serial console in a file, boot order through QMP.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One-time boot: `bootindex` can be written over QMP and is read again at each machine reset. A machine is started with
the order of the override and stopped before its first instruction; the normal order is written; then it runs. So the
guest's own reboot goes to disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import shutil
import signal
import time
from typing import Any

from .. import hardware
from ..efivars import BOOT_TO_FIRMWARE_UI, set_variable
from ..journal import now_text
from ..qmp import Qmp, QmpError
from ..resources import disk_bus
from ..schema import parse_size
from .base import Boot, Driver, DriverError

# (code, variables): Debian and Ubuntu, older Debian, Fedora and RHEL
FIRMWARE = (
    ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
    ("/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),
)
TRANSLATION_BUFFER_MIB = 256
START_SECONDS = 60.0
STOP_SECONDS = 15.0
CONSOLE_POLL_SECONDS = 0.5
# targets that need another command line, not only another order
PROCESS_TARGETS = ("UefiHttp", "BiosSetup")


def escape(value: str) -> str:
    """A value inside a comma-separated QEMU option."""
    return value.replace(",", ",,")


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


class QemuDriver(Driver):
    def __init__(self, node, lab):
        super().__init__(node, lab)
        self.directory: pathlib.Path = node.directory
        run_dir = pathlib.Path(lab["run_dir"])
        self.socket = run_dir / f"{node.name}.qmp"
        self.pid_file = run_dir / f"{node.name}.pid"
        self.console = self.directory / "console.log"
        self.times = self.directory / "console.times.jsonl"
        self._process: asyncio.subprocess.Process | None = None
        self._pid: int | None = None
        self._qmp: Qmp | None = None
        self._started_for: Boot = Boot()
        self._ended = asyncio.Event()
        self._wanted_end = False
        self._reason: str | None = None
        self._watch: asyncio.Task | None = None
        self._ordering = asyncio.Lock()

    @property
    def running(self) -> bool:
        return self._qmp is not None

    # ---- files ---------------------------------------------------------------------------------

    def disk_path(self, disk: dict[str, Any]) -> pathlib.Path:
        return self.directory / f"{disk['slot']}.raw"

    def _prepare_files(self) -> tuple[str, str] | None:
        """Blank disks (sparse raw files: they can be hashed as they are) and the firmware's variables."""
        for disk in self.node.config["disks"]:
            path, size = self.disk_path(disk), parse_size(disk["size"])
            if not path.exists():
                with path.open("wb") as handle:
                    handle.truncate(size)
        if self.node.config["firmware"] != "uefi":
            return None
        for code, variables in FIRMWARE:
            if os.path.exists(code) and os.path.exists(variables):
                own = self.directory / "vars.fd"
                if not own.exists():
                    shutil.copyfile(variables, own)
                return code, str(own)
        raise DriverError(
            f"{self.node.name}: no UEFI firmware found, looked for {FIRMWARE[0][0]}; install the package ovmf"
        )

    def _ask_for_setup(self, variables: pathlib.Path) -> None:
        """Tell the firmware, as an operating system would, to show its menu at the next boot."""
        try:
            wanted = BOOT_TO_FIRMWARE_UI.to_bytes(8, "little")
            variables.write_bytes(set_variable(variables.read_bytes(), "OsIndications", wanted))
        except ValueError as error:
            raise DriverError(
                f"{self.node.name}: {variables}: {error}; remove the file to begin with fresh ones"
            ) from None

    def _mark(self, event: str, **detail: Any) -> None:
        """A line in the console log that shows where a boot begins, and its time and place in the side file."""
        with self.console.open("ab") as handle:
            handle.write(f"\n=== aicluster {event} {now_text()} ===\n".encode())
        self._note_time(event, **detail)

    def _note_time(self, event: str, **detail: Any) -> None:
        with contextlib.suppress(OSError), self.times.open("a", encoding="utf-8") as handle:
            entry = {"time": now_text(), "offset": self.console.stat().st_size, "event": event, **detail}
            handle.write(json.dumps(entry) + "\n")

    async def _watch_console(self) -> None:
        """Note how far the console log has grown at which time, so that each of its lines can be dated."""
        seen = -1
        while True:
            with contextlib.suppress(OSError):
                size = self.console.stat().st_size
                if size != seen:
                    seen = size
                    self._note_time("output")
            await asyncio.sleep(CONSOLE_POLL_SECONDS)

    # ---- command line --------------------------------------------------------------------------

    def order(self, boot: Boot) -> dict[str, int]:
        """Device id -> bootindex. Normal order: disks, the provisioning NIC, CD."""
        disks = [f"disk{index}" for index, _disk in enumerate(self.node.config["disks"])]
        network = ["nic0"] if self.node.config["nics"] else []
        devices = {
            "Pxe": network + disks + ["cd0"],
            "UefiHttp": network + disks + ["cd0"],
            "Cd": ["cd0", *disks, *network],
        }.get(boot.target, disks + network + ["cd0"])
        return {device: number for number, device in enumerate(devices, 1)}

    def command(self, boot: Boot) -> list[str]:
        """The whole QEMU command for a boot; creates nothing."""
        config, lab, index = self.node.config, self.lab, self.order(boot)
        accel = lab["accel"]
        if accel.startswith("tcg") and "tb-size" not in accel:
            # without a limit each machine takes a gigabyte for translated code
            accel += f",tb-size={TRANSLATION_BUFFER_MIB}"
        command = ["ip", "netns", "exec", lab["net_namespace"]] if lab["net_namespace"] else []
        command += [
            "qemu-system-x86_64",
            "-name",
            f"{self.node.name},process={self.node.name}",
            "-M",
            "q35",
            "-accel",
            accel,
            "-cpu",
            lab["cpu"],
        ]
        command += ["-m", str(config["memory_mib"]), "-smp", str(config["cpus"]), "-uuid", config["uuid"]]
        command += ["-display", "none", "-vga", "none", "-nodefaults", "-no-user-config", "-S", "-rtc", "base=utc"]
        command += ["-qmp", f"unix:{self.socket},server=on,wait=off", "-pidfile", str(self.pid_file)]
        command += [
            "-chardev",
            f"file,id=console,path={escape(str(self.console))},append=on",
            "-serial",
            "chardev:console",
        ]
        serial, maker = escape(config["serial"]), escape(hardware.MANUFACTURER)
        product = escape(hardware.MODEL)
        command += ["-smbios", f"type=1,manufacturer={maker},product={product},serial={serial},sku=VGS-1,family=Lab"]
        command += ["-smbios", f"type=2,manufacturer={maker},product={product},serial={serial}-MB"]
        command += [
            "-smbios",
            f"type=3,manufacturer={maker},serial={serial},asset={escape(self.node.settings['asset_tag'])}",
        ]
        command += ["-smbios", "type=11" + "".join(f",value={escape(text)}" for text in hardware.oem_strings(config))]
        if boot.target == "UefiHttp":
            # the firmware would try PXE of the same NIC first
            for name in ("IPv4PXESupport", "IPv6PXESupport"):
                command += ["-fw_cfg", f"name=opt/org.tianocore/{name},string=no"]
        command += ["-device", "virtio-rng-pci", "-device", "virtio-scsi-pci,id=scsi0"]
        for number, disk in enumerate(config["disks"]):
            command += self._disk(number, disk, index)
        for number, nic in enumerate(config["nics"]):
            command += self._nic(number, nic, index)
        command += ["-device", f"scsi-cd,id=cd0,bus=scsi0.0,bootindex={index['cd0']}"]
        return command

    def _disk(self, number: int, disk: dict[str, Any], index: dict[str, int]) -> list[str]:
        device, serial = f"disk{number}", escape(disk["serial"])
        tail = f"drive=drive{number},serial={serial},bootindex={index[device]}"
        product, rotation = f"V{disk['type'].upper()}", 7200 if disk["type"] == "hdd" else 1
        kind = {
            "nvme": f"nvme,id={device},ioeventfd=on,{tail}",
            "scsi": f"scsi-hd,id={device},bus=scsi0.0,vendor=LAB,product={product},rotation_rate={rotation},{tail}",
            "virtio": f"virtio-blk-pci,id={device},{tail}",
        }[disk_bus(disk)]
        # cache=unsafe: the file survives the end of QEMU, only a crash of the host could lose writes
        drive = f"if=none,id=drive{number},file={escape(str(self.disk_path(disk)))},format=raw,cache=unsafe"
        return ["-drive", f"{drive},discard=unmap,detect-zeroes=unmap", "-device", kind]

    @staticmethod
    def _nic(number: int, nic: dict[str, Any], index: dict[str, int]) -> list[str]:
        backend = (
            f"tap,id=net{number},ifname={nic['tap']},script=no,downscript=no"
            if nic["tap"]
            else f"user,id=net{number},restrict=on"
        )
        device = f"virtio-net-pci,id=nic{number},netdev=net{number},mac={nic['mac']}"
        boots = ",romfile=" + (f",bootindex={index[f'nic{number}']}" if f"nic{number}" in index else "")
        return ["-netdev", backend, "-device", device + boots]

    # ---- life ----------------------------------------------------------------------------------

    async def start(self, first: Boot, then: Boot) -> None:
        firmware = self._prepare_files()
        command = self.command(first)
        if firmware:
            code, variables = firmware
            if first.target == "BiosSetup":
                self._ask_for_setup(pathlib.Path(variables))
            command += ["-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={code}"]
            command += ["-drive", f"if=pflash,format=raw,unit=1,file={escape(variables)}"]
        for stale in (self.socket, self.pid_file):
            stale.unlink(missing_ok=True)
        self._mark("power on", target=first.target, source=first.source)
        log = self.directory / "qemu.log"
        with log.open("ab") as output:
            # a session of its own: a signal to the simulator's group must not reach a machine that may outlive it
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._pid = self._process.pid
        try:
            await self._connect(START_SECONDS)
            self._started_for = first
            if self.node.media and self.node.media["file"]:
                await self.set_media(pathlib.Path(self.node.media["file"]))
            if then != first:
                await self.set_boot(then)
            await self._qmp("cont")
        except (OSError, TimeoutError, QmpError) as error:
            await self._kill()
            tail = log.read_text(errors="replace")[-600:].strip()
            raise DriverError(f"{self.node.name}: QEMU did not start: {error}; the end of {log}: {tail}") from None

    async def _connect(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        qmp = Qmp(self._on_event, self._on_end)
        while True:
            try:
                await qmp.connect(str(self.socket), 10.0)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if not alive(self._pid):
                    raise QmpError("it ended at once") from None
                if time.monotonic() > end:
                    raise TimeoutError(f"no QMP connection in {seconds:g} s") from None
                await asyncio.sleep(0.05)
        self._ended.clear()
        self._wanted_end, self._reason = False, None
        self._qmp = qmp
        self._watch = asyncio.get_running_loop().create_task(self._watch_console())

    async def attach(self) -> bool:
        """A QEMU of an earlier simulator: its pid file names a process that is this machine, and it answers."""
        try:
            pid = int(self.pid_file.read_text())
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return False
        if f"unix:{self.socket},server=on,wait=off".encode() not in words or not alive(pid):
            return False
        self._pid, self._process = pid, None
        try:
            await self._connect(5.0)
        except (OSError, TimeoutError, QmpError):
            await self._kill()
            return False
        # started by an unknown override: a later target that needs its own command line gets a new process
        self._started_for = Boot("unknown")
        await self.set_boot(self.node.boot())
        return True

    async def _on_event(self, event: dict[str, Any]) -> None:
        data = event.get("data", {})
        if event["event"] == "RESET":
            reason = "reset by the operating system" if data.get("guest") else "reset"
            self._mark("reset", reason=reason)
            await self.node.machine_rebooted(reason)
        elif event["event"] == "SHUTDOWN":
            self._reason = {"guest-shutdown": "shut down by the operating system", "guest-panic": "kernel panic"}.get(
                data.get("reason"), data.get("reason")
            )

    async def _on_end(self) -> None:
        if self._watch:
            self._watch.cancel()
        self._qmp = None
        await self._wait_gone()
        self._note_time("power off", reason=self._reason)
        self._ended.set()
        if not self._wanted_end:
            await self.node.machine_stopped(self._reason or "QEMU ended")

    async def _wait_gone(self) -> None:
        if self._process:
            await self._process.wait()
            return
        end = time.monotonic() + STOP_SECONDS
        while self._pid and alive(self._pid) and time.monotonic() < end:
            await asyncio.sleep(0.05)

    async def _kill(self) -> None:
        if self._pid and alive(self._pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        await self._wait_gone()

    async def stop(self) -> None:
        if not self._qmp:
            return
        self._wanted_end = True
        with contextlib.suppress(QmpError):
            await self._qmp("quit")
        try:
            await asyncio.wait_for(self._ended.wait(), STOP_SECONDS)
        except TimeoutError:
            await self._kill()
            await asyncio.wait_for(self._ended.wait(), STOP_SECONDS)

    async def crash(self) -> None:
        self._wanted_end = True
        self._reason = "crashed"
        await self._kill()
        await asyncio.wait_for(self._ended.wait(), STOP_SECONDS)

    async def shutdown(self) -> None:
        await self._command("system_powerdown")

    async def reset(self) -> None:
        upcoming = self.node.boot()
        if upcoming.target in PROCESS_TARGETS or self._started_for.target in (*PROCESS_TARGETS, "unknown"):
            await self.stop()
            await self.node.machine_restarted()
            return
        await self._command("system_reset")

    async def interrupt(self) -> None:
        await self._command("inject-nmi")

    async def _command(self, command: str, **arguments: Any) -> Any:
        if not self._qmp:
            return None
        try:
            return await self._qmp(command, **arguments)
        except QmpError as error:
            raise DriverError(f"{self.node.name}: {error}") from None

    async def set_boot(self, boot: Boot) -> None:
        order = self.order(boot)
        async with self._ordering:
            present = {device: await self._index(device) for device in order}
            if present == order:
                return
            # Two devices may never hold the same index, so all of them step aside first: to numbers that none holds,
            # also when an earlier change of the order was cut off half way.
            aside = max([100, *present.values()])
            for shift in (aside, 0):
                for device, index in order.items():
                    await self._index(device, index + shift)

    async def _index(self, device: str, value: int | None = None) -> int:
        """Read or write the boot index of a device."""
        where = {"path": f"/machine/peripheral/{device}", "property": "bootindex"}
        if value is None:
            return int(await self._command("qom-get", **where) or 0)
        await self._command("qom-set", **where, value=value)
        return value

    async def set_media(self, path: pathlib.Path | None) -> None:
        if path is None:
            await self._command("eject", id="cd0", force=True)
        else:
            await self._command("blockdev-change-medium", id="cd0", filename=str(path), format="raw")

    async def close(self, keep: bool) -> None:
        if self._qmp and keep:
            if self._watch:
                self._watch.cancel()
            await self._qmp.close()
        else:
            await super().close(keep)
