# How firmware versions are ordered: named rules, because no single rule fits all vendors; and conditions over versions ("<2.0", ">=1.1,<3").
#
# A version that its rule cannot read is an error (UnreadableVersion), never "older": an unknown version must not start a flash.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
import re
from functools import lru_cache

from ..core.errors import InvalidInput


class UnreadableVersion(InvalidInput):
    """The rule cannot read this version, or two versions have no order between them."""

    code = "unreadable_version"


def _numbers(parts, base=10):
    """A tuple without the zeros at its end, so that 1.2 equals 1.2.0."""
    found = [int(part, base) for part in parts]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def _dotted(text):
    if not re.fullmatch(r"[vV]?\d+([.\-_]\d+)*", text):
        raise ValueError("numbers with dots between them, such as 1.2.30")
    return _numbers(re.findall(r"\d+", text))


# Below the release: alpha < beta < rc; above it: a patch or a hot fix. A word that is not in here has no order that anybody could know.
_WORDS = {
    "dev": -5,
    "alpha": -4,
    "a": -4,
    "beta": -3,
    "b": -3,
    "pre": -2,
    "rc": -1,
    "ga": 0,
    "p": 1,
    "patch": 1,
    "hf": 1,
    "sp": 1,
}


def _release(text):
    found = re.fullmatch(
        r"[vV]?(\d+(?:\.\d+)*)(?:[-_.~]?([A-Za-z]+)[-_.]?(\d*(?:\.\d+)*))?(?:\+[0-9A-Za-z.\-]+)?", text
    )
    if not found:
        raise ValueError("numbers with dots and perhaps a word such as rc1 behind them, such as 1.2.3-rc1")
    word = (found.group(2) or "ga").lower()
    if word not in _WORDS:
        raise ValueError(f"one of the words {', '.join(_WORDS)} behind the numbers")
    return (_numbers(found.group(1).split(".")), _WORDS[word], _numbers(re.findall(r"\d+", found.group(3) or "")))


def _natural(text):
    """Digits as numbers, letters as they are; separators only separate. The texts must have the same build (letters at the same places)."""
    tokens = re.findall(r"\d+|[a-z]+", text.lower())
    if not any(token.isdigit() for token in tokens):
        raise ValueError("at least one number in it")
    shape = tuple("#" if token.isdigit() else token for token in tokens)
    return _Family(
        shape[: next(i for i, part in enumerate(shape) if part == "#")],
        tuple((1, int(token), "") if token.isdigit() else (0, 0, token) for token in tokens),
    )


def _hpe(text):
    found = re.fullmatch(r"([A-Z]\d{2,3})\s+v?(\d+)\.(\d+)\s*\((\d{2})/(\d{2})/(\d{4})\)", text)
    if not found:
        raise ValueError("a family, a version and a date, such as U32 v2.10 (01/01/2024)")
    family, major, minor, month, day, year = found.groups()
    moment = datetime.date(int(year), int(month), int(day))
    return _Family((family,), (int(major), int(minor), moment.toordinal()))


def _idrac(text):
    if not re.fullmatch(r"\d+(\.\d+){3}", text):
        raise ValueError("four numbers, such as 7.00.00.173")
    return tuple(int(part) for part in text.split("."))


def _hex(text):
    found = re.fullmatch(r"(?:0[xX])?([0-9A-Fa-f]+)[hH]?", text)
    if not found:
        raise ValueError("one hexadecimal number, such as 0x1A2B")
    return (int(found.group(1), 16),)


def _dotted_hex(text):
    if not re.fullmatch(r"[0-9A-Fa-f]+(\.[0-9A-Fa-f]+)+", text):
        raise ValueError("hexadecimal numbers with dots between them, such as 96.00.5E.00.01")
    return _numbers(text.split("."), 16)


_DATES = (
    (re.compile(r"(\d{4})[-./]?(\d{2})[-./]?(\d{2})"), (0, 1, 2)),
    (re.compile(r"(\d{2})/(\d{2})/(\d{4})"), (2, 0, 1)),  # American: BIOS vendors write it so
)


def _date(text):
    for pattern, order in _DATES:
        found = pattern.fullmatch(text)
        if found:
            year, month, day = (int(found.groups()[index]) for index in order)
            return (datetime.date(year, month, day).toordinal(),)
    raise ValueError("a date, such as 2024-01-31, 20240131 or 01/31/2024")


class _Family:
    """A key that only has an order among keys of the same family."""

    __slots__ = ("family", "key")

    def __init__(self, family, key):
        self.family, self.key = family, key

    def __eq__(self, other):
        return (self.family, self.key) == (other.family, other.key)

    def __hash__(self):
        return hash((self.family, self.key))

    def __lt__(self, other):
        if self.family != other.family:
            raise ValueError(f"versions of one family, not of {' '.join(self.family)} and {' '.join(other.family)}")
        return self.key < other.key


# name: (reader of a stripped text -> ordered key, raises ValueError that says what was wanted; meaning)
RULES = {
    "dotted": (_dotted, "Numbers with dots, compared one by one; 1.2 equals 1.2.0."),
    "release": (
        _release,
        "Dotted numbers with a word behind: 1.2.3-rc1 is before 1.2.3, 1.2.3-p1 after it; +build does not count.",
    ),
    "natural": (
        _natural,
        "Any text: runs of digits compare as numbers, letters as letters. The letters before the first number must be the same.",
    ),
    "idrac": (_idrac, "Exactly four numbers: 7.00.00.173."),
    "hpe": (_hpe, "Family, version and date: U32 v2.10 (01/01/2024). Different families have no order."),
    "hex": (_hex, "One hexadecimal number: 0x1A2B."),
    "dotted_hex": (_dotted_hex, "Hexadecimal numbers with dots: 96.00.5E.00.01, as GPU VBIOS has them."),
    "date": (_date, "A date: 2024-01-31, 20240131 or 01/31/2024."),
    "exact": (lambda text: text, "No order: the same text or another one. What differs is replaced."),
}


class Rule:
    """One rule, with the pattern that cuts the version out of what the component says (`extract`: one group, or the whole match)."""

    def __init__(self, name="dotted", extract=None):
        if name not in RULES:
            raise InvalidInput("there is no such version rule", thing="rule", wanted=", ".join(RULES), seen=name)
        self.name, self.extract = name, extract
        try:
            self._pattern = re.compile(extract) if extract else None
        except re.error as error:
            raise InvalidInput(
                "not a regular expression", thing="extract", wanted="a regular expression", seen=f"{extract} ({error})"
            ) from None

    @property
    def ordered(self):
        return self.name != "exact"

    def read(self, version, own=False):
        """The key of a version, to be compared; UnreadableVersion where the rule cannot read it. `own`: written by us, where `extract` may have been done."""
        text = "" if version is None else str(version).strip()
        if not text:
            raise UnreadableVersion("the version is not known", thing="version", seen=repr(version))
        if self._pattern:
            found = self._pattern.search(text)
            if not found and own:
                return _read(self.name, text)
            if not found:
                raise UnreadableVersion(
                    "the version does not look as the baseline says",
                    thing="version",
                    wanted=f"a match of {self.extract}",
                    seen=text,
                )
            text = found.group(1 if self._pattern.groups else 0)
        return _read(self.name, text)

    def compare(self, left, right):
        """-1, 0 or 1 for what a component says (`left`) against a version of the baseline. With the rule `exact` anything that is not 0 is 1."""
        left, right = self.read(left), self.read(right, own=True)
        if left == right:
            return 0
        if not self.ordered:
            return 1
        try:
            return -1 if left < right else 1
        except ValueError as error:
            raise UnreadableVersion("the two versions have no order", thing="version", wanted=str(error)) from None

    def same(self, left, right):
        """True, False; a version that cannot be read is the same as nothing."""
        try:
            return self.read(left) == self.read(right, own=True)
        except UnreadableVersion:
            return False


@lru_cache(maxsize=4096)
def _read(name, text):
    try:
        return RULES[name][0](text.strip())
    except ValueError as error:
        raise UnreadableVersion(
            f"the rule {name} cannot read this version", thing="version", wanted=str(error), seen=text
        ) from None


_OPERATORS = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
}
_TERM = re.compile(r"(<=|>=|==|!=|<|>)?\s*(.+)", re.DOTALL)


class Condition:
    """All terms of a text such as ">=1.1,<2.0" must hold; a term without an operator means `==`; "*" holds always."""

    def __init__(self, text, rule):
        self.text, self.rule, self.terms = str(text).strip(), rule, []
        if self.text == "*":
            return
        for part in self.text.split(","):
            found = _TERM.fullmatch(part.strip())
            if not found:
                raise InvalidInput(
                    "not a condition over versions", thing="condition", wanted=">=1.1,<2.0 or *", seen=text
                )
            operator, version = found.group(1) or "==", found.group(2).strip()
            if not rule.ordered and operator not in ("==", "!="):
                raise InvalidInput("the rule exact knows no order", thing="condition", wanted="== or !=", seen=text)
            rule.read(version, own=True)
            self.terms.append((operator, version))

    def __str__(self):
        return self.text

    def holds(self, version):
        return all(_OPERATORS[operator](self.rule.compare(version, other)) for operator, other in self.terms)
