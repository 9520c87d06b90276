# Certificates of BMCs: stable, private, made again when broken.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from bmc_simulator.certificate import ensure_certificate, fingerprint, server_context


def test_made_once_and_private(tmp_path):
    path = ensure_certificate(tmp_path, "gpu01-bmc", "10.77.0.11")
    first = fingerprint(path)
    assert len(first) == 64 and path.stat().st_mode & 0o077 == 0
    assert fingerprint(ensure_certificate(tmp_path, "gpu01-bmc", "10.77.0.11")) == first
    server_context(path)


def test_a_broken_file_is_replaced(tmp_path):
    (tmp_path / "bmc.pem").write_text("nonsense")
    server_context(ensure_certificate(tmp_path, "gpu01-bmc", "::1"))
