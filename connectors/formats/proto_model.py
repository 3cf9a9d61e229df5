"""Messages of Protobuf as they are declared: fields, enums, and names that refer to others.

Source: https://protobuf.dev/reference/protobuf/proto3-spec, proto2-spec and `google/protobuf/descriptor.proto`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = [
    "BadSchema",
    "Linked",
    "ProtoEnum",
    "ProtoField",
    "ProtoFile",
    "ProtoMessage",
    "SCALARS",
    "linked",
    "unescaped",
]

SCALARS = (
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message", "bytes",
    "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
"""The kinds of fields, in the order of their numbers in descriptors, the first of which is 1."""
UNPACKED = frozenset(("string", "bytes", "message", "group"))


class BadSchema(ValueError):
    """It is no schema of Protobuf; the message says why."""


@dataclass(eq=False)
class ProtoEnum:
    """An enum. `values`: (name, number), in order. `closed`: a number that is not there counts as no value."""

    name: str
    values: list[tuple[str, int]]
    closed: bool = False


@dataclass(eq=False)
class ProtoField:
    """A field.

    Attributes:
        kind: one of SCALARS, or "" for what a name tells, until it is linked.
        type_name: of a message or enum, as it is written.
        told: whether a value that is there can be told from none.
        default: of proto2: the bytes of a text, or what is written otherwise; None where there is none.
        oneof: its name, or "".
    """

    name: str
    number: int
    kind: str
    type_name: str = ""
    repeated: bool = False
    required: bool = False
    told: bool = True
    packed: bool = False
    default: bytes | None = None
    oneof: str = ""
    message: ProtoMessage | None = None
    enum: ProtoEnum | None = None

    @property
    def is_map(self) -> bool:
        return self.message is not None and self.message.is_entry

    @property
    def shown(self) -> str:
        """For messages."""
        of = self.message.name if self.message is not None else self.enum.name if self.enum is not None else self.kind
        if self.message is not None and self.message.is_entry:
            key, value = self.message.fields
            return f"map<{key.shown}, {value.shown}>"
        return f"repeated {of}" if self.repeated else of


@dataclass(eq=False)
class ProtoMessage:
    """A message by its full name. `is_entry`: it is the entry of a map."""

    name: str
    fields: list[ProtoField] = field(default_factory=list["ProtoField"])
    is_entry: bool = False


@dataclass
class ProtoFile:
    """A file: what it declares, by full names, and which others it takes in."""

    name: str
    messages: list[ProtoMessage] = field(default_factory=list[ProtoMessage])
    enums: list[ProtoEnum] = field(default_factory=list[ProtoEnum])
    imports: list[str] = field(default_factory=list[str])


@dataclass
class Linked:
    """Messages whose fields know what they are, by full name, in the order of their files."""

    messages: dict[str, ProtoMessage]
    first: tuple[str, ...]
    """The names of those of the file that is meant, in their order, each before those within it."""

    def find(self, name: str) -> ProtoMessage:
        """A message by its full name, or by the last part of it; without a name, the first of the file. Raises BadSchema."""
        if not name:
            if len(self.first) == 1 or (self.first and all(n.startswith(self.first[0] + ".") for n in self.first[1:])):
                return self.messages[self.first[0]]
            raise BadSchema(f"it has several messages ({', '.join(self.first)}), and none is named")
        known = self.messages.get(name)
        if known is not None:
            return known
        found = [n for n in self.messages if n.endswith(f".{name}")]
        if len(found) != 1:
            raise BadSchema(f"it has {'several messages' if found else 'no message'} {name}")
        return self.messages[found[0]]

    def at(self, place: tuple[int, ...]) -> ProtoMessage:
        """The message at a place of the file: the how-many-eth, then which of those within it. Raises BadSchema."""
        around = ""
        for number in place:
            inside = self._within(around)
            if number >= len(inside):
                break
            around = inside[number]
        else:
            if around:
                return self.messages[around]
        raise BadSchema(f"it has no message at {list(place)}")

    def place_of(self, message: ProtoMessage) -> tuple[int, ...]:
        """Where a message of the file is; raises BadSchema for one of another file."""
        if message.name not in self.first:
            raise BadSchema(f"message {message.name} is in another file")
        around = message.name.rpartition(".")[0]
        outer = self.messages.get(around) if around in self.first else None
        inside = self._within("" if outer is None else around)
        return (*(() if outer is None else self.place_of(outer)), inside.index(message.name))

    def _within(self, around: str) -> list[str]:
        names = set(self.first)
        return [n for n in self.first if (parent if (parent := n.rpartition(".")[0]) in names else "") == around]


def linked(files: Iterable[ProtoFile]) -> Linked:
    """Gives each field what its name refers to. The last file is the one whose messages are meant; raises BadSchema."""
    messages: dict[str, ProtoMessage] = {}
    enums: dict[str, ProtoEnum] = {}
    first: tuple[str, ...] = ()
    for file in files:
        messages |= {m.name: m for m in file.messages}
        enums |= {e.name: e for e in file.enums}
        first = tuple(m.name for m in file.messages if not m.is_entry)
    for message in messages.values():
        numbers = [f.number for f in message.fields]
        if len(set(numbers)) != len(numbers) or len({f.name for f in message.fields}) != len(numbers):
            raise BadSchema(f"message {message.name} has a field twice")
        for one in message.fields:
            _link(message, one, messages, enums)
    return Linked(messages, first)


def _link(
    message: ProtoMessage, one: ProtoField, messages: dict[str, ProtoMessage], enums: dict[str, ProtoEnum]
) -> None:
    if not 0 < one.number < 1 << 29:
        raise BadSchema(f"field {message.name}.{one.name} has the number {one.number}")
    if one.type_name and one.kind != "group":
        name = _resolved(message.name, one.type_name, messages, enums)
        one.message, one.enum = messages.get(name), enums.get(name)
        one.kind = "message" if one.message is not None else "enum"
        if one.enum is not None and not one.enum.values:
            raise BadSchema(f"enum {one.enum.name} has no values")
    if one.kind == "message":
        one.told = True
    if one.kind in UNPACKED or not one.repeated:
        one.packed = False
    if one.repeated:
        one.told = False


def _resolved(scope: str, name: str, messages: dict[str, ProtoMessage], enums: dict[str, ProtoEnum]) -> str:
    """The full name of what a name refers to: looked for in the message, then around it."""
    if name.startswith("."):
        if name[1:] in messages or name[1:] in enums:
            return name[1:]
        raise BadSchema(f"type {name[1:]}, which {scope} has, is not there")
    around = scope
    while True:
        full = f"{around}.{name}" if around else name
        if full in messages or full in enums:
            return full
        if not around:
            raise BadSchema(f"type {name}, which {scope} has, is not there")
        around = around.rpartition(".")[0]


_ESCAPE = re.compile(
    rb"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL | re.IGNORECASE
)
_NAMED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def unescaped(text: str) -> bytes:
    """The bytes of a literal, as it stands between its quotes."""
    return _ESCAPE.sub(_unescaped, text.encode())


def _unescaped(found: re.Match[bytes]) -> bytes:
    hexadecimal, octal, short, long, named = found.groups()
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    if octal:
        return bytes([int(octal, 8) & 255])
    if short or long:
        number = int(short or long, 16)
        return chr(number).encode("utf-8", "replace") if number < 0x110000 else b"?"
    return _NAMED.get(named, named)
