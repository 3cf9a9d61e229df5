"""A path of SQL/JSON as a tree of `Step`, read once for each text."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path as File
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import LarkError, VisitError
from lark.visitors import Transformer

from runtime.core.errors import ExpressionError

__all__ = ["Path", "Step", "read_path"]

_LONGEST = 20_000
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2})|(v)|(')|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_METHODS = ("type", "size", "double", "ceiling", "floor", "abs", "keyvalue")
_ACCESSORS = frozenset(("member", "any_member", "deep", "elements", "subscripts", "filter", "method"))
_TRUTHS = frozenset(("or_", "and_", "not_", "comparison", "starts", "regex", "unknown", "exists"))


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a path: `kind` is the rule of the grammar, `parts` what it works on, `value` what it says itself. `loose`: behind
    `.**`, where also in strict mode what is not there is nothing."""

    kind: str
    parts: tuple[Step, ...] = ()
    value: Any = None
    loose: bool = False

    @property
    def is_truth(self) -> bool:
        """Whether it gives a truth value."""
        return self.kind in _TRUTHS


@dataclass(frozen=True, slots=True)
class Path:
    """`strict`: what is not there is an error."""

    strict: bool
    step: Step


def _text(quoted: str) -> str:
    """What a text in quotes says; PostgreSQL has some more escapes than JSON."""

    def escape(found: re.Match[str]) -> str:
        if found[1] or found[2]:
            return json.dumps(chr(int(found[1] or found[2], 16)))[1:-1]
        if found[3]:
            return "\\u000b"
        if found[4]:
            return "'"
        return found[0] if found[0][1] in '"\\/bfnrtu' else found[0][1:]

    return str(json.loads(_ESCAPE.sub(escape, quoted), strict=False))


def _regex(pattern: str, flags: str) -> re.Pattern[str]:
    options = 0
    for flag in flags:
        if flag not in "ismxq":
            raise _wrong(f"like_regex has no flag {flag}")
        options |= {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE, "x": re.VERBOSE, "q": 0}[flag]
    try:
        return re.compile(re.escape(pattern) if "q" in flags else pattern, options)
    except (re.error, OverflowError, RecursionError) as error:
        raise _wrong(f"'{pattern[:60]}' is not a regular expression: {error}", "E2003") from None


def _wrong(message: str, code: str = "E2027") -> ExpressionError:
    return ExpressionError(message, code=code, hint="""for example '$.items[*] ? (@.price > 10).name'""")


class _Reader(Transformer[Token, Any]):
    """Makes steps of the rules."""

    def __default__(self, data: Any, children: list[Any], meta: Any) -> Any:
        steps = tuple(c for c in children if isinstance(c, Step))
        words = [str(c) for c in children if isinstance(c, Token)]
        kind = str(data)
        value: Any = words[0] if words else None
        truths = kind in ("or_", "and_", "not_", "unknown")
        for step in steps:
            if truths != step.is_truth and kind not in ("filter", "exists"):
                raise _wrong(
                    "a path compares and computes with values, and joins truths with && and ||"
                    if truths
                    else "a path has a truth where a value stands"
                )
        match kind:
            case "member":
                value = _text(words[0]) if words[0].startswith('"') else _text(f'"{words[0]}"')
            case "text":
                value = _text(words[0])
            case "variable":
                value = _text(words[0][1:]) if words[0][1:2] == '"' else words[0][1:]
            case "number":
                value = Decimal(words[0])
            case "word":
                value = {"true": True, "false": False, "null": None}[words[0]]
            case "regex":
                texts = [_text(w) for w in words if w.startswith('"')]
                value = _regex(texts[0], texts[1] if len(texts) > 1 else "")
            case "level":
                value = None if words[0] == "last" else Decimal(words[0])
            case "deep":
                levels = tuple(s.value for s in steps[1:])
                return Step(kind, steps[:1], levels)
            case "method":
                if words[0] not in _METHODS:
                    raise _wrong(f"a path has no method .{words[0]}()")
            case "filter" if not steps[1].is_truth:
                raise _wrong("a filter ?(..) holds a truth")
            case _:
                pass
        return Step(kind, steps, value)

    def start(self, children: list[Any]) -> Path:
        strict = len(children) > 1 and children[0].value == "strict"
        return Path(strict, children[-1])


@functools.cache
def _parser() -> Lark:
    grammar = File(__file__).with_name("path.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", maybe_placeholders=False)


@functools.lru_cache(maxsize=512)
def read_path(text: str) -> Path:
    """The path that a text says.

    Raises:
        ExpressionError: E2027, it is none.
    """
    if len(text) > _LONGEST:
        raise _wrong(f"a path has at most {_LONGEST:,} characters")
    try:
        tree: Tree[Token] = _parser().parse(text)
        path: Path = _Reader().transform(tree)
    except VisitError as error:
        if isinstance(error.orig_exc, ExpressionError):
            raise error.orig_exc from None
        raise _wrong(f"'{text[:60]}' is no path of SQL/JSON") from None
    except (LarkError, RecursionError, ValueError):
        raise _wrong(f"'{text[:60]}' is no path of SQL/JSON") from None
    _check(path.step, 0, False)
    return replace(path, step=_loosened(path.step, False))


def _loosened(step: Step, loose: bool) -> Step:
    if step.kind in _ACCESSORS:
        target = _loosened(step.parts[0], loose)
        loose = loose or target.loose or target.kind == "deep"
        return replace(step, parts=(target, *(_loosened(p, loose) for p in step.parts[1:])), loose=loose)
    return replace(step, parts=tuple(_loosened(part, loose) for part in step.parts), loose=loose)


def _check(step: Step, filters: int, subscript: bool) -> None:
    """`@` stands in filters, `last` in subscripts. Steps lie within each other at most 150 deep."""
    stack = [(step, 0, filters > 0, subscript)]
    while stack:
        part, depth, within, at = stack.pop()
        if depth > 150:
            raise _wrong("the parts of a path lie more than 150 deep in each other")
        if part.kind == "current" and not within:
            raise _wrong("@ stands in filters ?(..) alone")
        if part.kind == "last" and not at:
            raise _wrong("last stands in subscripts [..] alone")
        for position, inner in enumerate(part.parts):
            filtered = within or (part.kind == "filter" and position == 1)
            stack.append((inner, depth + 1, filtered, at or (part.kind == "subscripts" and position > 0)))
