"""Names of databases, schemas and tables, or regular expressions for them, as Flink CDC has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import OptionError
from runtime.expr.java_regex import java_regex

__all__ = ["NamePattern", "name_pattern"]

_SPECIAL = re.compile(r"[.*+?|()\[\]{}^\\,]")
_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A name, or an expression that names match as a whole. `re2`: the expression for Arrow, whose matching takes time in
    proportion to the name, whatever it is."""

    text: str
    re2: str | None

    def matches(self, name: str) -> bool:
        return name == self.text if self.re2 is None else bool(self.chosen([name]))

    def chosen(self, names: Sequence[str]) -> list[str]:
        """Those that match."""
        if self.re2 is None:
            return [name for name in names if name == self.text]
        array = pa.array(names, pa.string())
        return array.filter(pc.match_substring_regex(array, self.re2)).to_pylist()


def name_pattern(key: str, text: str) -> NamePattern:
    """What an option says: an expression of Java if it has one of their signs. Raises OptionError for one that is none, or whose
    matching may take long."""
    if _SPECIAL.search(text) is None:
        return NamePattern(text, None)
    found = java_regex(text) if len(text) <= _LONGEST else None
    if found is None:
        raise OptionError(
            f"option '{key}' is no regular expression: '{text[:_LONGEST]}'",
            hint=r"a sign that belongs to a name has a backslash before it, such as 'a\.b'; at most 1000 characters",
        )
    if not found.in_re2:
        raise OptionError(
            f"option '{key}' has an expression whose matching may take long: '{text}'",
            hint="without look-ahead, look-behind, references to groups and possessive quantifiers it is matched in bounded time",
        )
    return NamePattern(text, rf"\A(?:{found.re2()})\z")
