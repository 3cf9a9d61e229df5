"""How records of one schema of Avro become columns: the program of `runtime/kernels/avro_read`.

Fields are found by name; what no column wants is passed over. A reader's schema may say more: aliases of fields, defaults,
what a number is (source: Apache Avro 1.12, Specification, "Schema Resolution"). Without one, a nullable column that records
lack is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.formats.avro_defaults import default_bytes
from connectors.formats.avro_schema import NO_DEFAULT, AvroField, AvroType, BadSchema
from connectors.formats.filled_columns import FilledColumn, FilledColumns
from runtime.core.schema import Schema
from runtime.core.types import RowField, TypeRoot
from runtime.expr.time_range import limits
from runtime.kernels.avro_programs import Read
from runtime.kernels.programs import Program, ProgramBuilder

__all__ = ["Unresolved", "reading_program"]

_ENDLESS = 1 << 40
_MOST_NODES = 200_000
_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}
_BITS = {"int": 31, "long": 63}
_INTEGERS = {
    TypeRoot.TINYINT: (7, ("int",)),
    TypeRoot.SMALLINT: (15, ("int",)),
    TypeRoot.INT: (31, ("int",)),
    TypeRoot.BIGINT: (63, ("int", "long")),
}
_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


class Unresolved(ValueError):
    """Records of a schema do not have what a column needs; the message says why."""


def reading_program(writer: AvroType, schema: Schema, reader: AvroType | None = None) -> Program:
    """What makes columns of records.

    Args:
        writer: the schema with which records were written.
        schema: the columns, by the names of fields.
        reader: what the columns mean, if somebody has said so.

    Raises:
        Unresolved: a column cannot be made of what is written.
    """
    try:
        return _Compiler().program(writer, schema, reader)
    except RecursionError as error:
        raise Unresolved("the schema is nested too deeply") from error


class _Compiler:
    def __init__(self) -> None:
        self._built = ProgramBuilder()
        self._filled = FilledColumns()
        self._skips: dict[int, int] = {}
        self._least: dict[int, int] = {}

    def program(self, writer: AvroType, schema: Schema, reader: AvroType | None) -> Program:
        columns = [self._filled.add(f.type) for f in schema]
        fields = tuple(RowField(f.name, f.type) for f in schema)
        root = self._built.begin("")
        if writer.kind != "record":
            raise Unresolved(f"it is no record but {writer.shown}")
        children = self._fields(writer, reader, fields, columns, "")
        self._built.set(root, Read.GROUP, children=children)
        return self._built.program(self._filled.slots, [c.number for c in columns])

    def _node(
        self, path: str, does: Read, column: int = -1, numbers: Sequence[int] = (), of: Sequence[int] = ()
    ) -> int:
        if len(self._built) > _MOST_NODES:
            raise Unresolved("the schema is too large")
        return self._built.add(path, does, column, numbers, of)

    def _fields(
        self,
        writer: AvroType,
        reader: AvroType | None,
        fields: Sequence[RowField],
        columns: Sequence[FilledColumn],
        path: str,
    ) -> list[int]:
        """The nodes of a record: its fields in the order in which they are written, then what it lacks."""
        declared = {f.name: _of_reader(reader, f.name, f"{path}{f.name}") for f in fields}
        wanted: dict[str, list[int]] = {}
        written = {f.name for f in writer.fields}
        lacking: list[int] = []
        for place, column in enumerate(fields):
            told = declared[column.name]
            names = (column.name, *(told.aliases if told is not None else ()))
            found = next((name for name in names if name in written), None)
            if found is None:
                lacking.append(place)
            else:
                wanted.setdefault(found, []).append(place)
        nodes: list[int] = []
        for one in writer.fields:
            places = wanted.get(one.name, [])
            if len(places) > 1:
                raise Unresolved(f"two columns are the field {path}{one.name}")
            if places:
                column, told = fields[places[0]], declared[fields[places[0]].name]
                nodes.append(self._value(one.type, told and told.type, columns[places[0]], f"{path}{column.name}"))
            else:
                nodes.append(self._skip(one.type))
        for place in lacking:
            nodes.append(self._lacking(columns[place], declared[fields[place].name], f"{path}{fields[place].name}"))
        return nodes

    def _lacking(self, column: FilledColumn, told: AvroField | None, path: str) -> int:
        if told is not None and told.default is not NO_DEFAULT:
            try:
                constant = self._built.constant(default_bytes(told.type, told.default))
            except BadSchema as error:
                raise Unresolved(f"the default of {path} is wrong: {error}") from error
            inside = self._value(told.type, told.type, column, path)
            return self._node(path, Read.DEFAULT, numbers=constant, of=[inside])
        if column.type.nullable:
            return self._absent(column, path)
        raise Unresolved(f"records have no field for column {path}, which is NOT NULL")

    def _absent(self, column: FilledColumn, path: str) -> int:
        within = column.children if column.type.root is TypeRoot.ROW else ()
        return self._node(path, Read.ABSENT, column.number, of=[self._absent(c, path) for c in within])

    def _reject(self, reason: str) -> int:
        return self._node(reason, Read.REJECT)

    def _value(self, writer: AvroType, reader: AvroType | None, column: FilledColumn, path: str) -> int:
        """The node that reads a value of a type into a column."""
        if writer.kind == "union":
            branches = [self._branch(branch, reader, column, path) for branch in writer.branches]
            others = [b for b, t in zip(branches, writer.branches, strict=True) if t.kind != "null"]
            wrong = [b for b in others if isinstance(b, Unresolved)]
            if wrong and len(wrong) == len(others):
                raise wrong[-1]
            nodes = [self._reject(str(b)) if isinstance(b, Unresolved) else b for b in branches]
            return self._node(path, Read.UNION, of=nodes)
        if writer.kind == "null":
            if not column.type.nullable or (reader is not None and not _has_null(reader)):
                raise Unresolved(f"column {path} is NULL, and declared NOT NULL")
            return self._absent(column, path)
        return self._plain(writer, _chosen(writer, reader, path), column, path)

    def _branch(self, branch: AvroType, reader: AvroType | None, column: FilledColumn, path: str) -> int | Unresolved:
        try:
            return self._value(branch, reader, column, path)
        except Unresolved as error:
            return error

    def _plain(self, writer: AvroType, reader: AvroType | None, column: FilledColumn, path: str) -> int:
        root = column.type.root
        # What a number means the reader says, if the numbers are the same.
        meaning = reader if reader is not None and reader.kind == writer.kind and reader.logical else writer
        match root, writer.kind:
            case TypeRoot.ROW, "record":
                told = reader if reader is not None and reader.kind == "record" else None
                nodes = self._fields(writer, told, column.type.fields, column.children, f"{path}.")
                return self._node(path, Read.GROUP, column.number, of=nodes)
            case (TypeRoot.ARRAY, "array") | (TypeRoot.MAP | TypeRoot.MULTISET, "map"):
                return self._items(writer, reader, column, path)
            case TypeRoot.BOOLEAN, "boolean":
                return self._node(path, Read.BOOLEAN, column.number)
            case (TypeRoot.CHAR | TypeRoot.VARCHAR, "string" | "bytes"):
                return self._node(path, Read.BYTES, column.number, [0, 1])
            case (TypeRoot.BINARY | TypeRoot.VARBINARY, "string" | "bytes"):
                return self._node(path, Read.BYTES, column.number)
            case (TypeRoot.BINARY | TypeRoot.VARBINARY, "fixed"):
                return self._node(path, Read.FIXED, column.number, [writer.size])
            case (TypeRoot.CHAR | TypeRoot.VARCHAR, "enum"):
                return self._enum(writer, reader, column, path)
            case (TypeRoot.DECIMAL, "bytes" | "fixed"):
                return self._decimal(writer, meaning, column, path)
            case _:
                pass
        found = self._number(writer, meaning, column, path)
        if found is None:
            raise Unresolved(f"column {path} is {column.type}, and records have {writer.shown}")
        return found

    def _number(self, writer: AvroType, meaning: AvroType, column: FilledColumn, path: str) -> int | None:
        type_, kind = column.type, writer.kind
        if type_.root in _INTEGERS and kind in _INTEGERS[type_.root][1]:
            bits = min(_BITS[kind], _INTEGERS[type_.root][0])
            return self._integer(column, path, -(1 << bits), (1 << bits) - 1)
        if type_.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
            if kind in _BITS:
                numbers = [-(1 << _BITS[kind]), (1 << _BITS[kind]) - 1]
                return self._node(path, Read.INTEGER_AS_FLOAT, column.number, numbers)
            if kind == "float" or (kind == "double" and type_.root is TypeRoot.DOUBLE):
                return self._node(path, Read.FLOAT if kind == "float" else Read.DOUBLE, column.number)
            return None
        if type_.root is TypeRoot.DATE and kind == "int" and meaning.logical in ("", "date"):
            low, high = limits(type_)
            return self._integer(column, path, low, high)
        if type_.root is TypeRoot.TIME and meaning.logical in ("", "time-millis", "time-micros"):
            micros = meaning.logical == "time-micros"
            if kind == ("long" if micros else "int"):
                day = 86_400_000 * (1000 if micros else 1)
                return self._integer(column, path, 0, day - 1, down=1000 if micros else 1)
        if type_.is_timestamp and kind == "long" and not meaning.logical.startswith("time-"):
            return self._timestamp(meaning, column, path)
        return None

    def _integer(self, column: FilledColumn, path: str, low: int, high: int, up: int = 1, down: int = 1) -> int:
        return self._node(path, Read.INTEGER, column.number, [low, high, up, down])

    def _timestamp(self, meaning: AvroType, column: FilledColumn, path: str) -> int:
        precision = column.type.precision
        written = _DIGITS.get(meaning.logical.rpartition("-")[2], 3 if precision <= 3 else 6 if precision <= 6 else 9)
        kept, stored = min(written, precision), 9 if precision > 6 else 6
        low, high = limits(column.type)
        if written <= stored:
            low, high = -(-low // 10 ** (stored - written)), high // 10 ** (stored - written)
        else:
            low, high = low * 10 ** (written - stored), (high + 1) * 10 ** (written - stored) - 1
        low, high = max(low, -(1 << 63)), min(high, (1 << 63) - 1)
        return self._integer(column, path, low, high, 10 ** (stored - kept), 10 ** (written - kept))

    def _decimal(self, writer: AvroType, meaning: AvroType, column: FilledColumn, path: str) -> int:
        type_ = column.type
        if meaning.logical == "decimal" and (meaning.scale != type_.scale or meaning.precision > type_.precision):
            raise Unresolved(f"column {path} is {type_}, and records have {meaning.shown}")
        most = 10**type_.precision
        size = writer.size if writer.kind == "fixed" else -1
        return self._node(path, Read.DECIMAL, column.number, [size, _half(most >> 64), _half(most)])

    def _enum(self, writer: AvroType, reader: AvroType | None, column: FilledColumn, path: str) -> int:
        nodes: list[int] = []
        for symbol in writer.symbols:
            if reader is not None and reader.kind == "enum" and symbol not in reader.symbols:
                if reader.default is None:
                    nodes.append(self._reject(f"{path}: no symbol {symbol}"))
                    continue
                symbol = reader.default
            nodes.append(self._node(path, Read.TEXT, column.number, self._built.constant(symbol.encode())))
        return self._node(path, Read.UNION, of=nodes)

    def _items(self, writer: AvroType, reader: AvroType | None, column: FilledColumn, path: str) -> int:
        assert writer.items is not None
        told = reader.items if reader is not None and reader.kind == writer.kind else None
        item = self._value(writer.items, told, column.children[-1], f"{path}[]")
        least = self._fewest(writer.items, ())
        if writer.kind == "map":
            key = self._node(f"{path} (key)", Read.BYTES, column.children[0].number, [0, 1])
            item, least = self._node(path, Read.GROUP, of=[key, item]), least + 1
        return self._node(path, Read.ITEMS, column.number, [least], [item])

    def _skip(self, type_: AvroType) -> int:
        """The node that passes over a value; a record may contain itself."""
        known = self._skips.get(id(type_))
        if known is not None:
            return known
        if len(self._built) > _MOST_NODES:
            raise Unresolved("the schema is too large")
        node = self._skips[id(type_)] = self._built.begin("")
        match type_.kind:
            case "record":
                self._fewest(type_, ())
                return self._built.set(node, Read.GROUP, children=[self._skip(f.type) for f in type_.fields])
            case "union":
                return self._built.set(node, Read.UNION, children=[self._skip(b) for b in type_.branches])
            case "array" | "map":
                assert type_.items is not None
                item, least = self._skip(type_.items), self._fewest(type_.items, ())
                if type_.kind == "map":
                    key = self._node("", Read.SKIP_BYTES)
                    item, least = self._node("", Read.GROUP, of=[key, item]), least + 1
                return self._built.set(node, Read.SKIP_ITEMS, numbers=[least], children=[item])
            case "string" | "bytes":
                return self._built.set(node, Read.SKIP_BYTES)
            case "int" | "long" | "enum":
                return self._built.set(node, Read.SKIP_INTEGER)
            case kind:
                size = {"null": 0, "boolean": 1, "float": 4, "double": 8}.get(kind, type_.size)
                return self._built.set(node, Read.SKIP_FIXED, numbers=[size])

    def _fewest(self, type_: AvroType, within: tuple[int, ...]) -> int:
        """The fewest bytes of a value; raises Unresolved for a record that has no end."""
        match type_.kind:
            case "null":
                return 0
            case "fixed":
                return type_.size
            case "float" | "double":
                return 4 if type_.kind == "float" else 8
            case "record":
                pass
            case _:
                return 1  # Of a union, its number.
        known = self._least.get(id(type_))
        if known is None:
            if id(type_) in within:
                raise Unresolved(f"a record {type_.name} within itself has no end")
            known = sum(self._fewest(f.type, (*within, id(type_))) for f in type_.fields)
            self._least[id(type_)] = known
        return min(known, _ENDLESS)


def _half(number: int) -> int:
    """The lower 64 bits, as a number with a sign."""
    low = number & (1 << 64) - 1
    return low - (1 << 64) if low >> 63 else low


def _of_reader(reader: AvroType | None, name: str, path: str) -> AvroField | None:
    """The field that the reader's schema has for a column."""
    if reader is None:
        return None
    if reader.kind == "union":
        (reader,) = [b for b in reader.branches if b.kind == "record"][:1] or [reader]
    found = next((f for f in reader.fields if f.name == name), None)
    if found is None:
        raise Unresolved(f"the schema of the table has no field for column {path}")
    return found


def _has_null(type_: AvroType) -> bool:
    return type_.kind == "null" or any(branch.kind == "null" for branch in type_.branches)


def _chosen(writer: AvroType, reader: AvroType | None, path: str) -> AvroType | None:
    """What the reader's schema says of a value of this type: of a union, the first branch that takes it."""
    if reader is None:
        return None
    for exactly in (True, False):
        for branch in reader.branches if reader.kind == "union" else [reader]:
            if _takes(branch, writer, exactly):
                return branch
    raise Unresolved(f"{path} is {reader.shown} in the schema of the table, and records have {writer.shown}")


def _takes(reader: AvroType, writer: AvroType, exactly: bool) -> bool:
    if reader.kind != writer.kind:
        return not exactly and reader.kind in _PROMOTED.get(writer.kind, ())
    if not exactly or not writer.name:
        return writer.kind != "fixed" or reader.size == writer.size
    names = {reader.name, *reader.aliases}
    return writer.name in names or writer.name.rpartition(".")[2] in {n.rpartition(".")[2] for n in names}
