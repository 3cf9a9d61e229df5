"""PATTERN: variables with quantifiers, one after the other.

Groups that say nothing are read over; what a variable of its own could not say is refused: alternatives, groups with
quantifiers, PERMUTE, exclusions, anchors.
"""

from __future__ import annotations

import re

from runtime.core.errors import BindError, Span, UnsupportedError
from runtime.plan.pattern import PatternVariable
from sqlengine.parse.nodes import PatternText
from sqlengine.parse.spans import span_of

__all__ = ["MOST_VARIABLES", "read_pattern"]

MOST_VARIABLES = 63
_MOST_STATES = 10_000
_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<times>\{\s*(?P<least>\d*)\s*(?P<comma>,)?\s*(?P<most>\d*)\s*\}\s*\??)
    | (?P<mark>[*+?]\s*\??)
    | (?P<other>\{-|-\}|.)""",
    re.VERBOSE | re.DOTALL,
)
_MARKS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_REFUSED = {
    "|": (
        "alternatives in PATTERN are not supported",
        "match each alternative in a query of its own, and UNION ALL them",
    ),
    "^": ("anchors in PATTERN are not supported", "leave ^ out: a stream is matched from its first row on"),
    "$": ("anchors in PATTERN are not supported", "leave $ out: a stream has no last row"),
    "{-": ("exclusions in PATTERN are not supported", "leave the variable out of MEASURES"),
}


def read_pattern(text: PatternText) -> list[tuple[PatternVariable, Span]]:
    """The variables with their places.

    Raises:
        BindError: E1260, the pattern cannot be matched.
        UnsupportedError: it has a part that is not supported.
    """
    found: list[tuple[PatternVariable, Span]] = []
    place = span_of(text)
    base = place.start if place is not None else 0
    depth, after_group, quantified = 0, False, True
    for token in _TOKEN.finditer(text.this):
        if token.lastgroup == "space" or token["space"]:
            continue
        span = Span(base + token.start(), base + token.end())
        if token["quoted"] or token["word"]:
            name = token["quoted"][1:-1].replace("``", "`") if token["quoted"] else token["word"]
            if name.upper() == "PERMUTE" and text.this[token.end() :].lstrip().startswith("("):
                raise UnsupportedError(
                    "PERMUTE in PATTERN is not supported", span=span, hint="match each order in a query of its own"
                )
            if any(v.name == name for v, _ in found):
                raise BindError(
                    f'the variable "{name}" stands twice in PATTERN',
                    code="E1260",
                    span=span,
                    hint="give the second one another name, and the same condition in DEFINE",
                )
            found.append((PatternVariable(name, 1, 1, True), span))
            after_group, quantified = False, False
        elif token["mark"] or token["times"]:
            if after_group:
                raise UnsupportedError(
                    "a group with a quantifier is not supported in PATTERN", span=span, hint="repeat single variables"
                )
            if quantified:
                raise BindError(
                    "a quantifier follows a variable", code="E1260", span=span, hint="for example PATTERN (A B+ C?)"
                )
            variable, first = found[-1]
            found[-1] = _quantified(variable, token, span), Span(first.start, span.end)
            quantified = True
        elif token["other"] == "(":
            depth, quantified = depth + 1, True
        elif token["other"] == ")" and depth:
            depth, after_group = depth - 1, True
        elif token["other"] in _REFUSED:
            message, hint = _REFUSED[token["other"]]
            raise UnsupportedError(message, span=span, hint=hint)
        else:
            raise BindError(
                f"{token[0]} has no meaning in PATTERN", code="E1260", span=span, hint="for example PATTERN (A B+ C?)"
            )
    if not found:
        raise BindError(
            "a PATTERN needs at least one variable", code="E1260", span=place, hint="for example PATTERN (A B+ C?)"
        )
    _check(found, place)
    return found


def _quantified(variable: PatternVariable, token: re.Match[str], span: Span) -> PatternVariable:
    greedy = not token[0].rstrip().endswith("?") or token[0].strip() == "?"
    if token["mark"]:
        least, most = _MARKS[token[0][0]]
    else:
        if not token["least"]:
            raise UnsupportedError(
                "a quantifier without a least number is not supported",
                span=span,
                hint=f"write {{0,{token['most']}}}" if token["most"] else "write {1} or {1,2}",
            )
        least = int(token["least"])
        most = least if not token["comma"] else int(token["most"]) if token["most"] else None
    if (most is not None and (most < max(least, 1) or most > _MOST_STATES)) or least > _MOST_STATES:
        raise BindError(
            f"a variable cannot be matched {token[0].strip()} times",
            code="E1260",
            span=span,
            hint=f"the first number is not above the second, the second not 0, and none above {_MOST_STATES}",
        )
    if (least, most) == (0, 1) and not greedy:
        raise UnsupportedError(
            "reluctant optional variables are not supported",
            span=span,
            hint=f"write {variable.name}?: of the matches that begin with a row the one that is complete first is given",
        )
    return PatternVariable(variable.name, least, most, greedy)


def _check(found: list[tuple[PatternVariable, Span]], place: Span | None) -> None:
    variables = [v for v, _ in found]
    if all(v.least == 0 for v in variables):
        raise BindError(
            "the pattern matches no rows, too",
            code="E1260",
            span=place,
            hint="one variable at least must not be optional: write + for *",
        )
    if len(variables) > MOST_VARIABLES:
        raise UnsupportedError(
            f"a PATTERN has at most {MOST_VARIABLES} variables",
            span=found[MOST_VARIABLES][1],
            hint="match in two steps",
        )
    if _is_greedy(variables[-1]):
        raise UnsupportedError(
            "a greedy quantifier at the end of PATTERN is not supported: a stream does not say when it ends",
            span=found[-1][1],
            hint=f"write {variables[-1]}?, or put a variable behind it whose condition says where it ends",
        )
    for before, (variable, span) in zip(variables, found[1:], strict=False):
        # {0,n} may stand there, in Flink, too.
        if _is_greedy(before) and variable.least == 0 and variable.most in (None, 1):
            raise UnsupportedError(
                "an optional variable after a greedy one is not supported",
                span=span,
                hint=f"make {before.name} reluctant: {before}?",
            )


def _is_greedy(variable: PatternVariable) -> bool:
    optional = (variable.least, variable.most) == (0, 1)
    return variable.greedy and not optional and variable.least != variable.most
