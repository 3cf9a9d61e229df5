"""Written types to data types.

`parse_type("ARRAY<INT NOT NULL>")` and the `TypeGrammar` of the statements read the same language: reference of Flink,
"Data Types". Synonyms become one type (`DEC(5)` is DECIMAL(5, 0), `TIMESTAMP(3) WITH LOCAL TIME ZONE` is
TIMESTAMP_LTZ(3)), lengths and precisions get Flink's defaults, and what is out of range is refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from runtime.core import types
from runtime.core.errors import UnsupportedError
from runtime.core.rooms import Room
from runtime.core.types import STRING_LENGTH, DataType, RowField, TypeRoot
from sqlengine.parse.cursor import Cursor
from sqlengine.parse.lexer import END, NUMBER, STRING, WORD
from sqlengine.parse.nodes import TypeSpec

if TYPE_CHECKING:
    import runtime.core.class_names as _class_names
    import sqlengine.parse.habits as _habits
else:
    _class_names = Room("runtime.core.class_names")
    _habits = Room("sqlengine.parse.habits")

__all__ = ["TypeGrammar", "parse_type", "to_type"]

_PLAIN: dict[str, DataType] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.TINYINT,
    "SMALLINT": types.SMALLINT,
    "INT": types.INT,
    "INTEGER": types.INT,
    "BIGINT": types.BIGINT,
    "FLOAT": types.FLOAT,
    "REAL": types.FLOAT,
    "DOUBLE": types.DOUBLE,
    "DATE": types.DATE,
    "STRING": types.STRING,
    "BYTES": types.BYTES,
    "BITMAP": types.BITMAP,
    "VARIANT": types.VARIANT,
    "NULL": types.NULL,
}
_OF_POSTGRES: dict[str, DataType] = {
    "TEXT": types.STRING,
    "INT2": types.SMALLINT,
    "INT4": types.INT,
    "INT8": types.BIGINT,
    "FLOAT4": types.FLOAT,
    "FLOAT8": types.DOUBLE,
    "BOOL": types.BOOLEAN,
    "BYTEA": types.BYTES,
    "UUID": types.UUID,
}
"""PostgreSQL's names of types that mean nothing else here."""
_LATER = {
    "TIMESTAMP_TZ": "TIMESTAMP WITH TIME ZONE",
}
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_FIELDS = {"YEAR": ("MONTH",), "DAY": ("HOUR", "MINUTE", "SECOND"), "HOUR": ("MINUTE", "SECOND"), "MINUTE": ("SECOND",)}
"""What an interval goes to, by the field it begins with."""
_MOST_DIGITS = {"YEAR": 4, "DAY": 6}
"""Digits of the first field of an interval; of the others 9."""
_KNOWN = (
    *_PLAIN,
    "CHAR",
    "VARCHAR",
    "BINARY",
    "VARBINARY",
    "DECIMAL",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "INTERVAL",
    "ARRAY",
    "MAP",
    "MULTISET",
    "ROW",
    "STRUCTURED",
    "RAW",
)


class TypeGrammar(Cursor):
    """Reads types."""

    _in_cast = False
    """Whether a precision beyond the largest means the largest, as it does for Flink. A column that is declared is never
    another one than is written."""

    def type_spec(self) -> TypeSpec:
        """The type that an expression is to have, as a node of a tree, with its place."""
        start, before = self.token, self._in_cast
        self._in_cast = True
        try:
            return self.place(TypeSpec(this=self.data_type()), start)
        finally:
            self._in_cast = before

    def data_type(self) -> DataType:
        """A type with its nullability, `t ARRAY`, `t MULTISET` and PostgreSQL's `t[]` included."""
        result = self._nullability(self._base_type())
        while self.at_any("ARRAY", "MULTISET") or self.at("[", "]"):
            if self.match("[", "]"):
                wrap = types.array
            else:
                wrap = types.array if self.advance().upper == "ARRAY" else types.multiset
            result = self._nullability(wrap(result))
        return result

    def _nullability(self, result: DataType) -> DataType:
        if self.match("NOT", "NULL"):
            return result.not_null()
        if self.at("NULL") and self.peek().upper != "ON":  # JSON_VALUE(.. RETURNING INT NULL ON ERROR)
            self.advance()
        return result

    def _base_type(self) -> DataType:
        start = self.token
        if start.kind is not WORD:
            self.fail("a type")
        word = self.advance().upper
        match word:
            case "DOUBLE":
                self.match("PRECISION")
                return types.DOUBLE
            case "CHAR" | "CHARACTER":
                if self.match("VARYING"):
                    return types.varchar(self._size("length", 0, STRING_LENGTH, STRING_LENGTH))
                return types.char(self._size("length", 0, STRING_LENGTH, 1))
            case "VARCHAR":
                # Without a length Flink takes the greatest, unlike the standard's 1.
                return types.varchar(self._size("length", 0, STRING_LENGTH, STRING_LENGTH))
            case "BINARY":
                if self.match("VARYING"):
                    return DataType(TypeRoot.VARBINARY, self._size("length", 0, STRING_LENGTH, STRING_LENGTH))
                return DataType(TypeRoot.BINARY, self._size("length", 0, STRING_LENGTH, 1))
            case "VARBINARY":
                return DataType(TypeRoot.VARBINARY, self._size("length", 0, STRING_LENGTH, STRING_LENGTH))
            case "DECIMAL" | "DEC" | "NUMERIC":
                return self._decimal()
            case "TIME":
                precision = self._size("precision", 0, 9, 0)
                self.match("WITHOUT", "TIME", "ZONE")
                return DataType(TypeRoot.TIME, precision)
            case "TIMESTAMP":
                return self._timestamp()
            case "TIMESTAMP_LTZ" | "TIMESTAMPTZ":
                return types.timestamp_ltz(self._size("precision", 0, 9, 6))
            case "INTERVAL":
                return self._interval_type()
            case "ARRAY" | "MULTISET":
                wrap = types.array if word == "ARRAY" else types.multiset
                self.expect("<")
                element = self.data_type()
                self.expect(">")
                return wrap(element)
            case "MAP":
                self.expect("<")
                key = self.data_type()
                self.expect(",")
                value = self.data_type()
                self.expect(">")
                return types.map_of(key, value)
            case "ROW":
                return self._row_type()
            case "STRUCTURED":
                return self._structured_type()
            case "RAW":
                return self._raw_type()
        if word in _LATER:
            self._unsupported(_LATER[word], start.start)
        plain = _PLAIN.get(word) or _OF_POSTGRES.get(word)
        if plain is None:
            before = self.tokens[max(self.tokens.index(start) - 1, 0)]
            self.refuse(f'there is no type "{start.text}"', start, _habits.type_hint(start, before, _KNOWN))
        return plain

    def _size(self, what: str, low: int, high: int, default: int) -> int:
        """The number in parentheses after a type, or the default."""
        if not self.match("("):
            return default
        value = self._bounded(what, low, high) if what == "length" else self._precision(low, high)
        self.expect(")")
        return value

    def _precision(self, low: int, high: int) -> int:
        if self._in_cast and self.token.kind is NUMBER and self.token.text.isdigit():
            most = max(high, int(self.token.text))
            return min(self._bounded("precision", low, most), high)
        return self._bounded("precision", low, high)

    def _bounded(self, what: str, low: int, high: int) -> int:
        token = self.token
        if token.kind is not NUMBER or not token.text.isdigit():
            self.fail(f"a {what}")
        value = int(self.advance().text)
        if not low <= value <= high:
            self.refuse(f"a {what} of {value} is out of range", token, f"it may be {low} to {high}")
        return value

    def _decimal(self) -> DataType:
        if not self.match("("):
            return types.decimal()
        precision = self._precision(1, 38)
        scale = self._bounded("scale", 0, precision) if self.match(",") else 0
        self.expect(")")
        return types.decimal(precision, scale)

    def _timestamp(self) -> DataType:
        start = self.previous.start
        precision = self._size("precision", 0, 9, 6)
        if self.match("WITH", "LOCAL", "TIME", "ZONE"):
            return types.timestamp_ltz(precision)
        if self.match("WITH", "TIME", "ZONE"):
            self._unsupported("TIMESTAMP WITH TIME ZONE", start, "use TIMESTAMP_LTZ, which is an instant")
        self.match("WITHOUT", "TIME", "ZONE")
        return types.timestamp(precision)

    def _interval_type(self) -> DataType:
        start = self.token
        first = self.expect_any(*_UNITS)
        precision, fraction, last = 2, 6, None
        if self.match("("):
            if first == "SECOND":
                fraction = self._bounded("precision", 0, 9)
                if self.match(","):  # the standard's SECOND(digits, digits of the fraction)
                    fraction = self._bounded("precision", 0, 9)
            else:
                precision = self._bounded("precision", 1, _MOST_DIGITS.get(first, 9))
            self.expect(")")
        if self.match("TO"):
            last = self.expect_any(*_UNITS)
            if last not in _FIELDS.get(first, ()):
                self.refuse(f"an interval cannot go from {first} to {last}", start)
            if last == "SECOND":
                if self.match("("):
                    fraction = self._bounded("precision", 0, 9)
                    self.expect(")")
        return types.interval(first, last, precision, fraction)

    def _row_type(self) -> DataType:
        if self.match("<>"):
            return DataType(TypeRoot.ROW)
        close = ">" if self.expect_any("<", "(") == "<" else ")"
        return DataType(TypeRoot.ROW, fields=() if self.match(close) else self._fields(close))

    def _structured_type(self) -> DataType:
        self.expect("<")
        name = self._class_name()
        fields: tuple[RowField, ...] = ()
        if not self.match(">"):
            self.expect(",")
            fields = () if self.match(">") else self._fields(">")
        return DataType(TypeRoot.ROW, fields=fields, words=(name,))

    def _class_name(self) -> str:
        token, name = self.token, self.string("the name of a class in single quotes").value
        if not _class_names.is_class_name(name):
            self.refuse(f"'{name}' is no name of a class", token, _class_names.CLASS_NAME_HINT)
        return name

    def _raw_type(self) -> DataType:
        self.expect("(")
        class_name = self._class_name()
        self.expect(",")
        token, serializer = self.token, self.string("the snapshot of a serializer in single quotes").value
        if not _class_names.is_snapshot(serializer):
            self.refuse(f"'{serializer}' is no snapshot of a serializer", token, _class_names.SNAPSHOT_HINT)
        self.expect(")")
        return types.raw(class_name, serializer)

    def _fields(self, close: str) -> tuple[RowField, ...]:
        fields: list[RowField] = []
        while True:
            name = self.identifier("a field name", reserved=True)
            if any(field.name == name.name for field in fields):
                self.refuse(f'the field "{name.name}" is there twice', self.previous)
            field_type = self.data_type()
            comment = self.advance().value if self.token.kind is STRING else None
            fields.append(RowField(name.name, field_type, comment))
            if self.match(close):
                return tuple(fields)
            self.expect(",")

    def _unsupported(self, what: str, start: int, hint: str | None = None) -> None:
        raise UnsupportedError(
            f"{what} is not supported as a type", span=self.span_from(start), hint=hint, text=self.text
        )


def parse_type(text: str) -> DataType:
    """The data type that a text spells, for example `parse_type("DECIMAL(10, 2) NOT NULL")`.

    Raises:
        SqlSyntaxError: the text is no type.
        UnsupportedError: it is a type of Flink that this engine does not have.
    """
    grammar = TypeGrammar(text)
    result = grammar.data_type()
    if grammar.token.kind is not END:
        grammar.fail("the end of the type")
    return result


def to_type(tree: exp.Expr) -> DataType:
    """The data type of a type node (`Cast.args["to"]`, `JsonFunction.args["returning"]`)."""
    return tree.data_type if isinstance(tree, TypeSpec) else parse_type(tree.sql())
