# KVM or TCG: found out by booting a kernel, because /dev/kvm can exist, open and start a guest that then never gets anywhere (nested or partial
# virtualisation). What a probe found holds for one boot of the machine and one version of QEMU and is kept in a small file.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import selectors
import subprocess
import time

from ..core.errors import NotFound, Refused
from .state import write_file

QEMU = "qemu-system-x86_64"
KVM = {"accel": "kvm", "cpu": "host"}
# `-cpu max` hangs stock kernels without output under TCG; Nehalem boots and has what the images need.
TCG = {"accel": "tcg,thread=multi", "cpu": "Nehalem"}
# A kernel without a root file system ends here; its first lines alone prove too little (broken KVMs print those too).
PROOF = (b"Unable to mount root fs", b"Kernel panic - not syncing")


def qemu_version():
    try:
        done = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=True, timeout=20)
    except FileNotFoundError:
        raise NotFound("QEMU is not installed", thing=QEMU, next_step="install qemu-system-x86") from None
    return done.stdout.splitlines()[0].strip()


def first_kernel(paths):
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)), None)


def probe(kernel, seconds=20, accel="kvm", cpu="host"):
    """(True or False, what was seen). Boots `kernel` and reads its serial console until it got to the end of its start, or the time is over."""
    argv = [
        QEMU,
        "-accel",
        accel,
        "-cpu",
        cpu,
        "-M",
        "q35",
        "-m",
        "256",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-vga",
        "none",
        "-no-reboot",
        "-serial",
        "stdio",
        "-kernel",
        kernel,
        "-append",
        "console=ttyS0 panic=-1",
    ]
    guest = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    seen, end = b"", time.monotonic() + seconds
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(guest.stdout, selectors.EVENT_READ)
            while time.monotonic() < end:
                if not selector.select(timeout=max(0.05, end - time.monotonic())):
                    continue
                part = os.read(guest.stdout.fileno(), 65536)
                if not part:
                    last = seen.decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
                    return False, f"QEMU ended before a kernel started; last line: {last[0][:200]}"
                seen += part
                if any(mark in seen for mark in PROOF):
                    return True, f"a kernel started in {seconds - (end - time.monotonic()):.1f} s"
    finally:
        guest.kill()
        guest.wait()
        guest.stdout.close()
    last = seen.decode(errors="replace").strip().splitlines()[-1:]
    return False, f"no started kernel within {seconds} s; last line on the console: {last[0][:200] if last else 'none'}"


def _boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
        return handle.read().strip()


def decide(wanted="auto", kernels=(), cache=None, seconds=20, keep=True):
    """{accel, cpu, reason, probed, summary}. `wanted` kvm raises Refused where the probe fails; without any kernel to boot the answer is TCG."""
    version = qemu_version()
    if wanted == "tcg":
        return {**TCG, "reason": "asked for", "probed": False, "summary": "emulation (TCG), as asked for"}
    if not os.path.exists("/dev/kvm"):
        works, reason, probed = False, "/dev/kvm does not exist", False
    else:
        key = {"boot_id": _boot_id(), "qemu": version}
        known = {}
        if cache and os.path.exists(cache):
            try:
                with open(cache, encoding="utf-8") as handle:
                    known = json.load(handle)
            except ValueError:
                known = {}
        kernel = first_kernel(kernels)
        if all(known.get(k) == v for k, v in key.items()) and "works" in known:
            works, reason, probed = known["works"], known["reason"] + " (probed earlier)", False
        elif kernel is None:
            works, reason, probed = (
                False,
                "no kernel to probe KVM with yet: " + (", ".join(kernels) or "none named"),
                False,
            )
        else:
            (works, reason), probed = probe(kernel, seconds), True
            if cache and keep:
                os.makedirs(os.path.dirname(cache), exist_ok=True)
                write_file(cache, json.dumps({**key, "works": works, "reason": reason}) + "\n", 0o644)
    if wanted == "kvm" and not works:
        raise Refused(
            "KVM was asked for and does not work here",
            thing="/dev/kvm",
            wanted="a kernel that starts",
            seen=reason,
            next_step="set virtual_lab_accel to auto",
        )
    summary = "KVM" if works else f"KVM does not work here ({reason.partition(';')[0]}): emulation (TCG)"
    return {**(KVM if works else TCG), "reason": reason, "probed": probed, "summary": summary}
