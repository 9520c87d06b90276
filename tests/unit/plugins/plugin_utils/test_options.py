# Options that ansible-core refuses, in our words.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.aicluster.baremetal.plugins.plugin_utils import options as subject

SPEC = {
    "state": {"type": "str", "required": True, "choices": ["on", "off"]},
    "timeout": {"type": "float"},
    "hosts": {"type": "list", "elements": "str", "aliases": ["nodes"]},
    "key": {"type": "dict", "no_log": True},
    "sections": {"type": "list", "elements": "str", "choices": ["a", "c"]},
}


@pytest.mark.parametrize(
    ("given", "thing", "words"),
    [
        ({"stat": "on"}, "stat", ["there is no such option", "did you mean state for stat?"]),
        ({"state": "on", "zzz": 1}, "zzz", ["wanted: of hosts, key, sections, state, timeout", "take it out"]),
        ({"state": "on", "timeout": "abc"}, "timeout", ["wanted: a number", "seen: abc", "next: correct timeout"]),
        ({"state": "on", "key": "secret-word"}, "key", ["wanted: a dictionary", "seen: (hidden)"]),
        ({"state": "onn", "nodes": ["a"]}, "state", ["wanted: of on, off;", "seen: onn;", "next: correct state"]),
        ({"state": "on", "sections": ["a", "b"]}, "sections", ["wanted: of a, c;", "seen: b;"]),
        ({}, "options", ["missing required arguments: state", "seen: none", "next: correct the task"]),
    ],
)
def test_refusals(given, thing, words):
    said = ArgumentSpecValidator(SPEC).validate(given).errors.msg
    error = subject.refusal(SPEC, given, said).with_host("gpu01")
    text = str(error)
    assert error.thing == thing and all(word in text for word in words), text
    assert "secret-word" not in text and "<class" not in text and text.startswith("gpu01: ")
