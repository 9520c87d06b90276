# Typed errors: every part that a person needs is there.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors


def test_one_sentence_per_part():
    error = errors.Refused("no", thing="power", wanted="on", seen="off", next_step="look").with_host("gpu01")
    assert str(error) == "gpu01: power: no; wanted: on; seen: off; next: look"
    assert error.with_host("other").host == "gpu01"
    assert error.as_result()["error"]["code"] == "refused" and errors.Refused("no", code="x").code == "x"


def test_wrong_input_always_says_what_to_do():
    assert errors.InvalidInput("this cannot be", thing="since", seen="yesterday").next_step == "correct since"
    assert errors.InvalidInput("this cannot be").as_result()["error"]["next_step"] == "correct what was given"
    assert errors.InvalidInput("this cannot be", thing="since", next_step="give a time").next_step == "give a time"
    assert errors.Refused("no").next_step is None
