# What is read out of an error answer, in every shape that BMCs use.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import HttpError, read_messages

INFO = {
    "MessageId": "Base.1.8.PropertyNotWritable",
    "Message": "read only",
    "MessageArgs": ["BootSourceOverrideMode"],
    "RelatedProperties": ["#/Boot/BootSourceOverrideMode"],
}


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": "x", "@Message.ExtendedInfo": [INFO]}},
        {"error": {"@Message.ExtendedInfo": INFO}},
        {"@Message.ExtendedInfo": [INFO]},
        {"Boot@Message.ExtendedInfo": [INFO]},
    ],
)
def test_messages_are_found(body):
    found = read_messages(body)
    error = HttpError("no", status=400, messages=found)
    assert error.has("PropertyNotWritable") and error.names("BootSourceOverrideMode") and not error.names("PowerState")


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "text",
        {},
        {"error": None},
        {"error": "text"},
        {"error": {"@Message.ExtendedInfo": [None, "x"]}},
        {"@Message.ExtendedInfo": {"MessageArgs": None}},
    ],
)
def test_odd_bodies_are_no_traceback(body):
    assert isinstance(read_messages(body), list)


def test_a_bare_error_has_its_text():
    assert read_messages({"error": {"code": "Base.1.0.GeneralError", "message": "busy"}})[0]["text"] == "busy"
