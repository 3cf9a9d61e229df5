"""What a path of SQL/JSON finds in a document.

Documents are what `read_document` gives: numbers are Decimal. Everything is found one after the other, so that a question for the first
thing ends there, also where a later one would be an error.
Source: PostgreSQL 15, "The SQL/JSON Path Language", and jsonpath_exec.c.
"""

from __future__ import annotations

import itertools
import json
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Clamped, Context, Decimal, Inexact, InvalidOperation, Overflow, localcontext
from typing import Any

from runtime.core.errors import ExpressionError
from runtime.expr.sql_path.reading import Path, Step

__all__ = ["PathError", "everything", "read_document", "written"]

_MOST = 1_000_000
"""The most things that one path finds in a document, or passes on the way."""
_EXACT = Context(prec=1000, traps=[InvalidOperation, Overflow, Inexact, Clamped])
_COMPARES: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<>": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class PathError(ExpressionError):
    """The document has not what the path asks for; questions that are `silent` pass over it."""

    code = "E2028"


def _refused(message: str, hint: str = "in lax mode, what is not there is nothing") -> PathError:
    return PathError(message, code="E2028", hint=hint)


def read_document(text: str) -> Any:
    """The value of a JSON text."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def written(value: Any) -> str:
    """A JSON text of a value that was found."""
    match value:
        case Decimal():
            return format(value, "f")
        case list():
            return f"[{','.join(map(written, value))}]"
        case dict():
            return f"{{{','.join(f'{json.dumps(k)}:{written(v)}' for k, v in value.items())}}}"
        case _:
            return json.dumps(value)


def everything(path: Path, document: Any, variables: Any) -> Iterator[Any]:
    """What the path finds, in order. A path that is a truth finds that; null where it is unknown.

    Raises:
        PathError: E2028, on the way to what is not there.
    """
    if not isinstance(variables, dict):
        raise ExpressionError("the variables of a path are an object", code="E2028", hint="for example '{\"x\": 1}'")
    finder = _Finder(path.strict, document, variables)
    at = _Place(document)
    found = iter([finder.truth(path.step, at)]) if path.step.is_truth else finder.find(path.step, at)
    for item in found:
        finder.passed()
        yield item


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a step is looked at: what `@` is, and how many elements the array has whose subscript is computed."""

    current: Any
    length: int = 0


class _Finder:
    def __init__(self, strict: bool, document: Any, variables: dict[str, Any]) -> None:
        self._strict = strict
        self._document = document
        self._variables = variables
        self._passed = 0

    def passed(self) -> None:
        """Counts one thing, so that `$.**.**.**` over a large document ends."""
        self._passed += 1
        if self._passed > _MOST:
            raise ExpressionError(
                f"a path passes more than {_MOST:,} values of a document", code="E2028", hint="ask for a part of it"
            )

    def find(self, step: Step, at: _Place) -> Iterator[Any]:
        return getattr(self, f"_{step.kind}")(step, at)  # type: ignore[no-any-return]

    def _unwrapped(self, step: Step, at: _Place) -> Iterator[Any]:
        """What a step finds; in lax mode the elements of arrays."""
        for item in self.find(step, at):
            if isinstance(item, list) and not self._strict:
                yield from item
            else:
                yield item

    # Where a path begins

    def _root(self, step: Step, at: _Place) -> Iterator[Any]:
        yield self._document

    def _current(self, step: Step, at: _Place) -> Iterator[Any]:
        yield at.current

    def _last(self, step: Step, at: _Place) -> Iterator[Any]:
        yield Decimal(at.length - 1)

    def _variable(self, step: Step, at: _Place) -> Iterator[Any]:
        if step.value not in self._variables:
            raise ExpressionError(
                f'the path has a variable "{step.value}" that has no value',
                code="E2028",
                hint="the third argument has them",
            )
        yield self._variables[step.value]

    def _text(self, step: Step, at: _Place) -> Iterator[Any]:
        yield step.value

    _number = _word = _text

    # Accessors

    def _refuses(self, step: Step) -> bool:
        return self._strict and not step.loose

    def _member(self, step: Step, at: _Place) -> Iterator[Any]:
        for item in self._unwrapped(step.parts[0], at):
            if isinstance(item, dict):
                if step.value in item:
                    yield item[step.value]
                elif self._refuses(step):
                    raise _refused(f'an object has no key "{step.value}"')
            elif self._refuses(step):
                raise _refused(f"only an object has a member: .{step.value}")

    def _any_member(self, step: Step, at: _Place) -> Iterator[Any]:
        for item in self._unwrapped(step.parts[0], at):
            if isinstance(item, dict):
                yield from item.values()
            elif self._refuses(step):
                raise _refused("only an object has members: .*")

    def _deep(self, step: Step, at: _Place) -> Iterator[Any]:
        low, high = {0: (0, None), 1: (step.value[:1] * 2), 2: step.value}[len(step.value)]
        for item in self.find(step.parts[0], at):
            yield from self._levels(item, 0, low, high)

    def _levels(self, item: Any, level: int, low: Any, high: Any) -> Iterator[Any]:
        self.passed()
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        deepest = low is None
        if (level >= low) if not deepest else not inner:
            yield item
        if high is None or level < high:
            for part in inner:
                yield from self._levels(part, level + 1, low, high)

    def _elements(self, step: Step, at: _Place) -> Iterator[Any]:
        for item in self.find(step.parts[0], at):
            self.passed()
            if isinstance(item, list):
                yield from item
            elif self._refuses(step):
                raise _refused("only an array has elements: [*]")
            elif not self._strict:
                yield item

    def _subscripts(self, step: Step, at: _Place) -> Iterator[Any]:
        for item in self.find(step.parts[0], at):
            if not isinstance(item, list):
                if self._refuses(step):
                    raise _refused("only an array has elements: [n]")
                if self._strict:
                    continue
                item = [item]
            inside = _Place(at.current, len(item))
            for bounds in step.parts[1:]:
                first, last = (self._place(part, inside) for part in (bounds.parts[0], bounds.parts[-1]))
                if self._refuses(step) and (first < 0 or first > last or last >= len(item)):
                    raise _refused(
                        f"an array of {len(item)} has no element {first if first < 0 or first > last else last}"
                    )
                yield from item[max(first, 0) : max(last + 1, 0)]

    def _place(self, step: Step, at: _Place) -> int:
        found = list(itertools.islice(self.find(step, at), 2))
        if len(found) != 1 or not isinstance(found[0], Decimal) or abs(found[0]) >= 1 << 31:
            raise _refused("a subscript is one number", "for example [0], [last] or [1 to 3]")
        return int(found[0])

    def _filter(self, step: Step, at: _Place) -> Iterator[Any]:
        for item in self._unwrapped(step.parts[0], at):
            if self.truth(step.parts[1], _Place(item, at.length)):
                yield item

    # Methods and arithmetic

    def _method(self, step: Step, at: _Place) -> Iterator[Any]:
        match step.value:
            case "type":
                yield from map(_type, self.find(step.parts[0], at))
            case "size":
                for item in self.find(step.parts[0], at):
                    if self._refuses(step) and not isinstance(item, list):
                        raise _refused(".size() is of an array")
                    yield Decimal(len(item) if isinstance(item, list) else 1)
            case "keyvalue":
                for number, item in enumerate(self._unwrapped(step.parts[0], at)):
                    if not isinstance(item, dict):
                        raise _refused(".keyvalue() is of an object")
                    for key, value in item.items():
                        yield {"id": Decimal(number), "key": key, "value": value}
            case name:
                for item in self._unwrapped(step.parts[0], at):
                    yield _computed(name, item)

    def _sum(self, step: Step, at: _Place) -> Iterator[Any]:
        left, right = (self._operand(part, step.value, at) for part in step.parts)
        yield _arithmetic(step.value, left, right)

    _product = _sum

    def _operand(self, step: Step, sign: str, at: _Place) -> Decimal:
        found = list(itertools.islice(self._unwrapped(step, at), 2))
        if len(found) != 1 or not isinstance(found[0], Decimal):
            raise _refused(f"each side of {sign} is one number", "look at .type() first")
        return found[0]

    def _signed(self, step: Step, at: _Place) -> Iterator[Any]:
        for item in self._unwrapped(step.parts[0], at):
            if not isinstance(item, Decimal):
                raise _refused(f"{step.value} stands before a number", "look at .type() first")
            yield -item if step.value == "-" else item

    # Truths: True, False, or None where it is unknown

    def truth(self, step: Step, at: _Place) -> bool | None:
        match step.kind:
            case "or_":
                left = self.truth(step.parts[0], at)
                if left:
                    return True
                right = self.truth(step.parts[1], at)
                return True if right else None if left is None or right is None else False
            case "and_":
                left = self.truth(step.parts[0], at)
                if left is False:
                    return False
                right = self.truth(step.parts[1], at)
                return False if right is False else None if left is None or right is None else True
            case "not_":
                found = self.truth(step.parts[0], at)
                return None if found is None else not found
            case "unknown":
                return self.truth(step.parts[0], at) is None
            case "exists":
                return self._exists(step.parts[0], at)
            case "comparison":
                return self._any_pair(lambda a, b: _compared(step.value, a, b), step.parts[0], step.parts[1], at)
            case "starts":
                return self._any_pair(_starts, step.parts[0], step.parts[1], at)
            case _:
                return self._any_pair(lambda a, _: _fits(a, step.value), step.parts[0], None, at)

    def _exists(self, step: Step, at: _Place) -> bool | None:
        try:
            if step.is_truth:
                return True
            found = self.find(step, at)
            if not self._strict:
                return next(found, self) is not self
            return bool(list(found))
        except PathError:
            return None

    def _any_pair(
        self, test: Callable[[Any, Any], bool | None], left: Step, right: Step | None, at: _Place
    ) -> bool | None:
        """Whether a test holds for a thing of the left and one of the right side."""
        try:
            firsts = list(self._unwrapped(left, at))
            seconds = [None] if right is None else list(self._unwrapped(right, at))
        except PathError:
            return None
        unknown = found = False
        for first in firsts:
            for second in seconds:
                holds = test(first, second)
                if holds is None:
                    if self._strict:
                        return None
                    unknown = True
                elif holds:
                    if not self._strict:
                        return True
                    found = True
        return True if found else None if unknown else False


def _type(item: Any) -> str:
    match item:
        case None:
            return "null"
        case bool():
            return "boolean"
        case Decimal():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _compared(sign: str, a: Any, b: Any) -> bool | None:
    kinds = _type(a), _type(b)
    if kinds[0] != kinds[1]:
        return sign in ("!=", "<>") if "null" in kinds else None
    if kinds[0] == "null":
        return sign in ("==", "<=", ">=")
    return None if kinds[0] in ("array", "object") else _COMPARES[sign](a, b)


def _starts(a: Any, b: Any) -> bool | None:
    return a.startswith(b) if isinstance(a, str) and isinstance(b, str) else None


def _fits(a: Any, pattern: Any) -> bool | None:
    return pattern.search(a) is not None if isinstance(a, str) else None


def _computed(name: str, item: Any) -> Decimal:
    if name == "double":
        try:
            value = float(item) if isinstance(item, Decimal | str) else float("nan")
        except (ValueError, OverflowError):
            value = float("nan")
        if value - value != 0:
            raise _refused(".double() is of a number, or a text that is one", "look at .type() first")
        return Decimal(repr(value))
    if not isinstance(item, Decimal):
        raise _refused(f".{name}() is of a number", "look at .type() first")
    if name == "abs":
        return abs(item)
    with localcontext(_EXACT):
        return item.to_integral_value("ROUND_FLOOR" if name == "floor" else "ROUND_CEILING")


def _arithmetic(sign: str, a: Decimal, b: Decimal) -> Decimal:
    """As numeric computes: quotients have at least 16 digits that say something."""
    if sign in "/%" and not b:
        raise PathError("a path divides by zero", code="E2102", hint="look at the divisor first, in a filter ?(..)")
    with localcontext(_EXACT) as context:
        match sign:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case "%":
                return a % b
            case _:
                context.traps[Inexact] = False
                context.rounding = ROUND_HALF_UP
                return (a / b).quantize(Decimal(1).scaleb(-_digits(a, b)))


def _digits(a: Decimal, b: Decimal) -> int:
    """How many digits behind the point a quotient has: `select_div_scale` of numeric.c."""
    weights, firsts = zip(*(_weight(value) for value in (a, b)), strict=True)
    weight = weights[0] - weights[1] - (firsts[0] <= firsts[1])
    behind = [max(0, -int(value.as_tuple().exponent)) for value in (a, b)]
    return min(max(16 - weight * 4, *behind, 0), 300)


def _weight(value: Decimal) -> tuple[int, int]:
    """Of the first digit in base 10,000: which power it counts, and the digit."""
    if not value:
        return 0, 0
    weight = value.adjusted() // 4
    return weight, int(abs(value).scaleb(-4 * weight, _EXACT))
