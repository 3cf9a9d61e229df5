"""Operators of a batch plan as DuckDB's SQL: one query for a part of a plan.

Columns are `c0`, `c1`, ... in every relation. What several operators read is a table of WITH, so that it is computed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from runtime.core.types import DataType, TypeRoot
from runtime.eval.duckdb_plans.expressions import Term, Translator, averaged, quoted
from runtime.eval.duckdb_plans.types import Digits, Untranslatable, compares_alike, duckdb_type, same_kind
from runtime.expr.function import FunctionRegistry
from runtime.plan import nodes as p
from runtime.plan.base import PhysicalNode
from runtime.plan.walk import walk
from runtime.spi.abilities import StoredColumns, TellsStoredColumns

__all__ = ["ACTING", "Query", "QueryWriter", "fits_one_operator", "stored_columns"]

_R = TypeRoot
_MOST = 38
_JOINS = {
    p.JoinKind.INNER: "JOIN",
    p.JoinKind.LEFT: "LEFT JOIN",
    p.JoinKind.RIGHT: "RIGHT JOIN",
    p.JoinKind.FULL: "FULL JOIN",
    p.JoinKind.SEMI: "SEMI JOIN",
    p.JoinKind.ANTI: "ANTI JOIN",
}
ACTING = (p.HashJoinExec, p.GroupAggregateExec, p.TopNExec, p.SetOperationExec)
"""What DuckDB is asked for. Filters and projections of the rows of one table are as fast here."""


@dataclass(frozen=True)
class Query:
    """`text` reads the table `part1`, `part2`, ... for each leaf that stands for an input, and `tables`, whose columns are
    `c0`, ...; its own columns are those of the node."""

    text: str
    tables: Mapping[str, pa.Table]


@dataclass
class _Relation:
    """A SELECT, and its columns as whoever reads it may name them: `c0`, ... with the digits that they have."""

    text: str
    columns: list[Term] = field(default_factory=lambda: list[Term]())


def stored_columns(node: PhysicalNode) -> StoredColumns | None:
    """The files of columns that a source's table is, where DuckDB may read them itself."""
    if not isinstance(node, p.SourceExec) or not isinstance(node.table, TellsStoredColumns):
        return None
    return node.table.stored_columns() if node.table.bounded else None


def fits_one_operator(node: PhysicalNode, functions: FunctionRegistry) -> bool:
    """Whether DuckDB can do what the node does, whatever its inputs are."""
    if not node.mode.is_append_only:
        return False
    leaves = tuple(p.LoopInputExec(n, s.schema, s.mode) for n, s in enumerate(node.inputs, 1))
    if not all(leaf.mode.is_append_only for leaf in leaves):
        return False
    try:
        QueryWriter(functions, wide=False).relation_over(node, leaves)
    except Untranslatable:
        return False
    return True


class QueryWriter:
    """Writes one query."""

    def __init__(self, functions: FunctionRegistry, *, wide: bool) -> None:
        self._translator = Translator(functions, wide=wide)
        self._uses: Counter[PhysicalNode] = Counter()
        self._done: dict[PhysicalNode, _Relation] = {}
        self._with: list[str] = []
        self._tables: dict[str, pa.Table] = {}
        self._writers: Mapping[type[PhysicalNode], Callable[..., _Relation]] = {
            p.CalcExec: self._calc,
            p.ValuesExec: self._values,
            p.UnionExec: self._union,
            p.HashJoinExec: self._join,
            p.GroupAggregateExec: self._aggregate,
            p.SetOperationExec: self._set_operation,
            p.TopNExec: self._top_n,
            p.LimitExec: self._limit,
        }

    def query(self, body: PhysicalNode) -> Query:
        """The query of a plan. Raises Untranslatable."""
        for node in walk(body):
            self._uses.update(node.inputs)
        found = self._relation(body)
        columns = [f"{c.of(f.type)} AS c{i}" for i, (c, f) in enumerate(zip(found.columns, body.schema, strict=True))]
        tables = f"WITH {', '.join(self._with)} " if self._with else ""
        text = found.text
        if any(c.digits is not None for c in found.columns):
            text = f"SELECT {', '.join(columns)} FROM ({found.text})"
        return Query(tables + text, self._tables)

    def relation_over(self, node: PhysicalNode, inputs: Sequence[PhysicalNode]) -> None:
        """Tries one operator over others. Raises Untranslatable."""
        writer = self._writers.get(type(node))
        if writer is None:
            raise Untranslatable
        for field_ in node.schema:
            duckdb_type(field_.type)
        writer(node, *(self._leaf(leaf) for leaf in inputs))

    def _relation(self, node: PhysicalNode) -> _Relation:
        known = self._done.get(node)
        if known is None:
            known = self._done[node] = self._named(node, self._written(node))
        return known

    def _written(self, node: PhysicalNode) -> _Relation:
        if isinstance(node, p.LoopInputExec | p.SourceExec):
            return self._leaf(node)
        writer = self._writers.get(type(node))
        if writer is None:
            raise Untranslatable
        return writer(node, *(self._relation(source) for source in node.inputs))

    def _named(self, node: PhysicalNode, relation: _Relation) -> _Relation:
        """A relation that several read, as a table of WITH."""
        if self._uses[node] < 2 or not node.inputs:
            return relation
        name = f"shared{len(self._with)}"
        self._with.append(f"{name} AS MATERIALIZED ({relation.text})")
        return _Relation(f"SELECT * FROM {name}", relation.columns)

    # --- leaves

    def _leaf(self, node: PhysicalNode) -> _Relation:
        columns = _columns([f.type for f in node.schema])
        if isinstance(node, p.LoopInputExec):
            return _Relation(f"SELECT * FROM part{node.number}", columns)
        stored = stored_columns(node)
        if stored is None:
            raise Untranslatable
        if stored.rows is not None:
            name = f"rows{len(self._tables)}"
            self._tables[name] = stored.rows().rename_columns([f"c{i}" for i in range(len(columns))])
            return _Relation(f"SELECT * FROM {name}", columns)
        there = {f.name: f'"{f.name.replace(chr(34), chr(34) * 2)}"' for f in stored.schema}
        wanted = ", ".join(f"{there[f.name]} AS c{i}" for i, f in enumerate(node.schema))
        named = _columns([f.type for f in stored.schema], list(there.values()))
        conditions = [self._translator.text(e, named) for e in stored.filters]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        files = ", ".join(quoted(path) for path in stored.paths)
        return _Relation(f"SELECT {wanted} FROM read_parquet([{files}]){where}", columns)

    def _values(self, node: p.ValuesExec) -> _Relation:
        types = [f.type for f in node.schema]
        same = all(same_kind(e.type, t) for row in node.rows for e, t in zip(row, types, strict=True))
        rows = [
            ", ".join(self._translator.term(e, ()).of(t) for e, t in zip(row, types, strict=True)) for row in node.rows
        ]
        if not rows or not same:
            raise Untranslatable
        names = ", ".join(f"c{i}" for i in range(len(types)))
        return _Relation(f"SELECT * FROM (VALUES {', '.join(f'({row})' for row in rows)}) v({names})", _columns(types))

    # --- rows by themselves

    def _calc(self, node: p.CalcExec, source: _Relation) -> _Relation:
        terms = [self._translator.term(e, source.columns) for e in node.projections]
        where = "" if node.condition is None else f" WHERE {self._translator.text(node.condition, source.columns)}"
        return _selected(terms, f"({source.text}){where}")

    def _union(self, node: p.UnionExec, *sources: _Relation) -> _Relation:
        types = [f.type for f in node.schema]
        return _Relation(" UNION ALL ".join(_exactly(types, source) for source in sources), _columns(types))

    def _limit(self, node: p.LimitExec, source: _Relation) -> _Relation:
        limit = "" if node.limit is None else f" LIMIT {node.limit}"
        offset = f" OFFSET {node.offset}" if node.offset else ""
        return _Relation(f"SELECT * FROM ({source.text}){limit}{offset}", source.columns)

    # --- joins and sets

    def _join(self, node: p.HashJoinExec, left: _Relation, right: _Relation) -> _Relation:
        a = [Term(f"l.c{i}", c.digits) for i, c in enumerate(left.columns)]
        b = [Term(f"r.c{i}", c.digits) for i, c in enumerate(right.columns)]
        conditions: list[str] = []
        for i, j, safe in zip(node.left_keys, node.right_keys, node.null_safe, strict=True):
            one, other = node.left.schema[i].type, node.right.schema[j].type
            if not compares_alike(one, other):
                raise Untranslatable
            conditions.append(f"{a[i].text} {'IS NOT DISTINCT FROM' if safe else '='} {b[j].text}")
        if node.condition is not None:
            conditions.append(self._translator.text(node.condition, [*a, *b]))
        columns = a if node.kind.left_only else [*a, *b]
        on = " AND ".join(conditions) or "TRUE"
        return _selected(columns, f"({left.text}) l {_JOINS[node.kind]} ({right.text}) r ON {on}")

    def _set_operation(self, node: p.SetOperationExec, left: _Relation, right: _Relation) -> _Relation:
        types = [f.type for f in node.schema]
        if not all(compares_alike(f.type) for s in (node.left, node.right) for f in s.schema):
            raise Untranslatable
        operation = f" {node.kind}{' ALL' if node.all else ''} "
        return _Relation(f"({_exactly(types, left)}){operation}({_exactly(types, right)})", _columns(types))

    # --- groups

    def _aggregate(self, node: p.GroupAggregateExec, source: _Relation) -> _Relation:
        keys = [source.columns[k] for k in node.keys]
        if not all(compares_alike(node.input.schema[k].type) for k in node.keys):
            raise Untranslatable
        terms = [*keys, *(self._aggregated(call, source) for call in node.calls)]
        # A group appears with its first row, also the group of all rows.
        behind = f" GROUP BY {', '.join(k.text for k in keys)}" if keys else " HAVING COUNT(*) > 0"
        return _selected(terms, f"({source.text}){behind}")

    def _aggregated(self, call: p.AggregateSpec, source: _Relation) -> Term:
        args = [source.columns[i] for i in call.args]
        if (
            call.order_by
            or call.retract
            or any(not compares_alike(t) for t in call.arg_types if call.function != "COUNT")
        ):
            raise Untranslatable
        if call.distinct and not all(compares_alike(t) for t in call.arg_types):
            raise Untranslatable
        distinct = "DISTINCT " if call.distinct else ""
        where = f" FILTER (WHERE {source.columns[call.filter].text})" if call.filter is not None else ""

        def asked(function: str, text: str) -> str:
            return f"{function}({distinct}{text}){where}"

        match call.function:
            case "COUNT" if len(args) <= 1:
                return Term(asked("COUNT", args[0].text if args else "*"))
            case "MIN" | "MAX":
                return Term(asked(call.function, args[0].text), args[0].digits)
            case "SUM" if call.type.is_integer:
                return Term(f"CAST({asked('SUM', args[0].text)} AS {duckdb_type(call.type)})")
            case "SUM" if args[0].digits is not None and args[0].digits.scale == call.type.scale:
                return Term(asked("SUM", args[0].text), Digits(_MOST, call.type.scale))
            case "AVG" if call.type.is_integer:
                total = asked("SUM", args[0].text)
                return Term(f"CAST({total} // {asked('COUNT', args[0].text)} AS {duckdb_type(call.type)})")
            case "AVG" if args[0].digits is not None:
                digits = Digits(_MOST, args[0].digits.scale)
                return averaged(asked("SUM", args[0].text), digits, asked("COUNT", args[0].text), call.type)
            case _:
                raise Untranslatable

    def _top_n(self, node: p.TopNExec, source: _Relation) -> _Relation:
        schema = node.input.schema
        if not all(compares_alike(schema[i].type) for i in (*node.partition, *(s.index for s in node.order))):
            raise Untranslatable
        order = ", ".join(
            f"{source.columns[s.index].text}{' DESC' if s.descending else ''} NULLS {'LAST' if s.nulls_last else 'FIRST'}"
            for s in node.order
        )
        by = f"ORDER BY {order}" if order else ""
        columns = source.columns
        if not node.partition and node.function is p.RankFunction.ROW_NUMBER and not node.rank_column:
            limit = "" if node.end is None else f" LIMIT {node.end - node.start + 1}"
            offset = f" OFFSET {node.start - 1}" if node.start > 1 else ""
            return _Relation(f"SELECT * FROM ({source.text}) {by}{limit}{offset}", columns)
        partition = f"PARTITION BY {', '.join(columns[i].text for i in node.partition)} " if node.partition else ""
        ranks = f"{node.function.value}() OVER ({partition}{by})"
        within = f"ranked >= {node.start}" + ("" if node.end is None else f" AND ranked <= {node.end}")
        terms = [*columns, *([Term("CAST(ranked AS BIGINT)")] if node.rank_column else [])]
        return _selected(terms, f"(SELECT *, {ranks} AS ranked FROM ({source.text})) WHERE {within}")


def _selected(terms: Sequence[Term], behind: str) -> _Relation:
    items = ", ".join(f"{t.text} AS c{i}" for i, t in enumerate(terms))
    return _Relation(f"SELECT {items} FROM {behind}", [Term(f"c{i}", t.digits) for i, t in enumerate(terms)])


def _exactly(types: Sequence[DataType], source: _Relation) -> str:
    """A relation whose columns have exactly these types."""
    return _selected([Term(c.of(t)) for c, t in zip(source.columns, types, strict=True)], f"({source.text})").text


def _columns(types: Sequence[DataType], names: Sequence[str] | None = None) -> list[Term]:
    """Columns that have the digits of their types. Raises Untranslatable."""
    for type_ in types:
        duckdb_type(type_)
    texts = names or [f"c{i}" for i in range(len(types))]
    return [
        Term(text, Digits(t.precision, t.scale) if t.root is _R.DECIMAL else None)
        for text, t in zip(texts, types, strict=True)
    ]
