"""Logical plans as text: one line per node, inputs indented below it.

    Filter price#2 > 10
      Scan bid(auction#1, price#2)

Stable: column ids are numbered from 1 in the order in which the text names them, so that equal plans have equal
texts. `planner/logical/reader.py` reads the text of most plans back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from planner.logical.match import MatchItem
from planner.logical.nodes import (
    Aggregate,
    AsofJoin,
    AssignWatermark,
    CurrentJoin,
    Deduplicate,
    DependentJoin,
    Except,
    Expand,
    Filter,
    FromChangelog,
    Intersect,
    IntervalJoin,
    Join,
    LastRound,
    Limit,
    LogicalNode,
    LookupJoin,
    Match,
    MultiJoin,
    Over,
    ProcessTables,
    Project,
    Recursive,
    Remember,
    Scan,
    Shared,
    Sink,
    Sort,
    TemporalJoin,
    ToChangelog,
    TopN,
    Union,
    Unnest,
    Values,
    VectorSearch,
    WindowAggregate,
    WindowJoin,
    WindowTable,
    WindowTopN,
)
from runtime.core.changelog import KIND_NAMES
from runtime.core.errors import InternalError
from runtime.core.secrets import shown_facts
from runtime.core.types import STRING
from runtime.expr.display import show, show_sort_key
from runtime.expr.function import shown_name
from runtime.expr.nodes import TRUE, Column, ColumnRef, Expr, Literal, OuterRef, SortKey, SubqueryExpr, walk
from runtime.plan.pattern import UNIVERSAL, MatchRows, ValueSide
from runtime.plan.text import emit_text
from runtime.plan.windows import (
    AttachedWindow,
    CumulateWindow,
    HopWindow,
    SessionWindow,
    TumbleWindow,
    WindowEmit,
    WindowSpec,
)

__all__ = ["explain"]


def explain(plan: LogicalNode, note: Callable[[LogicalNode], str] | None = None, types: bool = False) -> str:
    """The text of a plan. `note` gives text to put behind a node's line (traits, say; empty for none); `types` writes
    the types of scanned columns."""
    return "\n".join(_Explainer(note, types).lines(plan, 0))


class _Explainer:
    """Holds the numbering of columns while a plan is written."""

    def __init__(self, note: Callable[[LogicalNode], str] | None, types: bool) -> None:
        self._note = note
        self._types = types
        self._numbers: dict[int, int] = {}
        self._written: set[LogicalNode] = set()

    def lines(self, plan: LogicalNode, depth: int) -> list[str]:
        for source in plan.inputs:
            self._number(source)
        line = "  " * depth + self._line(plan)
        noted = self._note(plan) if self._note is not None else ""
        found = [f"{line}  {noted}" if noted else line]
        for source in plan.inputs:
            found.extend(self.lines(source, depth + 1))
        if isinstance(plan, Shared) and plan.plan not in self._written:
            self._written.add(plan.plan)
            found.extend(self.lines(plan.plan, depth + 1))
        for inner in self._subqueries(plan):
            found.append("  " * (depth + 1) + "Subquery")
            found.extend(self.lines(inner, depth + 2))
        return found

    def _number(self, plan: LogicalNode) -> None:
        """Number the columns of the leaves first, so that ids grow from the sources upwards."""
        for source in plan.inputs:
            self._number(source)
        if isinstance(plan, Shared) and plan.plan not in self._written:
            self._number(plan.plan)
        for column in plan.columns:
            self._id(column.id)

    def _id(self, id_: int) -> int:
        return self._numbers.setdefault(id_, len(self._numbers) + 1)

    def _subqueries(self, plan: LogicalNode) -> list[LogicalNode]:
        found: list[LogicalNode] = []
        for expression in _with_subqueries(plan):
            found.extend(
                e.plan for e in walk(expression) if isinstance(e, SubqueryExpr) and isinstance(e.plan, LogicalNode)
            )
        return found

    # --- parts of a line ---------------------------------------------------------------------------------------------

    def _column(self, column: Column | ColumnRef) -> str:
        return f"{column.name}#{self._id(column.id)}"

    def _columns(self, columns: Iterable[Column | ColumnRef]) -> str:
        return ", ".join(self._column(c) for c in columns)

    def _name(self, expr: Expr) -> str | None:
        if isinstance(expr, ColumnRef):
            return self._column(expr)
        return f"outer({expr.name}#{self._id(expr.id)})" if isinstance(expr, OuterRef) else None

    def _show(self, expr: Expr) -> str:
        return show(expr, self._name)

    def _condition(self, expr: Expr) -> str:
        return "" if expr == TRUE else f" on {self._show(expr)}"

    def _computed(self, items: Iterable[tuple[Column, Expr]]) -> str:
        shown = (
            self._column(c) if isinstance(e, ColumnRef) and e.id == c.id else f"{self._column(c)} = {self._show(e)}"
            for c, e in items
        )
        return ", ".join(shown)

    def _keys(self, keys: Iterable[SortKey]) -> str:
        return ", ".join(show_sort_key(k, self._name) for k in keys)

    def _scanned(self, plan: Scan) -> str:
        if self._types:
            return ", ".join(f"{self._column(c)} {c.type}" for c in plan.scanned)
        return self._columns(plan.scanned)

    def _window(
        self, window: WindowSpec, time: ColumnRef | None, start: ColumnRef | None = None, end: ColumnRef | None = None
    ) -> str:
        if isinstance(window, AttachedWindow):
            return f"ATTACHED({self._columns(r for r in (start, end) if r is not None)})"
        match window:
            case TumbleWindow(size=size):
                text = f"TUMBLE({size}"
            case HopWindow(slide=slide, size=size):
                text = f"HOP({slide}, {size}"
            case CumulateWindow(step=step, size=size):
                text = f"CUMULATE({step}, {size}"
            case SessionWindow(gap=gap):
                text = f"SESSION({gap}"
            case _:
                raise InternalError(f"no text is known for {type(window).__name__}")
        offset = getattr(window, "offset", 0)
        on = "" if time is None else f" of {self._column(time)}"
        return f"{text}{f', offset {offset}' if offset else ''}){on}"

    def _match(self, plan: Match) -> str:
        name = plan.pattern.name

        def value(item: MatchItem) -> str:
            of = "" if item.variable == UNIVERSAL else f" of {name(item.variable)}"
            at = "" if item.offset is None else f" at {item.offset}"
            names = " names" if item.names else ""
            side = "" if item.side is ValueSide.RUNNING else f" {item.side.value}"
            return f"{self._column(item.column)} = {self._show(item.call)}{at}{names}{of}{side}"

        by = ", ".join(f"{self._column(c)} = {self._column(ref)}" for c, ref in plan.partition)
        rows = "" if plan.rows is MatchRows.ONE else f" {plan.rows.value}"
        parts = [f"{plan.pattern}{rows} by ({by}) order {self._keys(plan.order)}"]
        parts += [f"{name(v)}: {self._show(e)}" for v, e in (*plan.alone, *plan.asked)]
        parts += [f"tests {value(item)}" for item in plan.tested]
        return "; ".join([*parts, *map(value, plan.found)])

    # --- one line per class ------------------------------------------------------------------------------------------

    def _line(self, plan: LogicalNode) -> str:
        match plan:
            case Scan(name=name, keys=keys):
                by_id = {c.id: c for c in plan.scanned}
                key = (
                    f" key ({self._columns(by_id[i] for i in keys[0] if i in by_id)})"
                    if keys and all(i in by_id for i in keys[0])
                    else ""
                )
                return f"Scan {name}({self._scanned(plan)}){key}{self._pushed(plan)}"
            case Values(rows=rows, produced=produced):
                shown = ", ".join("(" + ", ".join(self._show(e) for e in r) + ")" for r in rows)
                return f"Values {shown or 'none'}" + (f" as {self._columns(produced)}" if produced else "")
            case Project(items=items):
                return f"Project {self._computed(items)}"
            case Remember(values=values):
                return f"Remember {self._computed(values)}"
            case Filter(predicate=predicate):
                return f"Filter {self._show(predicate)}"
            case Join() | DependentJoin() | CurrentJoin():
                hints = "".join(f" hint {k}={v}" for k, v in getattr(plan, "hints", ()))
                return f"{type(plan).__name__} {plan.kind.name}{self._condition(plan.condition)}{hints}"
            case VectorSearch(kind=kind, query=query, column=column, top_k=top_k, index=index, score=score):
                near = f"{self._show(column)} near {self._show(query)} top {top_k} ({index.text()})"
                return f"VectorSearch {kind.name} {near} as {self._columns((score,))}"
            case TemporalJoin(kind=kind, condition=condition, snapshot=load) if load is not None:
                when = f"until {load.until} idle {load.idle} ttl {load.ttl}"
                return f"TemporalJoin {kind.name} snapshot {when}{self._condition(condition)}"
            case TemporalJoin(kind=kind, time=time, condition=condition):
                return f"TemporalJoin {kind.name} as of {self._show(time)}{self._condition(condition)}"
            case Aggregate(group=group, calls=calls, scalar=scalar, ttl=ttl):
                more = (" scalar" if scalar else "") + (f" ttl {ttl}" if ttl is not None else "")
                return f"Aggregate by ({self._columns(group)}){more}{' ' if calls else ''}{self._computed(calls)}"
            case Expand(projections=projections, produced=produced):
                lists = ", ".join("(" + ", ".join(self._show(e) for e in p) + ")" for p in projections)
                return f"Expand {lists} as {self._columns(produced)}"
            case WindowTable(window=window, time=time, partition=partition):
                by = f" by ({self._columns(partition)})" if partition else ""
                added = self._columns((plan.start, plan.end, plan.window_time))
                return f"WindowTable {self._window(window, time)}{by} as {added}{self._emit(plan.emit)}"
            case Over(calls=calls):
                return f"Over {self._computed(calls)}"
            case Match():
                return f"Match {self._match(plan)}"
            case Sort(keys=keys, offset=offset, limit=limit):
                return f"Sort {self._keys(keys)}{self._range(offset, limit)}"
            case Limit(offset=offset, limit=limit):
                return f"Limit{self._range(offset, limit)}"
            case Recursive(all=all_, name=name, produced=produced):
                return f"Recursive{' all' if all_ else ''} {name}({self._columns(produced)})"
            case LastRound(name=name):
                return f"LastRound {name}({self._columns(plan.columns)})"
            case Union(produced=produced):
                return f"Union {self._columns(produced)}"
            case Intersect(all=all_, produced=produced) | Except(all=all_, produced=produced):
                return f"{type(plan).__name__}{' all' if all_ else ''} {self._columns(produced)}"
            case Unnest(collection=collection, produced=produced, ordinality=ordinality, outer=outer):
                more = (" ordinality" if ordinality else "") + (" outer" if outer else "")
                return f"Unnest {self._show(collection)} as {self._columns(produced)}{more}"
            case AssignWatermark(time=time, expr=expr):
                return f"AssignWatermark {self._column(time)} = {self._show(expr)}"
            case Shared(name=name, plan=inner, produced=produced):
                again = ", as above" if inner in self._written else ""
                return f"Shared {name}({self._columns(produced)}){again}"
            case ProcessTables(function=function, keys=keys, produced=produced):
                by = "; ".join(self._columns(k) for k in keys)
                return f"ProcessTables {shown_name(function)} by ({by}) as {self._columns(produced)}"
            case FromChangelog(op=op, codes=codes, skip=skip):
                means = ", ".join(f"{show(Literal(code, STRING))} {KIND_NAMES[kind]}" for code, kind in codes)
                return f"FromChangelog {self._column(op)} ({means}){' skip' if skip else ''}"
            case ToChangelog(op=op, codes=codes):
                means = ", ".join(f"{KIND_NAMES[kind]} {show(Literal(code, STRING))}" for kind, code in codes)
                return f"ToChangelog {self._column(op)} ({means})"
            case Sink(name=name, overwrite=overwrite):
                return f"Sink {name}{' overwrite' if overwrite else ''}"
            case _:
                return self._streaming_line(plan)

    def _streaming_line(self, plan: LogicalNode) -> str:
        match plan:
            case WindowAggregate(
                window=window, time=time, start=start, end=end, group=group, calls=calls, properties=properties
            ):
                computed = ", ".join(
                    (
                        *((self._computed(calls),) if calls else ()),
                        *(f"{self._column(c)} = {p.name}" for c, p in properties),
                    )
                )
                return (
                    f"WindowAggregate {self._window(window, time, start, end)} by ({self._columns(group)}) {computed}"
                    f"{self._emit(plan.emit)}"
                )
            case IntervalJoin(
                kind=kind, left_time=left, right_time=right, lower=lower, upper=upper, condition=condition
            ):
                between = f"{self._column(left)} - {self._column(right)} in [{lower}, {upper}]"
                return f"IntervalJoin {kind.name} {between}{self._condition(condition)}"
            case WindowJoin(kind=kind, left_window=left, right_window=right, condition=condition):
                windows = f"({self._columns(left)}) = ({self._columns(right)})"
                return f"WindowJoin {kind.name} {windows}{self._condition(condition)}"
            case AsofJoin(kind=kind, left_time=left, comparison=comparison, right_time=right, equal=equal):
                times = f"{self._show(left)} {comparison} {self._show(right)}"
                return f"AsofJoin {kind.name} {times}{self._condition(equal)}"
            case MultiJoin(kinds=kinds, keys=keys):
                equal = " = ".join(f"({', '.join(self._show(e) for e in each)})" for each in keys)
                return f"MultiJoin {', '.join(kind.name for kind in kinds[1:])} on {equal}"
            case LookupJoin(name=name, kind=kind, keys=keys, produced=produced, condition=condition):
                by = ", ".join(f"{field} = {self._show(e)}" for e, field in keys)
                return f"LookupJoin {kind.name} {name}({by}) as {self._columns(produced)}{self._condition(condition)}"
            case TopN(function=function, partition=partition, order=order, start=start, end=end, rank=rank):
                return (
                    f"TopN {function.name} {start}..{'' if end is None else end}{self._ranked(partition, order, rank)}"
                )
            case Deduplicate(keys=keys, time=time, keep_last=last):
                return f"Deduplicate {'last' if last else 'first'} by ({self._columns(keys)}) of {self._column(time)}"
            case WindowTopN(
                function=function, partition=partition, window=window, order=order, start=start, end=end, rank=rank
            ):
                per = f"{start}..{end} window ({self._columns(window)})"
                return f"WindowTopN {function.name} {per}{self._ranked(partition, order, rank)}"
            case _:
                raise InternalError(f"no text is known for {type(plan).__name__}")

    def _ranked(self, partition: tuple[ColumnRef, ...], order: tuple[SortKey, ...], rank: Column | None) -> str:
        by = f" by ({self._columns(partition)})" if partition else ""
        return f"{by} order {self._keys(order) or 'none'}" + (f" as {self._column(rank)}" if rank is not None else "")

    @staticmethod
    def _emit(emit: WindowEmit | None) -> str:
        return "" if emit is None else emit_text(emit)

    @staticmethod
    def _range(offset: int, limit: int | None) -> str:
        return (f" limit {limit}" if limit is not None else "") + (f" offset {offset}" if offset else "")

    @staticmethod
    def _pushed(plan: Scan) -> str:
        described = shown_facts(plan.table.describe()) if plan.table is not None else {}
        return "".join(
            f" {key}={described[key]}" for key in ("filters", "limit", "aggregates", "group by") if described.get(key)
        )


def _with_subqueries(plan: LogicalNode) -> tuple[Expr, ...]:
    match plan:
        case Project(items=items):
            return tuple(e for _, e in items)
        case Filter(predicate=condition) | Join(condition=condition) | DependentJoin(condition=condition):
            return (condition,)
        case _:
            return ()
