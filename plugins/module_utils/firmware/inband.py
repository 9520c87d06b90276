# Firmware by tools on the node itself, for what no BMC reaches: NICs by mstflint, NVMe drives by nvme-cli, GPU VBIOS by the vendor's tool. One interface.
#
# `run(argv)` -> (rc, out, err) and `copy(local path)` -> path on the node are passed in. A write here has ended when the tool has: there is no task to follow,
# and what a killed run left behind is read from the device (flash and running version are two things on all of these).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..core.errors import BaremetalError, Refused, Unsupported
from ..facts import firmware_tools as read
from ..facts.values import Unreadable
from .port import FirmwarePort

MELLANOX = "15b3"


class Tool:
    """One kind of device."""

    path = None

    def __init__(self, run, copy):
        self._run, self._copy = run, copy

    def inventory(self):
        raise NotImplementedError

    def write(self, step, name, image):
        """Write the file `image` (a path on the node) to the device `name`."""
        raise NotImplementedError

    def call(self, *argv, what):
        rc, out, err = self._run(list(argv))
        if rc == 127:
            raise Unsupported(
                "the tool is not on the node",
                thing=argv[0],
                wanted=f"{argv[0]} for {what}",
                seen=(err or out).strip()[:200],
                next_step=f"install {argv[0]} there (the image of the operating system is the place for it)",
            )
        if rc:
            raise BaremetalError(
                f"{argv[0]} failed",
                thing=what,
                wanted="exit status 0",
                seen=f"{rc}: {' '.join((err or out).split())[-300:]}",
                next_step="run it by hand on the node",
                code="tool_failed",
            )
        return out

    def read(self, reader, *argv, what):
        try:
            return reader(self.call(*argv, what=what))
        except Unreadable as error:
            raise BaremetalError(
                "the tool's answer cannot be read", thing=what, seen=error, code="tool_unreadable"
            ) from None


class Nic(Tool):
    """ConnectX and BlueField by mstflint. An image is burnt only when its board id (PSID) is the device's and the baseline's."""

    path = "nic"

    def inventory(self):
        found = []
        for address in self.read(
            read.pci_addresses, "lspci", "-D", "-n", "-d", f"{MELLANOX}:", what="the list of NICs"
        ):
            facts = self.read(read.mstflint_query, "mstflint", "-d", address, "query", what=f"NIC {address}")
            other = facts["running"] and facts["running"] != facts["flash"]
            found.append(
                {
                    "id": address,
                    "name": facts["psid"],
                    "version": facts["running"] or facts["flash"],
                    "staged": facts["flash"] if other else None,
                    "updateable": True,
                    "path": self.path,
                }
            )
        return found

    def write(self, step, name, image):
        device = self.read(read.mstflint_query, "mstflint", "-d", name, "query", what=f"NIC {name}")
        picture = self.read(read.mstflint_query, "mstflint", "-i", image, "query", what=f"image {step.image_name}")
        if not device["psid"] or device["psid"] not in step.psid or picture["psid"] != device["psid"]:
            raise Refused(
                "the image is for another board than this NIC, nothing was burnt",
                thing=f"NIC {name}",
                wanted=f"PSID {', '.join(step.psid)} on the NIC and the same in the image",
                seen=f"NIC {device['psid']}, image {picture['psid']}",
                next_step="give the image for this board, or correct psid in the baseline",
                code="psid_mismatch",
            )
        if picture["flash"] != step.to_version:
            raise Refused(
                "the image has another version than the baseline says, nothing was burnt",
                thing=f"image {step.image_name}",
                wanted=step.to_version,
                seen=picture["flash"],
                next_step="correct the baseline",
                code="image_mismatch",
            )
        # never -allow_psid_change; the reset tool is not used, because it fails on some boards: the plan's reset activates it
        self.call("mstflint", "-d", name, "-i", image, "-y", "burn", what=f"NIC {name}")


class Nvme(Tool):
    """NVMe drives by nvme-cli. The image is activated by the next reset of the drive."""

    path = "nvme"

    def inventory(self):
        found = []
        for row in self.read(read.nvme_devices, "nvme", "list", "-o", "json", what="the list of drives"):
            staged = self.read(read.nvme_staged, "nvme", "fw-log", row["device"], "-o", "json", what=row["device"])
            found.append(
                {
                    "id": row["serial"] or row["device"],
                    "name": row["model"],
                    "version": row["firmware"],
                    "staged": staged,
                    "updateable": True,
                    "path": self.path,
                }
            )
        return found

    def write(self, step, name, image):
        rows = self.read(read.nvme_devices, "nvme", "list", "-o", "json", what="the list of drives")
        device = next((row["device"] for row in rows if name in (row["serial"], row["device"])), None)
        if device is None:
            raise Refused(
                "the drive is gone",
                thing=name,
                seen=", ".join(row["device"] for row in rows) or "no drives",
                code="not_found",
            )
        self.call("nvme", "fw-download", device, f"--fw={image}", what=device)
        # action 1: put it into the slot and take it at the next reset; the running firmware stays as it is
        self.call("nvme", "fw-commit", device, "--slot=0", "--action=1", what=device)


class GpuVbios(Tool):
    """GPU VBIOS: read by nvidia-smi, written by the vendor's tool that the baseline names (`oem: {command: [...]}` with {device} and {image} in it)."""

    path = "gpu_vbios"

    def inventory(self):
        rows = self.read(
            read.gpu_vbios,
            "nvidia-smi",
            "--query-gpu=pci.bus_id,vbios_version",
            "--format=csv,noheader",
            what="the VBIOS versions",
        )
        return [
            {
                "id": row["bus"],
                "name": "GPU",
                "version": row["version"],
                "staged": None,
                "updateable": True,
                "path": self.path,
            }
            for row in rows
        ]

    def write(self, step, name, image):
        command = (step.oem or {}).get("command")
        if not isinstance(command, list) or not any("{image}" in str(word) for word in command):
            raise Unsupported(
                "the baseline does not say how a VBIOS is written",
                thing=f"firmware {step.component}",
                wanted='oem: {command: [TOOL, ..., "{device}", "{image}"]}',
                seen=command,
                next_step="give the command of the vendor's tool",
            )
        self.call(
            *[str(word).replace("{device}", name).replace("{image}", image) for word in command], what=f"GPU {name}"
        )


TOOLS = {tool.path: tool for tool in (Nic, Nvme, GpuVbios)}


class WithInband(FirmwarePort):
    """The BMC's port, and the tools on the node for steps with another path. What the node cannot be asked for now is `not_ready`: it may be restarting."""

    def __init__(self, bmc, run, copy, paths):
        self._bmc = bmc
        self._tools = {path: TOOLS[path](run, copy) for path in paths}
        self._copy = copy
        self._ids = {}  # id -> path, of what was seen

    @property
    def warnings(self):
        return self._bmc.warnings

    def inventory(self, only=None):
        if only and any(name not in self._ids for name in only):
            only = None
        paths = {self._ids[name] for name in only} if only else {"bmc", *self._tools}
        found = []
        if "bmc" in paths:
            found += self._bmc.inventory([name for name in only if self._ids[name] == "bmc"] if only else None)
        for path in paths - {"bmc"}:
            found += self._asked(self._tools[path].inventory)
        self._ids.update({row["id"]: row["path"] for row in found})
        return found

    @staticmethod
    def _asked(call):
        try:
            return call()
        except BaremetalError as error:
            if error.code in ("unreachable", "host_unreachable"):
                error.code = "not_ready"
            raise

    def method(self, step):
        return self._bmc.method(step) if step.path == "bmc" else step.path

    def push(self, step, image, method, before_last):
        if step.path == "bmc":
            return self._bmc.push(step, image, method, before_last)
        there = self._asked(lambda: self._copy(image.path))
        before_last()
        for name in step.inventory:
            self._tools[step.path].write(step, name, there)
        return {"task": None, "monitor": None, "done": True}

    def tasks(self):
        return self._bmc.tasks()

    def task(self, handle):
        return self._bmc.task(handle)

    def marks(self):
        return self._bmc.marks()

    def restart(self, activation):
        return self._bmc.restart(activation)

    def power(self):
        return self._bmc.power()

    def switch_on(self):
        return self._bmc.switch_on()

    def switch_off(self):
        return self._bmc.switch_off()

    def health(self):
        return self._bmc.health()
