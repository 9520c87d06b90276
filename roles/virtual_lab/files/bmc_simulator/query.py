# Redfish query parameters on GET: $expand, $select, $filter, $skip, $top, only.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""DMTF DSP0266, clause "Query parameters". Pure functions over bodies; `load` gives the body of another resource."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .messages import Problem

Json = dict[str, Any]
KNOWN = {"$expand", "$select", "$filter", "$skip", "$top", "only"}
MAX_LEVELS = 3
_TOKEN = re.compile(r"\s*(\(|\)|'(?:[^']|'')*'|-?\d+(?:\.\d+)?(?![\w:-])|[\w@.#/:-]+)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a is not None and a > b,
    "ge": lambda a, b: a is not None and a >= b,
    "lt": lambda a, b: a is not None and a < b,
    "le": lambda a, b: a is not None and a <= b,
}


def check(query: dict[str, str], offered: bool) -> None:
    """Refuse parameters that start with $ and are not known (DSP0266: 501), and all of them if none is offered."""
    for name in query:
        if name.startswith("$") and (name not in KNOWN or not offered):
            raise Problem("QueryParameterUnsupported", name)
        if name == "only" and not offered:
            raise Problem("QueryParameterUnsupported", name)
    if query.get("only"):
        raise Problem("QueryParameterValueError", query["only"], "only")
    if "only" in query and len([name for name in query if name in KNOWN]) > 1:
        raise Problem("QueryParameterValueError", "only", "only", status=400)


def whole(query: dict[str, str], name: str) -> int | None:
    if name not in query:
        return None
    try:
        value = int(query[name])
    except ValueError:
        raise Problem("QueryParameterValueFormatError", query[name], name) from None
    if value < 0:
        raise Problem("QueryParameterValueError", query[name], name)
    return value


# ---- $filter -----------------------------------------------------------------------------------


def _either(one, other):
    return lambda body: one(body) or other(body)


def _both(one, other):
    return lambda body: one(body) and other(body)


class _Filter:
    """Recursive descent over: or, and, not, parentheses, comparisons of a property path with a literal."""

    def __init__(self, text: str):
        self.text, self.tokens, position = text, [], 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if not match:
                raise Problem("QueryParameterValueFormatError", text, "$filter")
            self.tokens.append(match.group(1))
            position = match.end()
        self.position = 0

    def _fail(self) -> Problem:
        return Problem("QueryParameterValueFormatError", self.text, "$filter")

    def _peek(self) -> str | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def _next(self) -> str:
        token = self._peek()
        if token is None:
            raise self._fail()
        self.position += 1
        return token

    def parse(self) -> Callable[[Json], bool]:
        result = self._or()
        if self._peek() is not None:
            raise self._fail()
        return result

    def _or(self) -> Callable[[Json], bool]:
        left = self._and()
        while self._peek() == "or":
            self._next()
            left = _either(left, self._and())
        return left

    def _and(self) -> Callable[[Json], bool]:
        left = self._not()
        while self._peek() == "and":
            self._next()
            left = _both(left, self._not())
        return left

    def _not(self) -> Callable[[Json], bool]:
        if self._peek() == "not":
            self._next()
            inner = self._not()
            return lambda body: not inner(body)
        if self._peek() == "(":
            self._next()
            inner = self._or()
            if self._next() != ")":
                raise self._fail()
            return inner
        name, compare, literal = self._next(), self._next(), self._literal(self._next())
        if compare not in _COMPARE:
            raise self._fail()

        def holds(body: Json) -> bool:
            try:
                return _COMPARE[compare](at(body, name), literal)
            except TypeError:
                return False

        return holds

    def _literal(self, token: str) -> Any:
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[token]
        try:
            return float(token) if "." in token else int(token)
        except ValueError:
            raise self._fail() from None


def at(body: Any, path: str) -> Any:
    """The value at a property path such as Status/Health, or None."""
    for part in path.split("/"):
        body = body.get(part) if isinstance(body, dict) else None
    return body


# ---- $select and $expand -----------------------------------------------------------------------


def select(body: Json, paths: list[str]) -> Json:
    """Keep the named properties, the OData annotations of the resource, and what is required to read it."""
    out = {key: value for key, value in body.items() if key.startswith("@odata.")}
    if "*" in paths:
        return body
    for path in paths:
        source, target = body, out
        parts = path.split("/")
        for index, part in enumerate(parts):
            if not isinstance(source, dict) or part not in source:
                break
            if index == len(parts) - 1 or not isinstance(source[part], dict):
                target[part] = source[part]
                break
            target = target.setdefault(part, {})
            source = source[part]
    return out


def expand(body: Json, mode: str, levels: int, load: Callable[[str], Json | None]) -> Json:
    """Replace links by the resources that they name. Modes: `.` all but Links, `~` only Links, `*` both."""

    def walk(value: Any, inside_links: bool, top: bool) -> Any:
        if isinstance(value, list):
            return [walk(item, inside_links, False) for item in value]
        if not isinstance(value, dict):
            return value
        if not top and set(value) == {"@odata.id"}:
            wanted = mode == "*" or (mode == "~") == inside_links
            target = load(value["@odata.id"]) if wanted else None
            if target is None:
                return value
            return expand(target, mode, levels - 1, load) if levels > 1 else target
        return {
            key: item if key in ("Actions", "@Redfish.Settings") else walk(item, inside_links or key == "Links", False)
            for key, item in value.items()
        }

    return walk(body, False, True)


def apply(body: Json, query: dict[str, str], page: int, load: Callable[[str], Json | None]) -> Json:
    """The body as the query wants it; `page` limits members of a collection even without a query."""
    members = body.get("Members")
    is_collection = isinstance(members, list) and "Members@odata.count" in body
    skip, top = whole(query, "$skip"), whole(query, "$top")
    if not is_collection and ({"$filter", "$skip", "$top", "only"} & set(query)):
        raise Problem("QueryNotSupportedOnResource")
    if is_collection:
        if "only" in query and len(members) == 1:
            return load(members[0]["@odata.id"]) or body
        if "$filter" in query:
            wanted = _Filter(query["$filter"]).parse()
            members = [member for member in members if wanted(load(member["@odata.id"]) or member)]
        total, start = len(members), skip or 0
        count = min(value for value in (top if top is not None else total, page or total or 0))
        shown = members[start : start + count]
        body = {**body, "Members": shown, "Members@odata.count": total}
        if start + count < total and top is None:
            body["Members@odata.nextLink"] = f"{body['@odata.id']}?$skip={start + count}"
    if "$expand" in query:
        match = re.fullmatch(r"([.~*])(?:\(\$levels=(\d+)\))?", query["$expand"])
        if not match:
            raise Problem("QueryParameterValueFormatError", query["$expand"], "$expand")
        levels = int(match.group(2) or 1)
        if not 1 <= levels <= MAX_LEVELS:
            raise Problem("QueryParameterValueError", query["$expand"], "$expand")
        body = expand(body, match.group(1), levels, load)
    if "$select" in query:
        paths = [path.strip() for path in query["$select"].split(",") if path.strip()]
        if not paths:
            raise Problem("QueryParameterValueFormatError", query["$select"], "$select")
        if isinstance(body.get("Members"), list) and "Members@odata.count" in body and "$expand" in query:
            # DSP0266: together with $expand the selection is about the members
            body = {**body, "Members": [select(member, paths) for member in body["Members"]]}
        elif isinstance(body.get("Members"), list) and "Members@odata.count" in body:
            body = (
                {**select(body, paths), "Members@odata.count": body["Members@odata.count"]}
                if not {"Members"} & set(paths)
                else {**select(body, paths)}
            )
        else:
            body = select(body, paths)
    return body
