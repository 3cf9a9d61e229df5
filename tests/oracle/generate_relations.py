"""What stands behind FROM, and subqueries inside expressions: tables, derived tables, joins, correlation."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from tests.oracle.differences import group_of_all, order_item
from tests.oracle.generate_aggregates import Aggregates
from tests.oracle.generate_choices import Choices
from tests.oracle.generate_expressions import Expressions
from tests.oracle.generate_text import NUMBERS, ORDERED, SORTED, Column, Expr, Kind, Query, Text, joined, same, text

__all__ = ["From", "Relations"]

_LATERAL = ("CROSS JOIN LATERAL ({}) AS {}", "LEFT JOIN LATERAL ({}) AS {} ON TRUE")


@dataclass(frozen=True)
class From:
    """A FROM clause without the word, and the columns that it brings, qualified. `single`: at most one row."""

    sql: Text
    columns: tuple[Expr, ...]
    single: bool = False


class Relations(ABC):
    """Draws relations over `sources`: base tables first, then views and common table expressions, by name."""

    def __init__(self, choose: Choices, sources: Sequence[tuple[str, tuple[Column, ...]]]) -> None:
        self.choose = choose
        self.sources = list(sources)
        self.favourite: tuple[str, tuple[Column, ...]] | None = None

    @abstractmethod
    def query(self, depth: int, kinds: Sequence[Kind] | None = None) -> Query:
        """Any query; with `kinds` one that gives columns of these kinds."""

    @abstractmethod
    def single_row(self, depth: int) -> Query:
        """A query that gives one row, or none over no rows."""

    # --- one relation
    # -----------------------------------------------------------------------------------------------------

    def relation(self, depth: int) -> From:
        """A table, view or derived table with a fresh alias."""
        choose = self.choose
        if depth > 0 and choose.chance(30):
            return self.derived(self.query(depth - 1))
        if self.favourite is not None and choose.chance(60):
            name, columns = self.favourite
        else:
            name, columns = choose.pick(self.sources)
        alias = choose.name("r")
        return From(same(f"{name} AS {alias}"), tuple(c.of(alias) for c in columns))

    def derived(self, query: Query) -> From:
        alias = self.choose.name("d")
        return From(text("({}) AS {}", query.sql, alias), tuple(c.of(alias) for c in query.columns), query.single)

    # --- joins
    # ------------------------------------------------------------------------------------------------------------

    def from_clause(self, depth: int, least: int = 1) -> From:
        """One to four relations, joined in turn."""
        choose = self.choose
        clause = self.relation(depth)
        number = max(least, choose.weighted([(10, 1), (8, 2), (4, 3), (1, 4)]))
        for _ in range(number - 1):
            clause = self._join(clause, depth)
        if choose.chance(5):
            clause = self._unnested(clause)
        return clause

    def _unnested(self, left: From) -> From:
        """Each row with each of some values computed from it."""
        choose = self.choose
        scope = Expressions(choose, left.columns)
        alias = choose.name("u")
        arrays = scope.column((Kind.INTS, Kind.STRINGS))
        if arrays is not None and choose.chance(60):
            kind = Kind.INT if arrays.kind is Kind.INTS else Kind.STRING
            ours = text("{} CROSS JOIN UNNEST({}) AS {} (x)", left.sql, arrays.sql, alias)
            duck = text("{} CROSS JOIN LATERAL (SELECT unnest({}) AS x) AS {}", left.sql, arrays.sql, alias)
            return From(Text(ours.ours, duck.duck), (*left.columns, Expr(same(f"{alias}.x"), kind)))
        kind = choose.pick((Kind.INT, Kind.STRING))
        values = joined(", ", [scope.value(kind, 1) for _ in range(choose.count(1, 2))])
        ours = text("{} CROSS JOIN UNNEST(ARRAY[{}]) AS {} (x)", left.sql, values, alias)
        duck = text("{} CROSS JOIN LATERAL (SELECT unnest([{}]) AS x) AS {}", left.sql, values, alias)
        return From(Text(ours.ours, duck.duck), (*left.columns, Expr(same(f"{alias}.x"), kind)), left.single)

    def _lateral(self, left: From) -> From:
        """Each row with the rows of a query about it: the first few, or an aggregate."""
        choose = self.choose
        inner = self.relation(0)
        where = self._where(inner, left.columns, most=95)
        columns = [c for c in inner.columns if c.kind in SORTED]
        alias = choose.name("l")
        if not columns or choose.chance(40):
            calls = Aggregates(choose, Expressions(choose, inner.columns)).of_all()
            items = joined(", ", [text("{} AS {}", c.sql, f"l{i}") for i, c in enumerate(calls)])
            given = tuple(Expr(same(f"{alias}.l{i}"), c.kind) for i, c in enumerate(calls))
            # About no row of the left side it is a query of its own, whose group of all rows has at least one.
            about = any(re.search(rf"\b{re.escape(c.sql.ours)}\b", where.ours) for c in left.columns)
            having = same("") if about else group_of_all(None)
            query = text("SELECT {} FROM {}{}{}", items, inner.sql, where, having)
            return From(text("{} " + choose.pick(_LATERAL), left.sql, query, alias), left.columns + given)
        items = joined(", ", [text("{} AS {}", c.sql, f"l{i}") for i, c in enumerate(columns)])
        order = joined(", ", [order_item(c.sql, choose.chance(30), None) for c in columns])
        query = text(
            "SELECT {} FROM {}{} ORDER BY {} LIMIT {}", items, inner.sql, where, order, str(choose.count(1, 2))
        )
        given = tuple(Expr(same(f"{alias}.l{i}"), c.kind) for i, c in enumerate(columns))
        return From(text("{} " + choose.pick(_LATERAL), left.sql, query, alias), left.columns + given)

    def comma_join(self, depth: int) -> tuple[From, Text]:
        """Relations with commas between them, and the conditions that WHERE must hold to join them, in any order."""
        choose = self.choose
        parts = [self.relation(depth) for _ in range(choose.count(2, 4))]
        walk = choose.some(parts, len(parts), len(parts))
        conditions = []
        for at in range(1, len(walk)):
            found = self.on(walk[choose.count(0, at - 1)].columns, walk[at].columns)
            conditions.append(found if found is not None else same("TRUE"))
        clause = From(joined(", ", [p.sql for p in parts]), tuple(c for p in parts for c in p.columns))
        return clause, joined(" AND ", choose.some(conditions, len(conditions), len(conditions)))

    def _join(self, left: From, depth: int) -> From:
        choose = self.choose
        if choose.chance(8):
            single = self.derived(self.single_row(depth - 1))
            return From(
                text("{} CROSS JOIN {}", left.sql, single.sql),
                left.columns + single.columns,
                left.single and single.single,
            )
        if choose.chance(6):
            return self._lateral(left)
        right = self.relation(depth)
        kind = choose.weighted([(5, "JOIN"), (4, "LEFT JOIN"), (2, "RIGHT JOIN"), (2, "FULL JOIN")])
        columns = left.columns + right.columns
        condition = self.on(left.columns, right.columns)
        residual = Expressions(choose, columns)
        if condition is None:
            condition = residual.condition(1)
        elif choose.chance(25):
            condition = text("{} AND {}", condition, residual.condition(1))
        if kind != "FULL JOIN" and choose.chance(5):
            inner = Expressions(choose, columns, lambda outer: self.subquery(outer, 0))
            condition = text("{} AND {}", condition, inner.condition(1))
        return From(text(f"{{}} {kind} {{}} ON {{}}", left.sql, right.sql, condition), columns)

    def on(self, left: Sequence[Expr], right: Sequence[Expr]) -> Text | None:
        """Equalities between columns of two sides; None when no kinds meet."""
        choose = self.choose
        pairs = [(a, b) for a in left for b in right if a.kind is b.kind and a.kind.exact]
        pairs += [
            (a, b) for a in left for b in right if a.kind is not b.kind and a.kind in NUMBERS and b.kind in NUMBERS
        ]
        if not pairs:
            return None
        parts = []
        for a, b in choose.some(pairs, 1, 2) if choose.chance(30) else [choose.pick(pairs)]:
            sign = choose.weighted([(12, "="), (1, "IS NOT DISTINCT FROM"), (1, "<")])
            sign = "=" if sign == "<" and a.kind not in SORTED else sign
            first = a.sql
            if a.kind is Kind.INT and choose.chance(8):
                first = text("({} + 1)", a.sql)
            parts.append(text("{} {} {}", first, sign, b.sql))
        return joined(" AND ", parts)

    # --- subqueries
    # -------------------------------------------------------------------------------------------------------

    def subquery(self, outer: Sequence[Expr], depth: int) -> Text:
        """A condition with a subquery, often correlated with the outer columns."""
        choose = self.choose
        shape = choose.weighted(
            [(3, "exists"), (3, "in"), (3, "compare"), (1, "in row"), (1, "between"), (1, "quantified")]
        )
        no = choose.pick(("", "NOT "))
        if shape == "exists":
            return text(f"{no}EXISTS ({{}})", self._exists(outer, depth))
        usable = [c for c in outer if c.kind.exact]
        if not usable:
            return text(f"{no}EXISTS ({{}})", self._exists(outer, depth))
        left = choose.pick(usable)
        if shape in ("between", "quantified") and left.kind not in ORDERED:
            shape = "in"
        if shape == "between":
            bounds = [Expressions(choose, outer).value(left.kind, 0) for _ in range(2)]
            return text(f"({{}} {no}BETWEEN {{}} AND {{}})", self.scalar(outer, left.kind, depth), *bounds)
        if shape == "compare":
            sign = choose.pick(("=", "<", ">=", "<>")) if left.kind is not Kind.BOOLEAN else "="
            if left.kind not in ORDERED:
                return text(f"{no}EXISTS ({{}})", self._exists(outer, depth))
            return text("({} {} {})", left.sql, sign, self.scalar(outer, left.kind, depth))
        inner = self.relation(depth)
        scope = Expressions(choose, inner.columns)
        where = self._where(inner, outer, most=80)
        if shape == "quantified":
            sign = choose.pick(("<", ">", "<=", ">=", "=", "<>"))
            word = choose.pick(("ANY", "ALL"))
            return text(
                f"({{}} {sign} {word} (SELECT {{}} FROM {{}}{{}}))",
                left.sql,
                scope.value(left.kind, 1),
                inner.sql,
                where,
            )
        if shape == "in row":
            second = choose.pick(usable)
            items = text("{}, {}", scope.value(left.kind, 1), scope.value(second.kind, 1))
            return text(
                f"(({{}}, {{}}) {no}IN (SELECT {{}} FROM {{}}{{}}))", left.sql, second.sql, items, inner.sql, where
            )
        return text(f"({{}} {no}IN (SELECT {{}} FROM {{}}{{}}))", left.sql, scope.value(left.kind, 1), inner.sql, where)

    def _exists(self, outer: Sequence[Expr], depth: int) -> Text:
        choose = self.choose
        inner = self.relation(depth)
        where = self._where(inner, outer, most=85)
        if choose.chance(12):
            key = Expressions(choose, inner.columns).column()
            if key is not None:
                return text("SELECT {} FROM {}{} GROUP BY {} HAVING COUNT(*) > 1", key.sql, inner.sql, where, key.sql)
        return text("SELECT 1 FROM {}{}", inner.sql, where)

    def _where(self, inner: From, outer: Sequence[Expr], most: int) -> Text:
        """WHERE of a subquery: correlation in `most` of a hundred cases, and a condition of its own."""
        choose = self.choose
        parts = []
        if choose.chance(most):
            pairs = [(a, b) for a in inner.columns for b in outer if a.kind is b.kind and a.kind.exact]
            if pairs:
                for a, b in choose.some(pairs, 1, 1 if choose.chance(75) else 2):
                    sign = choose.weighted([(10, "="), (1, "<"), (1, "<>"), (1, "IS NOT DISTINCT FROM")])
                    sign = "=" if sign == "<" and a.kind not in SORTED else sign
                    parts.append(text("{} {} {}", a.sql, sign, b.sql))
        if choose.chance(40):
            parts.append(Expressions(choose, inner.columns).condition(1))
        return text(" WHERE {}", joined(" AND ", parts)) if parts else same("")

    def scalar(self, outer: Sequence[Expr], kind: Kind, depth: int) -> Text:
        """A scalar subquery of a kind: an aggregate without GROUP BY, so that it gives one row."""
        choose = self.choose
        inner = self.relation(depth)
        where = self._where(inner, outer, most=70)
        call = Aggregates(choose, Expressions(choose, inner.columns)).of_kind(kind)
        if call is None:
            return Expressions(choose, outer).value(kind, 0)
        if kind.is_number and choose.chance(15):
            call = Expr(text("{} + 1", call.sql), kind) if kind not in (Kind.DOUBLE, Kind.FLOAT) else call
        return text("(SELECT {} FROM {}{})", call.sql, inner.sql, where)

    def shown(self, outer: Sequence[Expr]) -> Expr:
        """A scalar subquery with any aggregate."""
        choose = self.choose
        pairs = self.pairs() if choose.chance(15) else None
        inner = pairs or self.relation(0)
        scope = Aggregates(choose, Expressions(choose, inner.columns))
        call = scope.json_object(*inner.columns) if pairs is not None else scope.call()
        where = self._where(inner, outer, most=85)
        return Expr(text("(SELECT {} FROM {}{})", call.sql, inner.sql, where), call.kind)

    def pairs(self) -> From | None:
        """A relation of two columns: texts, each once, and numbers. None when there is nothing that texts are made of."""
        choose = self.choose
        inner = self.relation(0)
        scope = Expressions(choose, inner.columns)
        key = scope.column((Kind.STRING, Kind.INT))
        if key is None:
            return None
        text_ = Text(f"CAST({key.sql.ours} AS STRING)", f"CAST({key.sql.duck} AS VARCHAR)")
        value = text(choose.pick(("SUM({})", "COUNT({})", "MAX({})")), scope.value(Kind.INT, 0))
        query = text(
            "SELECT {} AS c0, {} AS c1 FROM {} WHERE {} IS NOT NULL GROUP BY {}",
            text_,
            value,
            inner.sql,
            key.sql,
            text_,
        )
        return self.derived(Query(query, (Column("c0", Kind.STRING), Column("c1", Kind.BIGINT))))
