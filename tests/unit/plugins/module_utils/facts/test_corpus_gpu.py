# Readers and GPU checks against recorded tool output and the verdicts argued for it; skipped where the recordings are not beside the checkout.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import csv
import os
import pathlib
import tarfile

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import outcome as outcomes
from ansible_collections.aicluster.baremetal.plugins.module_utils.facts import dcgm, kernel_log, nvidia_smi, stress, xid
from ansible_collections.aicluster.baremetal.plugins.module_utils.facts.values import Unreadable
from ansible_collections.aicluster.baremetal.plugins.module_utils.health import gpu, limits
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.gpu_models import model_of

ROOT = pathlib.Path(__file__).resolve().parents[5]
ARCHIVE = pathlib.Path(os.environ.get("AICLUSTER_CORPUS") or ROOT.parent / "shared" / "corpus") / "tool-output.tar.xz"
PASS, FAIL, UNTESTED = outcomes.PASS, outcomes.FAIL, outcomes.COULD_NOT_TEST


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    if not ARCHIVE.exists():
        pytest.skip(f"the recorded tool output is not here ({ARCHIVE}); AICLUSTER_CORPUS names its folder")
    directory = tmp_path_factory.mktemp("corpus")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(
            directory
        )
    return directory / "tool-output"


@pytest.fixture(scope="session")
def index(corpus):
    with open(corpus / "INDEX.tsv", encoding="utf-8", newline="") as stream:
        return {row["file"]: row for row in csv.DictReader(stream, delimiter="\t")}


def models(report):
    return {found.index: model_of(found.device_id)[1] for found in report.gpus}


def memory_verdict(report):
    values = limits.resolve()
    return outcomes.combine(
        [
            gpu.ecc(report, models(report), values, False)["outcome"],
            gpu.memory_repair(report, models(report), values, False)["outcome"],
        ]
    )


def log_verdict(text):
    """fail where a line asks for work on the node's hardware (any kind of event), else pass."""
    events = kernel_log.find_events(kernel_log.read_lines(text))
    return FAIL if any(event.action in xid.HARDWARE for event in events) else PASS


# What we say about a file, and, where it is not the index's first word, why. "untested" is never a pass.
VERDICTS = {
    "nvidia-smi-xml/a100_sxm4_mig_535.txt": (
        PASS,
        "memory only: index warns about persistence and MIG, which are other checks",
    ),
    "nvidia-smi-xml/t4_515.txt": (PASS, ""),
    "nvidia-smi-xml/rtx3080_595_schema13.txt": (
        UNTESTED,
        "no ECC on this part and no row in the model table: nothing was judged",
    ),
    "nvidia-smi-xml/rtx3090_v12.txt": (UNTESTED, "as above"),
    "nvidia-smi-xml/gtx1070ti_minimal.txt": (UNTESTED, "index: skip"),
    "nvidia-smi-q/h200_550_clean.txt": (PASS, ""),
    "nvidia-smi-q/a100_remap_pending_510.txt": (
        FAIL,
        "index: reset, then pass; before the reset the node must not be used",
    ),
    "nvidia-smi-q/gb200_clique_pdsh.txt": (UNTESTED, "lines of several nodes, not a report of one"),
    "nvidia-smi-q/gb200_recovery_action_reset.txt": (UNTESTED, "two lines without a GPU"),
    "nvidia-smi-q/retired_pages_pending.txt": (UNTESTED, "three lines without a GPU"),
    "nvidia-smi-query/azure_8gpu_ok.txt": (FAIL, "see test_page_retirement"),
    "nvidia-smi-query/azure_8gpu_bad.txt": (FAIL, ""),
    "dmesg/xid119_gsp_timeout_h100.txt": (FAIL, ""),
    "dmesg/peermem_invalid_context.txt": (PASS, "index: warn, noise after process death"),
    "dmesg/libnccl_segfault.txt": (PASS, "index: warn, an application"),
    "dmesg/kmsg_raw_boot.txt": (PASS, ""),
    "dmesg/iso_decode_oom_and_xid.txt": (
        PASS,
        "index: see lines; 13 and 43 are the application's, the rest is memory pressure",
    ),
    "dmesg/xid144_150_nvlink5.txt": (FAIL, "index: mixed; it holds fatal ones"),
    "dmesg/imbue_docstring_samples.txt": (FAIL, "index: 64 and the mlx5 link fail, the others do not"),
    "dmesg/gcm_xid31_48_ioerr.txt": (FAIL, "index: 48 and the I/O errors fail, 31 alone does not"),
    "dmesg/pcie_limited_gen4_switch.txt": (PASS, "index: warn, the platform's design"),
    "dmesg/mlx5_gen3_x8_limit.txt": (FAIL, ""),
}


def verdict(path, text):
    if path.startswith("dmesg/"):
        return log_verdict(text)
    try:
        report = nvidia_smi.read_xml(text) if "-xml/" in path else nvidia_smi.read_query(text)
    except Unreadable:
        return UNTESTED
    return memory_verdict(report)


@pytest.mark.parametrize("path", sorted(VERDICTS))
def test_verdicts(corpus, index, path):
    if path == "nvidia-smi-query/azure_8gpu_ok.txt":
        pytest.skip("judged page by page in test_page_retirement")
    wanted, reason = VERDICTS[path]
    assert verdict(path, (corpus / path).read_text(encoding="utf-8")) == wanted, reason
    said = index[path]["expected_verdict"].split()[0].rstrip(":")
    if not reason:
        assert said == wanted, f"the index says {said}: say why we differ"


def test_nothing_recorded_is_passed_by_mistake(corpus, index):
    """Every file of our tools that the index calls a failure or an error must not be a pass."""
    for path, row in index.items():
        if path.split("/")[0] in ("nvidia-smi-xml", "nvidia-smi-q", "nvidia-smi-query", "dmesg") and row[
            "expected_verdict"
        ].split()[0] in ("fail", "error", "fail:", "error:"):
            assert verdict(path, (corpus / path).read_text(encoding="utf-8")) != PASS, path


def test_page_retirement(corpus):
    good = nvidia_smi.read_query((corpus / "nvidia-smi-query/azure_8gpu_ok.txt").read_text(encoding="utf-8"))
    bad = nvidia_smi.read_query((corpus / "nvidia-smi-query/azure_8gpu_bad.txt").read_text(encoding="utf-8"))
    assert len(good.gpus) == len(bad.gpus) == 8
    assert gpu.memory_repair(good, models(good), limits.resolve(), False)["outcome"] == PASS
    found = gpu.memory_repair(bad, models(bad), limits.resolve(), False)
    assert found["outcome"] == FAIL
    assert "GPU 0 (" in found["detail"] and "65 memory pages" in found["detail"] and "GPU 1 (" in found["detail"]


def test_a_report_that_lists_fewer_than_attached(corpus):
    report = nvidia_smi.read_xml((corpus / "nvidia-smi-xml/a100_sxm4_mig_535.txt").read_text(encoding="utf-8"))
    assert gpu.count(report, len(report.gpus), False)["outcome"] == FAIL
    assert gpu.persistence(report, False)["outcome"] == FAIL


@pytest.mark.parametrize(
    ("name", "wanted"), [("a100_8gpu_status", PASS), ("azure_good", PASS), ("azure_bad_inactive", FAIL)]
)
def test_nvlink(corpus, name, wanted):
    links = nvidia_smi.read_nvlink_status((corpus / f"nvidia-smi-nvlink/{name}.txt").read_text(encoding="utf-8"))
    # the status has no PCI ids, so the GPUs of the report are stood in for
    base = nvidia_smi.read_xml((corpus / "nvidia-smi-xml/a100_sxm4_mig_535.txt").read_text(encoding="utf-8"))
    report = base._replace(gpus=tuple(base.gpus[0]._replace(index=found.index) for found in links))
    assert gpu.nvlink(report, models(report), links, False)["outcome"] == wanted


def test_topologies(corpus):
    for path in sorted((corpus / "topo-m").iterdir()):
        assert ("GPU0", "GPU1") in nvidia_smi.read_topology(path.read_text(encoding="utf-8")), path.name


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("dcgmi-json/dcgm3_per_gpu_format.txt", FAIL),  # index: ECC disabled, GPU 0 skipped: not a pass
        ("dcgmi-json/gcm_diag_persistence_fail_env_warn.txt", FAIL),
        ("dcgmi-json/gcm_diag_pass_rc205.txt", PASS),
        ("dcgmi-json/gcm_nvlink_err_pass.txt", UNTESTED),  # another tool's document
        ("dcgmi-json/dcgm4_schema.txt", UNTESTED),
        ("dcgmi-text/r2_thermal_violation.txt", FAIL),
        ("dcgmi-text/dcgm4_header_l40s.txt", PASS),
        ("dcgmi-text/dcgm3_tests_skipped_header.txt", UNTESTED),  # index: level not reached
    ],
)
def test_diagnostics(corpus, path, wanted):
    text = (corpus / path).read_text(encoding="utf-8")
    try:
        result = dcgm.read_text(text) if "text/" in path else dcgm.read_json(text)
    except Unreadable:
        assert wanted == UNTESTED
        return
    level = 3 if "skipped" in path else 1
    found = gpu.diagnostic(result, None, level, False)["outcome"]
    assert found == wanted if wanted != FAIL or "per_gpu" not in path else found in (FAIL, UNTESTED)


def test_fio(corpus):
    figures = stress.read_fio((corpus / "fio/superbench_fio_json.txt").read_text(encoding="utf-8"))
    assert figures.error == 0 and figures.read_rate == pytest.approx(348743777)
