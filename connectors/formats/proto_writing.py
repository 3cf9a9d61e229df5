"""How columns become messages of Protobuf: the program of `runtime/kernels/proto_write`, and the columns it reads.

NULL is a field that is not there. Within lists and maps there is no NULL: it is the default of its type, as in Flink 2.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.proto_model import ProtoField, ProtoMessage
from connectors.formats.proto_reading import INTEGERS, is_timestamp
from runtime.core.errors import FormatError
from runtime.core.schema import Schema
from runtime.core.types import DataType, RowField, TypeRoot
from runtime.kernels.programs import ProgramBuilder
from runtime.kernels.proto_programs import Wire, Write
from runtime.kernels.proto_write import write_messages
from runtime.kernels.written_columns import Unwritten, WrittenColumns

__all__ = ["Unwritable", "check_writable", "encode_proto"]

_TAGS = {
    **dict.fromkeys(("double", "fixed64", "sfixed64"), Wire.WIDE),
    **dict.fromkeys(("float", "fixed32", "sfixed32"), Wire.NARROW),
    **dict.fromkeys(("string", "bytes", "message"), Wire.LENGTH),
}


class Unwritable(ValueError):
    """Columns cannot be written as a message; the text says why."""


def check_writable(schema: Schema, message: ProtoMessage) -> None:
    """Raises Unwritable for columns that a message does not hold."""
    _Compiler("").message(schema, [pa.array([], f.type.arrow) for f in schema], message, 0)


def encode_proto(
    schema: Schema,
    columns: Sequence[pa.Array],
    message: ProtoMessage,
    count: int,
    prefix: bytes = b"",
    null_text: str = "",
) -> pa.Array:
    """Each row as a message, large_binary.

    Args:
        prefix: what stands before each of them.
        null_text: what NULL is among texts in lists and maps.

    Raises:
        FormatError: E3203 for a value that a field does not hold: a number that is out of range, a text that is no value of an
            enum, NULL for a required field.
    """
    compiler = _Compiler(null_text)
    compiler.message(schema, columns, message, count)
    try:
        data, offsets = write_messages(compiler.built.program(), compiler.columns, count, prefix)
    except Unwritten as error:
        what = "NULL, and its field is required" if error.is_null else "larger than a message may be"
        raise FormatError(
            f"column {error.name} is {what}, in row {error.row + 1} of the batch",
            code="E3203",
            hint="filter such rows, or give the column a value",
        ) from error
    return pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


class _Compiler:
    def __init__(self, null_text: str) -> None:
        self.built = ProgramBuilder()
        self.columns = WrittenColumns()
        self._null_text = null_text

    def message(self, schema: Schema, columns: Sequence[pa.Array], message: ProtoMessage, count: int) -> None:
        """The program of a message, and its columns."""
        root, rows = self.built.begin(""), self.columns.add_rows(count)
        fields = tuple(RowField(f.name, f.type) for f in schema)
        self.built.set(root, Write.MESSAGE, rows, children=self._fields(fields, columns, message, ""))

    def _fields(
        self, fields: Sequence[RowField], columns: Sequence[pa.Array], message: ProtoMessage, path: str
    ) -> list[int]:
        given = {f.name: (f.type, column) for f, column in zip(fields, columns, strict=True)}
        nodes: list[int] = []
        members: dict[str, list[tuple[str, pa.Array]]] = {}
        for one in sorted(message.fields, key=lambda f: f.number):
            found = given.pop(one.name, None)
            if found is None:
                if one.required:
                    raise Unwritable(f"no column is its field {path}{one.name}, which is required")
                continue
            if one.oneof:
                members.setdefault(one.oneof, []).append((f"{path}{one.name}", found[1]))
            nodes.append(self._field(one, *found, f"{path}{one.name}"))
        for oneof, several in members.items():
            _check_oneof(f"{path}{oneof}", several)
        if given:
            raise Unwritable(f"message {message.name} has no field for column {path}{next(iter(given))}")
        return nodes

    def _field(self, one: ProtoField, type_: DataType, array: pa.Array, path: str) -> int:
        if one.repeated:
            return self._repeated(one, type_, array, path)
        value, column = self._value(one, type_, array, path)
        skips_zero = not one.told and not one.required
        tag = one.number << 3 | _TAGS.get(one.kind, Wire.VARINT)
        return self.built.add(path, Write.FIELD, column, [tag, int(skips_zero), int(one.required)], [value])

    def _repeated(self, one: ProtoField, type_: DataType, array: pa.Array, path: str) -> int:
        if type_.root is not (TypeRoot.MAP if one.is_map else TypeRoot.ARRAY):
            raise self._unfit(one, type_, path)
        column, within = self.columns.add(array)
        if one.is_map:
            assert one.message is not None
            rows = self.columns.add_rows(len(within[0]))
            entries: list[int] = []
            for part, child, items in zip(one.message.fields, type_.children, within, strict=True):
                value, of = self._value(part, child, self._filled(part, child, items), path)
                # The default is written, too: who reads may not know it.
                tag = part.number << 3 | _TAGS.get(part.kind, Wire.VARINT)
                entries.append(self.built.add(path, Write.FIELD, of if part.message is None else rows, [tag], [value]))
            element = self.built.add(path, Write.MESSAGE, rows, children=entries)
        else:
            element, _ = self._value(one, type_.children[0], self._filled(one, type_.children[0], within[0]), path)
        tag = one.number << 3 | (Wire.LENGTH if one.packed else _TAGS.get(one.kind, Wire.VARINT))
        return self.built.add(path, Write.REPEATED, column, [tag, int(one.packed)], [element])

    def _filled(self, one: ProtoField, type_: DataType, items: pa.Array) -> pa.Array:
        """The elements of lists and maps, without NULL. Of messages NULL stays, and is written as one that is empty."""
        if not items.null_count or type_.root is TypeRoot.ROW:
            return items
        if one.kind == "enum":
            assert one.enum is not None
            name, number = one.enum.values[0]
            default = name if type_.is_character else number
        elif type_.is_character:
            default = self._null_text
        else:
            zero = {TypeRoot.BOOLEAN: False, TypeRoot.BINARY: b"", TypeRoot.VARBINARY: b""}.get(type_.root, 0)
            default = pa.scalar(zero, pa.int64()).cast(items.type) if type_.is_timestamp else zero
        return pc.fill_null(items, default)

    def _unfit(self, one: ProtoField, type_: DataType, path: str) -> Unwritable:
        return Unwritable(f"column {path} is {type_}, and the message has {one.shown}")

    def _value(self, one: ProtoField, type_: DataType, array: pa.Array, path: str) -> tuple[int, int]:
        """The node that writes a value of a column, and the number of that."""
        root, kind = type_.root, one.kind
        match kind:
            case "bool" if root is TypeRoot.BOOLEAN:
                return self._added(path, Write.VARINT, array)
            case "string" | "bytes" if (
                type_.is_character if kind == "string" else root in (TypeRoot.BINARY, TypeRoot.VARBINARY)
            ):
                return self._added(path, Write.BYTES, array)
            case "float" if root is TypeRoot.FLOAT:
                return self._added(path, Write.FIXED, array)
            case "double" if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
                return self._added(path, Write.FIXED, array.cast(pa.float64()))
            case "enum" if type_.is_character or root in INTEGERS["int32"]:
                return self._added(path, Write.VARINT, _numbers_of_enum(one, type_, array, path))
            case "message" if is_timestamp(one, type_):
                stored = 9 if type_.precision > 6 else 6
                return self._added(path, Write.TIMESTAMP, array, [10**stored, 10 ** (9 - stored)])
            case "message" if one.message is not None and root is TypeRoot.ROW:
                column, within = self.columns.add(array)
                nodes = self._fields(type_.fields, within, one.message, f"{path}.")
                return self.built.add(path, Write.MESSAGE, column, children=nodes), column
            case _ if root in INTEGERS.get(kind, ()) or (root in INTEGERS["int32"] and kind in INTEGERS):
                if root is not TypeRoot.DECIMAL or type_.scale == 0:
                    return self._integers(kind, array, path)
            case _:
                pass
        raise self._unfit(one, type_, path)

    def _integers(self, kind: str, array: pa.Array, path: str) -> tuple[int, int]:
        unsigned = kind.startswith(("u", "fixed"))
        wide = kind.endswith("64")
        exact = (pa.uint64() if wide else pa.uint32()) if unsigned else (pa.int64() if wide else pa.int32())
        try:
            held = array.cast(exact)
        except pa.ArrowInvalid as error:
            raise FormatError(
                f"column {path} has a number that {kind} does not hold: {error}",
                code="E3203",
                hint="filter such rows, or let the field be of a larger type",
            ) from error
        if "fixed" in kind:
            return self._added(path, Write.FIXED, held)
        signed = held.view(pa.int64()) if wide else held.cast(pa.int64())
        return self._added(path, Write.ZIGZAG if kind.startswith("s") else Write.VARINT, signed)

    def _added(self, path: str, does: Write, array: pa.Array, numbers: Sequence[int] = ()) -> tuple[int, int]:
        column, _ = self.columns.add(array)
        return self.built.add(path, does, column, numbers), column


def _numbers_of_enum(one: ProtoField, type_: DataType, array: pa.Array, path: str) -> pa.Array:
    """Raises FormatError E3203 for a text that the enum does not have, and a number that a closed one does not have."""
    assert one.enum is not None
    names = [name for name, _ in one.enum.values]
    numbers = [number for _, number in one.enum.values]
    if type_.is_character:
        places = pc.index_in(array, value_set=pa.array(names, pa.string()), skip_nulls=True)
        found = pc.take(pa.array(numbers, pa.int32()), places)
        wrong = pc.and_(pc.is_valid(array), pc.is_null(places))
    else:
        try:
            found = array.cast(pa.int32())
        except pa.ArrowInvalid as error:
            raise FormatError(f"column {path} has a number that no enum holds: {error}", code="E3203") from error
        known = pc.is_in(found, value_set=pa.array(numbers, pa.int32()))
        wrong = pc.and_(pc.is_valid(array), pc.invert(known)) if one.enum.closed else pa.nulls(len(array), pa.bool_())
    bad = np.flatnonzero(pc.fill_null(wrong, False).to_numpy(zero_copy_only=False))
    if len(bad):
        raise FormatError(
            f"column {path} is {array[int(bad[0])].as_py()!r}, which enum {one.enum.name} does not have",
            code="E3203",
            hint=f"it has {', '.join(names[:20])}",
        )
    return found.cast(pa.int64())


def _check_oneof(oneof: str, members: Sequence[tuple[str, pa.Array]]) -> None:
    """Raises FormatError E3203 where several members of a oneof are not NULL: only one would be read."""
    if len(members) < 2:
        return
    there = np.array([pc.is_valid(array).to_numpy(zero_copy_only=False) for _, array in members])
    wrong = np.flatnonzero(there.sum(0) > 1)
    if len(wrong):
        names = [name for (name, _), is_there in zip(members, there[:, wrong[0]], strict=True) if is_there]
        raise FormatError(
            f"columns {' and '.join(names)} are members of oneof {oneof}, and both have a value",
            code="E3203",
            hint="let all but one of them be NULL",
        )
