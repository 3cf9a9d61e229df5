"""Schemas of Avro: JSON to a tree of types and back. Source: Apache Avro 1.12, Specification, "Schema Declaration"."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

__all__ = ["NO_DEFAULT", "PRIMITIVES", "AvroField", "AvroType", "BadSchema", "parse_schema", "schema_text"]

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
NO_DEFAULT: Any = object()
"""A field without a default, for a default may be None."""
_MOST_CHARACTERS = 1 << 20
_MOST_TYPES = 20_000
_MOST_DEEP = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)


class BadSchema(ValueError):
    """A text is no schema of Avro; the message says why."""


@dataclass(eq=False)
class AvroField:
    """A field of a record; `aliases` are names that it had."""

    name: str
    type: AvroType
    default: Any = NO_DEFAULT
    aliases: tuple[str, ...] = ()
    doc: str | None = None


@dataclass(eq=False)
class AvroType:
    """A type; a record may contain itself, so types are compared by identity.

    Attributes:
        kind: a primitive type, or `record`, `enum`, `fixed`, `array`, `map`, `union`.
        name: the full name of a record, an enum or a fixed; `aliases` likewise.
        logical: the logical type, as far as it is right for the kind; `precision` and `scale` are those of a decimal.
        items: the elements of an array, or the values of a map.
        default: the symbol of an enum that stands for those that are unknown.
    """

    kind: str
    name: str = ""
    logical: str = ""
    precision: int = 0
    scale: int = 0
    fields: list[AvroField] = field(default_factory=list[AvroField])
    items: AvroType | None = None
    branches: list[AvroType] = field(default_factory=list["AvroType"])
    symbols: tuple[str, ...] = ()
    size: int = 0
    aliases: tuple[str, ...] = ()
    default: str | None = None

    @property
    def shown(self) -> str:
        """What people call it."""
        what = self.logical or self.kind
        if self.logical == "decimal":
            what = f"decimal({self.precision}, {self.scale})"
        if self.kind == "union":
            what = f"union of {', '.join(b.shown for b in self.branches)}"
        return f"{what} {self.name}" if self.name else what


def parse_schema(text: str, references: Sequence[str] = ()) -> AvroType:
    """The type that a schema declares; raises BadSchema. `references`: schemas whose types it knows by name."""
    parser = _Parser()
    for other in references:
        parser.type(_json_of(other), "", 0)
    return parser.type(_json_of(text), "", 0)


def _json_of(text: str) -> Any:
    if len(text) > _MOST_CHARACTERS:
        raise BadSchema(f"it has more than {_MOST_CHARACTERS} characters")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise BadSchema("it is nested too deeply") from error
    except ValueError as error:
        # A bare name is a schema that some write without quotes.
        if text.strip() not in PRIMITIVES:
            raise BadSchema("it is not JSON") from error
        return text.strip()


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._count = 0

    def type(self, given: Any, space: str, depth: int) -> AvroType:
        self._count += 1
        if depth > _MOST_DEEP or self._count > _MOST_TYPES:
            raise BadSchema(
                "it is nested too deeply" if depth > _MOST_DEEP else f"it has more than {_MOST_TYPES} types"
            )
        if isinstance(given, str):
            return self._by_name(given, space)
        if isinstance(given, list):
            return self._union(cast("list[Any]", given), space, depth)
        if not isinstance(given, dict):
            raise BadSchema(f"a type is {_shown(given)}")
        told = cast("dict[str, Any]", given)
        kind = told.get("type")
        if not isinstance(kind, str):
            # {"type": {"type": ...}}: the inner one counts.
            return self.type(kind, space, depth + 1)
        if kind in ("record", "error", "enum", "fixed"):
            return self._declared(kind, told, space, depth)
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            if key not in told:
                raise BadSchema(f"the type {kind} has no {key}")
            return AvroType(kind, items=self.type(told[key], space, depth + 1))
        found = self._by_name(kind, space)
        return _logical(AvroType(kind), told) if kind in PRIMITIVES else found

    def _by_name(self, name: str, space: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        found = self._named.get(_full_name(name, space)) or self._named.get(name)
        if found is None:
            raise BadSchema(f"there is no type {_shown(name)}")
        return found

    def _union(self, given: Sequence[Any], space: str, depth: int) -> AvroType:
        branches = [self.type(branch, space, depth + 1) for branch in given]
        if any(branch.kind == "union" for branch in branches):
            raise BadSchema("a union is right within a union")
        kinds = [branch.name or branch.kind for branch in branches]
        if len(set(kinds)) < len(kinds):
            raise BadSchema("a union has two branches of one type")
        return AvroType("union", branches=branches)

    def _declared(self, kind: str, told: Mapping[str, Any], space: str, depth: int) -> AvroType:
        name = told.get("name")
        if name == "" and depth == 0:
            name = "record"  # polars gives it none
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadSchema(f"{_shown(name)} is no name of a type")
        within = told.get("namespace")
        full = _full_name(name, within if isinstance(within, str) else space)
        space = full.rpartition(".")[0]
        if full in self._named:
            raise BadSchema(f"the type {full} is declared twice")
        aliases = tuple(_full_name(a, space) for a in _texts(told, "aliases"))
        made = AvroType("record" if kind == "error" else kind, full, aliases=aliases)
        self._named[full] = made
        if kind == "fixed":
            made.size = _number(told, "size", -1)
            if not 0 <= made.size < 1 << 31:
                raise BadSchema(f"the type {full} has no size")
            return _logical(made, told)
        if kind == "enum":
            made.symbols = _texts(told, "symbols")
            if not made.symbols or len(set(made.symbols)) < len(made.symbols):
                raise BadSchema(f"the symbols of {full} are none, or one is there twice")
            default = told.get("default")
            made.default = default if default in made.symbols else None
            return made
        fields = told.get("fields")
        if not isinstance(fields, list):
            raise BadSchema(f"the record {full} has no fields")
        for one in cast("list[Any]", fields):
            made.fields.append(self._field(one, full, space, depth))
        if len({f.name for f in made.fields}) < len(made.fields):
            raise BadSchema(f"the record {full} has two fields of one name")
        return made

    def _field(self, told: Any, record: str, space: str, depth: int) -> AvroField:
        if not isinstance(told, dict) or not isinstance(cast("dict[str, Any]", told).get("name"), str):
            raise BadSchema(f"a field of {record} has no name")
        given = cast("dict[str, Any]", told)
        if "type" not in given:
            raise BadSchema(f"the field {given['name']} of {record} has no type")
        doc = given.get("doc")
        return AvroField(
            given["name"],
            self.type(given["type"], space, depth + 1),
            given.get("default", NO_DEFAULT),
            _texts(given, "aliases"),
            doc if isinstance(doc, str) else None,
        )


_OF_KIND = {
    "int": frozenset(("date", "time-millis")),
    "long": frozenset(
        ("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis",
         "local-timestamp-micros", "local-timestamp-nanos")
    ),
    "string": frozenset(("uuid",)),
    "bytes": frozenset(("decimal",)),
    "fixed": frozenset(("decimal", "uuid", "duration")),
}  # fmt: skip


def _logical(type_: AvroType, told: Mapping[str, Any]) -> AvroType:
    """With its logical type; one that is unknown or wrong does not count, as the specification wants it."""
    logical = told.get("logicalType")
    if not isinstance(logical, str) or logical not in _OF_KIND.get(type_.kind, ()):
        return type_
    if logical == "decimal":
        precision, scale = _number(told, "precision", 0), _number(told, "scale", 0)
        if precision < 1 or not 0 <= scale <= precision:
            return type_
        type_.precision, type_.scale = precision, scale
    type_.logical = logical
    return type_


def _number(told: Mapping[str, Any], key: str, missing: int) -> int:
    found = told.get(key, missing)
    return found if isinstance(found, int) and not isinstance(found, bool) else -1


def _texts(told: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = told.get(key, [])
    if not isinstance(found, list) or not all(isinstance(t, str) for t in cast("list[Any]", found)):
        raise BadSchema(f"{key} are no names")
    return tuple(cast("list[str]", found))


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _shown(given: Any) -> str:
    text = json.dumps(given, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def schema_text(type_: AvroType) -> str:
    """The JSON of a type."""
    return json.dumps(_as_json(type_, set()), ensure_ascii=False)


def _as_json(type_: AvroType, told: set[str]) -> Any:
    if type_.kind == "union":
        return [_as_json(branch, told) for branch in type_.branches]
    if type_.name and type_.name in told:
        return type_.name
    made: dict[str, Any] = {"type": type_.kind}
    if type_.name:
        told.add(type_.name)
        space, _, made["name"] = type_.name.rpartition(".")
        made |= {"namespace": space} if space else {}
    if type_.aliases:
        made["aliases"] = list(type_.aliases)
    match type_.kind:
        case "record":
            made["fields"] = [_field_as_json(f, told) for f in type_.fields]
        case "enum":
            made |= {"symbols": list(type_.symbols), **({"default": type_.default} if type_.default else {})}
        case "fixed":
            made["size"] = type_.size
        case "array" | "map":
            assert type_.items is not None
            made["items" if type_.kind == "array" else "values"] = _as_json(type_.items, told)
        case _:
            pass
    if type_.logical:
        made["logicalType"] = type_.logical
    if type_.logical == "decimal":
        made |= {"precision": type_.precision, "scale": type_.scale}
    return type_.kind if made == {"type": type_.kind} else made


def _field_as_json(field_: AvroField, told: set[str]) -> Any:
    made: dict[str, Any] = {"name": field_.name, "type": _as_json(field_.type, told)}
    if field_.default is not NO_DEFAULT:
        made["default"] = field_.default
    if field_.aliases:
        made["aliases"] = list(field_.aliases)
    return made | ({"doc": field_.doc} if field_.doc else {})
