# What this node is made of, as its operating system sees it: identity, processors, memory, disks, network cards, GPU instruments.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

from ..facts import dmi, host
from ..facts.values import Unreadable

INSTRUMENTS = "/usr/lib/aicluster/instruments.json"
STRINGS = "/etc/aicluster/hardware-strings"
_NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")  # VGA and 3D controllers


def instruments(system):
    """The marker of the lab's simulated GPU tools as dict, or {} where the tools are real. A marker that cannot be read still means simulated."""
    text = system.read(INSTRUMENTS)
    if text is None:
        return {}
    try:
        return dict(json.loads(text), simulated=True)
    except ValueError:
        return {"simulated": True}


def hardware_strings(system):
    """The aicluster.* strings of this machine: from the file of a container, else from SMBIOS."""
    text = system.read(STRINGS)
    if text is not None:
        return dmi.hardware_strings(text.splitlines())
    table = system.read_bytes("/sys/firmware/dmi/tables/DMI")
    if not table:
        return {}
    try:
        return dmi.hardware_strings(dmi.read_dmi(table).oem)
    except Unreadable:
        return {}


def pci_gpus(system):
    """Bus ids of NVIDIA GPUs on the PCI bus, whatever the driver says."""
    found = []
    for name in system.names("/sys/bus/pci/devices"):
        base = f"/sys/bus/pci/devices/{name}"
        vendor, kind = (system.read(f"{base}/{field}") or "" for field in ("vendor", "class"))
        if vendor.strip() == _NVIDIA and kind[:6] in _GPU_CLASSES:
            found.append(name)
    return found


def slot_widths(system, bus_ids):
    """{bus id: lanes of the slot above} from sysfs, where the kernel shows the port."""
    widths = {}
    for name in bus_ids:
        text = (system.read(f"/sys/bus/pci/devices/{name}/../max_link_width") or "").strip()
        if text.isdigit() and 0 < int(text) < 255:
            widths[name] = int(text)
    return widths


def network_cards(system):
    """{name: MAC} of Ethernet interfaces except the loopback."""
    cards = {}
    for name in system.names("/sys/class/net"):
        address = (system.read(f"/sys/class/net/{name}/address") or "").strip().lower()
        kind = (system.read(f"/sys/class/net/{name}/type") or "").strip()
        if kind == "1" and address and address != "00:00:00:00:00:00":
            cards[name] = address
    return cards


def inventory(system):
    """Facts as a plain dict; a part that could not be read is None and named in `unreadable`."""
    found = {"unreadable": []}

    def take(name, read):
        try:
            found[name] = read()
        except (Unreadable, OSError) as error:
            found[name] = None
            found["unreadable"].append(f"{name}: {error}")

    take("cpu", lambda: host.read_cpuinfo(system.read("/proc/cpuinfo") or "")._asdict())
    take("memory_bytes", lambda: host.read_meminfo(system.read("/proc/meminfo") or "")["MemTotal"])

    def disks():
        ran = system.run(["lsblk", "-J", "-b", "-d", "-o", "NAME,SERIAL,MODEL,SIZE,ROTA,TYPE,TRAN"], 30)
        if ran.rc != 0:
            raise Unreadable(f"lsblk: {ran.brief()}")
        return [disk._asdict() for disk in host.read_lsblk(ran.out)]

    take("disks", disks)
    container = system.container()
    serial = None if container else (system.read("/sys/class/dmi/id/product_serial") or "").strip() or None
    found.update(
        serial=serial,
        product=None if container else (system.read("/sys/class/dmi/id/product_name") or "").strip() or None,
        nics=network_cards(system),
        gpus=pci_gpus(system),
        container=container,
        virtual="hypervisor" in (system.read("/proc/cpuinfo") or ""),
        kernel=(system.read("/proc/sys/kernel/osrelease") or "").strip() or None,
        simulated=bool(instruments(system)),
        hardware_strings=hardware_strings(system),
    )
    return found
