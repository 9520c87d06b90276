# What is read out of an error answer, in every shape that BMCs use.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ast
import pathlib

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import HttpError, read_messages
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors as core_errors

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


BMC = pathlib.Path(errors.__file__).parent
DOORS = [BMC.parent / "doors" / "bmc.py", BMC.parents[1] / "plugin_utils" / "bmc.py"]
TYPED = {name for name in dir(core_errors) if isinstance(getattr(core_errors, name), type)} | {"AnswerLost"}


@pytest.mark.parametrize("path", [*sorted(BMC.glob("*.py")), *DOORS], ids=lambda path: path.name)
def test_every_error_names_the_thing_what_was_seen_and_what_to_do(path):
    """A typed error without them leaves the person on call alone. InvalidInput may leave out the next step: what is wanted says it."""
    poor = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        name = getattr(getattr(node, "func", None), "id", getattr(getattr(node, "func", None), "attr", ""))
        if not isinstance(node, ast.Call) or name not in TYPED:
            continue
        given = {keyword.arg for keyword in node.keywords}
        missing = [] if "thing" in given else ["thing"]
        if not given & {"wanted", "seen"}:
            missing.append("wanted or seen")
        if "next_step" not in given and not (name == "InvalidInput" and "wanted" in given):
            missing.append("next_step")
        if name == "InvalidInput" and "next_step" in given:
            missing = [item for item in missing if item == "thing"]
        if missing:
            poor.append(f"line {node.lineno}: {name} without {', '.join(missing)}")
    assert not poor


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        (403, "This functionality is not licensed, please activate SFT-OOB-LIC", "license_required"),
        (403, "insufficient privilege", "no_privilege"),
        (400, "", "bmc_refused"),
        (404, "", "not_found"),
        (405, "", "not_offered"),
        (409, "", "bmc_conflict"),
        (418, "", "bmc_refused"),
        (502, "", "bmc_failed"),
        (503, "", "bmc_busy"),
    ],
)
def test_verdicts(status, text, code):
    error = errors.HttpError(
        "x", status=status, messages=[{"id": "Base.1.0.General", "text": text, "args": [], "related": []}]
    )
    assert error.code == code and error.next_step and error.seen == f"HTTP {status}"
