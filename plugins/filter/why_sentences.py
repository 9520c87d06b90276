# The answer of `why` as sentences for people.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
name: why_sentences
short_description: The answer to why a node is not in service, as sentences
version_added: "0.1.0"
author: aicluster contributors (@aicluster)
description: Turns a node of M(aicluster.baremetal.node_info), read with C(include=why), into a list of sentences, the first reason first.
positional: _input
options:
  _input:
    description: A node with its key C(why).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Say why
  ansible.builtin.debug:
    msg: "{{ answer.nodes | map('aicluster.baremetal.why_sentences') | flatten }}"
"""

RETURN = r"""
_value:
  description: The sentences.
  type: list
  elements: str
"""


def why_sentences(node):
    name = node["name"]
    if not node["why"]:
        return [f"{name} is in service."]
    sentences = [f"{name} is not in service (state {node['state']})."]
    for entry in node["why"]:
        since = f" Since {entry['since'][:19]}Z." if entry["since"] else ""
        step = f" Next: {entry['next_step']}." if entry["next_step"] else ""
        sentences.append(f"{entry['order']}. {entry['text']}{since}{step}")
    return sentences


class FilterModule:
    def filters(self):
        return {"why_sentences": why_sentences}
