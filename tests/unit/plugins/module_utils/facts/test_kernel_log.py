# Reader of kernel log lines: all forms, and what counts against the hardware.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.facts import kernel_log, xid


def events(text):
    return kernel_log.find_events(kernel_log.read_lines(text))


@pytest.mark.parametrize(
    ("prefix", "seconds"),
    [
        ("[   12.500000] ", 12.5),
        ("<4>[   12.500000] ", 12.5),
        ("4,77,12500000,-;", 12.5),
        ("[Fri Oct 14 14:56:49 2022] ", None),
        ("kern  :warn  : 2025-01-21T04:41:44,283302+00:00 ", None),
        ("kern  :warn  : [   12.500000] ", 12.5),
        ("", None),
    ],
)
def test_every_form_of_a_line(prefix, seconds):
    (event,) = events(prefix + "NVRM: Xid (PCI:0000:61:00): 48, pid=1, name=x, DBE\n")
    assert (event.kind, event.code, event.device, event.action, event.seconds) == (
        "xid",
        48,
        "0000:61:00.0",
        xid.RESET,
        seconds,
    )


@pytest.mark.parametrize(
    ("line", "kind", "action"),
    [
        ("NVRM: Xid (0000:61:00): 31, pid=1, MMU Fault", "xid", xid.APPLICATION),
        ("NVRM: Xid (PCI:0000:61:00): 79, pid=1, GPU has fallen off the bus.", "xid", xid.REBOOT),
        ("NVRM: Xid (PCI:0000:61:00): 63, pid=1, Row Remapper", "xid", xid.IGNORE),
        ("NVRM: Xid (PCI:0000:61:00): 999, pid=1, new", "xid", xid.CHECK),
        ("NVRM: Xid (PCI:0000:04:00): 145, RLW_REMAP Nonfatal XC0", "xid", xid.IGNORE),
        ("NVRM: Xid (PCI:0000:04:00): 145, RLW_REMAP Fatal XC0", "xid", xid.RESET),
        (
            "NVRM: Xid (PCI:0000:04:00): 154, GPU recovery action changed to 0x2 (Node Reboot Required)",
            "xid",
            xid.REBOOT,
        ),
        ("NVRM: GPU 0000:61:00.0: GPU has fallen off the bus.", "gpu_lost", xid.REBOOT),
        ("nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 61 egress", "sxid", xid.IGNORE),
        ("nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "sxid", xid.RESET),
        ("blk_update_request: I/O error, dev nvme2n1, sector 1 op 0x1:(WRITE)", "io_error", xid.CHECK),
        ("mce: [Hardware Error]: Machine check events logged", "mce", xid.CHECK),
        ("XFS (md127): log I/O error -5", "filesystem", xid.CHECK),
        ("Out of memory: Killed process 123 (x)", "oom", xid.APPLICATION),
        ("watchdog: BUG: soft lockup - CPU#1 stuck for 22s!", "lockup", xid.CHECK),
    ],
)
def test_kinds(line, kind, action):
    (event,) = events(line)
    assert (event.kind, event.action) == (kind, action)


def limited(driver, rate, lanes, able_rate, able_lanes):
    return (
        f"{driver} 0000:9c:00.0: 252.056 Gb/s available PCIe bandwidth, limited by {rate} GT/s PCIe x{lanes} link at 0000:97:01.0 "
        f"(capable of 504.112 Gb/s with {able_rate} GT/s PCIe x{able_lanes} link)"
    )


def test_pcie_width_by_driver():
    assert events(limited("mlx5_core", "32.0", 8, "32.0", 16))[0].action == xid.CHECK
    assert events(limited("pci", "32.0", 8, "32.0", 16))[0].action == xid.CHECK
    # same width, lower rate: a platform's design; a narrow root port: design too
    assert events(limited("nvidia", "16.0", 16, "32.0", 16))[0].action == xid.IGNORE
    assert events(limited("pci", "5.0", 1, "5.0", 2))[0].action == xid.IGNORE


def test_data_lines_of_a_switch_error_count_once():
    text = "nvidia-nvswitch0: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30\nnvidia-nvswitch0: SXid (PCI:0000:85:00.0): 20034, Data {0x1, 0x2}\n"
    assert len(events(text)) == 1


def test_comments_and_continuations_are_left_out():
    assert kernel_log.read_lines("# simulated\n4,1,5,-;a\n SUBSYSTEM=pci\n") == (kernel_log.Line(5e-06, "a"),)


def test_catalogue_is_complete_in_its_own_words():
    for code, (action, words, source) in xid.CATALOGUE.items():
        assert action in (xid.IGNORE, xid.APPLICATION, *xid.HARDWARE), code
        assert words and source in ("N", "A"), code
    assert xid.action(154, "what is this")[0] == xid.CHECK
