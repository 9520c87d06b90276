# KVM or TCG. The probe itself is shown on QEMU with TCG and a file that is no kernel: it must fail in words and leave no process.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import shutil

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import Refused
from ansible_collections.aicluster.baremetal.plugins.module_utils.lab import accelerator, processes

pytestmark = pytest.mark.skipif(not shutil.which(accelerator.QEMU), reason="needs QEMU")


@pytest.fixture
def with_kvm(monkeypatch):
    real = os.path.exists
    monkeypatch.setattr(accelerator.os.path, "exists", lambda path: True if path == "/dev/kvm" else real(path))


def test_asked_for_tcg_probes_nothing(tmp_path):
    found = accelerator.decide("tcg", ["/nowhere"], str(tmp_path / "cache"))
    assert found["accel"].startswith("tcg") and found["probed"] is False and not os.listdir(tmp_path)


def test_no_kernel_is_no_proof(with_kvm):
    found = accelerator.decide("auto", ["/nowhere"])
    assert "no kernel to probe" in found["reason"]
    assert found["summary"].startswith("KVM does not work here (") and found["summary"].endswith("): emulation (TCG)")


def test_kvm_asked_for_and_not_proved_is_refused(with_kvm):
    with pytest.raises(Refused, match="does not work here"):
        accelerator.decide("kvm", ["/nowhere"])


@pytest.mark.parametrize(("works", "accel"), [(True, "kvm"), (False, "tcg")])
def test_a_finding_is_kept_for_this_boot_and_this_qemu(with_kvm, monkeypatch, tmp_path, works, accel):
    calls = []
    monkeypatch.setattr(accelerator, "probe", lambda kernel, seconds: calls.append(kernel) or (works, "seen"))
    kernel, cache = tmp_path / "vmlinuz", str(tmp_path / "sub" / "cache.json")
    kernel.touch()
    first = accelerator.decide("auto", [str(kernel)], cache)
    second = accelerator.decide("auto", [str(kernel)], cache)
    assert (first["probed"], second["probed"], len(calls)) == (True, False, 1)
    assert first["accel"].startswith(accel) and second["accel"] == first["accel"]
    known = json.loads(open(cache, encoding="utf-8").read())  # noqa: SIM115
    with open(cache, "w", encoding="utf-8") as handle:
        json.dump({**known, "boot_id": "another boot"}, handle)
    accelerator.decide("auto", [str(kernel)], cache)
    assert len(calls) == 2


def test_the_probe_fails_in_words_and_leaves_no_process(tmp_path):
    fake = tmp_path / "vmlinuz"
    fake.write_bytes(b"no kernel" * 2000)
    works, seen = accelerator.probe(str(fake), seconds=5, accel="tcg", cpu="qemu64")
    assert works is False and seen
    assert processes.with_argument(str(fake)) == []
