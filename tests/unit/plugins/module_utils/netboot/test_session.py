# Boot sessions: bound to the address, refused when forged, foreign or too old.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import Refused
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import session

KEY = "k" * 40


def code(*args):
    with pytest.raises(Refused) as caught:
        session.read(*args)
    return caught.value.code


def test_round_trip():
    text = session.issue(KEY, 12, "52:54:00:77:00:01", "10.0.0.11")
    assert session.read(KEY, text, 60, "10.0.0.11") == (12, "52:54:00:77:00:01")


def test_refusals():
    text = session.issue(KEY, 12, "52:54:00:77:00:01", "10.0.0.11")
    assert code(KEY, None, 60, "10.0.0.11") == "session_missing"
    assert code(KEY, text, 60, "10.0.0.12") == "session_foreign"
    assert code("x" * 40, text, 60, "10.0.0.11") == "session_forged"
    assert code(KEY, text[:-2], 60, "10.0.0.11") == "session_forged"
    assert code(KEY, "....", 60, "10.0.0.11") == "session_forged"
    time.sleep(2.1)  # the signer counts whole seconds
    assert code(KEY, text, 1, "10.0.0.11") == "session_expired"
