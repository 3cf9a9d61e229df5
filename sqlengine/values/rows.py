"""Rows for Python: columns of Arrow as Python values, and the row class that carries them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import INT, DataType, TypeRoot

if TYPE_CHECKING:
    import sqlengine.values.bitmap as _bitmap
    import sqlengine.values.variant as _variant
else:
    _bitmap = Room("sqlengine.values.bitmap")
    _variant = Room("sqlengine.values.variant")

__all__ = ["Finished", "Row", "RowKind", "Timestamp9", "python_values"]

_EPOCH = dt.datetime(1970, 1, 1)
_YEARS = ("0001-01-01", "9999-12-31T23:59:59.999999")


class Finished:
    """Columns of Python values as one batch, which is made when somebody reads it."""

    def __init__(self, schema: Schema, columns: Sequence[Sequence[Any]]) -> None:
        self._schema = schema
        self._columns = [list(values) for values in columns]

    def __iter__(self) -> Iterator[ChangelogBatch]:
        columns = zip(self._schema, self._columns, strict=True)
        yield ChangelogBatch.of([pa.array(values, f.type.arrow) for f, values in columns], self._schema)


class RowKind(StrEnum):
    """What a row of a changelog does, under the names of PyFlink; equal to its short text."""

    INSERT = "+I"
    UPDATE_BEFORE = "-U"
    UPDATE_AFTER = "+U"
    DELETE = "-D"


class Row(tuple[Any, ...]):
    """A row as a tuple of Python values, with its row kind (`+I`, `-U`, `+U`, `-D`) and the column names.

        Row(1, "ann"), Row(id=1, name="ann")

    Equal to a plain tuple of the same values. A column is found by position, by name in brackets (`row["a"]`), or as an
    attribute where the name is not one of tuple's own. It does not change: an accumulator that does is a list.
    """

    kind: str
    names: tuple[str, ...]

    def __new__(cls, *values: Any, **named: Any) -> Row:
        if values and named:
            raise TypeError("the values of a Row have names, all of them or none")
        return Row.of(values or tuple(named.values()), "+I", tuple(named))

    @classmethod
    def of(cls, values: Sequence[Any], kind: str = "+I", names: tuple[str, ...] = ()) -> Row:
        """A row of these values."""
        row = tuple.__new__(cls, values)
        row.kind = kind
        row.names = names
        return row

    def __reduce__(self) -> Any:
        return Row.of, (tuple(self), self.kind, self.names)

    def get_row_kind(self) -> RowKind:
        """The row kind as PyFlink has it."""
        return RowKind(self.kind)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TypeError("a Row does not change; an accumulator that does is a list: [0, 0]")

    def as_dict(self) -> dict[str, Any]:
        """Values by column name; of two columns with one name the last."""
        return dict(zip(self.names, self, strict=False))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"the row has no column {key!r}; it has {', '.join(self.names)}")
            return super().__getitem__(self.names.index(key))
        return super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        names = self.__dict__.get("names", ())
        if name in names:
            return self[names.index(name)]
        raise AttributeError(f"the row has no column {name!r}; it has {', '.join(names)}")

    def __repr__(self) -> str:
        if not self.names:
            return f"{self.kind}({', '.join(map(repr, self))})"
        return f"{self.kind}({', '.join(f'{n}={v!r}' for n, v in zip(self.names, self, strict=True))})"


class Timestamp9(dt.datetime):
    """A timestamp with nanoseconds: a datetime, and the three digits that it cannot hold.

    Equality and order count the nanoseconds when both sides have them.
    """

    nanosecond: int = 0

    @classmethod
    def of(cls, nanoseconds: int, zone: dt.tzinfo | None) -> Timestamp9:
        micros, rest = divmod(nanoseconds, 1000)
        base = _EPOCH + dt.timedelta(microseconds=micros)
        value = cls(base.year, base.month, base.day, base.hour, base.minute, base.second, base.microsecond, zone)
        value.nanosecond = rest
        return value

    def __eq__(self, other: object) -> bool:
        same = super().__eq__(other)
        return same and self.nanosecond == getattr(other, "nanosecond", 0) if same is True else same

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = dt.datetime.__hash__

    def __lt__(self, other: Any) -> bool:
        return super().__lt__(other) or (super().__eq__(other) and self.nanosecond < getattr(other, "nanosecond", 0))

    def __le__(self, other: Any) -> bool:
        return self < other or self == other

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def isoformat(self, sep: str = "T", timespec: str = "auto") -> str:
        if timespec != "auto" or not self.nanosecond:
            return super().isoformat(sep, timespec)
        whole = super().isoformat(sep, "microseconds")
        return f"{whole[:26]}{self.nanosecond:03d}{whole[26:]}"

    def __str__(self) -> str:
        return self.isoformat(" ")

    def __repr__(self) -> str:
        return f"Timestamp9({self.isoformat()!r})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        whole = int((_EPOCH - self.replace(tzinfo=None)) / dt.timedelta(microseconds=-1))
        return Timestamp9.of, (whole * 1000 + self.nanosecond, self.tzinfo)


def python_values(column: pa.Array, type_: DataType) -> list[Any]:
    """A column as Python values: `datetime` (LTZ in UTC; above microseconds `Timestamp9`), `Decimal`, `bytes`,
    `timedelta` (INTERVAL of days; of months a number), lists for ARRAY, tuples for ROW (a `Row` with field names),
    dicts for MAP and MULTISET (value to count),
    `Bitmap` for BITMAP; `Variant` for VARIANT."""
    match type_.root:
        case TypeRoot.ARRAY:
            items = python_values(column.values, type_.children[0])
            return [None if part is None else items[part] for part in _slices(column)]
        case TypeRoot.MAP | TypeRoot.MULTISET:
            keys = [_hashable(key) for key in python_values(column.keys, type_.children[0])]
            item_type = type_.children[1] if type_.root is TypeRoot.MAP else INT
            items = python_values(column.items, item_type)
            return [
                None if part is None else dict(zip(keys[part], items[part], strict=True)) for part in _slices(column)
            ]
        case TypeRoot.BITMAP:
            return [None if data is None else _bitmap.Bitmap.deserialize(data) for data in column.to_pylist()]
        case TypeRoot.VARIANT:
            return [None if text is None else _variant.Variant(text) for text in column.to_pylist()]
        case TypeRoot.ROW:
            names = tuple(f.name for f in type_.fields)
            fields = [python_values(column.field(i), f.type) for i, f in enumerate(type_.fields)]
            rows = zip(*fields, strict=True) if fields else iter([()] * len(column))
            return [
                Row.of(values, "+I", names) if valid else None
                for values, valid in zip(rows, _validity(column), strict=True)
            ]
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if (
            pa.types.is_timestamp(column.type) and column.type.unit == "ns"
        ):
            zone = dt.UTC if type_.root is TypeRoot.TIMESTAMP_LTZ else None
            return [None if v is None else Timestamp9.of(v, zone) for v in column.cast(pa.int64()).to_pylist()]
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ | TypeRoot.DATE:
            return _moments(column)
        case _:
            return column.to_pylist()


def _moments(column: pa.Array) -> list[Any]:
    """A column of dates or times as Python's, by numpy: Arrow takes ten times as long for each. What Python's years do not
    reach raises OverflowError, as there."""
    if getattr(column.type, "tz", None) not in (None, "UTC"):
        return column.to_pylist()
    values = column.to_numpy(zero_copy_only=False)
    low, high = (np.datetime64(end).astype(values.dtype) for end in _YEARS)
    if np.count_nonzero((values >= low) & (values <= high)) + column.null_count != len(column):
        return column.to_pylist()
    if pa.types.is_date(column.type):
        return values.tolist()
    values = values.astype("M8[us]")
    if column.type.tz is None:
        return values.tolist()
    epoch = pa.scalar(0, column.type).as_py()
    return [None if span is None else epoch + span for span in values.view("m8[us]").tolist()]


def _validity(column: pa.Array) -> list[bool]:
    return column.is_valid().to_pylist()


def _slices(column: pa.Array) -> list[slice | None]:
    """Where the items of each row of a list or map column stand among all of them."""
    offsets = column.offsets.to_pylist()
    return [
        slice(a, b) if valid else None for a, b, valid in zip(offsets, offsets[1:], _validity(column), strict=False)
    ]


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(v) for v in value)
    return value
