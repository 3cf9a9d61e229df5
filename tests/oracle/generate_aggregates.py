"""Calls of aggregate functions, with DISTINCT and FILTER, over groups or with OVER, in both tongues."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle import large_decimals
from tests.oracle.differences import average_of_integers
from tests.oracle.generate_choices import Choices
from tests.oracle.generate_expressions import Expressions
from tests.oracle.generate_text import (
    EXACT,
    INTEGERS,
    LARGE,
    NUMBERS,
    ORDERED,
    SUMMED,
    Expr,
    Kind,
    Text,
    same,
    text,
)

__all__ = ["Aggregates"]

_NOTHING = same("")
_NAMES = (
    (3, "COUNT(*)"),
    (3, "COUNT"),
    (4, "SUM"),
    (3, "MIN"),
    (3, "MAX"),
    (2, "AVG"),
    (1, "MOMENT"),
    (1, "PAIRS"),
    (2, "LISTAGG"),
    (2, "ARRAY_AGG"),
    (1, "COLLECT"),
    (1, "JSON_ARRAYAGG"),
    (1, "APPROX_COUNT_DISTINCT"),
    (1, "PERCENTILE"),
    (2, "SORTED"),
    (1, "CHOSEN"),
)
_OVER_NAMES = tuple(
    (w, n) for w, n in _NAMES if n not in ("JSON_ARRAYAGG", "PERCENTILE", "APPROX_COUNT_DISTINCT", "SORTED", "CHOSEN")
)


class Aggregates:
    """Draws calls over the columns of a scope. `over`: what stands behind each call, with its frame."""

    def __init__(self, choose: Choices, scope: Expressions, over: Text | None = None) -> None:
        self._choose = choose
        self._scope = scope
        self._over = over

    def call(self) -> Expr:
        """A call, or for values whose parts have no order now and then what can be asked of them."""
        found = self._call(self._choose.weighted(_NAMES if self._over is None else _OVER_NAMES))
        return found if found.kind.exact or self._choose.chance(60) else self._asked(found)

    def of_kind(self, kind: Kind) -> Expr | None:
        """A call that gives a kind, None when there is none."""
        choose = self._choose
        names = [n for n, kinds in _RESULTS.items() if kind in kinds]
        if not names:
            return None
        name = choose.pick(names)
        if name in ("LISTAGG", "ARRAY_AGG", "COLLECT", "JSON_ARRAYAGG"):
            return self._as(kind, self._call(name, Kind.INT if kind is Kind.INTS else None))
        return self._call(name, kind if name not in ("COUNT", "APPROX_COUNT_DISTINCT") else None)

    def _asked(self, found: Expr) -> Expr:
        kinds = [k for k in (Kind.BOOLEAN, Kind.INT, Kind.STRING) if k is not Kind.STRING or found.kind is Kind.LISTED]
        return self._as(self._choose.pick(kinds), found)

    def _as(self, kind: Kind, found: Expr) -> Expr:
        """Something of a kind about values whose parts have no order."""
        sql = found.sql
        match kind, found.kind:
            case Kind.INTS, Kind.BAG:
                return Expr(Text(f"ARRAY_SORT({sql.ours})", f"list_sort({sql.duck}, 'ASC', 'NULLS FIRST')"), kind)
            case Kind.INT, Kind.LISTED:
                return Expr(Text(f"CHAR_LENGTH({sql.ours})", f"length({sql.duck})"), kind)
            case Kind.INT, Kind.BAG:
                return Expr(Text(f"CARDINALITY({sql.ours})", f"len({sql.duck})"), kind)
            case Kind.STRING, Kind.LISTED:
                pattern = "CASE WHEN {} IS NULL THEN 'none' ELSE COALESCE(UPPER(SUBSTRING({}, 1, 0)), 'wrong') END"
                return Expr(text(pattern, sql, sql), kind)
        return self._is_null(sql)

    def _is_null(self, sql: Text) -> Expr:
        shape = self._choose.pick(("({} IS NULL)", "({} IS NOT NULL)", "CASE WHEN {} IS NULL THEN TRUE ELSE FALSE END"))
        return Expr(text(shape, sql), Kind.BOOLEAN)

    def _argument(self, kinds: Sequence[Kind], wanted: Kind | None) -> Expr:
        here = [k for k in kinds if any(c.kind is k for c in self._scope.columns)]
        kind = wanted or self._choose.pick(here or [k for k in kinds if k is Kind.INT] or list(kinds))
        return Expr(self._scope.value(kind, 1), kind)

    def _call(self, name: str, wanted: Kind | None = None) -> Expr:
        choose, scope = self._choose, self._scope
        rest = _NOTHING
        if choose.chance(20):
            rest = text(" FILTER (WHERE {})", scope.plain().condition(1))
        distinct = "DISTINCT " if choose.chance(15) else ""
        if self._over is not None:
            rest = text("{}{}", rest, self._over)
        call = f"{name}({distinct}{{}}){{}}"
        match name:
            case "COUNT(*)":
                return Expr(text("COUNT(*){}", rest), Kind.BIGINT)
            case "COUNT":
                return Expr(text(call, scope.any(1).sql, rest), Kind.BIGINT)
            case "APPROX_COUNT_DISTINCT":
                ours, duck = "APPROX_COUNT_DISTINCT({}){}", "COUNT(DISTINCT {}){}"
                value = scope.any(1).sql
                return Expr(Text(text(ours, value, rest).ours, text(duck, value, rest).duck), Kind.BIGINT)
            case "MIN" | "MAX":
                value = self._argument(ORDERED, wanted)
                return Expr(text(call, value.sql, rest), value.kind)
            case "MOMENT":
                function = choose.pick(("STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP"))
                return Expr(text(f"{function}({distinct}{{}}){{}}", scope.value(Kind.DOUBLE, 1), rest), Kind.APPROX)
            case "PAIRS":
                function = choose.pick(("COVAR_POP", "COVAR_SAMP", "REGR_SXX", "REGR_SXY", "REGR_AVGX", "REGR_AVGY"))
                y, x = scope.value(Kind.DOUBLE, 1), scope.value(Kind.DOUBLE, 1)
                return Expr(text(f"{function}({{}}, {{}}){{}}", y, x, rest), Kind.APPROX)
            case "PERCENTILE":
                value = self._argument([k for k in NUMBERS if k is not Kind.DECIMAL], None)
                share = choose.pick(("0.5", "0.0", "0.25"))
                ours = text("PERCENTILE({}, {}){}", value.sql, share, rest).ours
                duck = text("quantile_cont(CAST({} AS DOUBLE), {}){}", value.sql, share, rest).duck
                return Expr(Text(ours, duck), Kind.APPROX)
            case "SORTED":
                return self._sorted(distinct, rest)
            case "CHOSEN":
                value = self._argument(ORDERED, None)
                share, way = choose.pick(("0.5", "0", "0.3", "1")), choose.pick(("", " DESC"))
                ours = f"PERCENTILE_DISC({share}) WITHIN GROUP (ORDER BY {value.sql.ours}{way}){rest.ours}"
                duck = (
                    f"quantile_disc({value.sql.duck}, {share}{way and ' ORDER BY ' + value.sql.duck + way}){rest.duck}"
                )
                return Expr(Text(ours, duck), value.kind)
            case "LISTAGG":
                value = self._argument((Kind.STRING, Kind.VARCHAR), None).sql
                given = choose.pick(("", ", ','", ", '😀,'"))
                separator = given or ", ','"
                ours = f"LISTAGG({distinct}{value.ours}{given}){rest.ours}"
                return Expr(Text(ours, f"string_agg({distinct}{value.duck}{separator}){rest.duck}"), Kind.LISTED)
            case "ARRAY_AGG":
                value = (Expr(scope.value(wanted, 1), wanted) if wanted is not None else scope.any(1)).sql
                return Expr(Text(text(call, value, rest).ours, f"list({distinct}{value.duck}){rest.duck}"), Kind.BAG)
            case "COLLECT":
                value = self._argument(EXACT, None).sql
                return Expr(Text(text(call, value, rest).ours, _values(distinct, value, rest)), Kind.COUNTED)
            case "JSON_ARRAYAGG":
                value = self._argument((Kind.INT, Kind.STRING, Kind.BOOLEAN), None).sql
                return Expr(Text(f"JSON_ARRAYAGG({value.ours}){rest.ours}", _values("", value, rest)), Kind.JSON_ARRAY)
        value = self._argument(SUMMED, wanted)
        if value.kind in LARGE:
            make = large_decimals.total if name == "SUM" else large_decimals.average
            return Expr(make(value.kind, distinct, value.sql, rest), value.kind)
        if name == "SUM":
            return Expr(text(call, value.sql, rest), value.kind)
        if value.kind in INTEGERS:
            return Expr(average_of_integers(distinct, value.sql, rest), value.kind)
        return Expr(text(call, value.sql, rest), Kind.APPROX)

    def _sorted(self, distinct: str, rest: Text) -> Expr:
        """ARRAY_AGG or STRING_AGG with ORDER BY, so that no two results are right."""
        choose = self._choose
        way, nulls = choose.pick(
            (("", "NULLS FIRST"), (" DESC", "NULLS LAST"), (" DESC NULLS FIRST", ""), (" NULLS LAST", ""))
        )
        if choose.chance(40):
            value = self._argument((Kind.STRING, Kind.VARCHAR), None).sql
            ours = f"STRING_AGG({distinct}{value.ours}, ';' ORDER BY {value.ours}{way}){rest.ours}"
            return Expr(
                Text(ours, f"string_agg({distinct}{value.duck}, ';' ORDER BY {value.duck}{way} {nulls}){rest.duck}"),
                Kind.STRING,
            )
        value = self._scope.value(Kind.INT, 1)
        first = value if distinct or choose.chance(50) else self._scope.value(Kind.INT, 1)
        ours = f"ARRAY_AGG({distinct}{value.ours} ORDER BY {first.ours}{way}{'' if first is value else f', {value.ours}'}){rest.ours}"
        second = "" if first is value else f", {value.duck} NULLS FIRST"
        return Expr(
            Text(ours, f"list({distinct}{value.duck} ORDER BY {first.duck}{way} {nulls}{second}){rest.duck}"), Kind.INTS
        )

    def json_object(self, key: Expr, value: Expr) -> Expr:
        """JSON_OBJECTAGG; no two rows may have one key, which is a text."""
        clause = self._choose.pick(("", " NULL ON NULL", " ABSENT ON NULL"))
        rest = " FILTER (WHERE {})".format(text("{} IS NOT NULL", value.sql).duck) if "ABSENT" in clause else ""
        ours = f"JSON_OBJECTAGG(KEY {key.sql.ours} VALUE {value.sql.ours}{clause})"
        duck = f"coalesce(MAP(list({key.sql.duck}){rest}, list({value.sql.duck}){rest}), MAP([], []))"
        return Expr(Text(ours, duck), Kind.JSON_OBJECT)

    def of_all(self) -> list[Expr]:
        """One to three calls."""
        return [self.call() for _ in range(self._choose.count(1, 3))]


def _values(distinct: str, value: Text, rest: Text) -> str:
    """The values that are not NULL, an empty list when there is none."""
    return f"coalesce(list_filter(list({distinct}{value.duck}){rest.duck}, lambda v: v IS NOT NULL), [])"


_RESULTS: dict[str, tuple[Kind, ...]] = {
    "COUNT": (Kind.BIGINT,),
    "APPROX_COUNT_DISTINCT": (Kind.BIGINT,),
    "SUM": SUMMED,
    "MIN": ORDERED,
    "MAX": ORDERED,
    "AVG": (*INTEGERS, *LARGE),
    "LISTAGG": (Kind.INT, Kind.BOOLEAN, Kind.STRING),
    "ARRAY_AGG": (Kind.INT, Kind.BOOLEAN, Kind.INTS),
    "COLLECT": (Kind.BOOLEAN,),
    "JSON_ARRAYAGG": (Kind.BOOLEAN,),
}
"""What kinds can be had of a function, by itself or by what is asked of its value."""
