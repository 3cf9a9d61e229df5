"""Texts that were given as parameters, in messages of errors: shown by the parameter's name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runtime.core.errors import SqlEngineError
from runtime.core.node import Node, node_fields

__all__ = ["given_texts", "hide_given"]


def hide_given(error: SqlEngineError, given: Iterable[tuple[str, str]]) -> SqlEngineError:
    """The error with names in the places of quoted texts; `given` has (text, name)."""
    for text, name in given:
        for written in (repr(text), f"'{text}'", f'"{text}"') if text else ():
            if written in error.message:
                error.message = error.message.replace(written, name)
                error.args = (error.message,)
            if error.hint and written in error.hint:
                error.hint = error.hint.replace(written, name)
    return error


def given_texts(thing: Any) -> set[tuple[str, str]]:
    """The texts in a plan that were given as parameters (literals with an `origin`), with what they are shown as."""
    if isinstance(thing, tuple):
        return {found for part in thing for found in given_texts(part)}
    if not isinstance(thing, Node):
        return set()
    origin, value = getattr(thing, "origin", None), getattr(thing, "value", None)
    own = {(value, origin)} if isinstance(origin, str) and isinstance(value, str) else set[tuple[str, str]]()
    return own.union(*(given_texts(getattr(thing, field.name)) for field in node_fields(thing)))
