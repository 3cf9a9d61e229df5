"""What every physical plan keeps, whoever made it: the planner's plans do by themselves (tests say so), one that was read
from a file is checked before anything of it runs.

Positions are those of columns that are there, of types that the operator takes; expressions name columns of their input,
functions that exist, and the types that these have; the schema of a node is that of the columns that it gives, in the
types of Arrow that carry them. `call_types.py` has what is checked of a single
expression, `part_invariants.py` what of frames, windows and patterns, `node_parts.py` what of columns and calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT, DataType, TypeRoot
from runtime.expr.function import FunctionRegistry, ProcessFunction
from runtime.plan import nodes as p
from runtime.plan.base import PhysicalNode
from runtime.plan.call_types import searched_types
from runtime.plan.decoding import Wrong
from runtime.plan.join_invariants import check_nearest, joined_on_one_key, joined_tables
from runtime.plan.node_parts import TIMES, NodeParts
from runtime.plan.part_invariants import (
    check_emit,
    check_frame,
    check_pattern,
    check_window,
    check_zone,
    not_below,
    placed,
    within,
)
from runtime.plan.parts import JoinKind
from runtime.plan.pattern import UNIVERSAL, MatchValue, ValueSide
from runtime.plan.time_filter_nodes import NOW
from runtime.plan.walk import walk
from runtime.plan.windows import AttachedWindow
from runtime.spi.lookup import LookupTable

__all__ = ["check_node"]

_WORDS = {
    ("SinkMaterializeExec", "on_conflict"): ("DEDUPLICATE", "NOTHING", "ERROR"),
    ("SinkExec", "not_null_enforcer"): ("ERROR", "DROP"),
    ("WatermarkExec", "null_handling"): ("FAIL", "DROP", "SKIP_WATERMARK"),
    ("SetOperationExec", "kind"): ("INTERSECT", "EXCEPT"),
    ("AsofJoinExec", "comparison"): (">=", ">", "<=", "<"),
}


def check_node(node: PhysicalNode, functions: FunctionRegistry) -> None:
    """Raise Wrong, with the field, for the first thing in a node that no plan has; its inputs have been checked."""
    for kind, field in _WORDS:
        if type(node).__name__ == kind and getattr(node, field) not in _WORDS[kind, field]:
            raise Wrong(f"it is one of {', '.join(_WORDS[kind, field])}").within(field)
    for field, milliseconds in node.times_to_live.items():
        not_below(field, milliseconds, 0)
    _Check(node, functions).run()


class _Check(NodeParts):
    """The checks of one node."""

    def run(self) -> None:
        given = self._output()
        if given is not None:
            self._gives(given)

    # --- what a node gives

    def _output(self) -> Sequence[DataType] | None:
        """The types of the columns that the node gives, from its parts; None where nothing tells them."""
        match self.node:
            case p.SourceExec() | p.SinkExec() | p.LookupJoinExec():
                return self._of_a_table()
            case p.CalcExec() | p.RejectingCalcExec() | p.ExpandExec() | p.ValuesExec():
                return self._of_rows()
            case p.UnnestExec() | p.WatermarkExec() | p.UnionExec():
                return self._of_rows()
            case p.RememberExec():
                return self._of_rows()
            case (
                p.HashJoinExec()
                | p.IntervalJoinExec()
                | p.SnapshotJoinExec()
                | p.TemporalJoinExec()
                | p.WindowJoinExec()
                | p.AsofJoinExec()
                | p.CurrentJoinExec()
            ):
                return self._joined(self.node)
            case p.MultiJoinExec():
                return joined_on_one_key(self.node, self._columns)
            case p.DeltaJoinExec():
                return joined_tables(self.node, self._columns, self._condition)
            case p.GroupAggregateExec() | p.OverAggregateExec() | p.WindowAggregateExec() | p.WindowTableExec():
                return self._aggregated()
            case p.FromChangelogExec() | p.ToChangelogExec():
                return self._of_a_changelog()
            case p.MatchExec():
                return self._matched(self.node)
            case p.ProcessTablesExec():
                return self._processed(self.node)
            case p.RecursiveExec():
                return self._looped(self.node)
            case p.TimeFilterExec():
                return self._let_in(self.node)
            case p.VectorSearchExec(left=source, query=query):
                self._expression(query, source.schema.types, "query")
                return searched_types(self.node)
            case _:
                return self._passed()

    def _gives(self, types: Sequence[DataType]) -> None:
        schema = self.node.schema
        if len(schema) != len(types):
            raise Wrong(f"it has {len(schema)} columns, and the operator gives {len(types)}").within("schema")
        for index, (column, type_) in enumerate(zip(schema, types, strict=True)):
            if not column.type.is_carried_as(type_):
                raise Wrong(f"it is {column.type}, and the operator gives {type_}").within(index).within("schema")

    def _of_a_table(self) -> Sequence[DataType]:
        match self.node:
            case p.SourceExec(table=table):
                not_below("idle_timeout", self.node.idle_timeout, 0)
                not_below("rate_limit", self.node.rate_limit, 0)
                not_below("reading", self.node.reading, 0)
                names = set(self.node.schema.names)
                if any(not names.issuperset(key) for key in self.node.relied_on):
                    raise Wrong("it has no such column").within("relied_on")
                return table.schema.types
            case p.SinkExec(input=source, table=table):
                self._columns("not_null", self.node.not_null, source.schema)
                self._same_types("input", source.schema, table.schema)
                return table.schema.types
            case p.LookupJoinExec(input=source, table=table):
                return self._looked_up(self.node, source.schema, table)
            case _:
                raise AssertionError(self.node)

    def _looked_up(self, node: p.LookupJoinExec, source: Schema, table: LookupTable) -> Sequence[DataType]:
        if node.kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise Wrong("a lookup join is INNER or LEFT").within("kind")
        if node.retry is not None and (node.retry.delay < 1 or node.retry.attempts < 1):
            raise Wrong("delay and attempts are at least 1").within("retry")
        self._columns("unique", node.unique or (), source)
        asked = node.requests
        if asked is not None and any(n is not None and n < 1 for n in (asked.capacity, asked.timeout)):
            raise Wrong("capacity and timeout are at least 1").within("requests")
        for index, (expr, column) in enumerate(node.keys):
            with_place = ("keys", index)
            self._expression(expr, source.types, *with_place, 0)
            self._column(column, table.schema, *with_place, 1)
        both = Schema((*source.fields, *table.schema.fields))
        if node.condition is not None:
            self._condition(node.condition, both.types, "condition")
        return both.types

    def _of_rows(self) -> Sequence[DataType]:
        match self.node:
            case p.ValuesExec(rows=rows, schema=schema):
                for index, row in enumerate(rows):
                    self._list(row, (), schema.types, "rows", index)
                return schema.types
            case (
                p.CalcExec(input=source, condition=condition, projections=projections)
                | p.RejectingCalcExec(input=source, condition=condition, projections=projections)
            ):
                if condition is not None:
                    self._condition(condition, source.schema.types, "condition")
                self._each(projections, source.schema.types, "projections")
                return [e.type for e in projections]
            case p.ExpandExec(input=source, projections=lists, schema=schema):
                for index, projections in enumerate(lists):
                    self._list(projections, source.schema.types, schema.types, "projections", index)
                return schema.types
            case p.UnnestExec(input=source, collection=collection):
                self._expression(collection, source.schema.types, "collection")
                ordinal = [INT] if self.node.ordinality else []
                return [*source.schema.types, *_elements(collection.type), *ordinal]
            case p.WatermarkExec(input=source, rowtime=rowtime, expr=expr):
                self._time(rowtime, source.schema, "rowtime")
                self._expression(expr, source.schema.types, "expr")
                if expr.type.root not in TIMES:
                    raise Wrong(f"a watermark is a timestamp, not {expr.type}").within("expr")
                return source.schema.types
            case p.RememberExec(input=source, values=values, keys=keys):
                self._columns("keys", keys or (), source.schema)
                self._each(values, source.schema.types, "values")
                return [*source.schema.types, *(e.type for e in values)]
            case p.UnionExec(parts=parts, schema=schema):
                if not parts:
                    raise Wrong("at least one input is wanted").within("parts")
                for part in parts:
                    self._same_types("parts", part.schema, schema)
                return schema.types
            case _:
                raise AssertionError(self.node)

    def _let_in(self, node: p.TimeFilterExec) -> Sequence[DataType]:
        source = node.input.schema.types
        for index, bound in enumerate(node.bounds):
            self._expression(bound.value, source, "bounds", index, "value")
            self._expression(bound.moment, (NOW,), "bounds", index, "moment")
            if (
                bound.moment.type.root not in (*TIMES, TypeRoot.DATE)
                or bound.value.type.arrow != bound.moment.type.arrow
            ):
                raise placed(Wrong("it is a point in time, as the moment is"), "bounds", index, "value")
            if bound.unless is not None:
                self._condition(bound.unless, source, "bounds", index, "unless")
        if not node.keys:
            raise Wrong("at least one bound of a column is wanted").within("bounds")
        return source

    def _looped(self, node: p.RecursiveExec) -> Sequence[DataType]:
        if not node.parts:
            raise Wrong("at least one input is wanted").within("parts")
        not_below("most_rounds", node.most_rounds, 0)
        self._same_types("parts", node.parts[0].schema, node.schema)
        fed = (*node.schema.types, BIGINT)
        for inner in walk(node.body):
            if isinstance(inner, p.LoopInputExec):
                if not 0 <= inner.number < len(node.parts):
                    raise Wrong(f"there is no input {inner.number}").within("body")
                given = fed if inner.number == 0 else node.parts[inner.number].schema.types
                if len(inner.schema) != len(given) or any(
                    not column.type.is_carried_as(type_) for column, type_ in zip(inner.schema, given, strict=True)
                ):
                    raise Wrong(f"input {inner.number} has other columns").within("body")
            elif not inner.inputs or inner.table_use or inner.sets_time or inner.inner_fields:
                raise Wrong(f"{type(inner).__name__} cannot stand in a round").within("body")
            else:
                check_node(inner, self.functions)
        if len(node.body.schema) != len(fed) or node.body.schema[-1].type.root is not TypeRoot.BIGINT:
            raise Wrong("a round gives the columns of the result and its number").within("body")
        for column, type_ in zip(node.body.schema, fed, strict=True):
            if not column.type.is_carried_as(type_):
                raise Wrong(f"a round gives {column.type}, and the result has {type_}").within("body")
        return node.schema.types

    def _passed(self) -> Sequence[DataType]:
        """Nodes that give the columns of their input, some with one more behind them."""
        source = self.node.inputs[0].schema
        for field in ("keys", "unique", "partition"):
            positions = getattr(self.node, field, None)
            if positions is not None:
                self._columns(field, positions, source)
        more: list[DataType] = []
        match self.node:
            case p.TopNExec() | p.WindowTopNExec():
                self._order("order", self.node.order, source)
                not_below("start", self.node.start, 1)
                if self.node.end is not None:
                    not_below("end", self.node.end, 0)
                if isinstance(self.node, p.WindowTopNExec):
                    self._window("window", self.node.window, source)
                    check_zone(self.node.zone)
                more = [BIGINT] if self.node.rank_column else []
            case p.SortExec(order=order):
                self._order("order", order, source)
                if not order:
                    raise Wrong("it begins with a time").within("order")
                self._time(order[0].index, source, "order", 0, "index")
            case p.LimitExec(offset=offset, limit=limit):
                not_below("offset", offset, 0)
                not_below("limit", limit or 0, 0)
            case p.DeduplicateExec(time=time) if time is not None:
                self._time(time, source, "time")
            case p.SetOperationExec(left=left, right=right):
                self._same_types("right", right.schema, left.schema)
            case _:
                pass
        return [*source.types, *more]

    def _joined(
        self,
        node: p.HashJoinExec
        | p.IntervalJoinExec
        | p.SnapshotJoinExec
        | p.TemporalJoinExec
        | p.WindowJoinExec
        | p.AsofJoinExec
        | p.CurrentJoinExec,
    ) -> Sequence[DataType]:
        left, right = node.left.schema, node.right.schema
        self._columns("left_keys", node.left_keys, left)
        self._columns("right_keys", node.right_keys, right)
        if len(node.left_keys) != len(node.right_keys):
            raise Wrong("both sides have as many keys").within("right_keys")
        for index, (a, b) in enumerate(zip(node.left_keys, node.right_keys, strict=True)):
            if not left[a].type.is_carried_as(right[b].type):
                raise (
                    Wrong(f"keys of {left[a].type} and {right[b].type} are compared").within(index).within("right_keys")
                )
        if not isinstance(node, p.AsofJoinExec) and node.condition is not None:
            self._condition(node.condition, (*left.types, *right.types), "condition")
        match node:
            case p.HashJoinExec() | p.WindowJoinExec() if len(node.null_safe) not in (
                0,
                len(node.left_keys),
            ):
                raise Wrong("there is one for each key, or none").within("null_safe")
            case p.HashJoinExec(left_unique=left_unique, right_unique=right_unique):
                self._columns("left_unique", left_unique or (), left)
                self._columns("right_unique", right_unique or (), right)
            case p.WindowJoinExec(left_window=left_window, right_window=right_window):
                self._window("left_window", left_window, left)
                self._window("right_window", right_window, right)
                check_zone(node.zone)
            case p.CurrentJoinExec(right_unique=right_unique):
                self._columns("right_unique", right_unique or (), right)
                if node.kind not in (JoinKind.INNER, JoinKind.LEFT):
                    raise Wrong("a join as of processing time is INNER or LEFT").within("kind")
            case p.AsofJoinExec():
                check_nearest(node, self._columns)
            case p.SnapshotJoinExec():
                self._time(node.right_time, right, "right_time")
                if node.kind not in (JoinKind.INNER, JoinKind.LEFT):
                    raise Wrong("a snapshot join is INNER or LEFT").within("kind")
            case p.IntervalJoinExec() | p.TemporalJoinExec():
                self._time(node.left_time, left, "left_time")
                self._time(node.right_time, right, "right_time")
                if isinstance(node, p.TemporalJoinExec) and node.kind not in (JoinKind.INNER, JoinKind.LEFT):
                    raise Wrong("a temporal join is INNER or LEFT").within("kind")
            case _:
                pass
        return left.types if node.kind.left_only else (*left.types, *right.types)

    def _aggregated(self) -> Sequence[DataType]:
        source = self.node.inputs[0].schema
        match self.node:
            case p.GroupAggregateExec(keys=keys, calls=calls):
                self._columns("keys", keys, source)
                return [*(source[k].type for k in keys), *self._calls(calls, source)]
            case p.OverAggregateExec(partition=partition, order=order, frame=frame, calls=calls):
                self._columns("partition", partition, source)
                self._order("order", order, source)
                if self.node.rowtime or self.node.proctime:
                    if not order:
                        raise Wrong("it begins with a time").within("order")
                    self._time(order[0].index, source, "order", 0, "index")
                check_frame(frame)
                return [*source.types, *self._calls(calls, source, over=True)]
            case p.WindowAggregateExec(window=window, time=time, keys=keys, calls=calls, properties=properties):
                self._columns("keys", keys, source)
                check_window(window)
                check_zone(self.node.zone)
                places = (self.node.start, self.node.end) if isinstance(window, AttachedWindow) else (time,)
                for place in places:
                    self._time(place, source, "start" if isinstance(window, AttachedWindow) else "time")
                if self.node.emit is not None:
                    check_emit(self.node.emit, window)
                behind = self.node.schema.types[len(keys) + len(calls) :]
                if len(behind) != len(properties) or any(t.root not in TIMES for t in behind):
                    raise Wrong("a time for each of them is at the end of the schema").within("properties")
                return [*(source[k].type for k in keys), *self._calls(calls, source), *behind]
            case p.WindowTableExec(window=window, time=time, partition=partition):
                self._time(time, source, "time")
                self._columns("partition", partition, source)
                check_window(window)
                check_zone(self.node.zone)
                behind = self.node.schema.types[len(source) :]
                if len(behind) != 3 or any(t.root not in TIMES for t in behind):
                    raise Wrong("the start, the end and the time of the window are at its end").within("schema")
                return [*source.types, *behind]
            case _:
                raise AssertionError(self.node)

    def _of_a_changelog(self) -> Sequence[DataType]:
        source = self.node.inputs[0].schema
        match self.node:
            case p.FromChangelogExec(op=op, codes=codes):
                self._column(op, source, "op")
                if not source[op].type.is_character:
                    raise Wrong("the codes of changes are texts").within("op")
                self._kinds([kind for _, kind in codes])
                return [t for i, t in enumerate(source.types) if i != op]
            case p.ToChangelogExec(codes=codes, schema=schema):
                self._kinds([kind for kind, _ in codes])
                if not len(schema) or not schema[0].type.is_character:
                    raise Wrong("it begins with the code of the change").within("schema")
                return [schema[0].type, *source.types]
            case _:
                raise AssertionError(self.node)

    def _kinds(self, kinds: Sequence[int]) -> None:
        if any(kind not in range(4) for kind in kinds):
            raise Wrong("row kinds are 0 to 3").within("codes")

    def _matched(self, node: p.MatchExec) -> Sequence[DataType]:
        source = node.input.schema
        self._columns("partition", node.partition, source)
        self._order("order", node.order, source)
        if not node.order:
            raise Wrong("it begins with a time").within("order")
        self._time(node.order[0].index, source, "order", 0, "index")
        check_pattern(node.pattern)
        for index, (variable, column) in enumerate(node.alone):
            within(variable, len(node.pattern.variables), "alone", index, 0)
            self._column(column, source, "alone", index, 1)
            if source[column].type.root is not TypeRoot.BOOLEAN:
                raise placed(Wrong("a condition is BOOLEAN"), "alone", index, 1)
        tested = [self._value(value, node, source, "tested", i) for i, value in enumerate(node.tested)]
        for index, (variable, expr) in enumerate(node.asked):
            within(variable, len(node.pattern.variables), "asked", index, 0)
            self._condition(expr, (*source.types, *tested), "asked", index, 1)
        found = [self._value(value, node, source, "found", i) for i, value in enumerate(node.found)]
        return [*(source[k].type for k in node.partition), *found]

    def _value(self, value: MatchValue, node: p.MatchExec, source: Schema, *place: str | int) -> DataType:
        known = len(node.pattern.variables) + len(node.pattern.subsets)
        if not UNIVERSAL <= value.variable < known:
            raise placed(Wrong(f"there is no variable {value.variable}"), *place, "variable")
        if value.offset is not None:
            not_below("offset", value.offset, 0)
        if value.side is ValueSide.ROW and (value.offset is None or len(value.call.args) != 1):
            raise placed(Wrong("it is of one column"), *place, "side")
        special = value.is_number or value.is_matched or value.names
        if value.call.args and (value.is_number or value.is_matched):
            raise placed(Wrong("it takes no arguments"), *place, "call", "args")
        if not special:
            self._aggregate(value.call, source, False, *place, "call")
        return value.call.type

    def _processed(self, node: p.ProcessTablesExec) -> Sequence[DataType]:
        found = self.functions.find(node.function)
        if not isinstance(found, ProcessFunction):
            raise Wrong(f"there is no process table function {node.function}").within("function")
        for field in ("keys", "names", "times", "order"):
            given = len(getattr(node, field))
            if given != len(node.parts) and not (given == 0 and field in ("times", "order")):
                raise Wrong("there is one for each input").within(field)
        if len(node.parts) != len(found.tables):
            raise Wrong(f"{node.function} takes {len(found.tables)} tables").within("parts")
        if node.clock != found.clock:
            raise Wrong(f"{node.function} has {'' if found.clock else 'no '}timers of processing time").within("clock")
        for index, part in enumerate(node.parts):
            self._columns("keys", node.keys[index], part.schema)
            if len(node.names[index]) != len(part.schema):
                raise placed(Wrong("there is one for each column"), "names", index)
            if node.times:
                self._time(node.times[index], part.schema, "times", index)
            if node.order:
                self._order("order", node.order[index], part.schema)
        if len(node.states) != len(found.states) or len(node.ttls) != len(node.states):
            raise Wrong(f"{node.function} keeps {len(found.states)} states").within("states")
        for index, (state, declared) in enumerate(zip(node.states, found.states, strict=True)):
            if state.name != declared.name or not state.type.is_carried_as(declared.type):
                raise placed(Wrong(f"{node.function} keeps {declared.name} {declared.type}"), "states", index)
        first = node.parts[0].schema
        before = first.types if node.passes else tuple(first[k].type for k in node.keys[0])
        return [*before, *node.schema.types[len(before) :]]

    # --- positions


def _elements(type_: DataType) -> Sequence[DataType]:
    match type_.root:
        case TypeRoot.ARRAY if type_.children[0].root is TypeRoot.ROW:
            return [f.type for f in type_.children[0].fields]
        case TypeRoot.ARRAY | TypeRoot.MULTISET | TypeRoot.MAP:
            return _multiset(type_) if type_.root is TypeRoot.MULTISET else type_.children
        case _:
            raise Wrong(f"an array, map or multiset is wanted, not {type_}").within("collection")


def _multiset(type_: DataType) -> Sequence[DataType]:
    element = type_.children[0]
    return [f.type for f in element.fields] if element.root is TypeRoot.ROW else [element]
