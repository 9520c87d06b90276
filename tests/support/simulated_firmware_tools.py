# SIMULATED lspci, mstflint, nvme, nvidia-smi and a vendor's VBIOS tool, under these names: hand-written in the form of the real tools.
#
# No hardware is behind them. The node is a JSON file ($SIMULATED_NODE); what was written runs from the next boot of the simulated server on, which is asked
# of its BMC's simulator. Each call is added to the file's `calls`, each image that was really written to `written`.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "roles" / "virtual_lab" / "files"))
from bmc_simulator.control import Control

VBIOS_TOOL = "simulated-vbios-flash"
NAMES = ("lspci", "mstflint", "nvme", "nvidia-smi", VBIOS_TOOL)
# What a node of the tests has: a NIC, a drive, a GPU. `flash` is what lies in the device, `running` what runs since the last boot.
DEVICES = {
    "nic": {"id": "0000:18:00.0", "psid": "MT_0000000838", "flash": "28.39.1002", "running": "28.39.1002"},
    "drive": {
        "id": "SIMDRIVE1",
        "device": "/dev/nvme0",
        "flash": "GDC5602Q",
        "running": "GDC5602Q",
        "downloaded": None,
    },
    "gpu": {"id": "00000000:18:00.0", "flash": "96.00.5E.00.01", "running": "96.00.5E.00.01"},
}


def install(directory, control_socket, node):
    """Put the tools into a directory; returns (directory for PATH, file of the node)."""
    tools, state = directory / "simulated-tools", directory / "simulated-node.json"
    tools.mkdir()
    here = str(pathlib.Path(__file__).resolve().parent)
    for name in NAMES:
        program = f"import sys\nsys.path.insert(0, {here!r})\nimport simulated_firmware_tools\nsimulated_firmware_tools.main()\n"
        (tools / name).write_text(f"#!{sys.executable}\n{program}")
        (tools / name).chmod(0o755)
    state.write_text(
        json.dumps({**DEVICES, "bmc": [str(control_socket), node], "boots": 0, "calls": [], "written": []})
    )
    return tools, state


def image(device, version, psid=None):
    """The content of an image file for a device of this kind ("nic", "drive", "gpu")."""
    return json.dumps({"simulated": device, "version": version, "psid": psid}).encode()


class Node:
    def __init__(self, path):
        self.path = path
        self.state = json.loads(path.read_text())
        socket, name = self.state["bmc"]
        boots = sum(event["event"] in ("power_on", "boot") for event in Control(socket).call("events", node=name))
        if boots != self.state["boots"]:
            self.state["boots"] = boots
            for device in ("nic", "drive", "gpu"):
                self.state[device]["running"] = self.state[device]["flash"]

    def keep(self):
        unfinished = self.path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(self.state))
        unfinished.replace(self.path)

    def write(self, kind, content):
        """Into the flash, which takes its time; a tool whose caller is killed goes on."""
        self.state[kind]["flash"] = content["version"]
        self.state["written"].append([kind, content["version"]])
        self.keep()
        time.sleep(float(self.state.get("slow_s", 0)))


def read_image(path, kind):
    content = json.loads(pathlib.Path(path).read_text())
    if content.get("simulated") != kind:
        sys.exit(f"{path} is no image for this device")
    return content


def lspci(node, _arguments):
    print(f"{node.state['nic']['id']} 0207: 15b3:1021")
    print(f"{node.state['nic']['id'][:-1]}1 0207: 15b3:1021")


def mstflint(node, arguments):
    nic = node.state["nic"]
    if "burn" in arguments:
        node.write("nic", read_image(arguments[arguments.index("-i") + 1], "nic"))
        print("Burning FW image without signatures  - OK\n-I- To load new FW run mstfwreset or reboot machine.")
        return
    if "-i" in arguments:
        content = read_image(arguments[arguments.index("-i") + 1], "nic")
        print(
            f"Image type:            FS4\nFW Version:            {content['version']}\nPSID:                  {content['psid']}"
        )
        return
    print(f"Image type:            FS4\nFW Version:            {nic['flash']}")
    if nic["running"] != nic["flash"]:
        print(f"FW Version(Running):   {nic['running']}")
    print(f"FW Release Date:       30.11.2023\nPSID:                  {nic['psid']}")


def nvme(node, arguments):
    drive = node.state["drive"]
    if arguments[0] == "list":
        row = {"DevicePath": f"{drive['device']}n1", "Firmware": drive["running"], "ModelNumber": "SIMULATED"}
        print(json.dumps({"Devices": [{**row, "SerialNumber": drive["id"]}]}))
    elif arguments[0] == "fw-log":
        waits = drive["flash"] != drive["running"]
        slots = {"Firmware Rev Slot 1": drive["running"], **({"Firmware Rev Slot 2": drive["flash"]} if waits else {})}
        print(json.dumps({"nvme0": {"Active Firmware Slot (afi)": 0x21 if waits else 1, **slots}}))
    elif arguments[0] == "fw-download":
        drive["downloaded"] = read_image(arguments[2].partition("=")[2], "drive")
        node.keep()
        print("Firmware download success")
    elif arguments[0] == "fw-commit":
        if not drive["downloaded"]:
            sys.exit("NVMe status: Invalid Firmware Image")
        node.write("drive", drive["downloaded"])
        print("Success committing firmware action:1 slot:0")


def nvidia_smi(node, _arguments):
    print(f"{node.state['gpu']['id']}, {node.state['gpu']['running']}")


def vbios(node, arguments):
    node.write("gpu", read_image(arguments[1], "gpu"))


def main():
    name = pathlib.Path(sys.argv[0]).name
    node = Node(pathlib.Path(os.environ["SIMULATED_NODE"]))
    node.state["calls"].append([name, *sys.argv[1:]])
    node.keep()
    print(f"{name}: SIMULATED for tests, no hardware", file=sys.stderr)
    does = {"lspci": lspci, "mstflint": mstflint, "nvme": nvme, "nvidia-smi": nvidia_smi, VBIOS_TOOL: vbios}
    does[name](node, sys.argv[1:])
