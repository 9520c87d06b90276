# Reads the expected-servers list from CSV or YAML, with the place of each row, so that a mistake is found by file and line.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import csv
import os

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

try:
    import yaml
except ImportError:  # comes with ansible-core; ansible-test imports this file without it
    yaml = None

_NULL = "tag:yaml.org,2002:null"
_CORRECT = "correct the file, or discover_expected_file"

if yaml is not None:

    class _Rows(yaml.SafeLoader):
        """Every value is text as it stands there: a serial 00123 is no octal number, a slot 12e1 no float."""

        yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in resolvers if tag == _NULL]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node, deep=False):
            seen = set()
            for key, _value in node.value:
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value} stands twice", key.start_mark
                    )
                seen.add(key.value)
            return super().construct_mapping(node, deep)


def read(path):
    """(rows, places) of the file; a place is "<path> line <number>". InvalidInput names file, line, and what was wanted."""
    path = os.path.expanduser(str(path))
    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            rows, places = (_csv if path.lower().endswith(".csv") else _yaml)(handle, path)
    except OSError as error:
        raise errors.InvalidInput(
            "the expected-servers list cannot be read",
            thing=path,
            wanted="a CSV or YAML file that this user can read",
            seen=error.strerror,
            next_step="correct discover_expected_file",
        ) from error
    except UnicodeDecodeError as error:
        raise errors.InvalidInput(
            "the expected-servers list is no text",
            thing=path,
            wanted="CSV or YAML in UTF-8",
            seen=f"another byte at position {error.start}",
            next_step=_CORRECT,
        ) from error
    if not rows:
        # A file that was cut short must not read as "everything that is found is welcome".
        raise errors.InvalidInput(
            "the expected-servers list has no rows",
            thing=path,
            wanted="a row for each server",
            seen="none",
            next_step="correct the file, or leave discover_expected_file out",
        )
    return rows, places


def _csv(handle, path):
    reader = csv.DictReader(handle, skipinitialspace=True, strict=True)
    rows, places = [], []
    try:
        for row in reader:
            place = f"{path} line {reader.line_num}"
            if None in row:
                raise errors.InvalidInput(
                    "a row has more fields than the first row has names",
                    thing=place,
                    wanted=f"{len(reader.fieldnames)} fields",
                    seen=", ".join(row[None]),
                    next_step=_CORRECT,
                )
            rows.append(dict(row))
            places.append(place)
    except csv.Error as error:
        raise errors.InvalidInput(
            "the expected-servers list cannot be parsed",
            thing=f"{path} line {reader.line_num}",
            wanted="CSV whose first row names the columns",
            seen=error,
            next_step=_CORRECT,
        ) from error
    return rows, places


def _yaml(handle, path):
    try:
        loader = _Rows(handle)
        root = loader.get_single_node()
        if isinstance(root, yaml.MappingNode) and len(root.value) == 1:
            root = root.value[0][1]
        if root is None or root.tag == _NULL:
            return [], []
        if not isinstance(root, yaml.SequenceNode):
            raise errors.InvalidInput(
                "the expected-servers list has another shape",
                thing=path,
                wanted="a list of rows, each with a serial",
                seen="keys and values" if isinstance(root, yaml.MappingNode) else "one value",
                next_step=_CORRECT,
            )
        rows = [loader.construct_object(item, deep=True) for item in root.value]
        return rows, [f"{path} line {item.start_mark.line + 1}" for item in root.value]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise errors.InvalidInput(
            "the expected-servers list cannot be parsed",
            thing=f"{path} line {mark.line + 1}" if mark else path,
            wanted="a YAML list of rows, each with a serial",
            seen=getattr(error, "problem", None) or error,
            next_step=_CORRECT,
        ) from error
