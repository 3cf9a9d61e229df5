"""How messages of Protobuf become columns: the program of `runtime/kernels/proto_read`.

Fields are found by name; what no column wants is passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from connectors.formats.filled_columns import FilledColumn, FilledColumns
from connectors.formats.proto_model import ProtoField, ProtoMessage
from runtime.core.schema import Schema
from runtime.core.types import DataType, RowField, TypeRoot
from runtime.kernels.programs import NO_COLUMN, Program, ProgramBuilder
from runtime.kernels.proto_programs import Encoding, Read, Wire
from runtime.kernels.proto_write_twin import varint

__all__ = ["ENCODINGS", "INTEGERS", "TIMESTAMP", "Unresolved", "proto_program", "zigzag"]

TIMESTAMP = "google.protobuf.Timestamp"
ENCODINGS = {e.name.lower(): e for e in Encoding}
_BITS = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INT: 31, TypeRoot.BIGINT: 63}
_NARROW = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.SMALLINT, TypeRoot.TINYINT)
_SIGNED, _UNSIGNED = (TypeRoot.BIGINT,), (TypeRoot.BIGINT, TypeRoot.DECIMAL)
INTEGERS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32", "uint32", "fixed32"), _NARROW),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), _SIGNED),
    **dict.fromkeys(("uint64", "fixed64"), _UNSIGNED),
}
"""By how an integer is written, the columns that hold it."""
_WIRES = {
    "double": Wire.WIDE,
    "fixed64": Wire.WIDE,
    "sfixed64": Wire.WIDE,
    "float": Wire.NARROW,
    "fixed32": Wire.NARROW,
    "sfixed32": Wire.NARROW,
    "string": Wire.LENGTH,
    "bytes": Wire.LENGTH,
    "message": Wire.LENGTH,
    "group": Wire.START,
}
_MOST_NODES = 200_000
_LARGEST_DECIMAL = 20
_UNKNOWN = b"UNRECOGNIZED"
"""What Flink gives for a number that an open enum does not name."""


class Unresolved(ValueError):
    """Messages do not have what a column needs; the message says why."""


def proto_program(message: ProtoMessage, schema: Schema, *, defaults: bool = False, lenient: bool = False) -> Program:
    """What makes columns of messages.

    Args:
        schema: the columns, by the names of fields.
        defaults: fields that are not there are what they are by default, not NULL.
        lenient: a column that may be NULL needs no field.

    Raises:
        Unresolved: a column cannot be made of what is written.
    """
    try:
        return _Compiler(defaults, lenient).program(message, schema)
    except RecursionError as error:
        raise Unresolved("the columns are nested too deeply") from error


class _Compiler:
    def __init__(self, defaults: bool, lenient: bool) -> None:
        self._built = ProgramBuilder()
        self._filled = FilledColumns()
        self._defaults = defaults
        self._lenient = lenient

    def program(self, message: ProtoMessage, schema: Schema) -> Program:
        columns = [self._filled.add(f.type) for f in schema]
        root = self._built.begin("")
        nodes = self._fields(message, tuple(RowField(f.name, f.type) for f in schema), columns, "")
        self._built.set(root, Read.MESSAGE, children=nodes)
        return self._built.program(self._filled.slots, [c.number for c in columns])

    def _node(
        self, path: str, does: Read, column: int = NO_COLUMN, numbers: Sequence[int] = (), of: Sequence[int] = ()
    ) -> int:
        if len(self._built) > _MOST_NODES:
            raise Unresolved("the columns are too many")
        return self._built.add(path, does, column, numbers, of)

    def _fields(
        self, message: ProtoMessage, fields: Sequence[RowField], columns: Sequence[FilledColumn], path: str
    ) -> list[int]:
        """The nodes of a message, in the order of the numbers of its fields."""
        wanted = {f.name: column for f, column in zip(fields, columns, strict=True)}
        known = {f.name for f in message.fields}
        nodes: list[int] = []
        for name, column in wanted.items():
            if name in known:
                continue
            if not self._lenient or not column.type.nullable:
                raise Unresolved(f"message {message.name} has no field {path}{name}")
            nodes.append(self._absent(column, f"{path}{name}"))
        oneofs = {f.oneof for f in message.fields if f.name in wanted and f.oneof}
        used = [f for f in message.fields if f.name in wanted or f.required or (f.oneof and f.oneof in oneofs)]
        used.sort(key=lambda f: f.number)
        first: dict[str, int] = {}
        for place, one in enumerate(used):
            if one.oneof:
                first.setdefault(one.oneof, place)
        for one in used:
            member = 1 + first[one.oneof] if one.oneof else 0
            if one.name not in wanted:
                numbers = [one.number, member, int(one.required), _WIRES.get(one.kind, Wire.VARINT)]
                nodes.append(self._node(f"{path}{one.name}", Read.OTHER, numbers=numbers))
            else:
                nodes.append(self._field(one, wanted[one.name], member, f"{path}{one.name}"))
        return nodes

    def _field(self, one: ProtoField, column: FilledColumn, member: int, path: str) -> int:
        type_ = column.type
        if one.repeated:
            there = self._defaults or not type_.nullable
            value = self._elements(one, column, path)
            return self._node(path, Read.REPEATED, column.number, [one.number, 0, 0, int(there)], [value])
        value = self._value(one, column, path)
        if self._defaults or not one.told:
            absent = self._default(one, value, path)
        else:
            absent = self._absent(column, path)
        needed = one.required or (one.told and not self._defaults and not type_.nullable)
        return self._node(path, Read.FIELD, numbers=[one.number, member, int(needed)], of=[value, absent])

    def _elements(self, one: ProtoField, column: FilledColumn, path: str) -> int:
        if one.is_map:
            assert one.message is not None
            if column.type.root is not TypeRoot.MAP:
                raise self._unfit(one, column, path)
            entries: list[int] = []
            for part, within, name in zip(one.message.fields, column.children, (" (key)", "[]"), strict=True):
                value = self._value(part, within, path + name)
                absent = self._default(part, value, path)
                entries.append(self._node(path + name, Read.FIELD, numbers=[part.number], of=[value, absent]))
            return self._node(path, Read.MESSAGE, of=entries)
        if column.type.root is not TypeRoot.ARRAY:
            raise self._unfit(one, column, path)
        return self._value(one, column.children[0], f"{path}[]")

    def _absent(self, column: FilledColumn, path: str) -> int:
        within = column.children if column.type.root is TypeRoot.ROW else ()
        return self._node(path, Read.NOTHING, column.number, of=[self._absent(c, path) for c in within])

    def _default(self, one: ProtoField, value: int, path: str) -> int:
        constant = self._built.constant(_default_bytes(one))
        return self._node(path, Read.DEFAULT, numbers=constant, of=[value])

    def _unfit(self, one: ProtoField, column: FilledColumn, path: str) -> Unresolved:
        return Unresolved(f"column {path} is {column.type}, and messages have {one.shown}")

    def _value(self, one: ProtoField, column: FilledColumn, path: str) -> int:
        """The node that reads a value of a field into a column."""
        type_, number = column.type, column.number
        match one.kind:
            case "bool" if type_.root is TypeRoot.BOOLEAN:
                return self._node(path, Read.INTEGER, number, [0, 1, Encoding.BOOL])
            case "string" if type_.is_character:
                return self._node(path, Read.BYTES, number, [1])
            case "bytes" if type_.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
                return self._node(path, Read.BYTES, number)
            case "float" if type_.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
                return self._node(path, Read.FLOAT, number)
            case "double" if type_.root is TypeRoot.DOUBLE:
                return self._node(path, Read.DOUBLE, number)
            case "enum" if type_.is_character or type_.root in _BITS:
                return self._enum(one, column, path)
            case "message" if one.message is not None and type_.root is TypeRoot.ROW:
                nodes = self._fields(one.message, type_.fields, column.children, f"{path}.")
                return self._node(path, Read.MESSAGE, number, of=nodes)
            case "message" if one.message is not None and one.message.name == TIMESTAMP and type_.is_timestamp:
                stored = 9 if type_.precision > 6 else 6
                numbers = [10**stored, 10 ** (9 - stored), 10 ** (stored - type_.precision)]
                return self._node(path, Read.TIMESTAMP, number, numbers)
            case kind if type_.root in INTEGERS.get(kind, ()):
                if type_.root is not TypeRoot.DECIMAL:
                    most = 1 << _BITS[type_.root]
                    return self._node(path, Read.INTEGER, number, [-most, most - 1, ENCODINGS[kind]])
                if type_.scale == 0 and type_.precision >= _LARGEST_DECIMAL:
                    return self._node(path, Read.DECIMAL, number, [0, 0, ENCODINGS[kind]])
            case _:
                pass
        raise self._unfit(one, column, path)

    def _enum(self, one: ProtoField, column: FilledColumn, path: str) -> int:
        assert one.enum is not None
        texts = column.type.is_character
        names: dict[int, str] = {}
        for name, value in one.enum.values:
            names.setdefault(value, name)
        symbols = [self._symbol(value, names[value].encode() if texts else b"") for value in sorted(names)]
        if texts and not one.enum.closed:
            symbols.append(self._symbol(0, _UNKNOWN))
        most = 1 << _BITS.get(column.type.root, 31)
        numbers = [len(names), int(one.enum.closed), -most, most - 1]
        return self._node(path, Read.ENUM, column.number, numbers, symbols)

    def _symbol(self, value: int, text: bytes) -> int:
        return self._node("", Read.SYMBOL, numbers=[value, *self._built.constant(text)])


def zigzag(value: int) -> int:
    """An integer as sint32 and sint64 have it."""
    return value << 1 ^ value >> 63


def _default_bytes(one: ProtoField) -> bytes:
    """What a field is by default, as it would be written; raises Unresolved for a default that is none."""
    given = one.default
    try:
        match one.kind:
            case "message":
                return b"\x00"
            case "string" | "bytes":
                return varint(len(given or b"")) + (given or b"")
            case "float" | "double":
                return struct.pack("<f" if one.kind == "float" else "<d", float(given or b"0"))
            case "bool":
                return b"\x01" if given == b"true" else b"\x00"
            case "enum":
                assert one.enum is not None
                value = one.enum.values[0][1]
                if given is not None:
                    value = dict(one.enum.values)[given.decode()]
                return varint(value)
            case kind:
                value = int(given or b"0", 0)
                if "fixed" in kind:
                    return (value & (1 << 64) - 1).to_bytes(8, "little")[: 4 if kind.endswith("32") else 8]
                return varint(zigzag(value) if kind.startswith("sint") else value)
    except (ValueError, KeyError, OverflowError) as error:
        raise Unresolved(f"the default of field {one.name} is wrong") from error


def is_timestamp(one: ProtoField, type_: DataType) -> bool:
    """Whether a field is a point in time, and the column one."""
    return one.message is not None and one.message.name == TIMESTAMP and type_.is_timestamp


__all__ += ["is_timestamp"]
