# The expected-servers list as a file: values as they stand there, mistakes by file and line.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import expected_list


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("head", ["", "servers:\n", "# note\n---\n"])
def test_yaml_values_are_the_text_that_stands_there(tmp_path, head):
    path = written(
        tmp_path, "list.yml", head + "- serial: 00123\n  slot: 12e1\n\n- {serial: A2, rack: yes, slot: null}\n"
    )
    rows, places = expected_list.read(path)
    assert rows == [{"serial": "00123", "slot": "12e1"}, {"serial": "A2", "rack": "yes", "slot": None}]
    first = head.count("\n") + 1
    assert places == [f"{path} line {first}", f"{path} line {first + 3}"]


def test_csv_rows_know_their_lines(tmp_path):
    path = written(tmp_path, "list.CSV", "\ufeffserial, name\n00123, n1\n\nA2, n2\n")
    rows, places = expected_list.read(path)
    assert rows == [{"serial": "00123", "name": "n1"}, {"serial": "A2", "name": "n2"}]
    assert places == [f"{path} line 2", f"{path} line 4"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "serial,name\nA1,n1\nA2,n2,r1\n", "a.csv line 3: a row has more fields.*seen: r1"),
        ("a.csv", 'serial,name\nA1,"n1\n', "a.csv line"),
        ("a.csv", "serial,name\n", "a.csv: .*no rows"),
        ("a.yml", "- serial: A1\n- serial: [A2\n", "a.yml line 3: .*cannot be parsed"),
        ("a.yml", "- serial: A1\n  serial: A2\n", "a.yml line 2: .*the key serial stands twice"),
        ("a.yml", "serial: A1\nname: n1\n", "a.yml: .*another shape.*keys and values"),
        ("a.yml", "text", "a.yml: .*another shape"),
        ("a.yml", "", "a.yml: .*no rows"),
        ("a.yml", "servers:\n", "a.yml: .*no rows"),
        ("a.yml", b"- serial: \xff\n", "a.yml"),
    ],
)
def test_mistakes_are_named_by_file_and_line(tmp_path, name, text, words):
    with pytest.raises(errors.InvalidInput, match=words) as seen:
        expected_list.read(written(tmp_path, name, text))
    assert all(part in str(seen.value) for part in ("; wanted: ", "; seen: ", "; next: "))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(errors.InvalidInput, match="nowhere.csv.*No such file.*next: "):
        expected_list.read(tmp_path / "nowhere.csv")
