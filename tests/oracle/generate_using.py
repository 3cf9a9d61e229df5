"""`SELECT *` over chains of joins with USING and NATURAL, whose columns and their order are written out for DuckDB."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.generate_choices import Choices
from tests.oracle.generate_expressions import Expressions
from tests.oracle.generate_relations import Relations
from tests.oracle.generate_text import Column, Expr, Kind, Query, Text, joined, same, text

__all__ = ["draw_using"]

_KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")


@dataclass(frozen=True)
class _Named:
    """A column of the chain: the name that this engine knows, and what DuckDB computes."""

    name: str
    duck: str
    kind: Kind


def draw_using(relations: Relations) -> Query:
    """Two to four relations whose columns share few names."""
    choose = relations.choose
    kinds = {name: _kind(relations) for name in ("v1", "v2", "v3", "v4")}
    sql, columns = _relation(relations, kinds)
    for _ in range(choose.weighted([(2, 1), (3, 2), (1, 3)])):
        right, given = _relation(relations, kinds)
        sql, columns = _joined(choose, (sql, columns), (right, given))
    where = same("")
    single = [c for c in columns if [d.name for d in columns].count(c.name) == 1]
    if single and choose.chance(30):
        named = [Expr(Text(c.name, c.duck), c.kind) for c in single]
        where = text(" WHERE {}", Expressions(choose, named).condition(1))
    names = [f"c{i}" for i in range(len(columns))]
    items = ", ".join(f"{c.duck} AS {n}" for c, n in zip(columns, names, strict=True))
    ours = f"SELECT * FROM (SELECT * FROM {sql.ours}{where.ours}) AS {choose.name('u')} ({', '.join(names)})"
    duck = f"SELECT {items} FROM {sql.duck}{where.duck}"
    return Query(Text(ours, duck), tuple(Column(n, c.kind) for c, n in zip(columns, names, strict=True)))


def _kind(relations: Relations) -> Kind:
    kinds = [c.kind for _, columns in relations.sources for c in columns if c.kind.exact]
    return relations.choose.pick([Kind.INT, *kinds])


def _relation(relations: Relations, kinds: dict[str, Kind]) -> tuple[Text, list[_Named]]:
    """A derived table with some of the names."""
    choose = relations.choose
    source = relations.relation(0)
    scope = Expressions(choose, source.columns)
    names = choose.some(tuple(kinds), 2, 3)
    items = joined(", ", [text("{} AS {}", scope.value(kinds[n], 0), n) for n in names])
    alias = choose.name("s")
    sql = text("(SELECT {} FROM {}) AS {}", items, source.sql, alias)
    return sql, [_Named(n, f"{alias}.{n}", kinds[n]) for n in names]


def _joined(
    choose: Choices, left: tuple[Text, list[_Named]], right: tuple[Text, list[_Named]]
) -> tuple[Text, list[_Named]]:
    """Common columns first, in the order of the left side, then the others of the left side, then those of the right."""
    (sql, columns), (other, given) = left, right
    names = [c.name for c in columns]
    common = [c for c in columns if any(g.name == c.name for g in given)]
    usable = [c for c in common if names.count(c.name) == 1]
    if not usable:
        return text("{} CROSS JOIN {}", sql, other), columns + given
    natural = len(usable) == len(common) and choose.chance(40)
    chosen = usable if natural else [c for c in usable if c is usable[0] or choose.chance(50)]
    kind = choose.pick(_KINDS)
    partners = {g.name: g for g in given}
    on = " AND ".join(f"{c.duck} = {partners[c.name].duck}" for c in chosen)
    using = f" USING ({', '.join(c.name for c in chosen)})"
    ours = f"{sql.ours} NATURAL {kind} {other.ours}" if natural else f"{sql.ours} {kind} {other.ours}{using}"
    merged = [_Named(c.name, _merged(kind, c.duck, partners[c.name].duck), c.kind) for c in chosen]
    taken = {c.name for c in chosen}
    rest = [c for c in [*columns, *given] if c.name not in taken]
    return Text(ours, f"{sql.duck} {kind} {other.duck} ON {on}"), merged + rest


def _merged(kind: str, left: str, right: str) -> str:
    match kind:
        case "RIGHT JOIN":
            return right
        case "FULL JOIN":
            return f"COALESCE({left}, {right})"
    return left
