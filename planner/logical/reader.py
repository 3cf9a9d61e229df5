"""Reads the text of a plan back: what `planner/logical/display.py` writes.

A rule is tested with a plan written down, without SQL, binder or catalog. Two things stand in the text of a test that
`explain` leaves out: the types of scanned columns, and words behind a Scan that say what its source is like.

    Filter price#2 > 10
      Scan bid(auction#1 BIGINT NOT NULL, price#2 INT) key (auction#1) retract

The numbers become fresh column ids. A Sink takes its input's columns as they are. Not read: LookupJoin, window
aggregates and joins, nodes with hints or TTL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from planner.logical.expression_reader import ExpressionReader, TokenStream
from planner.logical.nodes import (
    Aggregate,
    AssignWatermark,
    Deduplicate,
    DependentJoin,
    Except,
    Expand,
    Filter,
    Intersect,
    Join,
    Limit,
    LogicalNode,
    Over,
    Project,
    Scan,
    Sink,
    Sort,
    TemporalJoin,
    TopN,
    Union,
    Unnest,
    Values,
    WindowTable,
)
from runtime.core.errors import InternalError
from runtime.core.node import Node
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, NULL, DataType, TimeAttribute, TypeRoot
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import TRUE, AggregateCall, Column, ColumnRef, Expr, SortKey, WindowCall, fresh_column
from runtime.plan.nodes import JoinKind, RankFunction
from runtime.plan.windows import CumulateWindow, HopWindow, SessionWindow, TumbleWindow, WindowSpec
from runtime.spi.lookup import LookupTable
from runtime.spi.source import SourceTable

__all__ = ["OpenTable", "read_plan"]

OpenTable = Callable[[str, Schema, frozenset[str]], Any]
"""Makes the table of a Scan from its name, its columns and the words behind it; of a Sink with the word `sink`."""


def read_plan(text: str, functions: FunctionRegistry, open_table: OpenTable) -> LogicalNode:
    """The plan of a text; raises InternalError where it cannot be read."""
    roots = _tree([line for line in text.splitlines() if line.strip()])
    if len(roots) != 1:
        raise InternalError(f"a plan has one root, not {len(roots)}")
    return _Reader(functions, open_table).node(roots[0])


@dataclass(slots=True)
class _Line:
    """A line of the text with the lines indented below it."""

    text: str
    below: list[_Line] = field(default_factory=list)


def _tree(lines: list[str]) -> list[_Line]:
    roots: list[_Line] = []
    open_: list[tuple[int, _Line]] = []
    for line in lines:
        depth = len(line) - len(line.lstrip())
        entry = _Line(line.strip())
        while open_ and open_[-1][0] >= depth:
            open_.pop()
        (open_[-1][1].below if open_ else roots).append(entry)
        open_.append((depth, entry))
    return roots


class _Reader:
    """Reads one text; columns are known by their numbers in it."""

    def __init__(self, functions: FunctionRegistry, open_table: OpenTable) -> None:
        self._functions = functions
        self._open_table = open_table
        self._columns: dict[int, Column] = {}

    def node(self, line: _Line) -> LogicalNode:
        head, _, rest = line.text.partition(" ")
        inputs = [self.node(below) for below in line.below if below.text != "Subquery"]
        subqueries = iter([self.node(below.below[0]) for below in line.below if below.text == "Subquery"])

        def following() -> Node:
            return next(subqueries)

        tokens = TokenStream(rest)
        reader = ExpressionReader(tokens, self._columns, self._functions, following)
        plan = self._made(head, tokens, reader, inputs)
        if not tokens.done:
            raise InternalError(f"cannot read {tokens.peek()!r} in {line.text!r}")
        for column in plan.columns:
            for number, known in self._columns.items():
                if known.id == column.id:
                    self._columns[number] = column
        return plan

    def _made(self, head: str, tokens: TokenStream, reader: ExpressionReader, inputs: list[LogicalNode]) -> LogicalNode:
        match head:
            case "Scan":
                return self._scan(tokens, reader)
            case "Values":
                return self._values(tokens, reader)
            case "Project":
                return Project(inputs[0], tuple(self._items(tokens, reader)))
            case "Filter":
                return Filter(inputs[0], reader.expression())
            case "Join" | "DependentJoin":
                made = Join if head == "Join" else DependentJoin
                return made(inputs[0], inputs[1], JoinKind[tokens.next()], self._condition(tokens, reader))
            case "TemporalJoin":
                kind = JoinKind[tokens.next()]
                tokens.expect("as", "of")
                time = reader.expression()
                return TemporalJoin(inputs[0], inputs[1], kind, time, self._condition(tokens, reader))
            case "Aggregate":
                tokens.expect("by")
                group = self._listed(tokens, reader)
                scalar = tokens.take("scalar")
                calls = tuple((c, e) for c, e in self._items(tokens, reader) if isinstance(e, AggregateCall))
                return Aggregate(inputs[0], group, calls, scalar)
            case "Over":
                return Over(
                    inputs[0], tuple((c, e) for c, e in self._items(tokens, reader) if isinstance(e, WindowCall))
                )
            case "WindowTable":
                return self._window_table(tokens, reader, inputs[0])
            case "Sort":
                keys = reader.sort_keys()
                offset, limit = self._range(tokens)
                return Sort(inputs[0], keys, offset, limit)
            case "Limit":
                return Limit(inputs[0], *self._range(tokens))
            case "AssignWatermark":
                time_column = reader.column().ref()
                tokens.expect("=")
                return AssignWatermark(inputs[0], time_column, reader.expression())
            case "TopN" | "Deduplicate":
                return self._ranked(head, tokens, reader, inputs[0])
            case "Unnest":
                return self._unnest(tokens, reader, inputs[0])
            case "Expand":
                return self._expand(tokens, reader, inputs[0])
            case "Sink":
                name = tokens.next()
                schema = Schema(tuple(Field(c.name, c.type) for c in inputs[0].columns))
                return Sink(inputs[0], self._open_table(name, schema, frozenset({"sink"})), name)
            case "Union" | "Intersect" | "Except":
                return self._set_operation(head, tokens, inputs)
            case _:
                raise InternalError(f"cannot read the node {head}")

    def _new(self, token: str, type_: DataType) -> Column:
        name, _, number = token.rpartition("#")
        column = self._columns[int(number)] = fresh_column(name, type_)
        return column

    def _scan(self, tokens: TokenStream, reader: ExpressionReader) -> Scan:
        name = tokens.next()
        tokens.expect("(")
        columns: list[Column] = []
        while not tokens.take(")"):
            token = tokens.next()
            columns.append(self._new(token, reader.type()))
            tokens.take(",")
        keys: tuple[tuple[int, ...], ...] = ()
        if tokens.take("key"):
            keys = (tuple(r.id for r in self._listed(tokens, reader)),)
        words: set[str] = set()
        while not tokens.done:
            words.add(tokens.next())
        schema = Schema(tuple(Field(c.name, c.type) for c in columns))
        table = self._open_table(name, schema, frozenset(words))
        lookup = table if isinstance(table, LookupTable) else None
        return Scan(cast(SourceTable, table), name, tuple(columns), keys, lookup)

    def _values(self, tokens: TokenStream, reader: ExpressionReader) -> Values:
        rows: list[tuple[Expr, ...]] = []
        if not tokens.take("none"):
            rows.append(self._row(tokens, reader))
            while tokens.take(","):
                rows.append(self._row(tokens, reader))
        types = [e.type for e in rows[0]] if rows else []
        columns: list[Column] = []
        if tokens.take("as"):
            while not tokens.done:
                token = tokens.next()
                columns.append(self._new(token, types[len(columns)] if types else reader.type()))
                tokens.take(",")
        return Values(tuple(rows), tuple(columns))

    def _row(self, tokens: TokenStream, reader: ExpressionReader) -> tuple[Expr, ...]:
        tokens.expect("(")
        found: list[Expr] = []
        while not tokens.take(")"):
            found.append(reader.expression())
            tokens.take(",")
        return tuple(found)

    def _items(self, tokens: TokenStream, reader: ExpressionReader) -> list[tuple[Column, Expr]]:
        """`a#1, b#2 = expression`; names on the left become columns only after the whole line is read."""
        found: list[tuple[str, Expr]] = []
        while not tokens.done:
            if tokens.peek(1) == "=":
                token = tokens.next()
                tokens.expect("=")
                found.append((token, reader.expression()))
            else:
                ref = reader.column().ref()
                found.append(("", ref))
            tokens.take(",")
        return [
            (expr.column, expr)
            if not token and isinstance(expr, ColumnRef)
            else (self._new(token, self._result(expr)), expr)
            for token, expr in found
        ]

    @staticmethod
    def _result(expr: Expr) -> DataType:
        return expr.type if expr.type.root is not TypeRoot.NULL else NULL

    @staticmethod
    def _condition(tokens: TokenStream, reader: ExpressionReader) -> Expr:
        return reader.expression() if tokens.take("on") else TRUE

    @staticmethod
    def _listed(tokens: TokenStream, reader: ExpressionReader) -> tuple[ColumnRef, ...]:
        tokens.expect("(")
        found: list[ColumnRef] = []
        while not tokens.take(")"):
            found.append(reader.column().ref())
            tokens.take(",")
        return tuple(found)

    @staticmethod
    def _range(tokens: TokenStream) -> tuple[int, int | None]:
        limit = int(tokens.next()) if tokens.take("limit") else None
        return (int(tokens.next()) if tokens.take("offset") else 0), limit

    def _window_table(self, tokens: TokenStream, reader: ExpressionReader, source: LogicalNode) -> WindowTable:
        window = _window(tokens)
        tokens.expect("of")
        time = reader.column()
        partition = self._listed(tokens, reader) if tokens.take("by") else ()
        tokens.expect("as")
        names = [tokens.next()]
        while tokens.take(","):
            names.append(tokens.next())
        plain = time.type.materialized().not_null()
        start, end = self._new(names[0], plain), self._new(names[1], plain)
        window_time = self._new(names[2], plain.with_(time_attribute=time.type.time_attribute or TimeAttribute.ROWTIME))
        return WindowTable(source, window, time.ref(), partition, start, end, window_time)

    def _ranked(
        self, head: str, tokens: TokenStream, reader: ExpressionReader, source: LogicalNode
    ) -> TopN | Deduplicate:
        if head == "Deduplicate":
            last = tokens.next() == "last"
            tokens.expect("by")
            keys = self._listed(tokens, reader)
            tokens.expect("of")
            return Deduplicate(source, keys, reader.column().ref(), last)
        function = RankFunction[tokens.next()]
        start = int(tokens.next())
        tokens.expect("..")
        end = int(tokens.next()) if tokens.kind() == "number" else None
        partition = self._listed(tokens, reader) if tokens.take("by") else ()
        tokens.expect("order")
        order: tuple[SortKey, ...] = () if tokens.take("none") else reader.sort_keys()
        rank = self._new(tokens.next(), BIGINT.not_null()) if tokens.take("as") else None
        return TopN(source, function, partition, order, start, end, rank)

    def _unnest(self, tokens: TokenStream, reader: ExpressionReader, source: LogicalNode) -> Unnest:
        collection = reader.expression()
        tokens.expect("as")
        types = [collection.type.children[0], BIGINT.not_null()]
        produced = [self._new(tokens.next(), types[0])]
        while tokens.take(","):
            produced.append(self._new(tokens.next(), types[1]))
        return Unnest(source, collection, tuple(produced), tokens.take("ordinality"), tokens.take("outer"))

    def _expand(self, tokens: TokenStream, reader: ExpressionReader, source: LogicalNode) -> Expand:
        lists = [self._row(tokens, reader)]
        while tokens.take(","):
            lists.append(self._row(tokens, reader))
        tokens.expect("as")
        produced: list[Column] = []
        while not tokens.done:
            types = [p[len(produced)].type for p in lists]
            known = next((t for t in types if t.root is not TypeRoot.NULL), NULL)
            produced.append(self._new(tokens.next(), known.with_nullable(any(t.nullable for t in types))))
            tokens.take(",")
        return Expand(source, tuple(lists), tuple(produced))

    def _set_operation(self, head: str, tokens: TokenStream, inputs: list[LogicalNode]) -> LogicalNode:
        all_ = tokens.take("all")
        produced: list[Column] = []
        while not tokens.done:
            types = [i.columns[len(produced)].type for i in inputs]
            produced.append(self._new(tokens.next(), types[0].with_nullable(any(t.nullable for t in types))))
            tokens.take(",")
        if head == "Union":
            return Union(tuple(inputs), tuple(produced))
        made = Intersect if head == "Intersect" else Except
        return made(inputs[0], inputs[1], all_, tuple(produced))


def _window(tokens: TokenStream) -> WindowSpec:
    name = tokens.next()
    tokens.expect("(")
    lengths = [int(tokens.next())]
    offset = 0
    while tokens.take(","):
        if tokens.take("offset"):
            offset = int(tokens.next())
        else:
            lengths.append(int(tokens.next()))
    tokens.expect(")")
    match name:
        case "TUMBLE":
            return TumbleWindow(lengths[0], offset)
        case "HOP":
            return HopWindow(lengths[0], lengths[1], offset)
        case "CUMULATE":
            return CumulateWindow(lengths[0], lengths[1], offset)
        case _:
            return SessionWindow(lengths[0])
