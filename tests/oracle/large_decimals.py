"""DECIMAL(38, s) as in Flink, for DuckDB: what has more than 38 digits is NULL, where DuckDB raises an error, and the
scale of a result follows Flink's rules. Written out with Python's decimals, as functions of DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from tests.oracle.generate_text import Kind, Text

__all__ = ["average", "divided", "fitted", "minus", "plus", "register", "rounded", "times", "total"]

_EXACT = Context(prec=200)
_SCALES = {Kind.WIDE: 2, Kind.FINE: 18}
_RESULT_SCALES = {
    # DECIMAL(39, 2) and DECIMAL(39, 18), which have no room; of an integer part that does not fit the fraction gives
    # way, down to six digits.
    "plus": {Kind.WIDE: 2, Kind.FINE: 17},
    "minus": {Kind.WIDE: 2, Kind.FINE: 17},
    "times": {Kind.WIDE: 4, Kind.FINE: 6},
    "divided": {Kind.WIDE: 6, Kind.FINE: 6},
}


def _fit(value: Decimal | None, scale: int, precision: int = 38) -> Decimal | None:
    """Half up to a scale; None when there are more digits than the precision has."""
    if value is None:
        return None
    shown = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    return shown if shown.copy_abs().scaleb(scale, _EXACT) < Decimal(10) ** precision else None


def _sum(values: Sequence[Decimal | None] | None) -> tuple[Decimal, int]:
    found = [v for v in values or () if v is not None]
    sum_ = Decimal(0)
    for value in found:
        sum_ = _EXACT.add(sum_, value)
    return sum_, len(found)


_OPERATIONS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "plus": _EXACT.add,
    "minus": _EXACT.subtract,
    "times": _EXACT.multiply,
    "divided": _EXACT.divide,
}


class _Functions:
    """The functions for a kind; a parameter each, which DuckDB counts."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._scale = _SCALES[kind]

    def register(self, connection: Any) -> None:
        word, type_ = self._kind.name.lower(), self._kind.value

        def make(name: str, function: Callable[..., Any], types: list[str], into: str = type_) -> None:
            connection.create_function(f"{name}_{word}", function, types, into, null_handling="special")

        for name in _OPERATIONS:
            make(name, self._operation(name), [type_, type_])
        make("total", self._total, [f"{type_}[]"])
        make("average", self._average, [f"{type_}[]"])
        make("rounded", lambda v: _fit(_fit(v, 1), self._scale), [type_])
        make("narrow", lambda v: _fit(v, 2, 10), [type_], Kind.DECIMAL.value)

    def _operation(self, name: str) -> Callable[[Decimal | None, Decimal | None], Decimal | None]:
        operation, between = _OPERATIONS[name], _RESULT_SCALES[name][self._kind]
        return lambda a, b: None if a is None or b is None else _fit(_fit(operation(a, b), between), self._scale)

    def _total(self, values: list[Decimal | None] | None) -> Decimal | None:
        sum_, count = _sum(values)
        return _fit(sum_, self._scale) if count else None

    def _average(self, values: list[Decimal | None] | None) -> Decimal | None:
        sum_, count = _sum(values)
        if not count:
            return None
        # Of a sum that has no room, too: Flink, which keeps it as DECIMAL(38, s), has NULL then.
        return _fit(_fit(_EXACT.divide(sum_, Decimal(count)), max(6, self._scale)), self._scale)


def register(connection: Any) -> None:
    """Make the functions known to a connection of DuckDB."""
    for kind in _SCALES:
        _Functions(kind).register(connection)


def _binary(name: str, sign: str, kind: Kind, a: Text, b: Text) -> Text:
    duck = f"{name}_{kind.name.lower()}({a.duck}, {b.duck})"
    return Text(f"CAST(({a.ours} {sign} {b.ours}) AS {kind.value})", duck)


def plus(kind: Kind, a: Text, b: Text) -> Text:
    return _binary("plus", "+", kind, a, b)


def minus(kind: Kind, a: Text, b: Text) -> Text:
    return _binary("minus", "-", kind, a, b)


def times(kind: Kind, a: Text, b: Text) -> Text:
    return _binary("times", "*", kind, a, b)


def divided(kind: Kind, a: Text, b: Text) -> Text:
    """`b` is not 0."""
    return _binary("divided", "/", kind, a, b)


def rounded(kind: Kind, value: Text) -> Text:
    return Text(f"CAST(ROUND({value.ours}, 1) AS {kind.value})", f"rounded_{kind.name.lower()}({value.duck})")


def fitted(kind: Kind, value: Text) -> Text:
    """Cast to `Kind.DECIMAL`, which has ten digits."""
    return Text(f"CAST({value.ours} AS {Kind.DECIMAL.value})", f"narrow_{kind.name.lower()}({value.duck})")


def total(kind: Kind, distinct: str, x: Text, rest: Text) -> Text:
    """SUM; `rest` is FILTER or OVER behind the call."""
    duck = f"total_{kind.name.lower()}(list({distinct}{x.duck}){rest.duck})"
    return Text(f"SUM({distinct}{x.ours}){rest.ours}", duck)


def average(kind: Kind, distinct: str, x: Text, rest: Text) -> Text:
    """AVG, cast to the kind."""
    duck = f"average_{kind.name.lower()}(list({distinct}{x.duck}){rest.duck})"
    return Text(f"CAST(AVG({distinct}{x.ours}){rest.ours} AS {kind.value})", duck)
