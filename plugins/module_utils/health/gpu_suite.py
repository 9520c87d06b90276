# Runs the GPU tools and hands what they say to the checks of gpu.py. Every tool that fails or is not understood leaves could_not_test.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ..facts import dcgm, kernel_log, nvidia_smi
from ..facts.values import Unreadable
from . import gpu, inventory
from .gpu_models import model_of
from .items import could_not_test, not_applicable
from .plan import CHECKS, enabled


def _expected_gpus(plan, seen):
    """(number or None, where it comes from). The plan (the BMC's inventory) first, then the PCI bus, then what the machine's firmware says."""
    expected = plan["expected"]
    if expected.get("gpus") is not None:
        return int(expected["gpus"]), "plan"
    if expected.get("gpu_serials"):
        return len(expected["gpu_serials"]), "plan"
    if seen["gpus"]:
        return len(seen["gpus"]), "PCI bus"
    serials = [serial for serial in seen["hardware_strings"].get("gpu_serials", "").split(",") if serial]
    if serials:
        return len(serials), "SMBIOS"
    return None, "nothing"


def check_gpus(plan, system, kernel_text, seen):
    """All GPU checks. Where the lab's instruments answer, every item is marked as simulated."""
    names = [name for name in CHECKS if CHECKS[name].group == "gpu" and enabled(plan, name)]
    if not names:
        return []
    expected, source = _expected_gpus(plan, seen)
    marker = inventory.instruments(system)
    simulated = bool(marker)
    if simulated and seen["gpus"]:
        words = "simulated instruments are installed on a server with real NVIDIA devices"
        return [could_not_test(name, words, rule=f"{name.replace('_', '-')}/1", simulated=True) for name in names]
    ran = system.run(["nvidia-smi", "-q", "-x"], 120)
    # no tool, or simulated tools on a server that claims no GPU: there is nothing that could answer
    nothing_answers = ran.rc is None or (simulated and not seen["hardware_strings"].get("gpu_profile"))
    if not seen["gpus"] and nothing_answers and expected in (0, None):
        words = "no GPU is expected and none is on the PCI bus"
        return [
            not_applicable(name, words, rule=f"{name.replace('_', '-')}/1", source=source, simulated=simulated)
            for name in names
        ]
    report, problem = None, ran.problem or f"nvidia-smi: {ran.brief()}"
    if ran.rc == 0:
        try:
            report = nvidia_smi.read_xml(ran.out)
        except Unreadable as error:
            problem = f"nvidia-smi: {error}"
    results = []
    events = list(kernel_log.find_events(kernel_log.read_lines(kernel_text))) if kernel_text is not None else []
    log_simulated = False
    if marker.get("kernel_log"):
        text = system.read(marker["kernel_log"])
        if text is not None:
            log_simulated = True
            events += kernel_log.find_events(kernel_log.read_lines(text))
    if report is None:
        results += [
            could_not_test(name, problem, rule=f"{name.replace('_', '-')}/1", source=gpu.SMI, simulated=simulated)
            for name in names
            if name not in ("gpu_xid", "gpu_diag")
        ]
    else:
        models = {}
        for found in report.gpus:
            models[found.index] = model_of(found.device_id, plan["gpu_models"])[1]
        widths = inventory.slot_widths(system, [nvidia_smi.short_bus_id(found.bus_id) for found in report.gpus])
        links = cells = None
        if "gpu_nvlink" in names:
            answer = system.run(["nvidia-smi", "nvlink", "-s"], 60)
            links = _read(nvidia_smi.read_nvlink_status, answer)
        if "gpu_topology" in names:
            answer = system.run(["nvidia-smi", "topo", "-m"], 60)
            cells = _read(nvidia_smi.read_topology, answer)
        made = {
            "gpu_count": lambda: gpu.count(report, expected, simulated),
            "gpu_ecc": lambda: gpu.ecc(report, models, plan["limits"], simulated),
            "gpu_memory_repair": lambda: gpu.memory_repair(report, models, plan["limits"], simulated),
            "gpu_memory": lambda: gpu.memory_size(report, models, simulated),
            "gpu_thermal": lambda: gpu.thermal(report, simulated),
            "gpu_pcie": lambda: gpu.pcie(report, models, widths, simulated),
            "gpu_nvlink": lambda: gpu.nvlink(report, models, links, simulated),
            "gpu_topology": lambda: gpu.topology(report, models, cells, simulated),
            "gpu_fabric": lambda: gpu.fabric(report, models, simulated),
            "gpu_persistence": lambda: gpu.persistence(report, simulated),
        }
        for name in names:
            if name in made:
                results.append(made[name]())
        if "gpu_serials" in names:
            if plan["expected"].get("gpu_serials"):
                results.append(gpu.serials(report, plan["expected"]["gpu_serials"], simulated))
            else:
                results.append(
                    could_not_test(
                        "gpu_serials",
                        "no serial numbers were given to compare with",
                        rule="gpu-serials/1",
                        simulated=simulated,
                    )
                )
    if "gpu_xid" in names:
        if kernel_text is None and not log_simulated:
            results.append(
                could_not_test(
                    "gpu_xid",
                    "the kernel log cannot be read",
                    rule="gpu-xid/1",
                    source="/dev/kmsg",
                    simulated=simulated,
                )
            )
        else:
            results.append(gpu.kernel_events(events, report, log_simulated))
    if "gpu_diag" in names:
        level = plan["gpu_diag_level"]
        answer = system.run(["dcgmi", "diag", "-r", str(level), "-j"], 60 + 300 * level**2)
        try:
            # a failed diagnostic ends with a status of its own; the document decides
            results.append(gpu.diagnostic(dcgm.read_json(answer.out), report, level, simulated))
        except Unreadable as error:
            words = answer.problem or f"{error} ({answer.brief()})"
            results.append(
                could_not_test(
                    "gpu_diag", words, rule="gpu-diag/1", source=f"dcgmi diag -r {level} -j", simulated=simulated
                )
            )
    return results


def _read(reader, ran):
    """What the reader makes of a tool's answer; None where the tool or the reader failed (the check then says so)."""
    if ran.rc != 0:
        return None
    try:
        return reader(ran.out)
    except Unreadable:
        return None
