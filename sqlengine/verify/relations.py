"""A bound plan as one query of DuckDB, in Flink's meaning: what the answer is over the rows so far.

Columns are named by their ids, which are unique in a plan, so that subqueries name columns of queries around them as they
are. Where Flink's meaning and DuckDB's differ, Flink's is written:

| what | here, as in Flink | DuckDB by itself |
|---|---|---|
| `AVG` of integers | an integer, cut off towards zero | DOUBLE |
| `SUM` of integers | the type of the argument | HUGEINT |
| aggregate over no rows without GROUP BY | no row | one row |
| NULLs in ORDER BY | the smallest values | by option |

The parts of LISTAGG, ARRAY_AGG and COLLECT come in any order, and are compared sorted. A group of a window is there when
the watermark has passed its end. Rows that are equal where an order decides raise `TIES` in DuckDB: several answers are
right then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from runtime.core.types import DataType, TypeRoot
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import (
    AggregateCall,
    Column,
    ColumnRef,
    Expr,
    Frame,
    FrameBound,
    Literal,
    SortKey,
    SubqueryExpr,
    SubqueryKind,
    WindowCall,
)
from runtime.plan.parts import JoinKind
from runtime.plan.windows import CumulateWindow, HopWindow, SessionWindow, TumbleWindow
from sqlengine.verify.logs import Logs, lookup_join
from sqlengine.verify.rows import Unordered
from sqlengine.verify.texts import CannotVerify, Texts, duck_type, name_of, quoted

__all__ = ["TIES", "Asked", "Relations"]

TIES = "sqlengine: rows that are equal in an order"
_SIMPLE = frozenset(("SUM", "COUNT", "MIN", "MAX", "AVG"))
_OUTER = {JoinKind.INNER: "JOIN", JoinKind.LEFT: "LEFT JOIN", JoinKind.RIGHT: "RIGHT JOIN", JoinKind.FULL: "FULL JOIN"}
_GATHERING = frozenset(("LISTAGG", "ARRAY_AGG", "ARRAY_AGG_IGNORE_NULLS", "COLLECT"))
_BY_ARRIVAL = {"FIRST_VALUE": "arg_min", "LAST_VALUE": "arg_max"}
_RANKS = ("RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST")


class Asked(Protocol):
    """What the text of a plan needs beside the plan."""

    def own(self, expr: Expr, types: tuple[DataType, ...]) -> str:
        """See `Texts`."""
        ...

    def table(self, scan: n.Scan) -> str:
        """The name under which DuckDB finds the rows so far of a scanned table."""
        ...

    def history(self, scan: n.Scan) -> str:
        """The name of its log (see `logs`)."""
        ...

    def closed(self, plan: LogicalNode) -> str:
        """The watermark of a window function or temporal join, in milliseconds, as text."""
        ...

    def marks(self, plan: LogicalNode) -> str:
        """The name of a table of that watermark before each epoch."""
        ...


class Relations:
    """The text of plans."""

    def __init__(self, functions: FunctionRegistry, asked: Asked) -> None:
        self._texts = Texts(functions, asked.own, self.of)
        self._asked = asked
        self._logs = Logs(self._texts, asked, _scanned, self._carrying, self.of)
        self._carried: tuple[str, ...] = ()
        """Columns of logs that a window function carries along."""
        self._sessions: set[n.WindowTable] = set()
        """Session windows whose rows were not grouped so far."""

    def whole(self, plan: LogicalNode) -> tuple[str, list[Unordered | None]]:
        """The query of a whole plan, and which of its columns have parts in any order. Raises CannotVerify."""
        text = self.of(plan)
        if self._sessions:
            raise CannotVerify("a session window that is not grouped by")
        return text, [self._texts.unordered.get(c.id) for c in plan.columns]

    def of(self, plan: LogicalNode) -> str:
        """The query. Raises CannotVerify."""
        match plan:
            case n.Scan():
                if plan.table is None:
                    raise CannotVerify("a table that is asked by key")
                return f"SELECT {_scanned(plan)} FROM {self._asked.table(plan)}"
            case n.Shared(produced=produced, plan=inner):
                return self._renamed(inner, produced)
            case n.Values(rows=rows, produced=produced):
                return self._values(rows, produced)
            case n.Project(input=source, items=items):
                below = self.of(source)
                texts = [f"{self._passed(c, e)} AS {name_of(c.id)}" for c, e in items]
                return f"SELECT {_list(texts) or '1 AS none'} FROM ({below})"
            case n.Filter(input=source, predicate=predicate):
                below = self.of(source)
                return f"SELECT * FROM ({below}) WHERE {self._texts.of(predicate)}"
            case n.Join() | n.DependentJoin():
                return self._join(plan)
            case n.Aggregate():
                return self._aggregate(plan)
            case n.Expand(input=source, projections=projections, produced=produced):
                inner = self.of(source)
                return " UNION ALL ".join(
                    f"SELECT {_list(f'{self._texts.of(e)} AS {name_of(c.id)}' for e, c in zip(p, produced, strict=True))} "
                    f"FROM ({inner})"
                    for p in projections
                )
            case n.WindowTable():
                return self._window_table(plan)
            case n.Over():
                return self._over(plan)
            case n.Sort(input=source, limit=None, offset=0):
                return self.of(source)
            case n.Sort():
                return self._top(plan)
            case n.Union(parts=parts, produced=produced):
                return " UNION ALL ".join(f"({self._renamed(p, produced)})" for p in parts)
            case n.Intersect() | n.Except():
                word = ("INTERSECT" if isinstance(plan, n.Intersect) else "EXCEPT") + (" ALL" if plan.all else "")
                return (
                    f"({self._renamed(plan.left, plan.produced)}) {word} ({self._renamed(plan.right, plan.produced)})"
                )
            case n.AssignWatermark(input=source) | n.Sink(input=source):
                return self.of(source)
            case n.TemporalJoin(snapshot=load) if load is not None:
                raise CannotVerify("a join with SNAPSHOT, which depends on what comes first")
            case n.TemporalJoin(time=time):
                if time.type.is_proctime:
                    raise lookup_join(plan)
                return self._logs.temporal(plan)
            case n.Unnest():
                return self._unnest(plan)
            case n.Limit():
                raise CannotVerify("LIMIT without ORDER BY, of which several answers are right")
            case _:
                raise CannotVerify(type(plan).__name__)

    def _passed(self, column: Column, value: Expr) -> str:
        """An item of a select list. What has parts in any order may be passed on as it is."""
        if isinstance(value, ColumnRef):
            source, text = value.id, name_of(value.id)
        elif isinstance(value, SubqueryExpr) and value.kind is SubqueryKind.SCALAR:
            assert isinstance(value.plan, LogicalNode)
            text, source = self._texts.subquery(value), value.plan.columns[0].id
        else:
            return self._texts.of(value)
        if source in self._texts.unordered:
            self._texts.unordered[column.id] = self._texts.unordered[source]
        return text

    def _unnest(self, plan: n.Unnest) -> str:
        root = plan.collection.type.root
        if root not in (TypeRoot.ARRAY, TypeRoot.MAP):
            raise CannotVerify(f"UNNEST of a {root.value}")
        below, columns = self.of(plan.input), _list(name_of(c.id) for c in plan.input.columns)
        values = self._texts.of(plan.collection)
        if root is TypeRoot.MAP:
            values = f"map_entries({values})"
        element = plan.collection.type.children[0]
        *produced, last = plan.produced if plan.ordinality else (*plan.produced, None)
        numbers = "range(1, len(items) + 1)"
        if plan.outer:
            gone = "items IS NULL OR len(items) = 0"
            numbers = f"CASE WHEN {gone} THEN [NULL] ELSE {numbers} END"
            items = f"unnest(CASE WHEN {gone} THEN [NULL] ELSE items END) AS item"
        else:
            items = "unnest(items) AS item"
        inner = (
            f"SELECT {columns or '1 AS none'}, {items}, unnest({numbers}) AS place "
            f"FROM (SELECT *, {values} AS items FROM ({below}))"
        )
        parts = ["item"]
        if root is TypeRoot.MAP:
            parts = ["item['key']", "item['value']"]
        elif element.fields:
            parts = [f"item[{_literal(f.name)}]" for f in element.fields]
        made = [f"CAST({p} AS {duck_type(c.type)}) AS {name_of(c.id)}" for p, c in zip(parts, produced, strict=True)]
        if last is not None:
            made.append(f"CAST(place AS {duck_type(last.type)}) AS {name_of(last.id)}")
        return f"SELECT {_list([columns, *made] if columns else made)} FROM ({inner})"

    def _renamed(self, plan: LogicalNode, produced: Sequence[Column]) -> str:
        below = self.of(plan)
        if any(c.id in self._texts.unordered for c in plan.columns):
            raise CannotVerify("a set operation over LISTAGG, ARRAY_AGG or COLLECT")
        pairs = zip(plan.columns, produced, strict=True)
        columns = _list(f"CAST({name_of(a.id)} AS {duck_type(b.type)}) AS {name_of(b.id)}" for a, b in pairs)
        return f"SELECT {columns} FROM ({below})"

    def _values(self, rows: Sequence[Sequence[Expr]], produced: Sequence[Column]) -> str:
        if not produced:
            return " UNION ALL ".join("SELECT 1 AS none" for _ in rows)
        texts = (
            f"SELECT {_list(f'{self._texts.of(e)} AS {name_of(c.id)}' for e, c in zip(row, produced, strict=True))}"
            for row in rows
        )
        return " UNION ALL ".join(texts)

    def _join(self, plan: n.Join | n.DependentJoin) -> str:
        left, right = self.of(plan.left), self.of(plan.right)
        condition = self._texts.of(plan.condition)
        if plan.kind in (JoinKind.SEMI, JoinKind.ANTI):
            word = "NOT " if plan.kind is JoinKind.ANTI else ""
            return f"SELECT * FROM ({left}) WHERE {word}EXISTS (SELECT 1 FROM ({right}) WHERE {condition})"
        lateral = "LATERAL " if isinstance(plan, n.DependentJoin) else ""
        columns = _list(name_of(c.id) for c in plan.columns)
        return f"SELECT {columns or '1 AS none'} FROM ({left}) {_OUTER[plan.kind]} {lateral}({right}) ON {condition}"

    def _aggregate(self, plan: n.Aggregate) -> str:
        by_arrival = any(call.function in _BY_ARRIVAL for _, call in plan.calls)
        source = self._logs.arriving(plan.input) if by_arrival else self.of(plan.input)
        window = _window_columns(plan.input)
        group = [self._texts.of(g) for g in plan.group]
        where = ""
        grouped = {g.id for g in plan.group}
        if window is not None and window[1] & grouped and window[2] & grouped:
            end = name_of(min(window[2] & grouped))
            where = f" WHERE epoch_ms({end}) - 1 <= {self._asked.closed(window[0])}"
            self._sessions.discard(window[0])
        calls = [
            f"{self._gathered(column, call) or self._by_arrival(call) or self._aggregated(call)} AS {name_of(column.id)}"
            for column, call in plan.calls
        ]
        text = f"SELECT {_list([*group, *calls]) or '1 AS none'} FROM ({source}){where}"
        if group:
            return f"{text} GROUP BY {_list(group)}"
        return text if plan.scalar else f"{text} HAVING COUNT(*) > 0"

    def _gathered(self, column: Column, call: AggregateCall) -> str | None:
        """LISTAGG, ARRAY_AGG and COLLECT: values in order of arrival, which DuckDB does not know."""
        if call.function not in _GATHERING or call.order_by:
            return None
        distinct = "DISTINCT " if call.distinct else ""
        value = self._texts.of(call.args[0])
        conditions = [] if call.filter is None else [self._texts.of(call.filter)]
        if call.function != "ARRAY_AGG":
            conditions.append(f"({value}) IS NOT NULL")
        rest = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        if call.function == "LISTAGG":
            separator = call.args[1] if len(call.args) > 1 else None
            if separator is not None and not isinstance(separator, Literal):
                raise CannotVerify("LISTAGG with a computed separator")
            between = "," if separator is None else separator.value
            if between is None:
                raise CannotVerify("LISTAGG with a separator that is NULL")
            self._texts.unordered[column.id] = Unordered(separator=between)
            return f"string_agg({distinct}{value}, {_literal(between)}){rest}"
        counted = call.function == "COLLECT"
        self._texts.unordered[column.id] = Unordered(counted=counted)
        text = f"list({distinct}{value}){rest}"
        # Over no values a multiset is empty, an array NULL.
        return f"COALESCE({text}, [])" if counted else text

    def _by_arrival(self, call: AggregateCall) -> str | None:
        """FIRST_VALUE and LAST_VALUE over a log: they pass over NULL."""
        if call.function not in _BY_ARRIVAL:
            return None
        value = self._texts.of(call.args[0])
        also = "" if call.filter is None else f" AND {self._texts.of(call.filter)}"
        return f"{_BY_ARRIVAL[call.function]}({value}, arrival) FILTER (WHERE ({value}) IS NOT NULL{also})"

    def _aggregated(self, call: AggregateCall | WindowCall, over: str = "") -> str:
        name = call.function
        if name not in _SIMPLE:
            raise CannotVerify(f"the aggregate {name}")
        distinct = "DISTINCT " if call.distinct else ""
        args = _list(map(self._texts.of, call.args)) or "*"
        rest = (f" FILTER (WHERE {self._texts.of(call.filter)})" if call.filter is not None else "") + over
        if name == "AVG" and call.type.is_integer:
            text = f"(SUM({distinct}{args}){rest} // COUNT({distinct}{args}){rest})"
        elif name == "AVG" and not call.type.is_approximate:
            raise CannotVerify("AVG of DECIMAL")
        else:
            text = f"{name}({distinct}{args}){rest}"
        return f"CAST({text} AS {duck_type(call.type)})"

    def _carrying(self, plan: n.WindowTable, source: str) -> str:
        self._carried = ("arrival", "came", "gone")
        try:
            return self._window_table(plan, source)
        finally:
            self._carried = ()

    def _passing(self, plan: n.WindowTable) -> str:
        """The columns that a window function passes on."""
        return _list([*(name_of(c.id) for c in plan.input.columns), *self._carried])

    def _window_table(self, plan: n.WindowTable, given: str | None = None) -> str:
        if str(plan.time.type.root.value) != "TIMESTAMP":
            raise CannotVerify("a window over a TIMESTAMP_LTZ")
        if plan.emit is not None:
            raise CannotVerify("a window with early or late results")
        source, columns = given or self.of(plan.input), self._passing(plan)
        at = f"epoch_ms({name_of(plan.time.id)})"
        match plan.window:
            case TumbleWindow(size=size, offset=offset):
                starts, length = f"[{at} - {_mod(f'{at} - ({offset})', size)}]", f"start_ms + {size}"
            case HopWindow(slide=slide, size=size, offset=offset):
                last = f"{at} - {_mod(f'{at} - ({offset})', slide)}"
                starts = f"generate_series({last} - {size} + {slide}, {last}, {slide})"
                length = f"start_ms + {size}"
            case CumulateWindow(step=step, size=size, offset=offset):
                first = f"{at} - {_mod(f'{at} - ({offset})', size)}"
                ends = f"generate_series({at} - {_mod(f'{at} - ({first})', step)} + {step}, {first} + {size}, {step})"
                return self._windows(
                    plan, f"SELECT {columns}, {first} AS start_ms, unnest({ends}) AS end_ms FROM ({source})"
                )
            case SessionWindow(gap=gap):
                return self._session(plan, source, at, gap)
            case _:
                raise CannotVerify("a window that the rows have already")
        opened = (
            f"SELECT {columns}, unnest({starts}) AS start_ms FROM ({source}) WHERE {name_of(plan.time.id)} IS NOT NULL"
        )
        return self._windows(plan, f"SELECT *, {length} AS end_ms FROM ({opened})")

    def _session(self, plan: n.WindowTable, source: str, at: str, gap: int) -> str:
        """Rows no further apart than the gap stand in one session. Of rows exactly a gap apart it depends on the
        watermark between them whether the first one's session was still open, so nobody is judged then."""
        self._sessions.add(plan)
        columns = self._passing(plan)
        keys = f"PARTITION BY {_list(name_of(c.id) for c in plan.partition)} " if plan.partition else ""
        rows = f"SELECT {columns}, {at} AS at_ms FROM ({source}) WHERE {name_of(plan.time.id)} IS NOT NULL"
        apart = f"SELECT *, at_ms - LAG(at_ms) OVER ({keys}ORDER BY at_ms) AS apart FROM ({rows})"
        opens = (
            f"SELECT *, CASE WHEN apart = {gap} THEN error('{TIES}') WHEN apart < {gap} THEN 0 ELSE 1 END AS opens "
            f"FROM ({apart})"
        )
        numbered = f"SELECT *, SUM(opens) OVER ({keys}ORDER BY at_ms) AS session FROM ({opens})"
        within = f"PARTITION BY {_list([*(name_of(c.id) for c in plan.partition), 'session'])}"
        return self._windows(
            plan,
            f"SELECT {columns}, MIN(at_ms) OVER ({within}) AS start_ms, MAX(at_ms) OVER ({within}) + {gap} AS end_ms "
            f"FROM ({numbered})",
        )

    def _windows(self, plan: n.WindowTable, inner: str) -> str:
        columns = self._passing(plan)
        return (
            f"SELECT {columns}, make_timestamp(start_ms * 1000) AS {name_of(plan.start.id)}, "
            f"make_timestamp(end_ms * 1000) AS {name_of(plan.end.id)}, "
            f"make_timestamp((end_ms - 1) * 1000) AS {name_of(plan.window_time.id)} FROM ({inner})"
        )

    def _over(self, plan: n.Over) -> str:
        source, added = self.of(plan.input), []
        for column, call in plan.calls:
            partition = _list(map(self._texts.of, call.partition_by))
            order = _list(map(self._order_item, call.order_by))
            keys = (f"PARTITION BY {partition} " if partition else "") + (f"ORDER BY {order}" if order else "")
            over = f" OVER ({keys} {_frame(call.frame)})"
            if call.function in _RANKS:
                text = f"{call.function}(){over}"
            elif call.function == "ROW_NUMBER":
                both = _list(
                    [*map(self._texts.of, call.partition_by), *(self._texts.of(k.expr) for k in call.order_by)]
                )
                peers = f"COUNT(*) OVER (PARTITION BY {both})"
                text = f"CASE WHEN {peers} > 1 THEN error('{TIES}') ELSE ROW_NUMBER() OVER ({keys}) END"
            else:
                if call.frame is not None and call.frame.rows:
                    raise CannotVerify("a frame of ROWS, of which several answers are right")
                text = self._aggregated(call, over)
            added.append(f"CAST({text} AS {duck_type(call.type)}) AS {name_of(column.id)}")
        return f"SELECT *, {_list(added)} FROM ({source})"

    def _top(self, plan: n.Sort) -> str:
        below = self.of(plan.input)
        columns = _list(name_of(c.id) for c in plan.columns)
        order = _list(map(self._order_item, plan.keys))
        keys = _list(self._texts.of(k.expr) for k in plan.keys)
        last = "9223372036854775807" if plan.limit is None else str(plan.offset + plan.limit)
        numbered = (
            f"SELECT *, ROW_NUMBER() OVER (ORDER BY {order}) AS place, RANK() OVER (ORDER BY {order}) AS first_place, "
            f"COUNT(*) OVER (PARTITION BY {keys}) AS peers FROM ({below})"
        )
        split = " OR ".join(
            f"(first_place <= {edge} AND first_place + peers - 1 > {edge})" for edge in (plan.offset, last)
        )
        return (
            f"SELECT {columns} FROM ({numbered}) WHERE CASE WHEN {split} THEN error('{TIES}') "
            f"ELSE place > {plan.offset} AND place <= {last} END"
        )

    def _order_item(self, key: SortKey) -> str:
        return f"{self._texts.of(key.expr)} {'DESC' if key.descending else 'ASC'} NULLS {'LAST' if key.nulls_last else 'FIRST'}"


def _window_columns(plan: LogicalNode) -> tuple[n.WindowTable, set[int], set[int]] | None:
    """The window function that a plan's rows come from, and the columns that still are its start and its end."""
    match plan:
        case n.WindowTable():
            return plan, {plan.start.id}, {plan.end.id}
        case n.Filter(input=source):
            return _window_columns(source)
        case n.Project(input=source, items=items):
            below = _window_columns(source)
            return below and (below[0], _same(items, below[1]), _same(items, below[2]))
        case n.Expand(input=source, projections=projections, produced=produced):
            below = _window_columns(source)
            if below is None:
                return None
            kept = [
                set.intersection(*(_same(zip(produced, projection, strict=True), ids) for projection in projections))
                for ids in below[1:]
            ]
            return below[0], kept[0], kept[1]
        case _:
            return None


def _scanned(scan: n.Scan) -> str:
    """The columns of a table under their ids."""
    assert scan.table is not None
    fields = zip(scan.table.schema.names, scan.scanned, strict=True)
    return _list(f"{quoted(f)} AS {name_of(c.id)}" for f, c in fields)


def _same(items: Iterable[tuple[Column, Expr]], ids: set[int]) -> set[int]:
    """The columns that are one of those below, as they are."""
    return {column.id for column, value in items if isinstance(value, ColumnRef) and value.id in ids}


def _frame(frame: Frame | None) -> str:
    if frame is None:
        return ""
    ends = (
        frame.lower is FrameBound.UNBOUNDED_PRECEDING
        and frame.upper in (FrameBound.CURRENT_ROW, FrameBound.UNBOUNDED_FOLLOWING)
        and frame.unit == "RANGE"
        and frame.exclude is None
    )
    if not ends:
        raise CannotVerify("a frame of OVER")
    return f"RANGE BETWEEN UNBOUNDED PRECEDING AND {frame.upper.value}"


def _mod(value: str, by: int) -> str:
    """The remainder as floorMod gives it."""
    return f"((({value}) % {by} + {by}) % {by})"


def _list(texts: object) -> str:
    return ", ".join(texts)  # type: ignore[arg-type]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
