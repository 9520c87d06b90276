# Checks of the server beside its GPUs: hardware against the BMC's inventory, load on processors, memory and disk, network, clock, kernel log.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import re
import tempfile

from ..core.deadline import Deadline
from ..core.units import format_size
from ..facts import host, kernel_log, stress, xid
from ..facts.values import Unreadable
from .items import could_not_test, failed, judged, not_applicable, passed
from .plan import enabled


def check_hardware(plan, seen):
    """The operating system sees what the BMC's inventory (the plan's `expected`) lists. A container sees its host's hardware: nothing to compare."""
    expected, results = plan["expected"], []

    def compare(name, key, judge):
        if key not in expected or expected[key] in (None, [], ""):
            results.append(could_not_test(name, "no expected value was given", rule=f"{name.replace('_', '-')}/1"))
        elif seen["container"]:
            results.append(
                not_applicable(
                    name, f"{seen['container']} shows its host's hardware", rule=f"{name.replace('_', '-')}/1"
                )
            )
        else:
            results.append(judge(expected[key]))

    def identity(serial):
        detail = (
            None if seen["serial"] == serial else f"this machine says its serial is {seen['serial']}, wanted {serial}"
        )
        make = failed if detail and seen["serial"] else could_not_test if detail else passed
        return make(
            "identity",
            detail=detail,
            value=seen["serial"],
            limit=serial,
            rule="identity/1",
            source="/sys/class/dmi/id/product_serial",
        )

    def cpus(wanted):
        threads = (seen["cpu"] or {}).get("threads")
        if threads is None:
            return could_not_test(
                "hardware_cpus", "/proc/cpuinfo could not be read", limit=wanted, rule="hardware-cpus/1"
            )
        detail = None if threads >= int(wanted) else f"{threads} of {wanted} processor threads are there"
        return judged(
            "hardware_cpus",
            detail is None,
            value=threads,
            unit="threads",
            limit=int(wanted),
            rule="hardware-cpus/1",
            source="/proc/cpuinfo",
            detail=detail,
        )

    def memory(wanted):
        size = seen["memory_bytes"]
        if size is None:
            return could_not_test(
                "hardware_memory", "/proc/meminfo could not be read", limit=wanted, rule="hardware-memory/1"
            )
        allowed = max(plan["limits"]["memory_missing_fraction"] * wanted, plan["limits"]["memory_missing_bytes"])
        least = int(wanted - allowed)
        detail = None if size >= least else f"{format_size(size)} of {format_size(wanted)} memory are there"
        return judged(
            "hardware_memory",
            detail is None,
            value=size,
            unit="bytes",
            limit=least,
            rule="hardware-memory/1",
            source="/proc/meminfo",
            detail=detail,
        )

    def disks(wanted):
        if seen["disks"] is None:
            return could_not_test(
                "hardware_disks", "; ".join(seen["unreadable"]), limit=len(wanted), rule="hardware-disks/1"
            )
        there = {disk["serial"] for disk in seen["disks"] if disk["serial"]}
        # virtio cuts serial numbers at 20 characters (virtio specification, VIRTIO_BLK_T_GET_ID)
        missing = [serial for serial in wanted if serial not in there and serial[:20] not in there]
        detail = f"disk {', '.join(missing)} of the BMC's inventory is not there" if missing else None
        if missing and not there:
            return could_not_test(
                "hardware_disks",
                "no disk tells its serial number",
                limit=len(wanted),
                rule="hardware-disks/1",
                source="lsblk",
            )
        return judged(
            "hardware_disks",
            not missing,
            value=len(wanted) - len(missing),
            unit="disks",
            limit=len(wanted),
            rule="hardware-disks/1",
            source="lsblk",
            detail=detail,
        )

    def nics(wanted):
        there = set(seen["nics"].values())
        missing = [mac for mac in (str(mac).lower() for mac in wanted) if mac not in there]
        detail = f"network card {', '.join(missing)} of the BMC's inventory is not there" if missing else None
        return judged(
            "hardware_nics",
            not missing,
            value=len(wanted) - len(missing),
            unit="cards",
            limit=len(wanted),
            rule="hardware-nics/1",
            source="/sys/class/net",
            detail=detail,
        )

    for name, key, judge in (
        ("identity", "serial", identity),
        ("hardware_cpus", "cpus", cpus),
        ("hardware_memory", "memory_bytes", memory),
        ("hardware_disks", "disk_serials", disks),
        ("hardware_nics", "macs", nics),
    ):
        if enabled(plan, name):
            compare(name, key, judge)
    return results


# ---- stress ----


def _stress_ng(system, arguments, seconds, stressor):
    """(True passed / False failed / None could not test, words, Stressor or None) of one stress-ng run with verification."""
    handle, metrics = tempfile.mkstemp(prefix="aicluster-stress-")
    os.close(handle)
    argv = [
        "stress-ng",
        "--timeout",
        f"{seconds:g}s",
        "--verify",
        "--metrics",
        "--yaml",
        metrics,
        "--temp-path",
        "/tmp",
        "--oomable",
    ]
    try:
        ran = system.run(argv + arguments, seconds * 3 + 60)
        text = system.read(metrics) or ""
    finally:
        os.unlink(metrics)
    if ran.rc is None:
        return None, ran.problem, None
    good, words = stress.stress_ng_status(ran.rc)
    complaints = [
        re.sub(r"^stress-ng: fail:\s+\[\d+\]\s*", "", line)
        for line in (ran.err + ran.out).splitlines()
        if line.startswith("stress-ng: fail")
    ]
    if good is False or complaints:
        return False, "; ".join(complaints[:3]) or words, None
    if good is None:
        return None, f"stress-ng: {words} ({ran.brief()})", None
    try:
        figure = stress.read_stress_ng(text).get(stressor)
    except Unreadable as error:
        return None, str(error), None
    if figure is None:
        return None, f"stress-ng reports nothing about {stressor}", None
    return True, "", figure


def _judge_stress(name, load, run, retry_seconds):
    """One item for a stressor. `run(seconds)` is called again with more time where the first run did not complete one operation."""
    good, words, figure = run(None)
    if good and not figure.operations:
        good, words, figure = run(retry_seconds)
        if good and not figure.operations:
            good, words = None, f"no operation was completed in {retry_seconds:g} s"
    parts = {"value": round(figure.rate, 1) if figure else None, "unit": "operations/s", "limit": "no wrong result"}
    parts.update(rule=f"{name.replace('_', '-')}/1", source="stress-ng --verify")
    if good is None:
        return could_not_test(name, words, **parts)
    return judged(name, good, detail=load if good else f"{load}: {words}", **parts)


def check_stress(plan, system):
    """Processors, then memory, under load; stress-ng verifies its own results. Rates are recorded, not judged."""
    results, seconds = [], plan["seconds"]
    if enabled(plan, "cpu_stress"):
        method = str(plan["cpu_method"])

        def cpu(longer):
            return _stress_ng(system, ["--cpu", "0", "--cpu-method", method], longer or seconds, "cpu")

        results.append(
            _judge_stress("cpu_stress", f"{seconds:g} s on all processors, method {method}", cpu, seconds * 4)
        )
    if enabled(plan, "memory_stress"):
        method = str(plan["memory_method"])
        try:
            memory = host.read_meminfo(system.read("/proc/meminfo") or "")
            workers = host.read_cpuinfo(system.read("/proc/cpuinfo") or "").threads
        except Unreadable as error:
            return results + [could_not_test("memory_stress", str(error), rule="memory-stress/1")]
        # no more than the workers can go through in the time: a pass that does not end has compared nothing
        size = int(
            min(memory.get("MemAvailable", 0) * plan["memory_fraction"], seconds * plan["memory_rate_bytes"] * workers)
        )

        def vm(longer):
            # stress-ng divides the bytes among the workers
            arguments = ["--vm", str(workers), "--vm-bytes", str(size), "--vm-keep", "--vm-method", method]
            return _stress_ng(system, arguments, longer or seconds, "vm")

        share = f"{100 * size / memory['MemTotal']:.0f} % of the memory"
        results.append(
            _judge_stress(
                "memory_stress", f"{format_size(size)} ({share}) written and compared, method {method}", vm, seconds * 4
            )
        )
    return results


def check_disk(plan, system):
    """Writes a file, reads it back and compares every block (CRC). Rates are recorded; the floor only catches a disk that does not work properly."""
    if not enabled(plan, "disk_stress"):
        return []
    path, size = plan["disk_path"], plan["disk_bytes"]
    parts = {
        "unit": "bytes/s",
        "limit": plan["limits"]["disk_write_floor"],
        "rule": "disk-stress/1",
        "source": "fio --verify=crc32c",
    }
    try:
        free = system.free_bytes(path)
    except OSError as error:
        return [could_not_test("disk_stress", f"{path}: {error.strerror}", **parts)]
    if free < size * 2:
        return [
            could_not_test(
                "disk_stress", f"{path} has {format_size(free)} free, the test wants twice {format_size(size)}", **parts
            )
        ]
    directory = tempfile.mkdtemp(prefix="aicluster-burn-in-", dir=path)
    target = os.path.join(directory, "data")
    argv = [
        "fio",
        "--name=burn-in",
        f"--filename={target}",
        f"--size={size}",
        "--rw=write",
        "--bs=1M",
        "--ioengine=psync",
        "--end_fsync=1",
    ]
    argv += [
        "--verify=crc32c",
        "--do_verify=1",
        "--verify_fatal=1",
        "--verify_state_save=0",  # a run that was stopped would leave a file where it was started
        "--output-format=json",
    ]
    # The size ends the work: with a run time of its own, fio skips the reading back on a slow machine.
    limit = plan["seconds"] * 6 + 60
    try:
        ran = system.run(argv + ["--direct=1"], limit)
        cached = ran.rc not in (0, None) and "Invalid argument" in ran.err + ran.out  # a file system without direct I/O
        if cached:
            ran = system.run(argv + ["--direct=0"], limit)
    finally:
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)
    if ran.rc is None:
        return [could_not_test("disk_stress", ran.problem, **parts)]
    try:
        figures = stress.read_fio(ran.out)
    except Unreadable as error:
        return [could_not_test("disk_stress", f"{error}; fio: {ran.brief()}", **parts)]
    parts["value"] = round(figures.write_rate)
    words = (
        f"{format_size(figures.write_bytes)} written at {figures.write_rate / 1e6:.1f} MB/s, read back at {figures.read_rate / 1e6:.1f} MB/s"
        f"{' through the page cache' if cached else ''} in {path}"
    )
    if ran.rc != 0 or figures.error:
        verify = re.search(r"^.*verify.*$", ran.err, re.MULTILINE | re.IGNORECASE)
        return [
            failed(
                "disk_stress",
                detail=f"{words}; error {figures.error}: {verify.group(0).strip()[:200] if verify else ran.brief()}",
                **parts,
            )
        ]
    if not figures.write_bytes or not figures.read_bytes:
        return [
            could_not_test(
                "disk_stress", f"fio wrote {figures.write_bytes} and verified {figures.read_bytes} bytes", **parts
            )
        ]
    slow = (
        figures.write_rate < plan["limits"]["disk_write_floor"] or figures.read_rate < plan["limits"]["disk_read_floor"]
    )
    return [judged("disk_stress", not slow, detail=f"{words}{', below the floor' if slow else ''}", **parts)]


# ---- network ----


def check_network(plan, system):
    """TCP throughput to a peer. One peer serves one node at a time: while it is busy this waits, so measurements do not disturb each other."""
    if not enabled(plan, "network"):
        return []
    network = plan["network"] or {}
    parts = {"unit": "bit/s", "rule": "network/1", "source": "iperf3"}
    peer = network.get("peer")
    if not peer:
        return [could_not_test("network", network.get("problem") or "no peer was given to test against", **parts)]
    # whole seconds: iperf3 reads "0.5" as 0, which is for ever
    port, seconds = int(network.get("port", 5201)), max(1, round(float(network.get("seconds", 3))))
    route = system.run(["ip", "-o", "route", "get", str(peer)], 10)
    match = re.search(r"\bdev (\S+)", route.out)
    interface = match.group(1) if match else None
    speed_text = (system.read(f"/sys/class/net/{interface}/speed") or "").strip() if interface else ""
    link = int(speed_text) * 1e6 if re.match(r"^\d+$", speed_text) else None
    limit = plan["limits"]["network_link_fraction"] * link if link else plan["limits"]["network_floor"]
    parts["limit"] = limit
    deadline = Deadline(float(network.get("wait_s", 120)), f"a free iperf3 server at {peer}:{port}")
    figures, problem = None, ""
    while figures is None:
        argv = ["iperf3", "-c", str(peer), "-p", str(port), "-t", str(seconds), "-J", "--connect-timeout", "5000"]
        ran = system.run(argv, seconds + 30)
        if ran.rc is None:
            return [could_not_test("network", ran.problem, **parts)]
        try:
            figures = stress.read_iperf3(ran.out or ran.err)
        except Unreadable as error:
            problem = str(error)
            if "busy" not in problem or deadline.expired():
                return [could_not_test("network", f"{problem} (peer {peer}:{port})", **parts)]
            system.sleep(1.0)
    parts["value"] = round(figures.bits_per_second)
    words = f"{figures.bits_per_second / 1e6:.0f} Mbit/s to {peer} over {interface or 'an unknown interface'}"
    words += f", link {link / 1e9:g} Gbit/s" if link else ", the link does not say its rate"
    if figures.retransmits is not None:
        words += f", {figures.retransmits} retransmits"
    good = figures.bits_per_second >= limit
    return [judged("network", good, detail=words if good else f"{words}: below {limit / 1e6:.0f} Mbit/s", **parts)]


# ---- clock ----


def check_clock(plan, system, arrived):
    """Synchronised to NTP where servers are set; and in any case near the controller's clock. `arrived`: this node's time when the plan was read."""
    results = []
    servers, controller = plan["time"].get("servers"), plan["time"].get("controller")
    if enabled(plan, "clock_sync"):
        parts = {
            "unit": "s",
            "limit": plan["limits"]["clock_offset_s"],
            "rule": "clock-sync/1",
            "source": "chronyc -c tracking",
        }
        if not servers:
            results.append(not_applicable("clock_sync", "no time servers are set for this site", **parts))
        elif system.container():
            results.append(not_applicable("clock_sync", f"{system.container()} has its host's clock", **parts))
        else:
            results.append(_chrony(plan, system, parts))
    if enabled(plan, "clock_offset"):
        parts = {
            "unit": "s",
            "limit": plan["limits"]["clock_controller_offset_s"],
            "rule": "clock-offset/1",
            "source": "controller",
        }
        if controller is None:
            results.append(could_not_test("clock_offset", "the plan does not say the controller's time", **parts))
        else:
            offset = round(arrived - float(controller), 3)
            if offset > parts["limit"]:
                # the plan's way to the node is in the difference: a connection that stalled looks like a clock that is ahead
                words = f"the plan arrived {offset:.1f} s after it was sent: the clock is ahead of the controller's, or the connection was slow"
                results.append(could_not_test("clock_offset", words, value=offset, **parts))
            else:
                behind = offset < -parts["limit"]
                words = f"the clock is {-offset:.1f} s behind the controller's" if behind else None
                results.append(judged("clock_offset", not behind, value=offset, detail=words, **parts))
    return results


def _chrony(plan, system, parts):
    # chrony needs a few exchanges after a boot: wait for them, but not for ever
    deadline = Deadline(float(plan["time"].get("wait_s", 30)), "time synchronisation")
    while True:
        ran = system.run(["chronyc", "-c", "tracking"], 15)
        if ran.rc is None:
            return could_not_test("clock_sync", ran.problem, **parts)
        try:
            clock = host.read_chrony_tracking(ran.out) if ran.rc == 0 else None
        except Unreadable as error:
            return could_not_test("clock_sync", str(error), **parts)
        if clock and clock.synchronised:
            good = abs(clock.offset_s) <= parts["limit"]
            words = f"stratum {clock.stratum}, source {clock.source}"
            return judged(
                "clock_sync",
                good,
                value=clock.offset_s,
                detail=words if good else f"{words}: {clock.offset_s:+.3f} s off",
                **parts,
            )
        if deadline.expired():
            seen = "no source was chosen" if clock else f"chronyc: {ran.brief()}"
            return failed("clock_sync", detail=f"not synchronised within {deadline.seconds:g} s: {seen}", **parts)
        system.sleep(2.0)


# ---- kernel log ----

_IN_WINDOW = ("io_error", "mce", "aer", "filesystem", "lockup")


def check_kernel(plan, system, text, since, seen):
    """Nothing in the kernel's log during the test that speaks against the hardware; no PCIe device that trained with fewer lanes than it has, since boot."""
    results = []
    wanted = [name for name in ("kernel_log", "pcie_links") if enabled(plan, name)]
    if text is None:
        for name in wanted:
            make = not_applicable if seen["container"] else could_not_test
            why = (
                f"{seen['container']} has no kernel log of its own" if seen["container"] else "/dev/kmsg cannot be read"
            )
            results.append(make(name, why, rule=f"{name.replace('_', '-')}/1", source="/dev/kmsg"))
        return results
    events = kernel_log.find_events(kernel_log.read_lines(text))
    if "kernel_log" in wanted:
        during = [
            event
            for event in events
            if event.seconds is not None
            and event.seconds >= since
            and event.kind in _IN_WINDOW
            and event.action in xid.HARDWARE
        ]
        if seen["virtual"]:
            # a virtual machine stalls when its host does; that says nothing about this server
            during = [event for event in during if event.kind != "lockup"]
        detail = "; ".join(f"{event.kind}: {event.text[:160]}" for event in during[:4]) or None
        results.append(
            judged(
                "kernel_log",
                not during,
                value=len(during),
                unit="lines",
                limit=0,
                rule="kernel-log/1",
                source="/dev/kmsg during the test",
                detail=detail,
            )
        )
    if "pcie_links" in wanted:
        narrow = {
            event.device: event.text
            for event in events
            if event.kind == "pcie_limited" and event.action in xid.HARDWARE
        }
        detail = "; ".join(text[:200] for _device, text in sorted(narrow.items())) or None
        results.append(
            judged(
                "pcie_links",
                not narrow,
                value=len(narrow),
                unit="devices",
                limit=0,
                rule="pcie-links/1",
                source="/dev/kmsg since boot",
                detail=detail,
            )
        )
    return results
