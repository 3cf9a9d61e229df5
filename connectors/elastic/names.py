"""The index and the id of each row, in columns.

An index may have columns in its name, as in Flink: `sales-{region}`, `log-{at|yyyy-MM-dd}`, `log-{now()|yyyy.MM}`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.value_text import value_text
from runtime.core.errors import ConnectorError, OptionError
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot, timestamp_ltz
from runtime.expr.date_patterns import Dialect, format_times
from runtime.expr.zones import instant_to_local

__all__ = ["IndexName", "document_ids", "read_index"]

_R = TypeRoot
_PART = re.compile(r"\{([^{}|]*)(\|([^{}]*))?\}")
_STANDARD = {_R.DATE: "yyyy_MM_dd", _R.TIME: "HH_mm_ss", _R.TIMESTAMP: "yyyy_MM_dd_HH_mm_ss"}
_STANDARD[_R.TIMESTAMP_LTZ] = _STANDARD[_R.TIMESTAMP]
_NOW = ("now()", "NOW()", "current_timestamp", "CURRENT_TIMESTAMP")


@dataclass(frozen=True)
class IndexName:
    """A name in parts: texts, and (column or `now()`, pattern or None)."""

    parts: tuple[str | tuple[str, str | None], ...]

    @property
    def fixed(self) -> str | None:
        """The name, when it is the same for all rows."""
        return "".join(map(str, self.parts)) if not self.columns and not self.of_now else None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(p[0] for p in self.parts if not isinstance(p, str) and p[0] not in _NOW)

    @property
    def of_now(self) -> bool:
        return any(not isinstance(p, str) and p[0] in _NOW for p in self.parts)

    def __str__(self) -> str:
        return "".join(p if isinstance(p, str) else "*" for p in self.parts)

    def of(self, rows: pa.RecordBatch, schema: Schema, time_zone: str, now: float) -> pa.Array:
        """The index of each row, string. `now`: seconds since 1970. Raises ConnectorError E3261 where a column of it is NULL."""
        if self.fixed is not None:
            return pa.repeat(pa.scalar(self.fixed), len(rows))
        texts: list[pa.Array | pa.Scalar] = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(pa.scalar(part))
                continue
            name, pattern = part
            if name in _NOW:
                column, type_ = pa.array([int(now * 1000)], pa.timestamp("ms", "UTC")), timestamp_ltz(3)
                texts.append(_text(column, type_, pattern or "yyyy_MM_dd_HH_mm_ss", time_zone)[0])
                continue
            column, type_ = rows.column(name), schema[schema.index_of(name)].type
            if column.null_count:
                raise ConnectorError(
                    f"a row without {name} belongs into no index",
                    code="E3261",
                    hint=f"the option 'index' names {name}: leave such rows out, or give it a value with COALESCE",
                )
            texts.append(_text(column, type_, pattern, time_zone))
        return pc.binary_join_element_wise(*texts, "")


def _text(column: pa.Array, type_: DataType, pattern: str | None, time_zone: str) -> pa.Array:
    """A column in the name of an index."""
    root = type_.root
    if pattern is None:
        return value_text(column, type_, separator="T")
    if root is _R.TIME:
        values = column.cast(pa.time64("us"), safe=False).cast(pa.int64()).to_numpy()
    else:
        zone = "UTC" if root is _R.TIMESTAMP_LTZ else None
        values = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64()).to_numpy()
    local = instant_to_local(values, time_zone, "us") if root is _R.TIMESTAMP_LTZ else values
    return format_times(np.ascontiguousarray(local), "us", pattern, Dialect.FORMATTER)


def read_index(text: str, schema: Schema) -> IndexName:
    """Raises OptionError for a name that is not understood, or names no column."""
    parts: list[str | tuple[str, str | None]] = []
    at = 0
    for found in _PART.finditer(text):
        if found.start() > at:
            parts.append(text[at : found.start()])
        at = found.end()
        name, pattern = found[1].strip(), found[3]
        if name in _NOW:
            parts.append((name, pattern))
            continue
        if name not in schema.names:
            raise OptionError(f"option 'index' names '{name}', which is no column", hint="check it")
        root = schema[schema.index_of(name)].type.root
        if pattern is not None and root not in _STANDARD:
            raise OptionError(f"option 'index' has a pattern for '{name}', which is no time", hint="leave it out")
        parts.append((name, _STANDARD[root] if pattern == "" else pattern))
    if at < len(text):
        parts.append(text[at:])
    if any(isinstance(p, str) and ("{" in p or "}" in p) for p in parts):
        raise OptionError("option 'index' has a brace too many", hint="a column is written as '{region}'")
    return IndexName(tuple(parts))


def document_ids(rows: pa.RecordBatch, key: Sequence[str], schema: Schema, delimiter: str) -> pa.Array:
    """The id of each row, string; NULL where a part of the key is. Raises ConnectorError E3261 for texts of a key of several
    columns in which the delimiter stands: two keys could be one."""
    texts: list[pa.Array] = []
    for name in key:
        text = value_text(rows.column(name), schema[schema.index_of(name)].type, separator="T").cast(pa.string())
        if len(key) > 1 and pc.any(pc.match_substring(text, delimiter)).as_py():
            raise ConnectorError(
                f"a value of {name} has the delimiter of ids, '{delimiter}', in it",
                code="E3261",
                hint="set 'document-id.key-delimiter' to what no value has",
            )
        texts.append(text)
    return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, delimiter)
