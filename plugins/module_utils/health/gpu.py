# GPU checks: what nvidia-smi, its NVLink and topology views, dcgmi and the kernel log say, held against what the hardware found should show. Pure.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ..facts import dcgm as dcgm_facts
from ..facts import xid as xid_facts
from ..facts.nvidia_smi import HARDWARE_SLOWDOWNS, short_bus_id
from .gpu_models import BRIDGED, model_of
from .items import could_not_test, failed, not_applicable, passed

SMI = "nvidia-smi -q -x"


def _sentences(faults):
    return "; ".join(f"{part}: {phrase}" for part, phrase in faults)


def _each(check, gpus, judge, **parts):
    """One item over all GPUs. `judge(gpu)` returns (value or None, sentence or None): a sentence is a fault, a value None is "the tool does not say".

    One GPU that cannot be judged makes the whole item could_not_test, unless another one is faulty: a fault is a fault."""
    reduce = parts.pop("reduce", max)
    faults, unknown, values = [], [], []
    for gpu in gpus:
        value, sentence = judge(gpu)
        if sentence:
            faults.append((gpu.label(), sentence))
        elif value is None:
            unknown.append(gpu)
        if value is not None:
            values.append(value)
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    value = reduce(numbers) if numbers else None
    if faults:
        return failed(check, value=value, detail=_sentences(faults), faults=faults, **parts)
    if not gpus:
        return could_not_test(check, "no GPU is listed", **parts)
    if unknown:
        names = ", ".join(str(gpu.index) for gpu in unknown)
        return could_not_test(
            check, f"GPU {names}: not reported, or nothing is known about the model", value=value, **parts
        )
    return passed(check, value=value, detail=f"{len(values)} GPUs", **parts)


def count(report, expected, simulated):
    """As many GPUs as the server should have.

    The expected number comes from outside the driver (BMC inventory, PCI bus, plan): without it this cannot be judged."""
    parts = {
        "unit": "GPUs",
        "limit": expected,
        "rule": "gpu-count/1",
        "source": SMI,
        "simulated": simulated,
        "value": len(report.gpus),
    }
    if expected is None:
        return could_not_test(
            "gpu_count", f"{len(report.gpus)} GPUs seen, but nothing says how many there should be", **parts
        )
    if report.attached is not None and report.attached != len(report.gpus):
        return failed(
            "gpu_count", detail=f"nvidia-smi says {report.attached} are attached but lists {len(report.gpus)}", **parts
        )
    if len(report.gpus) != expected:
        return failed("gpu_count", detail=f"{len(report.gpus)} of {expected} GPUs are there", **parts)
    return passed("gpu_count", detail=None, **parts)


def serials(report, expected, simulated):
    """The same GPUs that the BMC lists, by serial number. Boards that do not report serials cannot be compared."""
    parts = {"unit": "GPUs", "limit": len(expected), "rule": "gpu-serials/1", "source": SMI, "simulated": simulated}
    seen = {gpu.serial for gpu in report.gpus if gpu.serial}
    if not seen:
        return could_not_test("gpu_serials", "nvidia-smi reports no serial numbers", value=0, **parts)
    missing, foreign = sorted(set(expected) - seen), sorted(seen - set(expected))
    if missing or foreign:
        words = [f"not seen by the driver: {', '.join(missing)}"] if missing else []
        words += [f"not in the BMC's inventory: {', '.join(foreign)}"] if foreign else []
        return failed("gpu_serials", value=len(seen & set(expected)), detail="; ".join(words), **parts)
    return passed("gpu_serials", value=len(seen), **parts)


def ecc(report, models, limits, simulated):
    """No uncorrectable memory errors since the driver was loaded, and few enough over the board's life."""

    def judge(gpu):
        model = models.get(gpu.index)
        if gpu.ecc_enabled is False and (model is None or model.ecc):
            return 0, "ECC is switched off"
        volatile = gpu.volatile.uncorrectable
        if gpu.sram_threshold_exceeded:
            return volatile, "the SRAM error threshold is exceeded"
        lifetime = gpu.aggregate.sram_uncorrectable
        if lifetime is not None and lifetime > limits["gpu_sram_uncorrectable_aggregate"]:
            return volatile, f"{lifetime} uncorrectable SRAM errors over its life"
        if volatile is not None and volatile > limits["gpu_uncorrectable_volatile"]:
            return (
                volatile,
                f"{volatile} uncorrectable ECC error{'s' if volatile != 1 else ''} since the driver was loaded",
            )
        return volatile, None

    plain = all(
        models.get(gpu.index) is not None and not models[gpu.index].ecc and gpu.ecc_enabled is None
        for gpu in report.gpus
    )
    if report.gpus and plain:
        return not_applicable("gpu_ecc", "these GPUs have no ECC", rule="gpu-ecc/1", source=SMI, simulated=simulated)
    return _each(
        "gpu_ecc",
        report.gpus,
        judge,
        unit="errors",
        limit=limits["gpu_uncorrectable_volatile"],
        rule="gpu-ecc/1",
        source=SMI,
        simulated=simulated,
    )


def memory_repair(report, models, limits, simulated):
    """Remapped rows (Ampere and later) or retired pages (before): none pending, none failed, spare capacity left."""

    def judge(gpu):
        if gpu.remap_failure:
            return 0, "a row remap has failed (no spare rows left)"
        if gpu.remap_banks.get("none"):
            return 0, f"{gpu.remap_banks['none']} memory banks have no spare rows left"
        if gpu.remapped_uncorrectable is not None and gpu.remapped_uncorrectable > limits["gpu_remapped_uncorrectable"]:
            return (
                gpu.remapped_uncorrectable,
                f"{gpu.remapped_uncorrectable} rows were remapped after uncorrectable errors",
            )
        if gpu.remap_pending:
            return gpu.remapped_uncorrectable, "a row remap is pending: the GPU has to be reset"
        retired = None
        if gpu.retired_single is not None or gpu.retired_double is not None:
            retired = (gpu.retired_single or 0) + (gpu.retired_double or 0)
            if retired > limits["gpu_retired_pages"]:
                return retired, f"{retired} memory pages are retired: the table is full"
        if gpu.retired_pending:
            return retired, "a page retirement is pending: the node has to be rebooted"
        if gpu.recovery_action and gpu.recovery_action.lower() != "none":
            return gpu.remapped_uncorrectable or 0, f"the driver asks for recovery: {gpu.recovery_action}"
        if gpu.reset_required:
            return gpu.remapped_uncorrectable or 0, "the driver asks for a reset"
        value = gpu.remapped_uncorrectable if gpu.remapped_uncorrectable is not None else retired
        if value is None and (gpu.mig or (models.get(gpu.index) is not None and not models[gpu.index].ecc)):
            return 0, None  # remapped rows cannot be read with MIG instances (NVML); parts without ECC repair nothing
        return value, None

    return _each(
        "gpu_memory_repair",
        report.gpus,
        judge,
        unit="rows or pages",
        limit=f"none pending or failed, at most {limits['gpu_remapped_uncorrectable']:g}",
        rule="gpu-memory-repair/1",
        source=SMI,
        simulated=simulated,
    )


def thermal(report, simulated):
    """No hardware slowdown reason is active. Power capping by software and idling are normal; limits are margins on newer drivers, so no absolute degrees."""

    def judge(gpu):
        if gpu.slowdown_reasons is None:
            return None, None
        active = [name for name in gpu.slowdown_reasons if name in HARDWARE_SLOWDOWNS]
        if active:
            margin = f", {gpu.margin_c} C to its limit" if gpu.margin_c is not None else ""
            words = " and ".join(name.replace("_", " ") for name in active)
            return gpu.temperature_c, f"{words} active at {gpu.temperature_c} C{margin}"
        if gpu.margin_c is not None and gpu.slowdown_margin_c is not None and gpu.margin_c <= gpu.slowdown_margin_c:
            return gpu.temperature_c, f"{gpu.temperature_c} C is at its slowdown limit"
        return gpu.temperature_c, None

    return _each(
        "gpu_thermal",
        report.gpus,
        judge,
        unit="C",
        limit="no hardware slowdown",
        rule="gpu-thermal/1",
        source=SMI,
        simulated=simulated,
    )


def pcie(report, models, slots, simulated):
    """Full PCIe width and generation. `slots`: {bus id: width of the slot} from sysfs, for models whose slot width differs between servers.

    The current generation is not judged: it drops at idle. The width never changes at idle."""

    def judge(gpu):
        model = models.get(gpu.index)
        width = gpu.pcie_width_current
        wanted = model.pcie_width if model and model.pcie_width else None
        if wanted is None and short_bus_id(gpu.bus_id) in slots and gpu.pcie_width_max:
            wanted = min(gpu.pcie_width_max, slots[short_bus_id(gpu.bus_id)])
        if wanted is None and width is not None and width == gpu.pcie_width_max:
            wanted = width
        if width is None or wanted is None:
            return None, None
        if width < wanted:
            return width, f"PCIe link is x{width} instead of x{wanted}"
        if model and gpu.pcie_gen_max is not None and gpu.pcie_gen_max < model.pcie_gen:
            return width, f"PCIe generation {gpu.pcie_gen_max} instead of {model.pcie_gen}"
        return width, None

    return _each(
        "gpu_pcie",
        report.gpus,
        judge,
        unit="lanes",
        limit="model and slot",
        rule="gpu-pcie/1",
        source=SMI,
        simulated=simulated,
        reduce=min,
    )


def memory_size(report, models, simulated):
    """Each GPU shows the memory of its model."""

    def judge(gpu):
        model = models.get(gpu.index)
        if model is None or gpu.memory_mib is None:
            return None, None
        if gpu.memory_mib < model.memory_mib:
            return gpu.memory_mib, f"{gpu.memory_mib} MiB instead of at least {model.memory_mib} MiB"
        return gpu.memory_mib, None

    wanted = {models[gpu.index].memory_mib for gpu in report.gpus if models.get(gpu.index)}
    return _each(
        "gpu_memory",
        report.gpus,
        judge,
        unit="MiB",
        limit=min(wanted) if wanted else None,
        rule="gpu-memory/1",
        source=SMI,
        simulated=simulated,
        reduce=min,
    )


def nvlink(report, models, links, simulated):
    """Each GPU has all links of its model, at full rate: the expected bandwidth is links x rate. `links`: tuple of Links, or None where not read."""
    parts = {"rule": "gpu-nvlink/1", "source": "nvidia-smi nvlink -s", "simulated": simulated, "unit": "GB/s"}
    wanted = [models.get(gpu.index) for gpu in report.gpus]
    if wanted and all(model is not None and model.links == 0 for model in wanted):
        return not_applicable("gpu_nvlink", "these GPUs have no NVLink", **parts)
    if links is None:
        return could_not_test("gpu_nvlink", "the state of the links could not be read", **parts)
    by_index = {found.index: found for found in links}

    def judge(gpu):
        model, found = models.get(gpu.index), by_index.get(gpu.index)
        if model is None or found is None:
            return None, None
        rate = round(sum(speed for speed in found.speeds.values() if speed is not None), 3)
        if not found.speeds and model_of(gpu.device_id)[0] in BRIDGED:
            return 0.0, None
        if found.active() < model.links:
            down = [str(link) for link, speed in sorted(found.speeds.items()) if speed is None]
            which = f" (link {', '.join(down)} inactive)" if down else ""
            return rate, f"{found.active()} of {model.links} NVLinks are up{which}"
        slow = [str(link) for link, speed in sorted(found.speeds.items()) if speed < model.link_gbytes]
        if slow:
            return rate, f"NVLink {', '.join(slow)} slower than {model.link_gbytes:g} GB/s"
        return rate, None

    expected = {model.links * model.link_gbytes for model in wanted if model}
    return _each("gpu_nvlink", report.gpus, judge, limit=min(expected) if expected else None, reduce=min, **parts)


def topology(report, models, cells, simulated):
    """Behind NVSwitch every GPU reaches every other over all its links."""
    parts = {"rule": "gpu-topology/1", "source": "nvidia-smi topo -m", "simulated": simulated, "unit": "links"}
    wanted = [models.get(gpu.index) for gpu in report.gpus]
    if len(wanted) < 2 or not all(model is not None and model.fabric for model in wanted):
        return not_applicable("gpu_topology", "no all-to-all NVLink fabric is expected here", **parts)
    if len(report.gpus) < 8 and wanted[0].name.startswith("A100"):
        return not_applicable("gpu_topology", "the 4-GPU board has direct links, not a switch", **parts)
    if cells is None:
        return could_not_test("gpu_topology", "the topology could not be read", **parts)
    lowest, faults, absent = None, [], []
    for one in report.gpus:
        for other in report.gpus:
            if one.index == other.index:
                continue
            cell = cells.get((f"GPU{one.index}", f"GPU{other.index}"))
            match = re.match(r"^NV(\d+)$", cell or "")
            if cell is None:
                absent.append(f"GPU{one.index}-GPU{other.index}")
            elif not match or int(match.group(1)) < models[one.index].links:
                faults.append(f"GPU{one.index}-GPU{other.index} {cell}")
            if match:
                lowest = min(int(match.group(1)), lowest if lowest is not None else 10**6)
    parts.update(value=lowest, limit=wanted[0].links)
    if faults:
        return failed(
            "gpu_topology", detail=f"weak pairs: {', '.join(faults[:6])}{' ...' if len(faults) > 6 else ''}", **parts
        )
    if absent:
        return could_not_test("gpu_topology", f"pairs are missing in the matrix: {', '.join(absent[:6])}", **parts)
    return passed("gpu_topology", **parts)


def fabric(report, models, simulated):
    """On NVSwitch systems each GPU is registered with the fabric: state Completed, status Success."""
    parts = {"rule": "gpu-fabric/1", "source": SMI, "simulated": simulated, "limit": "Completed, Success"}
    judged = [gpu for gpu in report.gpus if models.get(gpu.index) is not None and models[gpu.index].fabric]
    if not judged and all(models.get(gpu.index) for gpu in report.gpus):
        return not_applicable("gpu_fabric", "these GPUs need no fabric manager", **parts)
    if judged and models[judged[0].index].name.startswith("A100") and all(gpu.fabric_state is None for gpu in judged):
        return not_applicable("gpu_fabric", "this generation does not report its fabric state", **parts)

    def judge(gpu):
        if gpu.fabric_state is None:
            return None, None
        if gpu.fabric_state != "Completed" or gpu.fabric_status != "Success":
            return 0, f"fabric state {gpu.fabric_state}, status {gpu.fabric_status}"
        return 1, None

    return _each("gpu_fabric", judged or report.gpus, judge, **parts)


def persistence(report, simulated):
    """Persistence mode is on: without it the driver forgets its state between jobs, and counters with it."""
    return _each(
        "gpu_persistence",
        report.gpus,
        lambda gpu: (
            (None, None) if gpu.persistence is None else (1, None if gpu.persistence else "persistence mode is off")
        ),
        limit="on",
        rule="gpu-persistence/1",
        source=SMI,
        simulated=simulated,
    )


def kernel_events(events, report, simulated):
    """No Xid, SXid or lost GPU that asks for more than restarting an application. `events`: from the kernel log since boot."""
    parts = {
        "unit": "events",
        "limit": 0,
        "rule": "gpu-xid/1",
        "source": "kernel log since boot",
        "simulated": simulated,
    }
    labels = {short_bus_id(gpu.bus_id): gpu.label() for gpu in (report.gpus if report else ())}
    bad = {}
    for event in events:
        if event.kind in ("xid", "sxid", "gpu_lost") and event.action in xid_facts.HARDWARE:
            bad.setdefault(event.device, []).append(event)
    if not bad:
        return passed("gpu_xid", value=0, **parts)
    faults = []
    for device, found in sorted(bad.items()):
        codes = {}
        for event in found:
            name = f"{'SXid' if event.kind == 'sxid' else 'Xid'} {event.code}" if event.code is not None else "lost"
            words = (
                xid_facts.action(event.code, event.text)[1]
                if event.kind == "xid"
                else "GPU has fallen off the bus"
                if event.code is None
                else "fatal"
            )
            codes[name] = (words, event.action)
        listed = ", ".join(f"{name} ({words}: {action})" for name, (words, action) in codes.items())
        faults.append((labels.get(device, f"GPU at {device}" if device else "a GPU"), listed))
    return failed(
        "gpu_xid", value=sum(len(found) for found in bad.values()), detail=_sentences(faults), faults=faults, **parts
    )


def diagnostic(result, report, level, simulated):
    """dcgmi diag: every test of the level ran and passed on every GPU. Skipped tests and a level that was not reached are no pass."""
    parts = {
        "unit": "failed tests",
        "rule": "gpu-diag/1",
        "source": f"dcgmi diag -r {level} -j",
        "simulated": simulated or result.simulated,
    }
    if result.error:
        return could_not_test("gpu_diag", f"dcgmi: {result.error}", **parts)
    labels = {gpu.index: gpu.label() for gpu in (report.gpus if report else ())}
    wrong, skipped = [], []
    for test in result.tests:
        who = labels.get(test.gpu, f"GPU {test.gpu}") if test.gpu is not None else "node"
        words = "; ".join(text for _severity, text in test.warnings)
        if test.status in (dcgm_facts.FAIL, dcgm_facts.WARN):
            wrong.append((who, f"dcgmi test {test.name}: {test.status}{f' ({words})' if words else ''}"))
        elif test.status != dcgm_facts.PASS:
            skipped.append(f"{who}: {test.name} {test.status}{f': {words}' if words else ''}")
    parts["value"] = sum(1 for test in result.tests if test.status != dcgm_facts.PASS)
    if wrong:
        return failed("gpu_diag", detail=_sentences(wrong), faults=wrong, **parts)
    if level >= 2 and not any(test.category.lower() in ("hardware", "integration", "stress") for test in result.tests):
        return could_not_test("gpu_diag", f"level {level} was asked for, but only software tests ran", **parts)
    tested = {test.gpu for test in result.tests if test.gpu is not None}
    absent = sorted(set(labels) - tested) if tested else []
    if absent:
        return could_not_test("gpu_diag", f"GPU {', '.join(map(str, absent))} not tested", **parts)
    if skipped:
        return could_not_test("gpu_diag", "; ".join(skipped), **parts)
    return passed("gpu_diag", detail=f"{len(result.tests)} tests", **parts)
