# Renders the answers of the simulated GPU tools from one profile and at most one seeded fault; called by the nvidia-smi, dcgmi and setup scripts.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Variables (-v): mode, fault, chassis (serial), serials (of the GPUs, comma separated), seed (number), ncpu, now, uptime, only (GPU index, bus id or empty), sections (-d list),
# fields (--query-gpu list), noheader, nounits, level (dcgmi -r). Input: the profile. POSIX awk: mawk, gawk and busybox run it alike.

function die(text, code) { print text; failed = 1; exit code }

# One tree for -q and -q -x: o opens a section, f writes a leaf, c closes. An empty text or tag leaves that form out.
function o(text, tag,   i) {
    if (xml) { if (tag != "") { printf "%s<%s>\n", substr(TABS, 1, depth), tag; depth++ } }
    else if (text != "") { if (shown()) printf "%s%s\n", substr(SPACES, 1, 4 * depth), text; depth++ }
    stack[++top] = tag; stackt[top] = text
}
function c() {
    if (xml) { if (stack[top] != "") { depth--; sub(/ .*/, "", stack[top]); printf "%s</%s>\n", substr(TABS, 1, depth), stack[top] } }
    else if (stackt[top] != "") depth--
    top--
}
function f(text, tag, value) {
    if (xml) { if (tag != "") printf "%s<%s>%s</%s>\n", substr(TABS, 1, depth), tag, value, tag }
    else if (text != "" && shown()) printf "%-42s: %s\n", substr(SPACES, 1, 4 * depth) text, value
}
function section(name) { current = name }
function shown() { return sections == "" || current == "HEAD" || index("," sections ",", "," current ",") > 0 }

function serial(g) { return (g + 1) in given ? given[g + 1] : "SIM-" chassis "-G" g }
function uuid(g) { return sprintf("GPU-51a0de00-%04x-%04x-8000-%012x", int(seed / 65536) % 65536, seed % 65536, g) }
function bus(g) { return "00000000:" gpu[g] }
function short_bus(g,   b) { b = tolower(gpu[g]); sub(/\.0$/, "", b); return "0000:" b }
function hit(g, name) { return g == bad && kind == name }
function temperature(g) { return hit(g, "thermal_slowdown") ? 89 : 30 + (g * 3) % 5 }
function margin(g) { return hit(g, "thermal_slowdown") ? -3 : 87 - temperature(g) - 1 }
function width(g) { return hit(g, "pcie_width") ? int(p["pcie_width"] / 2) : p["pcie_width"] }
function dbe(g) { return hit(g, "ecc_dbe") ? 1 : 0 }
function pstate(g) { return "P0" }
function sm(g) { return hit(g, "thermal_slowdown") ? int(p["clock_sm"] / 4) : p["clock_sm"] }
function power(g) { return sprintf("%.2f", p["idle_power"] + (g * 7) % 5 + 0.31) }
function action(g) { return hit(g, "ecc_dbe") ? "Reset" : (hit(g, "row_remap_failed") ? "Reset" : "None") }
# bits of clocks_event_reasons.active: idle 0x1, HW slowdown 0x8, HW thermal slowdown 0x40
function reasons(g) { return hit(g, "thermal_slowdown") ? "0x0000000000000048" : "0x0000000000000001" }
function active(yes) { return yes ? "Active" : "Not Active" }

function one_gpu(g, n,   thermal, i) {
    thermal = hit(g, "thermal_slowdown")
    if (xml) o("", "gpu id=\"" bus(g) "\""); else { section("HEAD"); o("GPU " bus(g), "") }
    section("ABOUT")
    f("Product Name", "product_name", p["name"]); f("Product Brand", "product_brand", p["brand"])
    f("Product Architecture", "product_architecture", p["architecture"])
    f("Persistence Mode", "persistence_mode", "Enabled"); f("Addressing Mode", "addressing_mode", "None")
    o("MIG Mode", "mig_mode"); f("Current", "current_mig", "Disabled"); f("Pending", "pending_mig", "Disabled"); c()
    f("Serial Number", "serial", serial(g)); f("GPU UUID", "uuid", uuid(g)); f("Minor Number", "minor_number", n)
    f("VBIOS Version", "vbios_version", p["vbios"]); f("Board Part Number", "board_part_number", p["board_part_number"])
    f("GPU Part Number", "gpu_part_number", p["part_number"])
    o("Platform Info", "platformInfo")
    f("Chassis Serial Number", "chassis_serial_number", chassis); f("Slot Number", "slot_number", "N/A"); f("Module Id", "module_id", module[g]); c()
    f("GPU Recovery Action", "gpu_recovery_action", action(g)); f("GSP Firmware Version", "gsp_firmware_version", p["driver"])
    o("PCI", "pci"); f("Device Id", "", "0x" p["device_id"]); f("", "pci_device_id", p["device_id"]); f("Bus Id", "pci_bus_id", bus(g))
    f("Sub System Id", "", "0x" p["subsystem_id"]); f("", "pci_sub_system_id", p["subsystem_id"])
    o("GPU Link Info", "pci_gpu_link_info")
    o("PCIe Generation", "pcie_gen"); f("Max", "max_link_gen", p["pcie_gen"]); f("Current", "current_link_gen", p["pcie_gen"])
    f("Device Current", "device_current_link_gen", p["pcie_gen"]); f("Device Max", "max_device_link_gen", p["pcie_gen"]); f("Host Max", "max_host_link_gen", p["pcie_gen"]); c()
    o("Link Width", "link_widths"); f("Max", "max_link_width", p["pcie_width"] "x"); f("Current", "current_link_width", width(g) "x"); c(); c()
    f("Replays Since Reset", "replay_counter", hit(g, "pcie_width") ? 412 : 0); f("Replay Number Rollovers", "replay_rollover_counter", 0); c()
    f("Fan Speed", "fan_speed", "N/A")
    section("PERFORMANCE")
    f("Performance State", "performance_state", pstate(g))
    o("Clocks Event Reasons", "clocks_event_reasons")
    f("Idle", "clocks_event_reason_gpu_idle", active(!thermal)); f("Applications Clocks Setting", "clocks_event_reason_applications_clocks_setting", active(0))
    f("SW Power Cap", "clocks_event_reason_sw_power_cap", active(0)); f("HW Slowdown", "clocks_event_reason_hw_slowdown", active(thermal))
    f("    HW Thermal Slowdown", "clocks_event_reason_hw_thermal_slowdown", active(thermal)); f("    HW Power Brake Slowdown", "clocks_event_reason_hw_power_brake_slowdown", active(0))
    f("Sync Boost", "clocks_event_reason_sync_boost", active(0)); f("SW Thermal Slowdown", "clocks_event_reason_sw_thermal_slowdown", active(0))
    f("Display Clock Setting", "clocks_event_reason_display_clocks_setting", active(0)); c()
    o("Clocks Event Reasons Counters", "clocks_event_reasons_counters")
    f("SW Power Capping", "clocks_event_reasons_counters_sw_power_cap", "0 us"); f("SW Thermal Slowdown", "clocks_event_reasons_counters_sw_therm_slowdown", "0 us")
    f("HW Thermal Slowdown", "clocks_event_reasons_counters_hw_therm_slowdown", (thermal ? 48213377 : 0) " us")
    f("HW Power Braking", "clocks_event_reasons_counters_hw_power_brake", "0 us"); c()
    section("MEMORY")
    o("FB Memory Usage", "fb_memory_usage"); f("Total", "total", p["memory_mib"] " MiB"); f("Reserved", "reserved", "551 MiB"); f("Used", "used", "0 MiB")
    f("Free", "free", (p["memory_mib"] - 551) " MiB"); c()
    o("BAR1 Memory Usage", "bar1_memory_usage"); f("Total", "total", p["bar1_mib"] " MiB"); f("Used", "used", "1 MiB"); f("Free", "free", (p["bar1_mib"] - 1) " MiB"); c()
    section("ABOUT"); f("Compute Mode", "compute_mode", "Default")
    section("UTILIZATION")
    o("Utilization", "utilization"); f("GPU", "gpu_util", "0 %"); f("Memory", "memory_util", "0 %"); c()
    section("ECC")
    o("ECC Mode", "ecc_mode"); f("Current", "current_ecc", "Enabled"); f("Pending", "pending_ecc", "Enabled"); c()
    o("ECC Errors", "ecc_errors")
    for (i = 1; i <= 2; i++) {
        if (i == 1) o("Volatile", "volatile"); else o("Aggregate", "aggregate")
        f("SRAM Correctable", "sram_correctable", 0); f("SRAM Uncorrectable Parity", "sram_uncorrectable_parity", 0)
        f("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded", 0); f("DRAM Correctable", "dram_correctable", 0)
        f("DRAM Uncorrectable", "dram_uncorrectable", dbe(g)); if (i == 2) f("SRAM Threshold Exceeded", "sram_threshold_exceeded", "No"); c()
    }
    c()
    section("PAGE_RETIREMENT")
    o("Retired Pages", "retired_pages")
    f("Single Bit ECC", "", "N/A"); f("Double Bit ECC", "", "N/A"); f("Pending Page Blacklist", "", "N/A")
    if (xml) { o("", "multiple_single_bit_retirement"); f("", "retired_count", "N/A"); c(); o("", "double_bit_retirement"); f("", "retired_count", "N/A"); c()
        f("", "pending_blacklist", "N/A"); f("", "pending_retirement", "N/A") }
    c()
    section("ROW_REMAPPER")
    o("Remapped Rows", "remapped_rows"); f("Correctable Error", "remapped_row_corr", 0)
    f("Uncorrectable Error", "remapped_row_unc", dbe(g) + (hit(g, "row_remap_failed") ? 8 : 0))
    f("Pending", "remapped_row_pending", dbe(g) ? "Yes" : "No"); f("Remapping Failure Occurred", "remapped_row_failure", hit(g, "row_remap_failed") ? "Yes" : "No")
    o("Bank Remap Availability Histogram", "row_remapper_histogram")
    i = dbe(g) || hit(g, "row_remap_failed")
    f("Max", "row_remapper_histogram_max", (p["banks"] - i) " bank(s)"); f("High", "row_remapper_histogram_high", dbe(g) " bank(s)")
    f("Partial", "row_remapper_histogram_partial", "0 bank(s)"); f("Low", "row_remapper_histogram_low", "0 bank(s)")
    f("None", "row_remapper_histogram_none", (hit(g, "row_remap_failed") ? 1 : 0) " bank(s)"); c(); c()
    section("TEMPERATURE")
    o("Temperature", "temperature"); f("GPU Current Temp", "gpu_temp", temperature(g) " C"); f("GPU T.Limit Temp", "gpu_temp_tlimit", margin(g) " C")
    f("GPU Shutdown T.Limit Temp", "gpu_temp_max_tlimit_threshold", p["shutdown_margin"] " C"); f("GPU Slowdown T.Limit Temp", "gpu_temp_slow_tlimit_threshold", p["slowdown_margin"] " C")
    f("GPU Max Operating T.Limit Temp", "gpu_temp_max_gpu_tlimit_threshold", "0 C"); f("Memory Current Temp", "memory_temp", (temperature(g) + 6) " C"); c()
    section("POWER")
    o("GPU Power Readings", "gpu_power_readings"); f("Average Power Draw", "average_power_draw", power(g) " W"); f("Instantaneous Power Draw", "instant_power_draw", power(g) " W")
    f("Current Power Limit", "current_power_limit", p["power_limit"] ".00 W"); f("Default Power Limit", "default_power_limit", p["power_limit"] ".00 W"); c()
    section("CLOCK")
    o("Clocks", "clocks"); f("Graphics", "graphics_clock", sm(g) " MHz"); f("SM", "sm_clock", sm(g) " MHz"); f("Memory", "mem_clock", p["clock_mem"] " MHz"); c()
    o("Max Clocks", "max_clocks"); f("Graphics", "graphics_clock", p["clock_sm"] " MHz"); f("SM", "sm_clock", p["clock_sm"] " MHz"); f("Memory", "mem_clock", p["clock_mem"] " MHz"); c()
    section("ABOUT")
    o("Fabric", "fabric"); f("State", "state", p["fabric"] ? "Completed" : "N/A"); f("Status", "status", p["fabric"] ? "Success" : "N/A")
    f("CliqueId", "cliqueId", p["fabric"] ? 0 : "N/A"); f("ClusterUUID", "clusterUuid", p["fabric"] ? "00000000-0000-0000-0000-000000000000" : "N/A"); c()
    if (xml) f("", "processes", ""); else f("Processes", "", "None")
    c()
    if (!xml) print ""
}

function query(   i) {
    if (xml) {
        print "<?xml version=\"1.0\" ?>"; print "<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">"
        print "<!-- simulated: aicluster.baremetal lab instruments, no GPU was asked -->"
        o("", "nvidia_smi_log")
    } else { print "\n==============NVSMI LOG==============\n"; section("HEAD") }
    f("Timestamp", "timestamp", now); if (!xml) f("Simulated", "", "aicluster.baremetal lab instruments, no GPU was asked")
    f("Driver Version", "driver_version", p["driver"]); f("CUDA Version", "cuda_version", p["cuda"])
    if (!xml) print ""
    f("Attached GPUs", "attached_gpus", count)
    for (i = 0; i < count; i++) if (chosen(i)) one_gpu(order[i], i)
    if (xml) c()
}
function chosen(i) { return only == "" || only == i || toupper(only) == bus(order[i]) || only == uuid(order[i]) }

function value(g, n, name) {
    if (name == "index") return n
    if (name == "name" || name == "gpu_name") return p["name"]
    if (name == "serial" || name == "gpu_serial") return serial(g)
    if (name == "uuid" || name == "gpu_uuid") return uuid(g)
    if (name == "count") return count
    if (name == "driver_version") return p["driver"]
    if (name == "vbios_version") return p["vbios"]
    if (name == "pci.bus_id" || name == "gpu_bus_id") return bus(g)
    if (name == "pci.device_id") return "0x" p["device_id"]
    if (name == "pcie.link.gen.current" || name == "pcie.link.gen.max" || name == "pcie.link.gen.gpucurrent" || name == "pcie.link.gen.gpumax" || name == "pcie.link.gen.hostmax") return p["pcie_gen"]
    if (name == "pcie.link.width.current") return width(g)
    if (name == "pcie.link.width.max") return p["pcie_width"]
    if (name == "persistence_mode") return "Enabled"
    if (name == "mig.mode.current") return "Disabled"
    if (name == "ecc.mode.current") return "Enabled"
    if (name == "pstate") return pstate(g)
    if (name == "memory.total") return p["memory_mib"] " MiB"
    if (name == "memory.used") return "0 MiB"
    if (name == "memory.free") return (p["memory_mib"] - 551) " MiB"
    if (name == "utilization.gpu") return "0 %"
    if (name == "temperature.gpu") return temperature(g)
    if (name == "temperature.gpu.tlimit") return margin(g)
    if (name == "power.draw" || name == "power.draw.instant") return power(g) " W"
    if (name == "power.limit") return p["power_limit"] ".00 W"
    if (name == "clocks.sm" || name == "clocks.current.sm") return sm(g) " MHz"
    if (name == "clocks.max.sm") return p["clock_sm"] " MHz"
    if (name == "clocks_event_reasons.active" || name == "clocks_throttle_reasons.active") return reasons(g)
    if (name == "ecc.errors.uncorrected.volatile.total" || name == "ecc.errors.uncorrected.volatile.dram" || name == "ecc.errors.uncorrected.aggregate.total" || name == "ecc.errors.uncorrected.aggregate.dram") return dbe(g)
    if (name ~ /^ecc\.errors\.(corrected|uncorrected)\.(volatile|aggregate)\./) return 0
    if (name == "remapped_rows.pending" || name == "gpu_recovery_action") return name == "gpu_recovery_action" ? action(g) : (dbe(g) ? "Yes" : "No")
    if (name == "fabric.state") return p["fabric"] ? "Completed" : "N/A"
    if (name == "fabric.status") return p["fabric"] ? "Success" : "N/A"
    if (name == "compute_mode") return "Default"
    return ""
}
function csv(   n, i, j, want, v, line, unit) {
    n = split(fields, want, /, */)
    for (j = 1; j <= n; j++) if (value(order[0], 0, want[j]) == "") die("Field \"" want[j] "\" is not a valid field to query.\n", 2)
    if (!noheader) {
        line = ""
        for (j = 1; j <= n; j++) {
            v = value(order[0], 0, want[j]); unit = ""
            if (want[j] ~ /^(memory|utilization|power|clocks)[._]/ && v ~ / /) { unit = v; sub(/^[^ ]* /, "", unit); unit = " [" unit "]" }
            line = line (j > 1 ? ", " : "") want[j] unit
        }
        print line
    }
    for (i = 0; i < count; i++) if (chosen(i)) {
        line = ""
        for (j = 1; j <= n; j++) {
            v = value(order[i], i, want[j])
            if (nounits && want[j] ~ /^(memory|utilization|power|clocks)[._]/) sub(/ .*/, "", v)
            line = line (j > 1 ? ", " : "") v
        }
        print line
    }
}
function down_link(g, l) { return hit(g, "nvlink_down") && l == 3 }
function nvlink(errors,   i, l, g) {
    for (i = 0; i < count; i++) if (chosen(i)) {
        g = order[i]
        printf "GPU %d: %s (UUID: %s)\n", i, p["name"], uuid(g)
        for (l = 0; l < p["links"]; l++) {
            if (errors) printf "\t Link %d: Replay Errors: 0\n\t Link %d: Recovery Errors: %d\n\t Link %d: CRC Errors: %d\n\n", l, l, down_link(g, l) ? 7 : 0, l, down_link(g, l) ? 3215 : 0
            else if (down_link(g, l)) printf "\t Link %d: <inactive>\n", l
            else printf "\t Link %d: %s GB/s\n", l, p["link_speed"]
        }
    }
}
function topo(   i, j, line, name) {
    line = "\t"
    for (i = 0; i < count; i++) line = line "GPU" i "\t"
    print line "CPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    for (i = 0; i < count; i++) {
        line = "GPU" i "\t"
        for (j = 0; j < count; j++) {
            name = p["link_name"]
            if (hit(order[i], "nvlink_down") || hit(order[j], "nvlink_down")) name = "NV" (substr(name, 3) - 1)
            line = line (i == j ? " X " : name) "\t"
        }
        print line "0-" (ncpu - 1) "\t0\t\tN/A"
    }
    print "\nLegend:\n"
    print "  X    = Self"; print "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes"
    print "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node"
    print "  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)"
    print "  PXB  = Connection traversing multiple PCIe bridges"; print "  PIX  = Connection traversing at most a single PCIe bridge"
    print "  NV#  = Connection traversing a bonded set of # NVLinks"
}
function table(   i, g) {
    print now; print "Simulated by aicluster.baremetal lab instruments: no GPU was asked."
    print "+-----------------------------------------------------------------------------------------+"
    printf "| NVIDIA-SMI %-21s  Driver Version: %-16s CUDA Version: %-6s |\n", p["driver"], p["driver"], p["cuda"]
    print "|-----------------------------------------+------------------------+----------------------+"
    print "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |"
    print "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |"
    print "|=========================================+========================+======================|"
    for (i = 0; i < count; i++) if (chosen(i)) {
        g = order[i]
        printf "| %3d  %-28.28s   On  |   %16s Off |              %7d |\n", i, p["name"], bus(g), dbe(g)
        printf "| N/A  %3dC    %-3s          %4dW / %4dW |  %8dMiB /%7dMiB |      0%%      Default |\n", temperature(g), pstate(g), power(g), p["power_limit"], 0, p["memory_mib"]
        print "+-----------------------------------------+------------------------+----------------------+"
    }
    print "\n+-----------------------------------------------------------------------------------------+"
    print "| Processes:                                                                              |"
    print "|  No running processes found                                                             |"
    print "+-----------------------------------------------------------------------------------------+"
}
function log_line(g, text) { printf "[%12.6f] NVRM: %s\n", uptime + 0.000211 * ++lines, text }
function xid(g, code, text) { log_line(g, "Xid (PCI:" short_bus(g) "): " code ", pid='<unknown>', name=<unknown>, " text) }
function kernel_log() {
    print "# simulated: written by aicluster.baremetal lab instruments, not by a kernel"
    if (kind == "ecc_dbe") {
        xid(bad, 48, "DBE (double bit error) in the framebuffer, partition 9, subpartition 1")
        xid(bad, 63, "Row Remapper: new row (0x00000000bada5500) marked for remapping, reset the GPU to activate it")
        xid(bad, 94, "Contained: CE User Channel (0x9). RST: No, D-RST: No")
    } else if (kind == "fell_off") {
        log_line(bad, "GPU at PCI:" short_bus(bad) ": " uuid(bad))
        log_line(bad, "GPU Board Serial Number: " serial(bad))
        xid(bad, 79, "GPU has fallen off the bus.")
        log_line(bad, "GPU " short_bus(bad) ".0: GPU has fallen off the bus.")
    } else if (kind == "nvlink_down") xid(bad, 74, "NVLink: fatal error detected on link 3(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)")
    else if (kind == "row_remap_failed") xid(bad, 64, "Row Remapper Error: (0x00000000bada5500) - All reserved rows for bank are remapped")
    else if (kind == "pcie_width") {
        # Gb/s per lane after 128b/130b coding
        rate = p["pcie_gen"] >= 5 ? 32 : 16; lane = rate * 128 / 130
        printf "[%12.6f] pci %s.0: %.3f Gb/s available PCIe bandwidth, limited by %.1f GT/s PCIe x%d link at 0000:00:01.0 (capable of %.3f Gb/s with %.1f GT/s PCIe x%d link)\n", uptime, short_bus(bad), lane * width(bad), rate, width(bad), lane * p["pcie_width"], rate, p["pcie_width"]
    }
}

function test_json(first, name, wrong, id, category, severity, text,   i, g, status) {
    printf "%s{\"name\": \"%s\", \"results\": [", first ? "" : ", ", name
    status = "Pass"
    for (i = 0; i < count; i++) {
        g = order[i]
        printf "%s{\"entity_group\": \"GPU\", \"entity_group_id\": 1, \"entity_id\": %d, \"status\": \"%s\"", i ? ", " : "", i, g == wrong ? "Fail" : "Pass"
        if (g == wrong) { status = "Fail"; printf ", \"warnings\": [{\"error_category\": %d, \"error_id\": %d, \"error_severity\": %d, \"warning\": \"GPU %d: %s\"}]", category, id, severity, i, text }
        printf "}"
    }
    printf "], \"test_summary\": {\"status\": \"%s\"}}", status
    if (status == "Fail") failures++
}
function dcgm_diag(as_json,   i, soft, mem, pcie) {
    soft = (kind == "row_remap_failed" || kind == "ecc_dbe") ? bad : -1
    mem = kind == "ecc_dbe" ? bad : -1
    pcie = (kind == "pcie_width" || kind == "nvlink_down") ? bad : -1
    if (as_json) {
        printf "{\"DCGM Diagnostic\": {\"test_categories\": [{\"category\": \"Deployment\", \"tests\": ["
        test_json(1, "software", soft, kind == "ecc_dbe" ? 77 : 78, 2, 6, kind == "ecc_dbe" ? "row remap pending" : "row remap failure")
        printf "]}"
        if (level >= 2) {
            printf ", {\"category\": \"Hardware\", \"tests\": ["
            test_json(1, "memory", mem, 4, 2, 2, "1 double-bit ECC error in the framebuffer")
            printf "]}, {\"category\": \"Integration\", \"tests\": ["
            test_json(1, "pcie", pcie, kind == "nvlink_down" ? 34 : 21, 3, kind == "nvlink_down" ? 4 : 5, kind == "nvlink_down" ? "NVLink 3 is down" : "PCIe link width " width(bad) " is below " p["pcie_width"])
            printf "]}"
        }
        printf "]}, \"entity_groups\": [{\"entity_group\": \"GPU\", \"entity_group_id\": 1, \"entities\": ["
        for (i = 0; i < count; i++) printf "%s{\"device_id\": \"%s\", \"entity_id\": %d, \"serial_num\": \"%s\"}", i ? ", " : "", tolower(substr(p["device_id"], 1, 4)), i, serial(order[i])
        printf "]}], \"metadata\": {\"version\": \"4.2.3\", \"Driver Version Detected\": \"%s\", \"simulated\": \"aicluster.baremetal lab instruments\"}}\n", p["driver"]
    } else {
        print "Successfully ran diagnostic for group."; print "Simulated by aicluster.baremetal lab instruments: no GPU was asked."
        printf "| software                  | %s\n", (soft >= 0 ? "Fail" : "Pass")
        if (level >= 2) { printf "| memory                    | %s\n", (mem >= 0 ? "Fail" : "Pass"); printf "| pcie                      | %s\n", (pcie >= 0 ? "Fail" : "Pass") }
        failures = (soft >= 0) + (level >= 2 && mem >= 0) + (level >= 2 && pcie >= 0)
    }
    if (failures) { failed = 1; exit 226 }
}
function dcgm_list(   i) {
    printf "%d GPUs found. (simulated: aicluster.baremetal lab instruments)\n", count
    for (i = 0; i < count; i++) printf "| %-6d | Name: %s | PCI Bus ID: %s | Device UUID: %s |\n", i, p["name"], bus(order[i]), uuid(order[i])
}

BEGIN { SPACES = sprintf("%80s", ""); TABS = "\t\t\t\t\t\t\t\t\t\t"; FS = "="; bad = -1; total = 0; count = 0 }
/^#/ || !/=/ { next }
$1 == "gpu" {
    split($0, part, " "); sub(/^gpu=/, "", part[1]); gpu[total] = part[1]; module[total] = substr(part[2], 8); total++; next
}
{ key = $1; sub(/^[^=]*=/, ""); p[key] = ($0 ~ /^[0-9.-]+$/ && key != "driver" && key != "cuda" && key != "vbios") ? $0 + 0 : $0 }
END {
    if (failed) exit
    if (match(fault, /^gpu[0-9]+_/)) { bad = substr(fault, 4, RLENGTH - 4) + 0; kind = substr(fault, RLENGTH + 1) }
    if (serials != "") split(serials, given, ",")
    if (bad >= total) { bad = -1; kind = "" }
    for (i = 0; i < total; i++) if (!(i == bad && kind == "fell_off")) order[count++] = i
    count += 0
    xml = (mode == "xml")
    if (mode == "xml" || mode == "text") query()
    else if (mode == "list") { for (i = 0; i < count; i++) if (chosen(i)) printf "GPU %d: %s (UUID: %s)\n", i, p["name"], uuid(order[i]) }
    else if (mode == "csv") csv()
    else if (mode == "nvlink") nvlink(0)
    else if (mode == "nvlink_errors") nvlink(1)
    else if (mode == "topo") topo()
    else if (mode == "table") table()
    else if (mode == "kernel_log") kernel_log()
    else if (mode == "count") print count
    else if (mode == "diag_json") dcgm_diag(1)
    else if (mode == "diag_text") dcgm_diag(0)
    else if (mode == "discovery") dcgm_list()
}
