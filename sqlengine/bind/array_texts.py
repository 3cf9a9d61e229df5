"""Arrays as PostgreSQL writes them in a text: `{1,2,NULL}`, `{"a,b",c}`, `{{1,2},{3}}`.

Source: PostgreSQL, "Array Value Input". Arrays within an array need not have one length, as they need not in SQL here.
"""

from __future__ import annotations

from runtime.core.errors import Span, TypeMismatchError

__all__ = ["ArrayText", "array_elements"]

ArrayText = str | None | list["ArrayText"]
"""An element: a text, NULL, or an array."""

_SPACE = " \t\n\r\v\f"
_DEEPEST = 64


def array_elements(text: str, span: Span | None) -> list[ArrayText]:
    """The elements of an array. Raises TypeMismatchError E1305 when the text is none."""
    reader = _Reader(text, span)
    elements = reader.array(1)
    reader.space()
    if reader.at < len(text):
        reader.refuse("the end")
    return elements


class _Reader:
    def __init__(self, text: str, span: Span | None) -> None:
        self.text = text
        self.at = 0
        self.span = span

    def refuse(self, wanted: str) -> TypeMismatchError:
        raise TypeMismatchError(
            f"'{self.text[:60]}' is no array: {wanted} should be at its character {self.at + 1}",
            code="E1305",
            span=self.span,
            hint="arrays are written as '{1,2}', or as ARRAY[1, 2]",
        )

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1

    def next(self) -> str:
        """The next character that is no space; empty at the end."""
        self.space()
        return self.text[self.at : self.at + 1]

    def array(self, depth: int) -> list[ArrayText]:
        if self.next() != "{" or depth > _DEEPEST:
            self.refuse("{" if depth <= _DEEPEST else "no further array")
        self.at += 1
        elements: list[ArrayText] = []
        if self.next() == "}":
            self.at += 1
            return elements
        while True:
            elements.append(self.element(depth))
            mark = self.next()
            if mark not in (",", "}"):
                self.refuse("a comma or }")
            self.at += 1
            if mark == "}":
                return elements

    def element(self, depth: int) -> ArrayText:
        mark = self.next()
        if mark == "{":
            return self.array(depth + 1)
        if mark == '"':
            return self.quoted()
        start, kept = self.at, []
        while self.at < len(self.text) and self.text[self.at] not in '{},"':
            if self.text[self.at] == "\\":
                self.at += 1
            kept.append(self.text[self.at : self.at + 1])
            self.at += 1
        written = self.text[start : self.at].rstrip(_SPACE)
        if not written:
            self.refuse("a value")
        found = "".join(kept)
        return None if written.upper() == "NULL" else found.rstrip(_SPACE) if written == found.rstrip(_SPACE) else found

    def quoted(self) -> str:
        self.at += 1
        kept: list[str] = []
        while (sign := self.text[self.at : self.at + 1]) != '"':
            if sign == "\\":
                self.at += 1
                sign = self.text[self.at : self.at + 1]
            if not sign:
                self.refuse('"')
            kept.append(sign)
            self.at += 1
        self.at += 1
        return "".join(kept)
