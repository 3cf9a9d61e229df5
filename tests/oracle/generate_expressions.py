"""Scalar expressions and conditions over columns in scope, of a wanted kind, in both tongues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from tests.oracle import large_decimals
from tests.oracle.differences import date_plus_days, integer_division, poisoned
from tests.oracle.generate_choices import Choices
from tests.oracle.generate_functions import FUNCTIONS
from tests.oracle.generate_text import DRAWN, EXACT, NUMBERS, ORDERED, Expr, Kind, Text, joined, same, text
from tests.oracle.generate_values import draw_value, literal

__all__ = ["Expressions"]

_PATTERNS = ("a%", "%b", "_", "%a%b%", "", "A\\_b")
_COMPARISONS = ("=", "<=", ">=", "<>", "<", ">", "<=", ">=", "<>")
Subquery = Callable[[Sequence[Expr]], Text]


class Expressions:
    """Draws expressions over `columns`.

    Args:
        subquery: gives a condition with a subquery over the columns, or None where subqueries are not wanted.
        scalar: gives a scalar subquery of a kind, likewise.
    """

    def __init__(
        self,
        choose: Choices,
        columns: Sequence[Expr],
        subquery: Subquery | None = None,
        scalar: Callable[[Sequence[Expr], Kind], Text] | None = None,
    ) -> None:
        self._choose = choose
        self.columns = tuple(columns)
        self._subquery = subquery
        self._scalar = scalar

    def plain(self) -> Expressions:
        """The same without subqueries."""
        return Expressions(self._choose, self.columns)

    # --- values
    # -----------------------------------------------------------------------------------------------------------

    def any(self, depth: int = 2, *, approx: bool = False) -> Expr:
        """A value of any kind; often just a column."""
        usable = [c for c in self.columns if approx or c.kind.exact]
        if usable and self._choose.chance(45):
            return self._choose.pick(usable)
        kinds = list(dict.fromkeys(c.kind for c in self.columns if c.kind.exact)) or [Kind.INT]
        kind = self._choose.pick(DRAWN) if self._choose.chance(15) else self._choose.pick(kinds)
        return Expr(self.value(kind, depth), kind)

    def column(self, kinds: Sequence[Kind] = EXACT) -> Expr | None:
        """A column of one of the kinds, if there is one."""
        usable = [c for c in self.columns if c.kind in kinds]
        return self._choose.pick(usable) if usable else None

    def value(self, kind: Kind, depth: int = 2) -> Text:
        """An expression of a kind."""
        choose = self._choose
        column = self.column((kind,))
        if column is not None and choose.weighted([(1, True), (1, False)]):
            return column.sql
        if depth <= 0:
            return column.sql if column is not None and choose.chance(60) else self.constant(kind)
        if self._scalar is not None and choose.chance(8):
            return self._scalar(self.columns, kind)
        shape = choose.weighted(
            [
                (2, "constant"),
                (4, "own"),
                (2, "case"),
                (1, "coalesce"),
                (1, "nullif"),
                (1, "ifnull"),
                (1, "if"),
                (5, "of"),
            ]
        )
        match shape:
            case "constant":
                return self.constant(kind)
            case "case":
                return self._case(kind, depth)
            case "coalesce":
                return text("COALESCE({}, {})", self.value(kind, depth - 1), self.value(kind, depth - 1))
            case "ifnull":
                pair = self.value(kind, depth - 1), self.value(kind, 0)
                return Text("IFNULL({}, {})".format(*(p.ours for p in pair)), text("COALESCE({}, {})", *pair).duck)
            case "if":
                parts = self.condition(depth - 1), self.value(kind, depth - 1), self.value(kind, 0)
                return Text(text("IF({}, {}, {})", *parts).ours, text("CASE WHEN {} THEN {} ELSE {} END", *parts).duck)
            case "nullif":
                return text("NULLIF({}, {})", self.value(kind, depth - 1), self.value(kind, 0))
            case "of":
                return self._of(kind, depth)
        return self._own(kind, depth)

    def _of(self, kind: Kind, depth: int) -> Text:
        """A function of values of other kinds, of columns in scope rather than of constants."""
        here = {c.kind for c in self.columns}
        usable = [f for f in FUNCTIONS.get(kind, ()) if here & set(f[0])]
        if not usable:
            return self.value(kind, 0)
        kinds, make = self._choose.pick(usable)
        return make(self._choose, *(self.value(k, depth - 1) for k in kinds))

    def constant(self, kind: Kind, *, null: bool = True) -> Text:
        return literal(draw_value(self._choose, kind, null=null), kind)

    def _case(self, kind: Kind, depth: int) -> Text:
        choose = self._choose
        if choose.chance(20):
            column = self.column((Kind.INT, Kind.STRING))
            if column is not None:
                when = [
                    text("WHEN {} THEN {}", self.constant(column.kind), self.value(kind, depth - 1))
                    for _ in range(choose.count(1, 2))
                ]
                return text("CASE {} {} ELSE {} END", column.sql, joined(" ", when), self.value(kind, depth - 1))
        whens = [
            text("WHEN {} THEN {}", self.condition(depth - 1), self.value(kind, depth - 1))
            for _ in range(choose.count(1, 2))
        ]
        if choose.chance(30):
            return text("CASE {} END", joined(" ", whens))
        return text("CASE {} ELSE {} END", joined(" ", whens), self.value(kind, depth - 1))

    def _own(self, kind: Kind, depth: int) -> Text:
        choose = self._choose
        one = self.value(kind, depth - 1)
        match kind:
            case Kind.INT | Kind.BIGINT | Kind.SMALLINT:
                return self._integer(kind, one, depth)
            case Kind.DECIMAL:
                shape = choose.pick(("add", "minus", "negate", "cast", "greatest"))
                if shape == "cast":
                    return text("CAST({} AS DECIMAL(10, 2))", self.value(Kind.INT, depth - 1))
                if shape == "negate":
                    return text("(- {})", one)
                return self._two(kind, shape, one, depth)
            case Kind.DOUBLE | Kind.FLOAT:
                shape = choose.pick(("add", "minus", "cast", "twice"))
                if shape == "cast":
                    return text("CAST({} AS {})", self.value(Kind.INT, depth - 1), kind.value)
                if shape == "twice":
                    return text("({} + {})", one, one)
                return self._two(kind, shape, one, depth)
            case Kind.STRING:
                shape = choose.pick(("concat", "concat", "UPPER", "LOWER"))
                if shape != "concat":
                    return text(shape + "({})", one)
                return text("({} || {})", one, self.value(kind, depth - 1))
            case Kind.WIDE | Kind.FINE:
                return self._large(kind, one, depth)
            case Kind.BOOLEAN:
                return text("({})", self.condition(depth - 1))
            case Kind.DATE:
                return date_plus_days(one, choose.count(1, 2))
            case _:
                return self._of(kind, depth) if depth > 0 and any(c.kind is kind for c in self.columns) else one

    def _large(self, kind: Kind, one: Text, depth: int) -> Text:
        choose = self._choose
        match choose.pick(("plus", "minus", "times", "divided", "rounded", "negate", "greatest")):
            case "plus":
                return large_decimals.plus(kind, one, self.value(kind, depth - 1))
            case "minus":
                return large_decimals.minus(kind, one, self.value(kind, depth - 1))
            case "times":
                return large_decimals.times(kind, one, self.value(kind, depth - 1))
            case "divided":
                return large_decimals.divided(kind, one, literal(Decimal(choose.pick((3, -7))), kind))
            case "rounded":
                return large_decimals.rounded(kind, one)
            case "negate":
                return text("(- {})", one)
        return self._two(kind, "greatest", one, depth)

    def _integer(self, kind: Kind, one: Text, depth: int) -> Text:
        choose = self._choose
        shape = choose.pick(("add", "minus", "times", "divide", "modulo", "abs", "negate", "cast", "greatest"))
        match shape:
            case "times":
                return text("({} * {})", one, literal(choose.pick((2, -1, 0)), kind))
            case "divide":
                return integer_division(one, literal(choose.pick((2, -2, 1)), kind))
            case "modulo":
                return text("({} % {})", one, literal(choose.pick((2, -2, 3)), kind))
            case "abs":
                return text("ABS({})", one)
            case "negate":
                return text("(- {})", one)
            case "cast":
                other = Kind.BIGINT if kind is Kind.INT else Kind.INT
                return text("CAST({} AS {})", self.value(other, depth - 1), kind.value)
        return self._two(kind, shape, one, depth)

    def _two(self, kind: Kind, shape: str, one: Text, depth: int) -> Text:
        other = self.value(kind, depth - 1)
        if shape == "add":
            return text("({} + {})", one, other)
        if shape == "minus":
            return text("({} - {})", one, other)
        return poisoned(self._choose.pick(("GREATEST", "LEAST")), one, other)

    # --- conditions
    # -------------------------------------------------------------------------------------------------------

    def condition(self, depth: int = 2) -> Text:
        """A boolean expression, in parentheses where it needs them."""
        choose = self._choose
        if depth > 0:
            shape = choose.weighted([(8, "leaf"), (1, "and"), (2, "or"), (1, "common"), (1, "not"), (1, "is")])
            if shape in ("and", "or"):
                parts = [self.condition(depth - 1) for _ in range(choose.count(2, 3))]
                return text("({})", joined(f" {shape.upper()} ", parts))
            if shape == "common":
                shared = self.condition(depth - 1)
                arms = [text("({} AND {})", shared, self.condition(depth - 1)) for _ in range(2)]
                return text("({})", joined(" OR ", arms))
            if shape == "not":
                return text("(NOT {})", self.condition(depth - 1))
            if shape == "is":
                what = choose.pick(("TRUE", "NOT TRUE", "FALSE", "NOT FALSE"))
                return text(f"({{}} IS {what})", self.condition(depth - 1))
            if self._subquery is not None and choose.chance(25):
                return self._subquery(self.columns)
        return self._leaf(depth)

    def _leaf(self, depth: int) -> Text:
        choose = self._choose
        column = self.column()
        shown = [c for c in self.columns if not c.kind.exact]
        if shown and (column is None or choose.chance(15)):
            return text("({} IS {}NULL)", choose.pick(shown).sql, choose.pick(("", "NOT ")))
        if column is None:
            return same("TRUE")
        shape = choose.weighted([(5, "compare"), (2, "null"), (2, "in"), (1, "between"), (2, "distinct"), (1, "own")])
        kind = column.kind
        left = column.sql if choose.chance(75) else self.value(kind, depth)
        match shape:
            case "null":
                return text("({} IS {}NULL)", left, choose.weighted([(1, ""), (2, "NOT ")]))
            case "in":
                items = [self.constant(kind, null=choose.chance(25)) for _ in range(choose.count(1, 4))]
                return text("({} {}IN ({}))", left, choose.pick(("", "NOT ")), joined(", ", items))
            case "between" if kind in ORDERED:
                return text(
                    "({} {}BETWEEN {} AND {})",
                    left,
                    choose.pick(("", "NOT ")),
                    self._other(kind, left, 0),
                    self._other(kind, left, 0),
                )
            case "distinct":
                return text(
                    "({} IS {}DISTINCT FROM {})", left, choose.pick(("", "NOT ")), self._other(kind, left, depth)
                )
            case "own" if kind is Kind.BOOLEAN:
                return column.sql
            case "own" if kind is Kind.STRING:
                pattern = choose.pick(_PATTERNS)
                escape = " ESCAPE '\\'" if "\\" in pattern else ""
                return text("({} {}LIKE '{}'{})", left, choose.pick(("", "NOT ")), pattern, escape)
        return self._comparison(kind, left, depth)

    def _comparison(self, kind: Kind, left: Text, depth: int) -> Text:
        choose = self._choose
        signs = _COMPARISONS if kind in ORDERED else ("=", "<>")
        if kind.is_number and choose.chance(20):
            found = self.column(NUMBERS)
            if found is not None:
                return text("({} {} {})", left, choose.pick(signs), found.sql)
        right = self._other(kind, left, depth)
        return text("({} {} {})", left, choose.pick(signs), right)

    def _other(self, kind: Kind, left: Text, depth: int) -> Text:
        """What a value is compared with: mostly not itself, which says little and mostly leaves nothing."""
        right = self.value(kind, depth - 1)
        return self.constant(kind, null=False) if right == left and self._choose.chance(90) else right
