"""Which types formats and connectors can hold."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.core.errors import UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot

__all__ = ["check_held"]

_HINTS = {
    TypeRoot.BITMAP: "write BITMAP_TO_BYTES(b) into a column of BYTES, and read it with BITMAP_FROM_BYTES",
    TypeRoot.RAW: "write CAST(r AS BYTES) into a column of BYTES",
    TypeRoot.VARIANT: "write JSON_STRING(v) into a column of STRING, and read it with PARSE_JSON",
}
_NO_TYPES: Mapping[TypeRoot, str] = {}


def check_held(holder: str, schema: Schema, lacking: Mapping[TypeRoot, str] = _NO_TYPES) -> None:
    """Raises UnsupportedError E1616 for a column of a type that none can hold, as in Flink, or this one cannot.

    Args:
        holder: for the message: `format 'csv'`.
        lacking: types that this one cannot hold, inside others neither, and what to do instead.
    """
    hints = {**_HINTS, **lacking}
    for field in schema:
        _check(holder, field.name, field.type, hints)


def _check(holder: str, name: str, type_: DataType, hints: Mapping[TypeRoot, str]) -> None:
    if type_.root in hints:
        raise UnsupportedError(
            f"{holder} cannot hold column {name} of type {type_}", code="E1616", hint=hints[type_.root]
        )
    for child in (*type_.children, *(f.type for f in type_.fields)):
        _check(holder, name, child, hints)
