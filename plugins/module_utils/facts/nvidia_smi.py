# Readers of nvidia-smi: -q -x, -q, --query-gpu CSV, nvlink -s and -e, topo -m. Text in, typed facts out; no I/O.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import NamedTuple
from xml.etree import ElementTree

from .values import Unreadable, number, reported, yes


class Ecc(NamedTuple):
    """Error counts of one kind (volatile: since the driver was loaded; aggregate: over the life of the board). None: not reported."""

    correctable: int | None
    uncorrectable: int | None
    sram_uncorrectable: int | None
    dram_uncorrectable: int | None


class Gpu(NamedTuple):
    """One GPU as nvidia-smi shows it. None everywhere means: the tool does not report it on this part."""

    index: int
    bus_id: str
    name: str | None
    architecture: str | None
    serial: str | None
    uuid: str | None
    device_id: str | None
    module_id: int | None
    minor: int | None
    persistence: bool | None
    mig: bool | None
    ecc_enabled: bool | None
    volatile: Ecc
    aggregate: Ecc
    sram_threshold_exceeded: bool | None
    retired_single: int | None
    retired_double: int | None
    retired_pending: bool | None
    remapped_correctable: int | None
    remapped_uncorrectable: int | None
    remap_pending: bool | None
    remap_failure: bool | None
    remap_banks: dict
    pcie_gen_max: int | None
    pcie_gen_current: int | None
    pcie_width_max: int | None
    pcie_width_current: int | None
    pcie_replays: int | None
    slowdown_reasons: tuple | None
    temperature_c: int | None
    margin_c: int | None
    slowdown_margin_c: int | None
    memory_mib: int | None
    power_w: float | None
    power_limit_w: float | None
    fabric_state: str | None
    fabric_status: str | None
    clique: str | None
    cluster_uuid: str | None
    recovery_action: str | None
    reset_required: bool | None

    def label(self):
        """ "GPU 3 (slot SXM4, 0000:61:00.0, serial 1650522000123)": what a technician needs to find it."""
        parts = [f"slot SXM{self.module_id}"] if self.module_id is not None else []
        parts.append(short_bus_id(self.bus_id))
        if self.serial:
            parts.append(f"serial {self.serial}")
        return f"GPU {self.index} ({', '.join(parts)})"


class Report(NamedTuple):
    """Everything one call of nvidia-smi said. `attached` is the tool's own count, which may differ from len(gpus)."""

    driver: str | None
    cuda: str | None
    attached: int | None
    gpus: tuple
    simulated: bool


def short_bus_id(bus_id):
    """ "0000:61:00.0" from nvidia-smi's "00000000:61:00.0", the kernel's "PCI:0000:61:00" and the like, in lower case."""
    match = re.search(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?", bus_id or "")
    if not match:
        return (bus_id or "").lower()
    return f"{match.group(1)[-4:]}:{match.group(2)}:{match.group(3)}.{match.group(4) or '0'}".lower()


# Slowdown reasons that mean a hardware limit was hit. Power capping by software, idle and sync boost are normal operation.
# Source: nvmlClocksEventReasons bits 0x8, 0x40, 0x80 (NVML reference).
HARDWARE_SLOWDOWNS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
_REASON_BITS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


def reasons_from_mask(text):
    """Names of the reasons in "0x0000000000000048": a mask, so several can be true at once. None where not reported."""
    text = reported(text)
    if text is None:
        return None
    try:
        mask = int(text, 16)
    except ValueError:
        raise Unreadable(f"not a bit mask: {text!r}") from None
    return tuple(name for bit, name in sorted(_REASON_BITS.items()) if mask & bit)


def _total(values):
    """Sum of what is reported; None where nothing is."""
    values = [value for value in values if value is not None]
    return sum(values) if values else None


def _xml_tree(element):
    """Nested dict of an element: leaf text, or dict of children. Repeated tags keep the first (nothing we read repeats)."""
    children = list(element)
    if not children:
        return (element.text or "").strip()
    tree = {}
    for child in children:
        tree.setdefault(child.tag, _xml_tree(child))
    return tree


def _at(tree, *paths):
    """The first reported leaf among the paths ("a/b/c"), else None. A section that is a bare "N/A" has no leaves."""
    for path in paths:
        found = tree
        for key in path.split("/"):
            found = found.get(key) if isinstance(found, dict) else None
        if isinstance(found, dict):
            found = found.get("")  # a text label that has both a value and children
        if reported(found) is not None:
            return found
    return None


def _ecc(section):
    """ECC counters of one kind from their section, in any layout: SRAM parity and SEC-DED apart (550+), SRAM and DRAM, single and double bit."""

    def count(*keys):
        return _total(number(_at(section, key)) for key in keys)

    sram = count("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded")
    dram = count("dram_uncorrectable")
    uncorrectable = _total([sram, dram])
    if uncorrectable is None:
        uncorrectable = count("double_bit/total")
    correctable = count("sram_correctable", "dram_correctable")
    if correctable is None:
        correctable = count("single_bit/total")
    return Ecc(correctable, uncorrectable, sram, dram)


_BANKS = ("max", "high", "partial", "low", "none")


def _gpu(index, bus_id, tree):
    """A Gpu from a tree with nvidia-smi's XML names."""
    reasons = tree.get("clocks_event_reasons") or tree.get("clocks_throttle_reasons")
    active = None
    if isinstance(reasons, dict):
        states = {
            re.sub("^clocks_(event|throttle)_reason_", "", key): yes(value)
            for key, value in reasons.items()
            if not isinstance(value, dict)
        }
        active = tuple(name for name, state in states.items() if state)
    banks = {}
    for bank in _BANKS:
        value = number(_at(tree, f"remapped_rows/row_remapper_histogram/row_remapper_histogram_{bank}"))
        if value is not None:
            banks[bank] = value
    device = _at(tree, "pci/pci_device_id")
    return Gpu(
        index=index,
        bus_id=bus_id,
        name=_at(tree, "product_name"),
        architecture=_at(tree, "product_architecture"),
        serial=_at(tree, "serial"),
        uuid=_at(tree, "uuid"),
        device_id=re.sub("^0[xX]", "", device).upper() if device else None,
        module_id=number(_at(tree, "platformInfo/module_id", "module_id")),
        minor=number(_at(tree, "minor_number")),
        persistence=yes(_at(tree, "persistence_mode")),
        mig=yes(_at(tree, "mig_mode/current_mig")),
        ecc_enabled=yes(_at(tree, "ecc_mode/current_ecc")),
        volatile=_ecc(
            (tree.get("ecc_errors") or {}).get("volatile", {}) if isinstance(tree.get("ecc_errors"), dict) else {}
        ),
        aggregate=_ecc(
            (tree.get("ecc_errors") or {}).get("aggregate", {}) if isinstance(tree.get("ecc_errors"), dict) else {}
        ),
        sram_threshold_exceeded=yes(_at(tree, "ecc_errors/aggregate/sram_threshold_exceeded")),
        retired_single=number(_at(tree, "retired_pages/multiple_single_bit_retirement/retired_count")),
        retired_double=number(_at(tree, "retired_pages/double_bit_retirement/retired_count")),
        retired_pending=yes(_at(tree, "retired_pages/pending_blacklist", "retired_pages/pending_retirement")),
        remapped_correctable=number(_at(tree, "remapped_rows/remapped_row_corr")),
        remapped_uncorrectable=number(_at(tree, "remapped_rows/remapped_row_unc")),
        remap_pending=yes(_at(tree, "remapped_rows/remapped_row_pending")),
        remap_failure=yes(_at(tree, "remapped_rows/remapped_row_failure")),
        remap_banks=banks,
        pcie_gen_max=number(
            _at(
                tree,
                "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen",
                "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
            )
        ),
        pcie_gen_current=number(_at(tree, "pci/pci_gpu_link_info/pcie_gen/current_link_gen")),
        pcie_width_max=number(_at(tree, "pci/pci_gpu_link_info/link_widths/max_link_width")),
        pcie_width_current=number(_at(tree, "pci/pci_gpu_link_info/link_widths/current_link_width")),
        pcie_replays=number(_at(tree, "pci/replay_counter")),
        slowdown_reasons=active,
        temperature_c=number(_at(tree, "temperature/gpu_temp")),
        margin_c=number(_at(tree, "temperature/gpu_temp_tlimit")),
        slowdown_margin_c=number(_at(tree, "temperature/gpu_temp_slow_tlimit_threshold")),
        memory_mib=number(_at(tree, "fb_memory_usage/total")),
        power_w=number(
            _at(
                tree,
                "gpu_power_readings/instant_power_draw",
                "gpu_power_readings/power_draw",
                "power_readings/power_draw",
            )
        ),
        power_limit_w=number(_at(tree, "gpu_power_readings/current_power_limit", "power_readings/power_limit")),
        fabric_state=_at(tree, "fabric/state"),
        fabric_status=_at(tree, "fabric/status"),
        clique=_at(tree, "fabric/cliqueId"),
        cluster_uuid=_at(tree, "fabric/clusterUuid"),
        recovery_action=_at(tree, "gpu_recovery_action"),
        reset_required=yes(_at(tree, "gpu_reset_status/reset_required")),
    )


def read_xml(text):
    """Report from `nvidia-smi -q -x`, schemas v9 to v13. Unreadable where it is not such a document or is cut off."""
    start = text.find("<?xml")
    if start < 0:
        raise Unreadable(f"not an XML report of nvidia-smi: {text.strip()[:200]!r}")
    try:
        root = ElementTree.fromstring(text[start:])
    except ElementTree.ParseError as error:
        raise Unreadable(f"the XML report of nvidia-smi is damaged or cut off: {error}") from None
    if root.tag != "nvidia_smi_log":
        raise Unreadable(f"not an XML report of nvidia-smi: root element {root.tag}")
    gpus = tuple(
        _gpu(index, element.get("id", ""), _xml_tree(element)) for index, element in enumerate(root.findall("gpu"))
    )
    return Report(
        reported(root.findtext("driver_version")),
        reported(root.findtext("cuda_version")),
        number(root.findtext("attached_gpus")),
        gpus,
        "<!-- simulated" in text,
    )


# Labels of `nvidia-smi -q`, as paths, and the XML names they correspond to.
_TEXT_NAMES = {
    "Product Name": "product_name",
    "Product Architecture": "product_architecture",
    "Serial Number": "serial",
    "GPU UUID": "uuid",
    "Minor Number": "minor_number",
    "Module ID": "module_id",
    "Platform Info/Module Id": "platformInfo/module_id",
    "Persistence Mode": "persistence_mode",
    "MIG Mode/Current": "mig_mode/current_mig",
    "ECC Mode/Current": "ecc_mode/current_ecc",
    "ECC Errors/Aggregate/SRAM Threshold Exceeded": "ecc_errors/aggregate/sram_threshold_exceeded",
    "Retired Pages/Single Bit ECC": "retired_pages/multiple_single_bit_retirement/retired_count",
    "Retired Pages/Double Bit ECC": "retired_pages/double_bit_retirement/retired_count",
    "Retired Pages/Pending Page Blacklist": "retired_pages/pending_blacklist",
    "Retired Pages/Pending": "retired_pages/pending_blacklist",
    "Remapped Rows/Correctable Error": "remapped_rows/remapped_row_corr",
    "Remapped Rows/Uncorrectable Error": "remapped_rows/remapped_row_unc",
    "Remapped Rows/Pending": "remapped_rows/remapped_row_pending",
    "Remapped Rows/Remapping Failure Occurred": "remapped_rows/remapped_row_failure",
    "PCI/Device Id": "pci/pci_device_id",
    "PCI/GPU Link Info/PCIe Generation/Max": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "PCI/GPU Link Info/PCIe Generation/Current": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "PCI/GPU Link Info/PCIe Generation/Device Max": "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen",
    "PCI/GPU Link Info/Link Width/Max": "pci/pci_gpu_link_info/link_widths/max_link_width",
    "PCI/GPU Link Info/Link Width/Current": "pci/pci_gpu_link_info/link_widths/current_link_width",
    "PCI/Replays Since Reset": "pci/replay_counter",
    "Temperature/GPU Current Temp": "temperature/gpu_temp",
    "Temperature/GPU T.Limit Temp": "temperature/gpu_temp_tlimit",
    "Temperature/GPU Slowdown T.Limit Temp": "temperature/gpu_temp_slow_tlimit_threshold",
    "FB Memory Usage/Total": "fb_memory_usage/total",
    "GPU Power Readings/Instantaneous Power Draw": "gpu_power_readings/instant_power_draw",
    "GPU Power Readings/Power Draw": "gpu_power_readings/power_draw",
    "GPU Power Readings/Current Power Limit": "gpu_power_readings/current_power_limit",
    "Fabric/State": "fabric/state",
    "Fabric/Status": "fabric/status",
    "Fabric/CliqueId": "fabric/cliqueId",
    "Fabric/ClusterUUID": "fabric/clusterUuid",
    "GPU Recovery Action": "gpu_recovery_action",
    "GPU Reset Status/Reset Required": "gpu_reset_status/reset_required",
}
for _kind in ("Volatile", "Aggregate"):
    for _label in ("SRAM Correctable", "SRAM Uncorrectable", "DRAM Correctable", "DRAM Uncorrectable"):
        _TEXT_NAMES[f"ECC Errors/{_kind}/{_label}"] = f"ecc_errors/{_kind.lower()}/{_label.lower().replace(' ', '_')}"
    _TEXT_NAMES[f"ECC Errors/{_kind}/SRAM Uncorrectable Parity"] = (
        f"ecc_errors/{_kind.lower()}/sram_uncorrectable_parity"
    )
    _TEXT_NAMES[f"ECC Errors/{_kind}/SRAM Uncorrectable SEC-DED"] = (
        f"ecc_errors/{_kind.lower()}/sram_uncorrectable_secded"
    )
for _bank in _BANKS:
    _TEXT_NAMES[f"Remapped Rows/Bank Remap Availability Histogram/{_bank.capitalize()}"] = (
        f"remapped_rows/row_remapper_histogram/row_remapper_histogram_{_bank}"
    )
for _word in ("Event", "Throttle"):
    for _label, _name in (
        ("Idle", "gpu_idle"),
        ("Applications Clocks Setting", "applications_clocks_setting"),
        ("SW Power Cap", "sw_power_cap"),
        ("HW Slowdown", "hw_slowdown"),
        ("HW Slowdown/HW Thermal Slowdown", "hw_thermal_slowdown"),
        ("HW Slowdown/HW Power Brake Slowdown", "hw_power_brake_slowdown"),
        ("Sync Boost", "sync_boost"),
        ("SW Thermal Slowdown", "sw_thermal_slowdown"),
        ("Display Clock Setting", "display_clocks_setting"),
    ):
        _TEXT_NAMES[f"Clocks {_word} Reasons/{_label}"] = f"clocks_event_reasons/clocks_event_reason_{_name}"


def _put(tree, path, value):
    keys = path.split("/")
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            return
    tree.setdefault(keys[-1], value)


def read_query(text):
    """Report from `nvidia-smi -q` (also with -d, where most sections are missing). Indentation carries the structure."""
    if (
        "NVSMI LOG" not in text
        and not re.search(r"^GPU [0-9a-fA-F]{8}:", text, re.MULTILINE)
        and "Attached GPUs" not in text
    ):
        raise Unreadable(f"not a report of nvidia-smi -q: {text.strip()[:200]!r}")
    head, trees, stack = {}, [], []
    for line in text.splitlines():
        if not line.strip():
            continue
        match = re.match(r"^\s*GPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])\s*$", line)
        if match:
            trees.append((match.group(1), {}))
            stack = []
            continue
        indent = len(line) - len(line.lstrip())
        label, colon, value = line.partition(" : ")
        label = label.strip()
        while stack and stack[-1][0] >= indent:
            stack.pop()
        stack.append((indent, label))
        if not colon:
            continue
        if trees:
            path = "/".join(part for _indent, part in stack)
            if path in _TEXT_NAMES:
                _put(trees[-1][1], _TEXT_NAMES[path], value.strip())
        else:
            head.setdefault(label, value.strip())
    if not trees:
        raise Unreadable("the report of nvidia-smi -q names no GPU")
    return Report(
        reported(head.get("Driver Version")),
        reported(head.get("CUDA Version")),
        number(head.get("Attached GPUs")),
        tuple(_gpu(index, bus_id, tree) for index, (bus_id, tree) in enumerate(trees)),
        "Simulated" in head,
    )


def read_csv(text):
    """List of dicts from `--query-gpu=... --format=csv` with its header line; units go from header and value. Values stay text, not reported is None."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or "," not in lines[0] and "not a valid field" in text:
        raise Unreadable(f"not a CSV answer of nvidia-smi: {text.strip()[:200]!r}")
    header = [re.sub(r"\s*\[.*\]$", "", name.strip()) for name in lines[0].split(",")]
    rows = []
    for line in lines[1:]:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(header):
            raise Unreadable(f"{len(cells)} values for {len(header)} columns: {line!r}")
        rows.append({name: reported(cell) for name, cell in zip(header, cells)})
    return rows


class Links(NamedTuple):
    """NVLinks of one GPU: link number -> GB/s per direction, None for a link that is inactive."""

    index: int
    name: str
    uuid: str
    speeds: dict

    def active(self):
        return sum(1 for speed in self.speeds.values() if speed is not None)


_GPU_LINE = re.compile(r"^GPU (\d+): (.*?) \(UUID: (\S+?)\)\s*$")
_LINK_LINE = re.compile(r"^\s*Link (\d+): (.+?)\s*$")


def read_nvlink_status(text):
    """tuple of Links from `nvidia-smi nvlink -s`.

    A GPU whose links are all inactive has no speeds at all, and so has a GPU without NVLink: the caller knows what to expect."""
    found = []
    for line in text.splitlines():
        match = _GPU_LINE.match(line.strip())
        if match:
            found.append(Links(int(match.group(1)), match.group(2), match.group(3), {}))
            continue
        match = _LINK_LINE.match(line)
        if match and found:
            speed = match.group(2)
            found[-1].speeds[int(match.group(1))] = None if "inactive" in speed.lower() else float(number(speed))
    if not found:
        raise Unreadable(f"not an answer of nvidia-smi nvlink -s: {text.strip()[:200]!r}")
    return tuple(found)


def read_nvlink_errors(text):
    """{GPU index: {link: {"replay": n, "recovery": n, "crc": n}}} from `nvidia-smi nvlink -e`."""
    found, links = {}, None
    for line in text.splitlines():
        match = _GPU_LINE.match(line.strip())
        if match:
            links = found.setdefault(int(match.group(1)), {})
            continue
        match = re.match(r"^\s*Link (\d+): (Replay|Recovery|CRC)(?: FLIT)? Errors: (\d+)", line)
        if match and links is not None:
            links.setdefault(int(match.group(1)), {})[match.group(2).lower()] = int(match.group(3))
    if not found:
        raise Unreadable(f"not an answer of nvidia-smi nvlink -e: {text.strip()[:200]!r}")
    return found


def read_topology(text):
    """{(row, column): link} from `nvidia-smi topo -m`, for example ("GPU0", "GPU1") -> "NV18". Columns that are not devices are left out."""
    # underlined header cells come with terminal escapes on some versions
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
    columns, rows = [], []
    for position, line in enumerate(lines):
        columns = [name for name in line.split() if re.match(r"^(GPU|NIC|mlx5_)\d+$", name)]
        if "GPU0" in columns and not line.startswith("GPU0"):
            rows = lines[position + 1 :]
            break
    else:
        raise Unreadable(f"not an answer of nvidia-smi topo -m: {text.strip()[:200]!r}")
    cells = {}
    for line in rows:
        words = line.split()
        if not words or not re.match(r"^(GPU|NIC|mlx5_)\d+$", words[0]):
            if cells and line.strip():
                break
            continue
        if len(words) < 1 + len(columns):
            raise Unreadable(f"the topology row is cut off: {line!r}")
        for column, word in zip(columns, words[1:]):
            cells[(words[0], column)] = word
    return cells
