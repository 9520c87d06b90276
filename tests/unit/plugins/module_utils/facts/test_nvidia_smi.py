# Readers of nvidia-smi on small reports written by hand, and on the simulated tool.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.facts import nvidia_smi
from ansible_collections.aicluster.baremetal.plugins.module_utils.facts.values import Unreadable, number, reported, yes

XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>580.1</driver_version><cuda_version>13.0</cuda_version><attached_gpus>2</attached_gpus>
  <gpu id="00000000:1B:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name><serial>111</serial><persistence_mode>Enabled</persistence_mode>
    <mig_mode><current_mig>Disabled</current_mig></mig_mode>
    <platformInfo><module_id>3</module_id></platformInfo>
    <pci><pci_device_id>233010DE</pci_device_id><pci_gpu_link_info>
      <pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>1</current_link_gen></pcie_gen>
      <link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths></pci_gpu_link_info></pci>
    <clocks_event_reasons>
      <clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
      <clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown></clocks_event_reasons>
    <ecc_errors><volatile><sram_correctable>1</sram_correctable><sram_uncorrectable_parity>2</sram_uncorrectable_parity>
      <sram_uncorrectable_secded>3</sram_uncorrectable_secded><dram_correctable>4</dram_correctable><dram_uncorrectable>5</dram_uncorrectable></volatile>
      <aggregate><dram_uncorrectable>5</dram_uncorrectable><sram_threshold_exceeded>Yes</sram_threshold_exceeded></aggregate></ecc_errors>
    <remapped_rows><remapped_row_corr>0</remapped_row_corr><remapped_row_unc>1</remapped_row_unc><remapped_row_pending>Yes</remapped_row_pending>
      <remapped_row_failure>No</remapped_row_failure><row_remapper_histogram><row_remapper_histogram_max>2559 bank(s)</row_remapper_histogram_max>
      <row_remapper_histogram_none>1 bank(s)</row_remapper_histogram_none></row_remapper_histogram></remapped_rows>
    <temperature><gpu_temp>89 C</gpu_temp><gpu_temp_tlimit>-3 C</gpu_temp_tlimit></temperature>
    <fb_memory_usage><total>81559 MiB</total></fb_memory_usage>
  </gpu>
  <gpu id="00000000:43:00.0"><product_name>N/A</product_name><remapped_rows>N/A</remapped_rows>
    <ecc_errors><volatile><single_bit><total>7</total></single_bit><double_bit><total>8</total></double_bit></volatile></ecc_errors></gpu>
</nvidia_smi_log>
"""

QUERY = """
==============NVSMI LOG==============

Driver Version                            : 550.90
CUDA Version                              : 12.4

Attached GPUs                             : 1
GPU 00000000:61:00.0
    Product Name                          : NVIDIA H200
    Persistence Mode                      : Disabled
    Module ID                             : 4
    PCI
        Device Id                         : 0x233510DE
        GPU Link Info
            PCIe Generation
                Max                       : 5
            Link Width
                Max                       : 16x
                Current                   : 16x
    Clocks Event Reasons
        Idle                              : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Active
    ECC Errors
        Volatile
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 2
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Threshold Exceeded       : No
    Remapped Rows
        Uncorrectable Error               : 3
        Pending                           : No
        Remapping Failure Occurred        : Yes
        Bank Remap Availability Histogram
            None                          : 1 bank(s)
    Fabric
        State                             : Completed
        Status                            : Success
"""


def test_values():
    assert [number(text) for text in ("81559 MiB", "16x", "-8 C", "26.562 GB/s", "N/A", None)] == [
        81559,
        16,
        -8,
        26.562,
        None,
        None,
    ]
    assert [yes(text) for text in ("Enabled", "Not Active", "[N/A]", "Yes")] == [True, False, None, True]
    assert reported("Requested functionality has been deprecated") is None
    for reader in (number, yes):
        with pytest.raises(Unreadable):
            reader("Unknown Error")


def test_xml_fields():
    report = nvidia_smi.read_xml("some warning before it\n" + XML)
    assert (report.driver, report.attached, len(report.gpus), report.simulated) == ("580.1", 2, 2, False)
    gpu, bare = report.gpus
    assert gpu.volatile == nvidia_smi.Ecc(5, 10, 5, 5)
    assert gpu.aggregate == nvidia_smi.Ecc(None, 5, None, 5)
    assert (gpu.sram_threshold_exceeded, gpu.remap_pending, gpu.remap_failure, gpu.remap_banks) == (
        True,
        True,
        False,
        {"max": 2559, "none": 1},
    )
    assert (gpu.pcie_width_current, gpu.pcie_width_max, gpu.pcie_gen_max) == (8, 16, 5)
    assert gpu.slowdown_reasons == ("hw_thermal_slowdown",)
    assert gpu.label() == "GPU 0 (slot SXM3, 0000:1b:00.0, serial 111)"
    # not reported is not zero
    assert (bare.remapped_uncorrectable, bare.slowdown_reasons, bare.name) == (None, None, None)
    assert bare.volatile == nvidia_smi.Ecc(7, 8, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVIDIA-SMI has failed because it couldn't communicate",
        XML[: len(XML) // 2],
        "<?xml version='1.0'?><other/>",
    ],
)
def test_xml_that_is_none_is_refused(text):
    with pytest.raises(Unreadable):
        nvidia_smi.read_xml(text)


def test_query_text():
    report = nvidia_smi.read_query(QUERY)
    gpu = report.gpus[0]
    assert (report.driver, report.attached) == ("550.90", 1)
    assert (gpu.device_id, gpu.module_id, gpu.persistence) == ("233510DE", 4, False)
    assert gpu.slowdown_reasons == ("gpu_idle", "hw_slowdown", "hw_power_brake_slowdown")
    assert gpu.volatile.uncorrectable == 2 and gpu.volatile.correctable is None
    assert (gpu.remap_failure, gpu.remapped_uncorrectable, gpu.remap_banks) == (True, 3, {"none": 1})
    assert (gpu.fabric_state, gpu.fabric_status) == ("Completed", "Success")
    assert (gpu.pcie_gen_max, gpu.pcie_width_current) == (5, 16)
    for text in ("", "No devices were found", "==============NVSMI LOG==============\n"):
        with pytest.raises(Unreadable):
            nvidia_smi.read_query(text)


def test_csv():
    rows = nvidia_smi.read_csv("index, memory.total [MiB], serial\n0, 81559 MiB, [N/A]\n1, 81559 MiB, 22\n")
    assert rows == [
        {"index": "0", "memory.total": "81559 MiB", "serial": None},
        {"index": "1", "memory.total": "81559 MiB", "serial": "22"},
    ]
    with pytest.raises(Unreadable):
        nvidia_smi.read_csv("index, serial\n0\n")


def test_reasons_are_a_mask():
    assert nvidia_smi.reasons_from_mask("0x0000000000000048") == ("hw_slowdown", "hw_thermal_slowdown")
    assert nvidia_smi.reasons_from_mask("0x0") == ()
    assert nvidia_smi.reasons_from_mask("[N/A]") is None


def test_nvlink():
    text = "GPU 0: X (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\nGPU 1: X (UUID: GPU-2)\nNVML: all links are inactive\n"
    first, second = nvidia_smi.read_nvlink_status(text)
    assert first.speeds == {0: 26.562, 1: None} and first.active() == 1
    assert second.speeds == {} and second.active() == 0
    errors = nvidia_smi.read_nvlink_errors(
        "GPU 0: X (UUID: GPU-1)\n\t Link 0: Replay Errors: 0\n\t Link 0: CRC Errors: 12\n"
    )
    assert errors == {0: {0: {"replay": 0, "crc": 12}}}
    with pytest.raises(Unreadable):
        nvidia_smi.read_nvlink_status("No devices were found")


def test_topology():
    text = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV18\tPXB\t0-1\nGPU1\tNV17\t X \tSYS\t0-1\nNIC0\tPXB\tSYS\t X \n\nLegend:\n  X = Self\n"
    cells = nvidia_smi.read_topology(text)
    assert cells[("GPU1", "GPU0")] == "NV17" and cells[("GPU0", "NIC0")] == "PXB" and len(cells) == 9
    with pytest.raises(Unreadable):
        nvidia_smi.read_topology("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\n")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("PCI:0000:61:00", "0000:61:00.0"),
        ("0000:61:00.1", "0000:61:00.1"),
        ("", ""),
    ],
)
def test_short_bus_id(text, wanted):
    assert nvidia_smi.short_bus_id(text) == wanted
