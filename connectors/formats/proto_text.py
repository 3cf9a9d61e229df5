"""Reads the text of .proto files: messages, enums, oneofs, maps. Services, options of others, and extensions are passed over.

Source: https://protobuf.dev/reference/protobuf/proto3-spec and proto2-spec.
"""

from __future__ import annotations

import re

from connectors.formats.proto_model import (
    SCALARS,
    BadSchema,
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    unescaped,
)

__all__ = ["parse_proto"]

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>\.?[A-Za-z_][\w.]*)|(?P<number>[+-]?(?:\d[\w.]*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?))|(?P<mark>[{}\[\]()<>;=,:/+-])""",
    re.DOTALL | re.ASCII,
)
_MOST_DEEP = 64
_MOST_TEXT = 4 << 20
_CLOSERS = {"{": "}", "[": "]", "(": ")", "<": ">"}
_PLAIN = frozenset(SCALARS) - {"group", "message", "enum"}
_KEYS = _PLAIN - {"double", "float", "bytes"}


def parse_proto(name: str, text: str) -> ProtoFile:
    """What a file declares; raises BadSchema, with the line."""
    return _Parser(name, text).file()


class _Parser:
    def __init__(self, name: str, text: str) -> None:
        if len(text) > _MOST_TEXT:
            raise BadSchema("it is too long")
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._wrong(f"'{text[at]}' is not expected", at)
            if found.lastgroup != "blank":
                self._tokens.append((str(found.lastgroup), found[0], at))
            at = found.end()
        self._tokens.append(("end", "the end", len(text)))
        self._at = 0
        self._made = ProtoFile(name)
        self._package = ""
        self._proto3 = False
        self._open_enums = False
        self._told = True
        self._packed = False

    def _wrong(self, why: str, at: int | None = None) -> BadSchema:
        place = self._tokens[self._at][2] if at is None else at
        return BadSchema(f"line {self._text.count(chr(10), 0, place) + 1}: {why}")

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token[1]

    @property
    def _here(self) -> str:
        return self._tokens[self._at][1]

    def _take(self, wanted: str) -> None:
        if self._here != wanted or self._tokens[self._at][0] == "text":
            raise self._wrong(f"'{wanted}' is expected, not '{self._here}'")
        self._next()

    def _if(self, wanted: str) -> bool:
        if self._here == wanted and self._tokens[self._at][0] != "text":
            self._next()
            return True
        return False

    def _word(self) -> str:
        if self._tokens[self._at][0] != "word":
            raise self._wrong(f"a name is expected, not '{self._here}'")
        return self._next()

    def _name(self) -> str:
        name = self._word()
        if "." in name:
            raise self._wrong(f"a name without a point is expected, not '{name}'")
        return name

    def _number(self) -> int:
        sign = -1 if self._if("-") else 1
        try:
            given = self._next()
            digits = given.lstrip("+-")
            octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
            return sign * int(given, 8 if octal else 0)
        except ValueError as error:
            raise self._wrong("a number is expected") from error

    def _bytes(self) -> bytes:
        made = b""
        while self._tokens[self._at][0] == "text":
            made += unescaped(self._next()[1:-1])
        return made

    def _string(self) -> str:
        return self._bytes().decode("utf-8", "replace")

    def file(self) -> ProtoFile:
        if self._here in ("syntax", "edition"):
            edition = self._next() == "edition"
            self._take("=")
            said = self._string()
            if said not in (("2023", "2024") if edition else ("proto2", "proto3")):
                raise self._wrong(f"'{said}' is no syntax that is known")
            self._proto3 = said == "proto3"
            self._open_enums, self._packed = self._proto3 or edition, self._proto3 or edition
            self._told = not self._proto3
            self._take(";")
        while self._tokens[self._at][0] != "end":
            self._statement("", 0)
        return self._made

    def _statement(self, scope: str, depth: int) -> None:
        """What may stand in a file, and in a message but for its fields."""
        match self._here:
            case ";":
                self._next()
            case "package" if not scope:
                self._next()
                self._package = self._word()
                self._take(";")
            case "import" if not scope:
                self._next()
                if not self._if("public"):
                    self._if("weak")
                self._made.imports.append(self._string())
                self._take(";")
            case "message":
                self._next()
                self._message(self._full(scope, self._name()), depth + 1)
            case "enum":
                self._next()
                self._enum(self._full(scope, self._name()))
            case "option":
                self._file_option()
            case "service" | "extend":
                self._pass_over()
            case other:
                raise self._wrong(f"'{other}' is not expected")

    def _full(self, scope: str, name: str) -> str:
        around = scope or self._package
        return f"{around}.{name}" if around else name

    def _file_option(self) -> None:
        """Options of editions change how fields are: those are read; others are passed over."""
        self._take("option")
        name = self._here
        self._pass_over()
        if name.startswith("features"):
            raise self._wrong("features of editions are not supported here: give a descriptor set of protoc")

    def _pass_over(self) -> None:
        """Passes over a statement: up to its semicolon, or the end of its block."""
        closers: list[str] = []
        while self._tokens[self._at][0] != "end":
            is_text = self._tokens[self._at][0] == "text"
            token = self._next()
            if is_text:
                continue
            if closers and token == closers[-1]:
                closers.pop()
                if not closers and token == "}" and self._here != ";":
                    return
            elif token in ("{", "[", "("):
                closers.append(_CLOSERS[token])
            elif token == ";" and not closers:
                return
        raise self._wrong("a statement has no end")

    def _message(self, name: str, depth: int) -> None:
        if depth > _MOST_DEEP:
            raise self._wrong("messages are nested too deeply")
        made = ProtoMessage(name)
        self._made.messages.append(made)
        self._take("{")
        while not self._if("}"):
            self._member(made, depth)

    def _member(self, message: ProtoMessage, depth: int) -> None:
        match self._here:
            case "reserved" | "extensions":
                self._pass_over()
            case "oneof":
                self._next()
                self._oneof(message, depth)
            case "message" | "enum" | "option" | "extend" | ";":
                self._statement(message.name, depth)
            case _:
                self._field(message, depth, "")

    def _oneof(self, message: ProtoMessage, depth: int) -> None:
        name = self._name()
        self._take("{")
        while not self._if("}"):
            if self._here == "option":
                self._pass_over()
            elif not self._if(";"):
                self._field(message, depth, name)

    def _field(self, message: ProtoMessage, depth: int, oneof: str) -> None:
        label = self._next() if self._here in ("optional", "required", "repeated") else ""
        if self._here == "map" and self._tokens[self._at + 1][1] == "<":
            self._map(message)
            return
        type_ = self._word()
        if type_ == "group":
            self._group(message, label, depth, oneof)
            return
        name = self._name()
        self._take("=")
        made = ProtoField(name, self._number(), type_ if type_ in _PLAIN else "", "" if type_ in _PLAIN else type_)
        made.repeated, made.required, made.oneof = label == "repeated", label == "required", oneof
        made.told = self._told or label == "optional" or bool(oneof)
        made.packed = self._packed
        self._options(made)
        message.fields.append(made)

    def _group(self, message: ProtoMessage, label: str, depth: int, oneof: str) -> None:
        name = self._name()
        self._take("=")
        made = ProtoField(name.lower(), self._number(), "group", repeated=label == "repeated", oneof=oneof)
        self._options(made, ends=False)
        message.fields.append(made)
        self._message(f"{message.name}.{name}", depth + 1)

    def _map(self, message: ProtoMessage) -> None:
        self._take("map")
        self._take("<")
        key = self._word()
        if key not in _KEYS:
            raise self._wrong(f"a map has no keys of {key}")
        self._take(",")
        value = self._word()
        self._take(">")
        name = self._name()
        self._take("=")
        number = self._number()
        entry = ProtoMessage(f"{message.name}.{''.join(p.capitalize() for p in name.split('_'))}Entry", is_entry=True)
        entry.fields = [
            ProtoField("key", 1, key),
            ProtoField("value", 2, value if value in _PLAIN else "", "" if value in _PLAIN else value),
        ]
        self._made.messages.append(entry)
        made = ProtoField(name, number, "message", "." + entry.name, repeated=True)
        self._options(made)
        message.fields.append(made)

    def _options(self, made: ProtoField, *, ends: bool = True) -> None:
        if self._if("["):
            while True:
                self._option(made)
                if not self._if(","):
                    break
            self._take("]")
        if ends:
            self._take(";")

    def _option(self, made: ProtoField) -> None:
        name = self._next()
        if name == "(":
            while self._next() != ")":
                if self._tokens[self._at][0] == "end":
                    raise self._wrong("')' is expected")
            if self._tokens[self._at][0] == "word":
                self._next()
        elif name.startswith("features"):
            raise self._wrong("features of editions are not supported here: give a descriptor set of protoc")
        self._take("=")
        if name == "packed":
            made.packed = self._next() == "true"
        elif name == "default":
            is_text = self._tokens[self._at][0] == "text"
            made.default = self._bytes() if is_text else (("-" if self._if("-") else "") + self._next()).encode()
        elif self._here == "{":
            self._skip_braces()
        elif self._tokens[self._at][0] == "text":
            self._string()
        else:
            self._if("-")
            self._next()

    def _skip_braces(self) -> None:
        depth = 0
        while self._tokens[self._at][0] != "end":
            is_text = self._tokens[self._at][0] == "text"
            token = self._next()
            if not is_text:
                depth += (token == "{") - (token == "}")
            if depth == 0:
                return
        raise self._wrong("'}' is expected")

    def _enum(self, name: str) -> None:
        made = ProtoEnum(name, [], not self._open_enums)
        self._made.enums.append(made)
        self._take("{")
        while not self._if("}"):
            following = self._tokens[min(self._at + 1, len(self._tokens) - 1)][1]
            if self._here in ("option", "reserved") and following != "=":
                self._pass_over()
            elif not self._if(";"):
                value = self._name()
                self._take("=")
                made.values.append((value, self._number()))
                self._options(ProtoField(value, 0, "int32"))
