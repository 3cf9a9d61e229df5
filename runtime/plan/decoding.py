"""JSON back into the parts of a plan, each value checked against the annotation of its field.

Nothing is believed: a value of another type, a field or class that does not exist, a number that does not fit 64 bits, a
constant that is none of its SQL type, and nesting deeper than `MOST_LEVELS` raise FormatError E3210 with the place
(`nodes[3].projections[0].type`). So what has been decoded is a tree of nodes whose fields hold what their class says.
Whether the tree means something is told by `invariants.py`.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import enum
import functools
import types
import typing
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from runtime.core.errors import FormatError, SqlEngineError, did_you_mean
from runtime.core.node import Node, node_fields
from runtime.core.types import DataType, TypeRoot
from runtime.expr.given import given
from runtime.expr.nodes import Constants, Literal
from runtime.plan.values import CLASSES

__all__ = ["MOST_LEVELS", "Wrong", "at", "decode_as", "decode_node", "decode_value", "named", "refusing"]

MOST_LEVELS: Final = 2000
"""How deep the JSON of a plan may nest."""

_NOT_IN_JSON = ("span", "origin")
"""Fields of nodes that are about the text of a statement."""
_LONGEST_CONSTANT = 1 << 24
_LARGEST = 1 << 63

Decode = Callable[[Any, int], Any]
"""From a JSON value, and the number of levels above it, to what it stands for."""


class Wrong(Exception):
    """What is wrong with a value, and where, from the inside out."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.path: list[str | int] = []

    def within(self, step: str | int) -> Wrong:
        """The same, told from one level above."""
        self.path.append(step)
        return self


def at(steps: Iterable[str | int]) -> str:
    """`nodes[3].table.name`, from the outside in."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def decode_value(value: Any) -> Any:
    """What `encode_value` encoded, whatever that was. Raises FormatError E3210."""
    with refusing():
        return _anything(value, 0)


def decode_node(cls: type[Node], entry: Mapping[str, Any], given: Mapping[str, Any], ignored: Iterable[str]) -> Any:
    """A node of a class from its JSON object; `given` holds the fields that are made already. Raises Wrong."""
    return _made(cls, entry, given, frozenset(ignored), 1)


def decode_as(kind: Any, value: Any) -> Any:
    """What `encode_value` encoded of a type, as annotations write it. Raises Wrong."""
    return _decoder(kind)(value, 1)


@contextmanager
def refusing() -> Generator[None]:
    """What is wrong becomes the error that a person sees."""
    try:
        yield
    except Wrong as wrong:
        place = at(reversed(wrong.path))
        where = f" at {place}" if place else ""
        raise FormatError(f"the plan is wrong{where}: {wrong.message}", code="E3210", hint=wrong.hint) from None
    except RecursionError:
        raise FormatError("the plan nests too deep", code="E3210", hint="compile a simpler statement") from None


def _made(
    cls: type[Node], entry: Mapping[str, Any], given: Mapping[str, Any], ignored: frozenset[str], level: int
) -> Any:
    decoders = _fields(cls)
    found = dict(given)
    for name, value in entry.items():
        if name in ignored or name in given:
            continue
        decode = decoders.get(name)
        if decode is None:
            known = did_you_mean(name, decoders)
            raise Wrong(f"{cls.__name__} has no field {_shown(name)}", known).within(name)
        try:
            found[name] = decode(value, level + 1)
        except Wrong as wrong:
            raise wrong.within(name) from None
    for field in node_fields(cls):
        if field.is_required and field.name not in found:
            raise Wrong(f"{cls.__name__} needs the field {field.name}")
    made = cls(**found)
    _check(made)
    return made


@functools.cache
def _fields(cls: type[Node]) -> dict[str, Decode]:
    """How each field of a class is decoded, by its annotation."""
    hints = typing.get_type_hints(cls)
    return {f.name: _decoder(hints[f.name]) for f in node_fields(cls) if f.name not in _NOT_IN_JSON}


@functools.cache
def _decoder(kind: Any) -> Decode:
    """How a value of an annotated type is decoded."""
    if kind is Any:
        return _constant
    if kind in _PLAIN:
        return functools.partial(_plain, kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return functools.partial(_member, kind)
    if isinstance(kind, type) and issubclass(kind, Node):
        return functools.partial(_node, kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return functools.partial(_list, _decoder(inner[0]))
    if origin is tuple:
        return functools.partial(_row, tuple(map(_decoder, inner)))
    if origin in (types.UnionType, typing.Union):
        return functools.partial(_one_of, inner)
    # Tables of connectors and the like: whoever decodes has made them before.
    return _nothing


def _plain(kind: type, value: Any, level: int) -> Any:
    if type(value) is not kind:
        raise Wrong(f"{_PLAIN[kind]} is wanted, not {_kind_of(value)}")
    if kind is int and not -_LARGEST <= value < _LARGEST:
        raise Wrong("the number does not fit 64 bits")
    return value


def _member(kind: type[enum.Enum], value: Any, level: int) -> enum.Enum:
    text = value.get("$enum") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(text, str):
        raise Wrong(f"a {kind.__name__} is wanted, not {_kind_of(value)}")
    name, _, member = text.partition(".")
    if name != kind.__name__ or member not in kind.__members__:
        known = did_you_mean(text, [f"{kind.__name__}.{m}" for m in kind.__members__])
        raise Wrong(f"there is no {kind.__name__} {_shown(text)}", known)
    return kind[member]


def _node(kind: type[Node], value: Any, level: int) -> Node:
    if level > MOST_LEVELS:
        raise Wrong(f"it nests deeper than {MOST_LEVELS} levels")
    if not isinstance(value, dict):
        raise Wrong(f"a {kind.__name__} is wanted, not {_kind_of(value)}")
    cls = named(value.get("node"), kind)
    return _made(cls, value, {}, frozenset(["node"]), level)


def named(name: Any, kind: type[Node]) -> type[Node]:
    """The class of that name, a `kind`. Raises Wrong."""
    if not isinstance(name, str):
        raise Wrong(
            f"it does not say which node it is: a {kind.__name__} is wanted", 'write "node": the name of its class'
        )
    cls = CLASSES.get(name)
    if cls is None or not issubclass(cls, Node) or not issubclass(cls, kind):
        fitting = [n for n, c in CLASSES.items() if issubclass(c, kind)]
        hint = did_you_mean(name, fitting)
        what = "a node that this version does not know" if cls is None else f"no {kind.__name__}"
        raise Wrong(f"{_shown(name)} is {what}", hint or "use the version that wrote it")
    return cls


def _list(decode: Decode, value: Any, level: int) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise Wrong(f"a list is wanted, not {_kind_of(value)}")
    found: list[Any] = []
    for index, item in enumerate(value):
        try:
            found.append(decode(item, level + 1))
        except Wrong as wrong:
            raise wrong.within(index) from None
    return tuple(found)


def _row(decoders: tuple[Decode, ...], value: Any, level: int) -> tuple[Any, ...]:
    if not isinstance(value, list) or len(value) != len(decoders):
        raise Wrong(f"a list of {len(decoders)} values is wanted")
    found: list[Any] = []
    for index, (decode, item) in enumerate(zip(decoders, value, strict=True)):
        try:
            found.append(decode(item, level + 1))
        except Wrong as wrong:
            raise wrong.within(index) from None
    return tuple(found)


def _one_of(kinds: tuple[Any, ...], value: Any, level: int) -> Any:
    if value is None and type(None) in kinds:
        return None
    rest = [kind for kind in kinds if kind is not type(None)]
    if len(rest) == 1:
        return _decoder(rest[0])(value, level)
    for kind in rest:
        if type(value) is kind:
            return _decoder(kind)(value, level)
    raise Wrong(f"{' or '.join(_PLAIN.get(kind) or kind.__name__ for kind in rest)} is wanted, not {_kind_of(value)}")


def _nothing(value: Any, level: int) -> Any:
    raise Wrong("this cannot stand in a plan")


def _anything(value: Any, level: int) -> Any:
    """Where nothing says what it is: a node, a member, a list of such, or a constant."""
    if isinstance(value, dict) and "node" in value:
        return _node(Node, value, level)
    if isinstance(value, dict) and "$enum" in value:
        kind = CLASSES.get(str(value["$enum"]).partition(".")[0])
        if kind is None or not issubclass(kind, enum.Enum):
            raise Wrong(f"there is no {_shown(str(value['$enum']))}")
        return _member(kind, value, level)
    return _list(_anything, value, level) if isinstance(value, list) else _constant(value, level)


# --- constants


def _constant(value: Any, level: int) -> Any:
    if level > MOST_LEVELS:
        raise Wrong(f"it nests deeper than {MOST_LEVELS} levels")
    if value is None or isinstance(value, (bool, str, int, float)):
        return value
    if isinstance(value, list):
        return _list(_constant, value, level)
    tag, content = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else ("", None)
    read = _TAGGED.get(tag)
    if read is None:
        raise Wrong("this is no constant", did_you_mean(tag, _TAGGED) if tag.startswith("$") else None)
    try:
        return read(content, level + 1)
    except Wrong as wrong:
        raise wrong.within(tag) from None
    except (ValueError, TypeError, ArithmeticError, binascii.Error):
        raise Wrong(f"{_kind_of(content)} is no {tag[1:]}").within(tag) from None


def _text(content: Any) -> str:
    if not isinstance(content, str) or len(content) > _LONGEST_CONSTANT:
        raise Wrong(f"a text is wanted, not {_kind_of(content)}")
    return content


def _decimal(content: Any, level: int) -> decimal.Decimal:
    found = decimal.Decimal(_text(content))
    if not found.is_finite() or abs(found.adjusted()) > 100 or len(found.as_tuple().digits) > 100:
        raise Wrong("a decimal number of at most 38 digits is wanted")
    return found


def _float(content: Any, level: int) -> float:
    if content not in ("inf", "-inf", "nan"):
        raise Wrong("inf, -inf or nan is wanted")
    return float(content)


def _map(content: Any, level: int) -> dict[Any, Any]:
    pairs = _list(functools.partial(_row, (_constant, _constant)), content, level)
    return dict(pairs)


_TAGGED: dict[str, Callable[[Any, int], Any]] = {
    "$float": _float,
    "$bytes": lambda content, level: base64.b64decode(_text(content), validate=True),
    "$decimal": _decimal,
    "$timestamp": lambda content, level: datetime.datetime.fromisoformat(_text(content)),
    "$date": lambda content, level: datetime.date.fromisoformat(_text(content)),
    "$time": lambda content, level: datetime.time.fromisoformat(_text(content)),
    "$map": _map,
    "$list": lambda content, level: list(_list(_constant, content, level)),
}
_PLAIN = {bool: "true or false", int: "a whole number", str: "a text", float: "a number"}


# --- what a class asks of its values beyond their types


def _check(made: Node) -> None:
    match made:
        case DataType():
            _check_type(made)
        case Literal(value=value, type=type_):
            _check_constants([value], type_)
        case Constants(values=values, type=type_):
            _check_constants(values, type_)
        case _:
            pass


_LENGTHS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
_FRACTIONS = frozenset({TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.INTERVAL_SECOND})
_INTERVALS = frozenset({TypeRoot.INTERVAL_SECOND, TypeRoot.INTERVAL_MONTH})
_WORDS = {TypeRoot.ROW: (0, 1), TypeRoot.RAW: (2,), TypeRoot.CHAR: (0, 1), **dict.fromkeys(_INTERVALS, (0, 1, 2))}
_CHILDREN = {TypeRoot.ARRAY: 1, TypeRoot.MULTISET: 1, TypeRoot.MAP: 2}


def _check_type(type_: DataType) -> None:
    root, precision, scale = type_.root, type_.precision, type_.scale
    if root in _LENGTHS:
        fits = 0 <= precision < 1 << 31
    elif root is TypeRoot.DECIMAL:
        fits = 1 <= precision <= 38 and 0 <= scale <= precision
    elif root in _INTERVALS and type_.words:
        fits = 0 <= precision <= 9 and 0 <= scale <= 9
    elif root in _FRACTIONS:
        fits = 0 <= precision <= 9
    else:
        fits = precision == 0
    if not fits or (scale and root is not TypeRoot.DECIMAL and not (root in _INTERVALS and type_.words)):
        raise Wrong(f"{root.value} cannot have the precision {precision} and the scale {scale}")
    if len(type_.children) != _CHILDREN.get(root, 0) or (type_.fields and root is not TypeRoot.ROW):
        raise Wrong(f"{root.value} has other parts than these")
    if len(type_.words) not in _WORDS.get(root, (0,)):
        raise Wrong(f"{root.value} has other words than these")
    if root is TypeRoot.CHAR and type_.words and (type_.words, precision) != (("UUID",), 36):
        raise Wrong(f"{root.value} has other words than these")
    if type_.time_attribute is not None and not type_.is_timestamp:
        raise Wrong(f"{root.value} is no {type_.time_attribute.value}")


def _check_constants(values: Iterable[Any], type_: DataType) -> None:
    try:
        pa.array(given(list(values), type_), type_.arrow)
    except (SqlEngineError, pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError, RecursionError):
        raise Wrong(f"the constant is no {type_.with_nullable(True)}") from None


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"


def _shown(name: str) -> str:
    """A name out of a file, in a message."""
    return f'"{name if len(name) <= 60 else name[:57] + "..."}"' if name.isprintable() else "with unprintable signs"
