"""PATTERN: variables with quantifiers, one after the other, and what the SQL standard has beyond that.

What stands only one after the other has Flink's meaning, unless the session asks for the standard's, and what Flink refuses
of it is refused. Alternatives, groups with quantifiers, PERMUTE and exclusions, which Flink has not, have the standard's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import permutations
from typing import NoReturn

from runtime.core.errors import BindError, Span, UnsupportedError
from runtime.plan.pattern import MOST_PLACES, Anchor, PatternPart, PatternVariable
from sqlengine.parse.nodes import PatternText
from sqlengine.parse.spans import span_of

__all__ = ["MOST_VARIABLES", "ReadPattern", "read_pattern"]

MOST_VARIABLES = 63
_MOST_STATES = 10_000
_MOST_PERMUTED = 6
_DEEPEST = 50
_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<times>\{\s*(?P<least>\d*)\s*(?P<comma>,)?\s*(?P<most>\d*)\s*\}\s*\??)
    | (?P<mark>[*+?]\s*\??)
    | (?P<other>\{-|-\}|.)""",
    re.VERBOSE | re.DOTALL,
)
_MARKS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ANCHORS = {anchor.value: anchor for anchor in Anchor}
_EXAMPLE = "for example PATTERN (A B+ C?)"


@dataclass(frozen=True, slots=True)
class ReadPattern:
    """The variables, and with the standard's meaning where they stand."""

    variables: tuple[PatternVariable, ...]
    shape: PatternPart | None


def read_pattern(text: PatternText, standard: bool) -> ReadPattern:
    """What PATTERN looks for; `standard`: the session asks for the standard's meaning.

    Raises:
        BindError: E1260, the pattern cannot be matched.
        UnsupportedError: it has a part that is not supported.
    """
    reader = _Reader(text)
    shape = reader.whole()
    if not standard and _is_plain(bare := _without_anchors(shape)):
        shape = bare
        variables = [PatternVariable(reader.names[p.variable], p.least, p.most, p.greedy) for p in _leaves(shape)]
        if reader.no_least is not None:
            raise UnsupportedError(
                "a quantifier without a least number is not supported",
                span=reader.no_least,
                hint=f"write {{0,3}} for {{,3}}; or {_STANDARD}",
            )
        _check(list(zip(variables, reader.places, strict=True)), span_of(text))
        return ReadPattern(tuple(variables), None)
    place = span_of(text)
    if len(reader.names) > MOST_VARIABLES:
        raise UnsupportedError(
            f"a PATTERN has at most {MOST_VARIABLES} variables", span=place, hint="match in two steps"
        )
    if shape.places > MOST_PLACES:
        raise UnsupportedError(
            f"with its repetitions and permutations written out the pattern has {shape.places:,} variables, "
            f"more than {MOST_PLACES:,}",
            span=place,
            hint="write + for a large number of repetitions, and COUNT(..) in DEFINE",
        )
    variables = [PatternVariable(name, shape.least_rows(i), None, True) for i, name in enumerate(reader.names)]
    return ReadPattern(tuple(variables), shape)


def _without_anchors(shape: PatternPart) -> PatternPart:
    """A pattern without the anchors at its ends: Flink reads them, and matches as if they were not there."""
    parts = shape.parts
    if shape.either or shape.excluded or (shape.least, shape.most) != (1, 1):
        return shape
    parts = parts[1:] if parts and parts[0].anchor is Anchor.START else parts
    parts = parts[:-1] if parts and parts[-1].anchor is Anchor.END else parts
    return shape.with_(parts=parts)


def _is_plain(shape: PatternPart) -> bool:
    """Whether variables stand one after the other."""
    if shape.variable >= 0:
        return True
    return (
        not (shape.either or shape.excluded or shape.anchor)
        and (shape.least, shape.most) == (1, 1)
        and all(map(_is_plain, shape.parts))
    )


def _leaves(shape: PatternPart) -> list[PatternPart]:
    """The variables of a part, in the order of the text."""
    return [shape] if shape.variable >= 0 else [leaf for part in shape.parts for leaf in _leaves(part)]


class _Reader:
    """Reads the text of a pattern. `names`: of its variables, in the order in which they are there first; `places`: of all
    of them, with their quantifiers; `no_least`: of a quantifier such as {,3}."""

    def __init__(self, text: PatternText) -> None:
        self.names: list[str] = []
        self._text = text
        place = span_of(text)
        self._base = place.start if place is not None else 0
        self._tokens = [t for t in _TOKEN.finditer(text.this) if t.lastgroup != "space" and not t["space"]]
        self._at = 0
        self._depth = 0
        self.places: list[Span] = []
        self.no_least: Span | None = None

    def whole(self) -> PatternPart:
        if not self._tokens:
            raise BindError(
                "a PATTERN needs at least one variable", code="E1260", span=span_of(self._text), hint=_EXAMPLE
            )
        found = self._alternatives()
        if self._at < len(self._tokens):
            self._no_meaning()
        if not self.names:
            raise BindError(
                "a PATTERN needs at least one variable", code="E1260", span=span_of(self._text), hint=_EXAMPLE
            )
        return found

    def _alternatives(self) -> PatternPart:
        parts = [self._sequence()]
        while self._takes("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else PatternPart(parts=tuple(parts), either=True)

    def _sequence(self) -> PatternPart:
        parts: list[PatternPart] = []
        while self._at < len(self._tokens) and self._tokens[self._at]["other"] not in (")", "|", ",", "-}"):
            parts.append(self._quantified())
        if not parts:
            self._no_meaning()
        return parts[0] if len(parts) == 1 else PatternPart(parts=tuple(parts))

    def _quantified(self) -> PatternPart:
        first = self._span()
        part, named = self._primary()
        if self._at < len(self._tokens) and (self._tokens[self._at]["mark"] or self._tokens[self._at]["times"]):
            span = self._span()
            if self._tokens[self._at]["times"] and not self._tokens[self._at]["least"]:
                self.no_least = span
            least, most, greedy = _quantifier(self._tokens[self._at], span)
            self._at += 1
            if part.anchor is not None:
                raise BindError(
                    f"{part.anchor.value} is a place, which cannot be repeated",
                    code="E1260",
                    span=span,
                    hint=f"leave the quantifier out: {part.anchor.value}",
                )
            if (part.least, part.most) != (1, 1):
                part = PatternPart(parts=(part,))
            part = part.with_(least=least, most=most, greedy=greedy)
            first = Span(first.start, span.end)
            if self._at < len(self._tokens) and (self._tokens[self._at]["mark"] or self._tokens[self._at]["times"]):
                raise BindError(
                    "a quantifier follows a variable or a group", code="E1260", span=self._span(), hint=_EXAMPLE
                )
        if named:
            self.places.append(first)
        return part

    def _primary(self) -> tuple[PatternPart, bool]:
        """A variable (True), or a group."""
        token = self._tokens[self._at]
        span = self._span()
        if token["quoted"] or token["word"]:
            self._at += 1
            name = token["quoted"][1:-1].replace("``", "`") if token["quoted"] else token["word"]
            if token["word"] and name.upper() == "PERMUTE" and self._takes("("):
                return self._permuted(span), False
            if name not in self.names:
                self.names.append(name)
            return PatternPart(self.names.index(name)), True
        if self._takes("("):
            with_group = self._inside(span)
            self._expect(")")
            return with_group, False
        if self._takes("{-"):
            excluded = PatternPart(parts=(self._inside(span),), excluded=True)
            self._expect("-}")
            return excluded, False
        anchor = _ANCHORS.get(token["other"] or "")
        if anchor is not None:
            self._at += 1
            return PatternPart(anchor=anchor), False
        if token["mark"] or token["times"]:
            raise BindError("a quantifier follows a variable or a group", code="E1260", span=span, hint=_EXAMPLE)
        self._no_meaning()

    def _inside(self, span: Span) -> PatternPart:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnsupportedError(
                f"groups of a PATTERN are at most {_DEEPEST} deep", span=span, hint="leave out those that say nothing"
            )
        found = self._alternatives()
        self._depth -= 1
        return found

    def _permuted(self, span: Span) -> PatternPart:
        parts = [self._inside(span)]
        while self._takes(","):
            parts.append(self._inside(span))
        self._expect(")")
        if len(parts) > _MOST_PERMUTED:
            raise UnsupportedError(
                f"PERMUTE takes at most {_MOST_PERMUTED} patterns",
                span=span,
                hint="match any of them so often, and count each in the condition of a last variable",
            )
        orders = tuple(PatternPart(parts=order) for order in permutations(parts))
        return PatternPart(parts=orders, either=True)

    def _takes(self, text: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at]["other"] == text
        self._at += found
        return found

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            self._no_meaning()

    def _span(self) -> Span:
        token = self._tokens[self._at]
        return Span(self._base + token.start(), self._base + token.end())

    def _no_meaning(self) -> NoReturn:
        if self._at < len(self._tokens):
            raise BindError(
                f"{self._tokens[self._at][0]} has no meaning here in PATTERN",
                code="E1260",
                span=self._span(),
                hint=_EXAMPLE,
            )
        raise BindError("the PATTERN is not complete", code="E1260", span=span_of(self._text), hint=_EXAMPLE)


def _quantifier(token: re.Match[str], span: Span) -> tuple[int, int | None, bool]:
    """The least and the greatest number, and whether it is greedy."""
    text = token[0].strip()
    greedy = not text.endswith("?") or text == "?"
    if token["mark"]:
        least, most = _MARKS[text[0]]
        return least, most, greedy
    if not token["least"] and not token["most"]:
        raise UnsupportedError("a quantifier without a number is not supported", span=span, hint="write {1} or {1,2}")
    least = int(token["least"] or 0)
    most = least if not token["comma"] else int(token["most"]) if token["most"] else None
    if (most is not None and (most < max(least, 1) or most > _MOST_STATES)) or least > _MOST_STATES:
        raise BindError(
            f"a variable cannot be matched {text} times",
            code="E1260",
            span=span,
            hint=f"the first number is not above the second, the second not 0, and none above {_MOST_STATES}",
        )
    return least, most, greedy


_STANDARD = "SET 'sqlengine.match.semantics' = 'standard' for the meaning of the SQL standard"


def _check(found: list[tuple[PatternVariable, Span]], place: Span | None) -> None:
    """Refuse what Flink refuses."""
    variables = [v for v, _ in found]
    for number, (variable, span) in enumerate(found):
        if any(v.name == variable.name for v in variables[:number]):
            raise BindError(
                f'the variable "{variable.name}" stands twice in PATTERN',
                code="E1260",
                span=span,
                hint=f"give the second one another name, and the same condition in DEFINE; or {_STANDARD}",
            )
        if (variable.least, variable.most) == (0, 1) and not variable.greedy:
            raise UnsupportedError(
                "reluctant optional variables are not supported",
                span=span,
                hint=f"write {variable.name}?: of the matches that begin with a row the one that is complete first is "
                f"given; or {_STANDARD}",
            )
    if all(v.least == 0 for v in variables):
        raise BindError(
            "the pattern matches no rows, too",
            code="E1260",
            span=place,
            hint=f"one variable at least must not be optional: write + for *; or {_STANDARD}",
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
            hint=f"write {variables[-1]}?, or put a variable behind it whose condition says where it ends; or {_STANDARD}",
        )
    for before, (variable, span) in zip(variables, found[1:], strict=False):
        # {0,n} may stand there, in Flink, too.
        if _is_greedy(before) and variable.least == 0 and variable.most in (None, 1):
            raise UnsupportedError(
                "an optional variable after a greedy one is not supported",
                span=span,
                hint=f"make {before.name} reluctant: {before}?; or {_STANDARD}",
            )


def _is_greedy(variable: PatternVariable) -> bool:
    optional = (variable.least, variable.most) == (0, 1)
    return variable.greedy and not optional and variable.least != variable.most
