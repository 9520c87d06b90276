# Where large results go: one line for each host, one record for each node, and a fault of one is that host's.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import Conflict, InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Change, Plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import sinks

INFO = {"system": {"serial": "S1", "power": "on"}, "nics": [{"slot": "1", "mac": "52:54:00:00:00:01"}]}


def test_json_lines(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("old\n")
    kept = {}
    writer = sinks.Writer([sinks.JsonLines(path)], lambda host, result: kept.__setitem__(host, sinks.slim(result)))
    for number in range(1200):
        writer.put(f"n{number}", {"changed": False, "msg": "m", "info": INFO})
    writer.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 1200 and lines[7] == {"host": "n7", "changed": False, "msg": "m", "info": INFO}
    assert path.stat().st_mode & 0o077 == 0
    assert kept["n7"] == {"changed": False, "msg": "m"}, "the inventory is not kept in memory"


def test_a_file_that_cannot_be_written_is_said_at_once(tmp_path):
    with pytest.raises(InvalidInput) as caught:
        sinks.JsonLines(tmp_path / "none" / "out")
    assert "none" in str(caught.value)


def test_inventories_are_recorded_and_an_error_is_that_hosts():
    saved, kept = {}, {}

    def save(host, info, facts, parts):
        if host == "bad":
            raise Conflict("another server", thing="serial", wanted="a", seen="b", next_step="c")
        if host == "broken":
            raise OSError("disk full")
        saved[host] = (facts, parts)
        return Plan([Change("facts", None, facts)] if host == "new" else [])

    writer = sinks.Writer([sinks.Inventories(save)], kept.__setitem__)
    for host in ("new", "same", "bad", "broken"):
        writer.put(host, {"changed": False, "msg": "x", "info": INFO})
    writer.put("failed", {"failed": True, "msg": "no answer"})
    writer.close()
    assert saved["new"][0] == {"system": {"serial": "S1"}, "nics": INFO["nics"]}, "what changes by itself is left out"
    assert saved["new"][1][0]["kind"] == "nic"
    assert kept["new"]["changed"] and not kept["same"]["changed"]
    assert kept["bad"]["error"]["code"] == "conflict" and kept["bad"]["error"]["host"] == "bad"
    assert kept["broken"]["error"]["code"] == "not_recorded" and kept["failed"]["msg"] == "no answer"
