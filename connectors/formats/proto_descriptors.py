"""Reads a descriptor set: what `protoc --descriptor_set_out=FILE --include_imports` writes. It is a message of Protobuf itself
(source: `google/protobuf/descriptor.proto`)."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.formats.proto_model import SCALARS, BadSchema, ProtoEnum, ProtoField, ProtoFile, ProtoMessage, unescaped
from runtime.kernels.proto_programs import Wire
from runtime.kernels.proto_read_twin import Stop, read_tag, read_varint, skip

__all__ = ["parse_descriptors"]

_REPEATED, _REQUIRED = 3, 2
_LEGACY_REQUIRED = 3
_IMPLICIT = 2
_CLOSED = 2
_EXPANDED = 2
_DELIMITED = 2
_MOST_DEEP = 64

Parts = dict[int, list[bytes | int]]


def parse_descriptors(data: bytes) -> list[ProtoFile]:
    """The files of a set, each behind those that it takes in; raises BadSchema."""
    try:
        files = [_file(_bytes(one)) for one in _parts(data).get(1, [])]
    except (Stop, UnicodeDecodeError) as error:
        raise BadSchema("it is no descriptor set of protoc") from error
    if not files:
        raise BadSchema("it is no descriptor set of protoc")
    return files


def _parts(data: bytes) -> Parts:
    """The values of a message by their numbers: integers, or bytes."""
    found: Parts = {}
    at, end = 0, len(data)
    while at < end:
        number, wire, at = read_tag(data, at, end)
        behind = skip(data, at, end, number, wire, 0)
        if wire == Wire.VARINT:
            found.setdefault(number, []).append(read_varint(data, at, end)[0])
        elif wire == Wire.LENGTH:
            _, begin = read_varint(data, at, end)
            found.setdefault(number, []).append(data[begin:behind])
        at = behind
    return found


def _bytes(value: bytes | int) -> bytes:
    if not isinstance(value, bytes):
        raise Stop
    return value


def _text(parts: Parts, number: int) -> str:
    found = parts.get(number)
    return _bytes(found[-1]).decode() if found else ""


def _number(parts: Parts, number: int, default: int = 0) -> int:
    value = (parts.get(number) or [default])[-1]
    if not isinstance(value, int):
        raise Stop
    return value - (1 << 64) if value >> 63 else value


def _within(parts: Parts, number: int) -> Parts:
    """The last message of a number; several count as one."""
    return _parts(b"".join(_bytes(v) for v in parts.get(number, [])))


class _Features:
    """How fields are: by syntax, or by the features of an edition, which what is within takes over."""

    def __init__(self, told: bool, required: bool, closed: bool, packed: bool, delimited: bool = False) -> None:
        self.told = told
        self.required = required
        self.closed = closed
        self.packed = packed
        self.delimited = delimited

    def with_options(self, options: Parts, place: int) -> _Features:
        """`place`: the number of the features among the options."""
        given = _within(options, place)
        presence, kind, packing, inner = (_number(given, n) for n in (1, 2, 3, 5))
        return _Features(
            presence != _IMPLICIT if presence else self.told,
            presence == _LEGACY_REQUIRED if presence else self.required,
            kind == _CLOSED if kind else self.closed,
            packing != _EXPANDED if packing else self.packed,
            inner == _DELIMITED if inner else self.delimited,
        )


def _file(data: bytes) -> ProtoFile:
    parts = _parts(data)
    syntax, package = _text(parts, 12), _text(parts, 2)
    made = ProtoFile(_text(parts, 1), imports=[_bytes(v).decode() for v in parts.get(3, [])])
    plain = syntax not in ("proto3", "editions")
    features = _Features(syntax != "proto3", False, plain, not plain).with_options(_within(parts, 8), 50)
    for one in parts.get(4, []):
        _message(made, _parts(_bytes(one)), package, features, 0)
    for one in parts.get(5, []):
        _enum(made, _parts(_bytes(one)), package, features)
    return made


def _full(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _enum(file: ProtoFile, parts: Parts, scope: str, around: _Features) -> None:
    features = around.with_options(_within(parts, 3), 7)
    values = [_parts(_bytes(v)) for v in parts.get(2, [])]
    named = [(_text(v, 1), _number(v, 2)) for v in values]
    file.enums.append(ProtoEnum(_full(scope, _text(parts, 1)), named, features.closed))


def _message(file: ProtoFile, parts: Parts, scope: str, around: _Features, depth: int) -> None:
    if depth > _MOST_DEEP:
        raise BadSchema("messages are nested too deeply")
    options = _within(parts, 7)
    features = around.with_options(options, 12)
    made = ProtoMessage(_full(scope, _text(parts, 1)), is_entry=bool(_number(options, 7)))
    file.messages.append(made)
    for one in parts.get(3, []):
        _message(file, _parts(_bytes(one)), made.name, features, depth + 1)
    for one in parts.get(4, []):
        _enum(file, _parts(_bytes(one)), made.name, features)
    oneofs = [_text(_parts(_bytes(v)), 1) for v in parts.get(8, [])]
    made.fields = [_field(_parts(_bytes(v)), oneofs, features) for v in parts.get(2, [])]


def _field(parts: Parts, oneofs: Sequence[str], around: _Features) -> ProtoField:
    options = _within(parts, 8)
    features = around.with_options(options, 21)
    kind, label = _number(parts, 5), _number(parts, 4)
    if not 0 < kind <= len(SCALARS):
        raise BadSchema(f"field {_text(parts, 1)} has the type {kind}")
    scalar = SCALARS[kind - 1]
    if scalar == "message" and features.delimited:
        scalar = "group"
    made = ProtoField(
        _text(parts, 1),
        _number(parts, 3),
        scalar,
        _text(parts, 6),
        repeated=label == _REPEATED,
        required=label == _REQUIRED or features.required,
        packed=bool(_number(options, 2)) if 2 in options else features.packed,
        default=_default(parts, scalar) if 7 in parts else None,
    )
    optional = bool(_number(parts, 17))
    if 9 in parts and not optional:
        which = _number(parts, 9)
        made.oneof = oneofs[which] if 0 <= which < len(oneofs) else ""
    made.told = features.told or optional or bool(made.oneof)
    return made


def _default(parts: Parts, scalar: str) -> bytes:
    """Of bytes, the text has escapes."""
    return unescaped(_text(parts, 7)) if scalar == "bytes" else _text(parts, 7).encode()
