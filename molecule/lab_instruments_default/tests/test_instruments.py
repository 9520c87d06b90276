# The instruments answer like the real tools, say that they are simulated, and show the fault of this server.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


def test_eight_gpus_are_listed(host):
    lines = host.check_output("nvidia-smi -L").splitlines()
    assert len(lines) == 8 and all("H100" in line for line in lines)


def test_query_form(host):
    lines = host.check_output(
        "nvidia-smi --query-gpu=index,ecc.errors.uncorrected.volatile.total --format=csv,noheader"
    ).splitlines()
    errors = {line.split(",")[0].strip(): line.split(",")[1].strip() for line in lines}
    assert errors.pop("3") not in ("0", "[N/A]"), "the seeded fault does not show"
    assert set(errors.values()) == {"0"}


def test_they_say_that_they_are_simulated(host):
    assert "simulated" in host.check_output("cat /usr/lib/aicluster/instruments.json")
