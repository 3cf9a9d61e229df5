"""Which types a format can hold."""

from __future__ import annotations

from runtime.core.errors import UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot

__all__ = ["check_held"]

_HINTS = {TypeRoot.BITMAP: "write BITMAP_TO_BYTES(b) into a column of BYTES, and read it with BITMAP_FROM_BYTES"}


def check_held(format_name: str, schema: Schema) -> None:
    """Raises UnsupportedError E1616 for a column of a type that no format can hold, as in Flink."""
    for field in schema:
        _check(format_name, field.name, field.type)


def _check(format_name: str, name: str, type_: DataType) -> None:
    if type_.root in _HINTS:
        raise UnsupportedError(
            f"format '{format_name}' cannot hold column {name} of type {type_}", code="E1616", hint=_HINTS[type_.root]
        )
    for child in (*type_.children, *(f.type for f in type_.fields)):
        _check(format_name, name, child)
