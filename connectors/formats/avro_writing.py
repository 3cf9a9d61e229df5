"""How columns become records of a schema of Avro: the program of `runtime/kernels/avro_write`, and the columns it reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.avro_defaults import default_bytes
from connectors.formats.avro_schema import NO_DEFAULT, AvroField, AvroType, BadSchema
from runtime.core.errors import FormatError
from runtime.core.schema import Schema
from runtime.core.types import DataType, RowField, TypeRoot
from runtime.kernels.avro_programs import Write
from runtime.kernels.avro_write import write_records
from runtime.kernels.programs import ProgramBuilder
from runtime.kernels.written_columns import Unwritten, WrittenColumns

__all__ = ["Unwritable", "check_writable", "encode_records"]

_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}
_INTEGERS = {
    TypeRoot.TINYINT: ("int", "long"),
    TypeRoot.SMALLINT: ("int", "long"),
    TypeRoot.INT: ("int", "long"),
    TypeRoot.BIGINT: ("long",),
}


class Unwritable(ValueError):
    """Columns cannot be written under a schema; the message says why."""


def check_writable(schema: Schema, written: AvroType) -> None:
    """Raises Unwritable for columns that a schema does not hold."""
    empty = [pa.array([], f.type.arrow) for f in schema]
    _Compiler().record(schema, empty, written, 0)


def encode_records(
    schema: Schema, columns: Sequence[pa.Array], written: AvroType, count: int, prefix: bytes = b""
) -> pa.Array:
    """Each row as a record, large_binary. `prefix`: what stands before each of them.

    Raises:
        FormatError: E3203 for a value that the schema does not hold: NULL, or a text that is no symbol of an enum.
    """
    compiler = _Compiler()
    compiler.record(schema, columns, written, count, prefix)
    try:
        data, ends = write_records(compiler.built.program(), compiler.columns, count)
    except Unwritten as error:
        what = "NULL" if error.is_null else "a value of another size"
        raise FormatError(
            f"column {error.name} is {what} in row {error.row + 1} of the batch, which the schema of Avro does not hold",
            code="E3203",
            hint="let the field be a union with null, or filter such rows",
        ) from error
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    return pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


class _Compiler:
    def __init__(self) -> None:
        self.built = ProgramBuilder()
        self.columns = WrittenColumns()

    def record(
        self, schema: Schema, columns: Sequence[pa.Array], written: AvroType, count: int, prefix: bytes = b""
    ) -> None:
        """The program of a record, and its columns."""
        root = self.built.begin("")
        column = self.columns.add_rows(count)
        fields = tuple(RowField(f.name, f.type) for f in schema)
        if written.kind == "union":
            (written,) = [b for b in written.branches if b.kind == "record"][:1] or [written]
        if written.kind != "record":
            raise Unwritable(f"it is no record but {written.shown}")
        before = [self._constant(prefix, "", count)] if prefix else []
        nodes = self._fields(fields, columns, written, "", count)
        self.built.set(root, Write.GROUP, column, children=[*before, *nodes])

    def _fields(
        self, fields: Sequence[RowField], columns: Sequence[pa.Array], written: AvroType, path: str, count: int
    ) -> list[int]:
        given = {f.name: (f.type, column) for f, column in zip(fields, columns, strict=True)}
        nodes: list[int] = []
        for field in written.fields:
            name = next((n for n in (field.name, *field.aliases) if n in given), None)
            if name is None:
                nodes.append(self._default(field, f"{path}{field.name}", count))
            else:
                type_, column = given.pop(name)
                nodes.append(self._value(type_, column, field.type, f"{path}{name}"))
        if given:
            raise Unwritable(f"it has no field for column {path}{next(iter(given))}")
        return nodes

    def _default(self, field: AvroField, path: str, count: int) -> int:
        """A field that no column is: each record has its default."""
        if field.default is NO_DEFAULT:
            raise Unwritable(f"no column is its field {path}, which has no default")
        try:
            constant = default_bytes(field.type, field.default)
        except BadSchema as error:
            raise Unwritable(f"the default of {path} is wrong: {error}") from error
        return self._constant(constant, path, count)

    def _constant(self, raw: bytes, path: str, count: int) -> int:
        """The same bytes in each record."""
        column, _ = self.columns.add(pa.repeat(pa.scalar(raw, pa.large_binary()), count))
        return self.built.add(path, Write.FIXED, column, [len(raw)])

    def _value(self, type_: DataType, array: pa.Array, written: AvroType, path: str) -> int:
        if written.kind != "union":
            return self._plain(type_, array, written, path)
        wrong: Unwritable | None = None
        for number, branch in enumerate(written.branches):
            if branch.kind == "null":
                continue
            try:
                inside = self._plain(type_, array, branch, path)
            except Unwritable as error:
                wrong = error
                continue
            null = next((n for n, b in enumerate(written.branches) if b.kind == "null"), -1)
            column, _ = self.columns.add(pc.is_valid(array) if null < 0 else _flags(array))
            operation = Write.NULLABLE
            return self.built.add(path, operation, column, [max(null, 0), number], [inside])
        raise wrong or Unwritable(f"{path} is always null")

    def _plain(self, type_: DataType, array: pa.Array, written: AvroType, path: str) -> int:
        root, kind, logical = type_.root, written.kind, written.logical
        add = self.built.add
        match root, kind:
            case TypeRoot.BOOLEAN, "boolean":
                return add(path, Write.BOOLEAN, self._column(array))
            case (TypeRoot.CHAR | TypeRoot.VARCHAR, "string") | (TypeRoot.BINARY | TypeRoot.VARBINARY, "bytes"):
                return add(path, Write.BYTES, self._column(array))
            case (TypeRoot.BINARY | TypeRoot.VARBINARY, "fixed"):
                return add(path, Write.FIXED, self._column(array), [written.size])
            case (TypeRoot.CHAR | TypeRoot.VARCHAR, "enum"):
                symbols = pc.index_in(array, value_set=pa.array(written.symbols, pa.string()), skip_nulls=True)
                return add(path, Write.INTEGER, self._column(symbols), [1, 1])
            case TypeRoot.NULL, "null":
                return add(path, Write.NOTHING, self._column(array))
            case TypeRoot.FLOAT, "float":
                return add(path, Write.FLOAT, self._column(array))
            case (TypeRoot.FLOAT | TypeRoot.DOUBLE, "double"):
                return add(path, Write.DOUBLE, self._column(array.cast(pa.float64())))
            case (TypeRoot.DECIMAL, "bytes" | "fixed") if logical == "decimal":
                if written.scale == type_.scale and written.precision >= type_.precision:
                    return add(path, Write.DECIMAL, self._column(array), [written.size if kind == "fixed" else -1])
            case TypeRoot.ROW, "record":
                column, within = self.columns.add(array)
                nodes = self._fields(type_.fields, within, written, f"{path}.", len(array))
                return add(path, Write.GROUP, column, children=nodes)
            case (TypeRoot.ARRAY, "array") | (TypeRoot.MAP | TypeRoot.MULTISET, "map"):
                return self._items(type_, array, written, path)
            case _:
                units = _units(type_, kind, logical)
                if units is not None:
                    return add(path, Write.INTEGER, self._column(array), units)
        raise Unwritable(f"column {path} is {type_}, and the schema has {written.shown}")

    def _column(self, array: pa.Array) -> int:
        return self.columns.add(array)[0]

    def _items(self, type_: DataType, array: pa.Array, written: AvroType, path: str) -> int:
        assert written.items is not None
        column, within = self.columns.add(array)
        count = DataType(TypeRoot.INT)
        inside = count if type_.root is TypeRoot.MULTISET else type_.children[-1]
        item = self._value(inside, within[-1], written.items, f"{path}[]")
        if written.kind == "map":
            key = self.built.add(f"{path} (key)", Write.BYTES, self._column(within[0]))
            rows = self.columns.add_rows(len(within[0]))
            item = self.built.add(path, Write.GROUP, rows, children=[key, item])
        return self.built.add(path, Write.ITEMS, column, children=[item])


def _flags(array: pa.Array) -> pa.Array:
    """A column that is NULL where another one is."""
    return pc.if_else(pc.is_valid(array), True, pa.scalar(None, pa.bool_()))


def _units(type_: DataType, kind: str, logical: str) -> list[int] | None:
    """By what a stored number is multiplied, and divided first; None when it is not written under this type."""
    if kind in _INTEGERS.get(type_.root, ()) and not logical:
        return [1, 1]
    if type_.root is TypeRoot.DATE and kind == "int" and logical in ("", "date"):
        return [1, 1]
    if type_.root is TypeRoot.TIME and logical in ("", "time-millis", "time-micros"):
        micros = logical == "time-micros"
        return [1000 if micros else 1, 1] if kind == ("long" if micros else "int") else None
    if type_.is_timestamp and kind == "long" and "timestamp-" in logical:
        written, stored = _DIGITS[logical.rpartition("-")[2]], 9 if type_.precision > 6 else 6
        if written >= type_.precision:
            return [10 ** max(written - stored, 0), 10 ** max(stored - written, 0)]
    return None
