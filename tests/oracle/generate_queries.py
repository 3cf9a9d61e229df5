"""Queries of every shape that the language has without event time, nested up to a depth."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.differences import group_of_all, order_item
from tests.oracle.generate_aggregates import Aggregates
from tests.oracle.generate_expressions import Expressions
from tests.oracle.generate_relations import From, Relations
from tests.oracle.generate_text import DRAWN, SORTED, Column, Expr, Kind, Query, Text, joined, same, text
from tests.oracle.generate_using import draw_using

__all__ = ["FAMILIES", "Queries"]

FAMILIES = ("select", "join", "subquery", "aggregate", "grouping", "distinct", "set", "top", "over", "limit", "using")
"""What the outermost query of a case is; below it stands anything."""

_ANY_FAMILY = (
    (6, "select"),
    (4, "aggregate"),
    (1, "grouping"),
    (1, "distinct"),
    (2, "set"),
    (2, "top"),
    (1, "over"),
    (1, "limit"),
    (1, "using"),
)
_SET_OPERATIONS = (
    (3, "UNION ALL"),
    (2, "UNION"),
    (2, "EXCEPT"),
    (1, "INTERSECT"),
    (2, "EXCEPT ALL"),
    (1, "INTERSECT ALL"),
)
_NOTHING = same("")
_RANKS = (
    "ROW_NUMBER",
    "RANK",
    "DENSE_RANK",
    "LAG",
    "LEAD",
    "NTILE",
    "PERCENT_RANK",
    "CUME_DIST",
    "FIRST_VALUE",
    "LAST_VALUE",
)


class Queries(Relations):
    """Draws whole queries."""

    def query(self, depth: int, kinds: Sequence[Kind] | None = None, family: str | None = None) -> Query:
        family = family or self.choose.weighted(_ANY_FAMILY)
        if kinds is not None:
            return self._set(depth, kinds) if depth > 0 and self.choose.chance(10) else self.select(depth, kinds=kinds)
        match family:
            case "join":
                return self.select(depth, least=2)
            case "subquery":
                return self.select(depth, subquery=True)
            case "aggregate":
                return self.aggregate(depth)
            case "grouping":
                return self.grouping(depth)
            case "distinct":
                return self.select(depth, distinct=True)
            case "set":
                return self._set(depth, [self.choose.pick(DRAWN) for _ in range(self.choose.count(1, 3))])
            case "top":
                return self.top(depth)
            case "over":
                return self.over(depth)
            case "limit":
                return self.limit(depth)
            case "using":
                return draw_using(self)
        return self.select(depth)

    # --- SELECT
    # -----------------------------------------------------------------------------------------------------------

    def select(
        self,
        depth: int,
        *,
        kinds: Sequence[Kind] | None = None,
        least: int = 1,
        distinct: bool = False,
        subquery: bool = False,
    ) -> Query:
        choose = self.choose
        if not subquery and choose.chance(12):
            source, condition = self.comma_join(depth)
            where = text(" WHERE {}", condition)
            if choose.chance(30):
                where = text("{} AND {}", where, Expressions(choose, source.columns).condition(1))
        else:
            source = self.from_clause(depth, least)
            where = self._where_clause(source, depth, force=subquery)
        scalar = (lambda outer, kind: self.scalar(outer, kind, 0)) if choose.chance(25) else None
        scope = Expressions(choose, source.columns, scalar=scalar)
        if kinds is not None:
            items = [Expr(scope.value(kind), kind) for kind in kinds]
        else:
            items = [scope.any(approx=not distinct) for _ in range(choose.count(1, 4))]
            if scalar is not None and choose.chance(40):
                found = self.shown(source.columns)
                items += [found] if found.kind.exact or not distinct else []
        word = "SELECT DISTINCT" if distinct or (choose.chance(4) and all(i.kind.exact for i in items)) else "SELECT"
        # An order below another query, or of a view, says nothing: the answer is the same bag of rows.
        order = _NOTHING
        if kinds is None and items[0].kind in SORTED and choose.chance(4):
            order = same(" ORDER BY c0")
        sql = text(f"{word} {{}} FROM {{}}{{}}{{}}", listed(items), source.sql, where, order)
        return Query(sql, columns_of(items), source.single)

    def _where_clause(self, source: From, depth: int, *, force: bool = False) -> Text:
        choose = self.choose
        if not force and not choose.chance(35):
            return _NOTHING
        hook = lambda outer: self.subquery(outer, max(0, depth - 1))  # noqa: E731
        scope = Expressions(choose, source.columns, hook if depth > 0 or force else None)
        condition = scope.condition()
        if force:
            condition = (
                text("{} AND {}", hook(source.columns), condition) if choose.chance(30) else hook(source.columns)
            )
        return text(" WHERE {}", condition)

    # --- aggregates
    # -------------------------------------------------------------------------------------------------------

    def aggregate(self, depth: int) -> Query:
        choose = self.choose
        if choose.chance(15):
            return self.single_row(depth)
        source = self.from_clause(depth)
        where = self._where_clause(source, depth)
        scope = Expressions(choose, source.columns)
        keys: list[Expr] = []
        for _ in range(choose.count(1, 2)):
            key = scope.any(1) if choose.chance(20) else scope.column()
            if key is not None and all(key.sql != k.sql for k in keys):
                keys.append(key)
        if not keys:
            return self.single_row(depth)
        calls = Aggregates(choose, scope).of_all()
        shown = keys if choose.chance(85) else keys[:1]
        having = _NOTHING
        if choose.chance(25):
            grouped = Expressions(choose, [*keys, *calls])
            having = text(" HAVING {}", grouped.condition(1))
        items = [*shown, *calls]
        group = joined(", ", [k.sql for k in keys])
        return Query(
            text("SELECT {} FROM {}{} GROUP BY {}{}", listed(items), source.sql, where, group, having),
            columns_of(items),
        )

    def single_row(self, depth: int) -> Query:
        choose = self.choose
        pairs = self.pairs() if choose.chance(8) else None
        if pairs is not None:
            call = Aggregates(choose, Expressions(choose, pairs.columns)).json_object(*pairs.columns)
            sql = text("SELECT {} FROM {}{}", listed([call]), pairs.sql, group_of_all(None))
            return Query(sql, columns_of([call]), single=True)
        source = self.relation(max(depth, 0))
        where = self._where_clause(source, max(depth, 0))
        scope = Expressions(choose, source.columns)
        calls = Aggregates(choose, scope).of_all()
        condition = Expressions(choose, calls).condition(1) if choose.chance(15) else None
        return Query(
            text("SELECT {} FROM {}{}{}", listed(calls), source.sql, where, group_of_all(condition)),
            columns_of(calls),
            single=True,
        )

    def grouping(self, depth: int) -> Query:
        choose = self.choose
        source = self.from_clause(depth)
        where = self._where_clause(source, depth)
        usable = list(dict.fromkeys(c for c in source.columns if c.kind.exact))
        keys = choose.some(usable, 1, 3)
        if not keys:
            return self.single_row(depth)
        names = [k.sql for k in keys]
        shape = choose.pick(("ROLLUP", "CUBE", "GROUPING SETS"))
        if shape == "GROUPING SETS":
            chosen = [choose.some(names, 0, len(names)) for _ in range(choose.count(1, 3))]
            if len({name for given in chosen for name in given}) < len(names):
                # A column that is shown must stand in one of them.
                chosen.append(names)
            sets = [joined(", ", given) for given in chosen]
            group = joined(", ", [text("({})", s) for s in dict.fromkeys(sets)])
        else:
            group = joined(", ", names)
        calls = Aggregates(choose, Expressions(choose, source.columns)).of_all()
        items = [*keys, *calls]
        if choose.chance(30):
            items.append(Expr(text("GROUPING({})", choose.pick(names)), Kind.BIGINT))
        sql = text(
            f"SELECT {{}} FROM {{}}{{}} GROUP BY {shape} ({{}}){{}}",
            listed(items),
            source.sql,
            where,
            group,
            group_of_all(None, sets=True),
        )
        return Query(sql, columns_of(items))

    # --- set operations
    # -----------------------------------------------------------------------------------------------------

    def _set(self, depth: int, kinds: Sequence[Kind]) -> Query:
        choose = self.choose
        word = choose.weighted(_SET_OPERATIONS)
        left, right = (self.query(max(depth - 1, 0), kinds) for _ in range(2))
        return Query(text(f"({{}}) {word} ({{}})", left.sql, right.sql), left.columns)

    # --- windows over rows, top-n, limit
    # --------------------------------------------------------------------------------------

    def _keyed_rows(self, depth: int) -> From:
        """A relation for functions with OVER."""
        return self.from_clause(depth) if self.choose.chance(30) else self.relation(depth)

    def _order(self, columns: Sequence[Expr], *, total: bool) -> Text:
        """ORDER BY items: all columns in some order when it must be total, else one or two."""
        choose = self.choose
        chosen = choose.some(columns, len(columns), len(columns)) if total else choose.some(columns, 1, 2)
        nulls = (None, None, "FIRST", "LAST")
        return joined(", ", [order_item(c.sql, choose.chance(40), choose.pick(nulls)) for c in chosen])

    def _partition(self, columns: Sequence[Expr]) -> Text:
        chosen = self.choose.some(columns, 0, 2)
        return text("PARTITION BY {} ", joined(", ", [c.sql for c in chosen])) if chosen else _NOTHING

    def top(self, depth: int) -> Query:
        """The first rows of each partition by ROW_NUMBER (over all columns, so that it is deterministic), RANK or
        DENSE_RANK."""
        choose = self.choose
        source = self._keyed_rows(depth)
        columns = [c for c in source.columns if c.kind in SORTED][:5]
        if not columns:
            return self.select(depth)
        where = self._where_clause(source, 0)
        function = choose.weighted([(4, "ROW_NUMBER"), (1, "RANK"), (1, "DENSE_RANK")])
        order = self._order(columns, total=function == "ROW_NUMBER")
        call = text(f"{function}() OVER ({{}}ORDER BY {{}})", self._partition(columns), order)
        n = choose.count(1, 3)
        bound = choose.weighted(
            [(6, f"<= {n}"), (1, f"< {n + 1}"), (2, "= 1"), (1, f"BETWEEN 2 AND {n + 1}"), (1, f"= {n}")]
        )
        items = columns if choose.chance(50) else choose.some(columns, 1, len(columns))
        if choose.chance(20):
            sql = text("SELECT {} FROM {}{} QUALIFY {} {}", listed(items), source.sql, where, call, bound)
            return Query(sql, columns_of(items))
        inner = text("SELECT {}, {} AS rn FROM {}{}", listed(items), call, source.sql, where)
        alias = choose.name("q")
        shown = [c.of(alias) for c in columns_of(items)]
        if choose.chance(35):
            shown.append(Expr(same(f"{alias}.rn"), Kind.BIGINT))
        more = text(" AND {}", Expressions(choose, shown).condition(1)) if choose.chance(20) else _NOTHING
        sql = text(f"SELECT {{}} FROM ({{}}) AS {alias} WHERE {alias}.rn {bound}{{}}", listed(shown), inner, more)
        return Query(sql, columns_of(shown))

    def over(self, depth: int) -> Query:
        """Functions with OVER (one window for all of them) over rows that change."""
        choose = self.choose
        source = self._keyed_rows(depth)
        columns = [c for c in source.columns if c.kind in SORTED][:5]
        if not columns:
            return self.select(depth)
        frame = choose.pick(
            (
                "",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
                "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
                "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
                "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
                "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW",
                "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP",
                "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES",
            )
        )
        partition, order = self._partition(columns), self._order(columns, total=True)
        framed = text(" OVER ({}ORDER BY {} {})", partition, order, frame)
        bare = text(" OVER ({}ORDER BY {})", partition, order)
        scope = Expressions(choose, columns)
        calls = []
        for _ in range(choose.count(1, 2)):
            if frame or choose.chance(40):
                calls.append(Aggregates(choose, scope, framed if frame else bare).call())
            else:
                calls.append(self._over_call(choose.pick(_RANKS), scope, bare))
        items = [*choose.some(columns, 1, len(columns)), *calls]
        return Query(text("SELECT {} FROM {}", listed(items), source.sql), columns_of(items))

    def _over_call(self, name: str, scope: Expressions, over: Text) -> Expr:
        choose = self.choose
        if name in ("ROW_NUMBER", "RANK", "DENSE_RANK"):
            return Expr(text(f"{name}(){{}}", over), Kind.BIGINT)
        if name == "NTILE":
            return Expr(text("NTILE(2){}", over), Kind.BIGINT)
        if name in ("PERCENT_RANK", "CUME_DIST"):
            return Expr(text(f"{name}(){{}}", over), Kind.APPROX)
        column = scope.column() or Expr(same("1"), Kind.INT)
        if name in ("LAG", "LEAD"):
            return Expr(text(f"{name}({{}}, {choose.count(1, 2)}){{}}", column.sql, over), column.kind)
        ours, duck = f"{name}({{}}){{}}", f"{name}({{}} IGNORE NULLS){{}}"
        return Expr(Text(text(ours, column.sql, over).ours, text(duck, column.sql, over).duck), column.kind)

    def limit(self, depth: int) -> Query:
        """ORDER BY all columns LIMIT n, at times OFFSET m."""
        choose = self.choose
        source = self.from_clause(depth)
        where = self._where_clause(source, depth)
        scope = Expressions(choose, source.columns)
        items = [i for i in (scope.any(1) for _ in range(choose.count(1, 3))) if i.kind in SORTED]
        items = items or [Expr(same("1"), Kind.INT)]
        names = [Expr(same(c.name), c.kind) for c in columns_of(items)]
        tail = f" LIMIT {choose.count(1, 4)}" + (f" OFFSET {choose.count(1, 2)}" if choose.chance(20) else "")
        sql = text(
            "SELECT {} FROM {}{} ORDER BY {}{}", listed(items), source.sql, where, self._order(names, total=True), tail
        )
        return Query(sql, columns_of(items))


def columns_of(items: Sequence[Expr]) -> tuple[Column, ...]:
    """The columns of a select list as `listed` names them."""
    return tuple(Column(f"c{i}", e.kind) for i, e in enumerate(items))


def listed(items: Sequence[Expr]) -> Text:
    """A select list with names c0, c1, ..."""
    return joined(", ", [text("{} AS {}", e.sql, f"c{i}") for i, e in enumerate(items)])
