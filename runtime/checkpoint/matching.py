"""Which saved operator a changed plan's operator goes on from, where its name alone does not tell.

A name (`uids`) says all that is upstream, columns and types included. So it changes when a table gets a column or a
wider type, or when another statement of a set reads more columns of a shared table, although an operator still computes
the same of the same rows. Here the new plan is laid beside the saved one, node by node from the sources on: each new
column is a saved one or none, of the same type or of a wider one. A node is that of the saved plan when it does the
same with the same columns, and when wider types cannot have made another value out of any row read so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.checkpoint.epoch_state import Restored
from runtime.core.errors import SqlEngineError
from runtime.core.node import Node, node_fields
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.secrets import shown_facts
from runtime.core.strict_json import read_json
from runtime.core.types import DataType, TypeRoot
from runtime.expr.nodes import Call, Case, Cast, Expr, InList, InputRef, Literal
from runtime.plan.base import INPUT_FIELDS
from runtime.plan.identity import says_nothing_of_state, short_kind
from runtime.plan.nodes import (
    CalcExec,
    GroupAggregateExec,
    PhysicalNode,
    SourceExec,
    WatermarkExec,
    WindowAggregateExec,
)
from runtime.plan.parts import AggregateSpec
from runtime.plan.walk import walk_all
from runtime.plan.windows import AttachedWindow
from runtime.spi.abilities import SupportsTypeWidening
from runtime.spi.source import SourceTable

if TYPE_CHECKING:
    import runtime.plan.decoding as _decoding
else:
    _decoding = Room("runtime.plan.decoding")

__all__ = ["Match", "PlanMatching", "SavedNode", "saved_nodes", "saved_plan", "source_difference", "widens"]

_INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "IS NULL", "IS NOT NULL"})
"""Functions whose value is the same when an argument has a wider type."""
_PASSED_ON = frozenset({"MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "LAG", "LEAD"})
"""Functions that give one of their values, of its type."""

_DEPTH = 2000
"""Of a plan's JSON: an expression stands in another for each operand of a long sum."""

Columns = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class SavedNode:
    """A node of a saved plan: its place in it, its name, its kind (`Source`) and its fields, without inputs and table."""

    number: int
    uid: str
    kind: str
    inputs: tuple[int, ...]
    table: Mapping[str, Any]
    fields: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Of its table."""
        return str(self.fields.get("name", ""))

    @property
    def schema(self) -> Schema:
        schema: Schema = self.fields["schema"]
        return schema


@dataclass(frozen=True, slots=True)
class Match:
    """A new node gives the rows of the saved node `base`. `columns`: which of its columns each one is, None for one
    that it does not have; `claim`: whose state it takes, None for a node that only picks columns."""

    base: int
    columns: Columns
    claim: str | None
    moved: Mapping[int, int] = field(default_factory=dict)
    """Columns of its input that stand elsewhere now, for a node whose state names them by position: new places by old
    ones."""

    @property
    def place(self) -> tuple[int, Columns]:
        return self.base, self.columns


def saved_plan(saved: Restored) -> dict[str, Any]:
    """The plan that saved state belongs to, as JSON."""
    plan: dict[str, Any] = read_json(saved.plan, depth=_DEPTH)
    return plan


def saved_nodes(plan: Mapping[str, Any]) -> list[SavedNode]:
    """The nodes of a plan as JSON; of one that this version cannot read only names, kinds and tables."""
    return [_saved_node(entry) for entry in plan["nodes"]]


def _saved_node(entry: Mapping[str, Any]) -> SavedNode:
    inputs: list[int] = []
    fields: dict[str, Any] = {}
    for key, value in entry.items():
        if key in INPUT_FIELDS:
            inputs += [value] if isinstance(value, int) else value
        elif key not in ("id", "uid", "node", "table"):
            try:
                fields[key] = _decoding.decode_value(value)
            except (SqlEngineError, KeyError, TypeError, ValueError):
                return SavedNode(
                    entry["id"], entry["uid"], _kind(entry), (), entry.get("table", {}), {"name": entry.get("name", "")}
                )
    return SavedNode(entry["id"], entry["uid"], _kind(entry), tuple(inputs), entry.get("table", {}), fields)


def _kind(entry: Mapping[str, Any]) -> str:
    return str(entry["node"]).partition("@")[0].removesuffix("Exec")


def source_difference(node: SourceExec, saved: Sequence[SavedNode]) -> str | None:
    """How a source that is not found differs from the saved one of the same name; None when there is none."""
    for was in saved:
        if was.kind != "Source" or was.name != node.name or "schema" not in was.fields:
            continue
        now, before = _table(shown_facts(node.table.describe())), _table(was.table)
        for key in sorted({*now, *before}):
            if now.get(key) != before.get(key):
                return f"{key} was {before.get(key)}"
        types = {f.name: f.type for f in was.schema}
        for column in node.schema:
            old = types.get(column.name)
            if old is not None and _plain(old) != _plain(column.type):
                wider = widens(column.type, old)
                return f"{column.name} was {old}" + (", and may have had other values" if wider else "")
    return None


class PlanMatching:
    """What each node of a plan is in the saved one (`found`); nodes that are nothing there are left out.

    Args:
        claims: the nodes whose names were saved.
        sums_fit: whether the sums of the n-th call of an aggregate have fitted into its type.
    """

    def __init__(
        self,
        roots: Sequence[PhysicalNode],
        claims: Mapping[PhysicalNode, str],
        saved: Sequence[SavedNode],
        sums_fit: Callable[[str, int], bool],
    ) -> None:
        self._claims = claims
        self._saved = saved
        self._by_uid = {s.uid: s for s in saved}
        self._sums_fit = sums_fit
        self._places: dict[int, tuple[int, Columns]] = {}
        self.found: dict[PhysicalNode, Match] = {}
        self._written = {
            claim for claim in claims.values() if claim in self._by_uid and self._by_uid[claim].kind == "Sink"
        }
        """Saved sinks that go on: a second one of the same writes anew."""

        for node in walk_all(roots):
            match = self._match(node)
            if match is not None:
                self.found[node] = match

    def same_rows(self, node: PhysicalNode, number: int) -> bool:
        """Whether a node gives the rows of a saved one, whole."""
        match = self.found.get(node)
        return match is not None and match.place == self._place(self._saved[number])

    def columns_of(self, node: PhysicalNode, number: int) -> tuple[int, ...] | None:
        """Where the columns of a node stand in a saved one that gives the same rows; None when it does not have them
        all."""
        match = self.found.get(node)
        base, there = self._place(self._saved[number])
        if match is None or match.base != base or any(c is None or c not in there for c in match.columns):
            return None
        return tuple(there.index(column) for column in match.columns)

    def _match(self, node: PhysicalNode) -> Match | None:
        claim = self._claims.get(node)
        if claim is not None and claim in self._by_uid and "schema" in self._by_uid[claim].fields:
            return Match(*self._place(self._by_uid[claim]), claim)
        if isinstance(node, SourceExec):
            return self._source(node)
        if not node.inputs or any(i not in self.found for i in node.inputs):
            return None
        places = [self.found[i].place for i in node.inputs]
        if isinstance(node, CalcExec):
            return self._calc(node, places[0])
        same_kind = [s for s in self._saved if s.kind == short_kind(node) and len(s.inputs) == len(places)]
        for saved in same_kind:
            if saved.uid in self._written:
                continue
            if isinstance(node, WatermarkExec):
                match = self._watermark(node, saved, places[0])
            else:
                match = self._stateful(node, saved, places)
            if match is not None:
                if saved.kind == "Sink":
                    self._written.add(saved.uid)
                return match
        return None

    def _place(self, saved: SavedNode) -> tuple[int, Columns]:
        """A saved node, or the one below it of which it only picks columns."""
        found = self._places.get(saved.number)
        if found is None:
            found = saved.number, tuple(range(len(saved.schema)))
            projections = saved.fields.get("projections", ())
            if saved.kind == "Calc" and saved.fields.get("condition") is None and _only_columns(projections):
                base, columns = self._place(self._saved[saved.inputs[0]])
                found = base, tuple(columns[p.index] for p in projections)
            self._places[saved.number] = found
        return found

    def _source(self, node: SourceExec) -> Match | None:
        for saved in self._saved:
            if saved.kind != "Source" or saved.name != node.name or "schema" not in saved.fields:
                continue
            if _table(saved.table) != _table(shown_facts(node.table.describe())):
                continue
            if saved.fields.get("reading", 0) != node.reading:
                continue
            before = {f.name: (i, f.type) for i, f in enumerate(saved.schema)}
            columns = tuple(before[f.name][0] if f.name in before else None for f in node.schema)
            pairs = [(f.type, before[f.name][1]) for f in node.schema if f.name in before]
            if all(_plain(new) == _plain(old) or _read_alike(node.table, new, old) for new, old in pairs):
                return Match(saved.number, columns, saved.uid)
        return None

    def _watermark(self, node: WatermarkExec, saved: SavedNode, place: tuple[int, Columns]) -> Match | None:
        base, columns = self._place(self._saved[saved.inputs[0]])
        if base != place[0]:
            return None
        if columns[saved.fields["rowtime"]] != place[1][node.rowtime]:
            return None
        if not _Comparing(place[1], columns).same(node.expr, saved.fields["expr"]):
            return None
        return Match(saved.number, tuple(_index(columns, c) for c in place[1]), saved.uid)

    def _calc(self, node: CalcExec, place: tuple[int, Columns]) -> Match | None:
        """The saved one that does the same with the most columns; if there is none and all rows pass, its input."""
        best: Match | None = None
        for saved in self._saved:
            if saved.kind != "Calc" or "schema" not in saved.fields:
                continue
            base, columns = self._place(self._saved[saved.inputs[0]])
            if base != place[0] or self._place(saved)[0] != saved.number:
                continue
            comparing = _Comparing(place[1], columns)
            if not comparing.same(node.condition, saved.fields.get("condition")):
                continue
            made = saved.fields["projections"]
            found = tuple(
                next((i for i, old in enumerate(made) if comparing.same(new, old)), None) for new in node.projections
            )
            if best is None or _known(found) > _known(best.columns):
                best = Match(saved.number, found, saved.uid if None not in found else None)
        if node.condition is None:
            picked = tuple(place[1][p.index] if isinstance(p, InputRef) else None for p in node.projections)
            if best is None or _known(picked) > _known(best.columns):
                return Match(place[0], picked, None)
        return best

    def _stateful(self, node: PhysicalNode, saved: SavedNode, places: Sequence[tuple[int, Columns]]) -> Match | None:
        """It gets the same columns and does the same with them: in the same order, because rows are kept in it, but for
        aggregates."""
        if "schema" not in saved.fields or len(saved.schema) != len(node.schema):
            return None
        before = [self._place(self._saved[number]) for number in saved.inputs]
        if [base for base, _ in places] != [base for base, _ in before]:
            return None
        moved: dict[int, int] = {}
        if places != before:
            if not isinstance(node, GroupAggregateExec | WindowAggregateExec):
                return None
            new, old = places[0][1], before[0][1]
            moved = {old.index(c): i for i, c in enumerate(new) if c is not None and c in old}
            node = _in_order(node, {new: old for old, new in moved.items()})
        elif any(None in columns for _, columns in places):
            return None
        if node.outside is not None and _table(shown_facts(node.outside.describe())) != _table(saved.table):
            return None
        width = sum(len(columns) for _, columns in before)
        comparing = _Comparing(tuple(range(width)), tuple(range(width)))
        apart = says_nothing_of_state(node) | {"calls"}
        for known in node_fields(node):
            if known.name in apart:
                continue
            if not comparing.same(getattr(node, known.name), saved.fields.get(known.name, known.default)):
                return None
        if not self._same_calls(node, saved):
            return None
        if not all(widens(n.type, o.type) for n, o in zip(node.schema, saved.schema, strict=True)):
            return None
        return Match(saved.number, tuple(range(len(node.schema))), saved.uid, moved)

    def _same_calls(self, node: PhysicalNode, saved: SavedNode) -> bool:
        new = node.aggregates
        old: tuple[AggregateSpec, ...] = saved.fields.get("calls", ())
        if len(new) != len(old):
            return False
        for number, (call, before) in enumerate(zip(new, old, strict=True)):
            if call.with_(arg_types=(), type=before.type) != before.with_(arg_types=()):
                return False
            if not _same_call(call, before):
                summed = call.function in ("SUM", "$SUM0") and isinstance(node, GroupAggregateExec)
                if not (summed and _integers(call.type, before.type) and self._sums_fit(saved.uid, number)):
                    return False
        return True


def _in_order(
    node: GroupAggregateExec | WindowAggregateExec, places: Mapping[int, int]
) -> GroupAggregateExec | WindowAggregateExec:
    """An aggregate over the same columns at other places, -1 for columns that are not there."""

    def at(position: int) -> int:
        return places.get(position, -1)

    calls = tuple(
        call.with_(
            args=tuple(at(a) for a in call.args),
            filter=None if call.filter is None else at(call.filter),
            order_by=tuple(order.with_(index=at(order.index)) for order in call.order_by),
        )
        for call in node.calls
    )
    node = node.with_(keys=tuple(at(k) for k in node.keys), calls=calls)
    if isinstance(node, WindowAggregateExec):
        attached = isinstance(node.window, AttachedWindow)
        window = {"start": at(node.start), "end": at(node.end)} if attached else {"time": at(node.time)}
        node = node.with_(**window)
    return node


def _same_call(call: AggregateSpec, before: AggregateSpec) -> bool:
    """Whether a call over wider arguments gives the same values, of its type now."""
    pairs = [(_plain(n), _plain(o)) for n, o in zip(call.arg_types, before.arg_types, strict=True)]
    same_type = _plain(call.type) == _plain(before.type)
    if all(new == old for new, old in pairs):
        return same_type
    if not all(widens(new, old) for new, old in pairs):
        return False
    if call.function == "COUNT" or call.function in _PASSED_ON:
        return same_type or widens(call.type, before.type)
    if call.function == "AVG" and all(_integers(new, old) for new, old in pairs):
        # Cut toward zero, it fits into the type of what it is the average of.
        return _integers(call.type, before.type)
    exact = all(not new.is_approximate for new, _ in pairs)
    return exact and same_type and call.function in ("SUM", "$SUM0", "AVG", "LISTAGG")


class _Comparing:
    """Expressions over columns that are those of a saved node: `new` and `old` say which, by position."""

    def __init__(self, new: Columns, old: Columns) -> None:
        self._new = new
        self._old = old

    def same(self, new: Any, old: Any) -> bool:
        """Whether two expressions (or lists or parts of them) give the same value for every row."""
        if isinstance(new, tuple) and isinstance(old, tuple):
            return len(new) == len(old) and all(self.same(n, o) for n, o in zip(new, old, strict=True))
        if isinstance(new, DataType) and isinstance(old, DataType):
            return _plain(new) == _plain(old)
        if isinstance(new, InputRef):
            return self._same_column(new, old)
        if type(new) is not type(old):
            return False
        match new:
            case Literal():
                return _same_constant(new, old)
            case Cast():
                return new.safe == old.safe and self._same_cast(new, old)
            case Call():
                return self._same_call(new, old)
            case Case():
                parts = self.same(new.branches, old.branches) and self.same(new.otherwise, old.otherwise)
                return parts and widens(new.type, old.type)
            case InList():
                return self.same(new.value, old.value) and self.same(new.items, old.items)
            case Node():
                return all(
                    self.same(getattr(new, f.name), getattr(old, f.name)) for f in node_fields(new) if f.name != "span"
                )
            case _:
                return type(new) is type(old) and bool(new == old)

    def _same_column(self, new: InputRef, old: Any) -> bool:
        if isinstance(old, Cast) and not old.safe and isinstance(old.value, InputRef):
            # What was cast to the wider type is of that type now.
            return _plain(new.type) == _plain(old.type) and self._same_column(new, old.value)
        if not isinstance(old, InputRef):
            return False
        column = self._new[new.index]
        return column is not None and column == self._old[old.index] and widens(new.type, old.type)

    def _same_cast(self, new: Cast, old: Cast) -> bool:
        if not self.same(new.value, old.value):
            return False
        if _plain(new.type) != _plain(old.type):
            # Wider by what nothing was lost before.
            return widens(new.type, old.type) and _holds(old.type, old.value.type)
        # A FLOAT and the DOUBLE of the same value have other texts.
        return _plain(new.value.type) == _plain(old.value.type) or not new.value.type.is_approximate

    def _same_call(self, new: Call, old: Call) -> bool:
        if new.function != old.function or not self.same(new.args, old.args):
            return False
        if [_plain(a.type) for a in new.args] == [_plain(a.type) for a in old.args]:
            return _plain(new.type) == _plain(old.type)
        return new.function in _COMPARISONS and not any(a.type.is_approximate for a in new.args)


def widens(new: DataType, old: DataType) -> bool:
    """Whether every value of the old type is the same value of the new one: equal types, integers of more bytes, longer
    VARCHAR, DECIMAL with more digits before the point, DOUBLE for FLOAT."""
    new, old = _plain(new), _plain(old)
    if new == old:
        return True
    if new.time_attribute is not old.time_attribute:
        return False
    if _integers(new, old):
        return _INTEGERS.index(new.root) > _INTEGERS.index(old.root)
    if new.root is not old.root:
        return (new.root, old.root) == (TypeRoot.DOUBLE, TypeRoot.FLOAT)
    if new.root is TypeRoot.VARCHAR:
        return new.precision > old.precision
    return new.root is TypeRoot.DECIMAL and new.scale == old.scale and new.precision > old.precision


def _holds(type_: DataType, values: DataType) -> bool:
    """Whether a cast to a type keeps all values of another."""
    if widens(type_, values):
        return True
    if type_.root is not TypeRoot.DECIMAL:
        return False
    whole = type_.precision - type_.scale
    if values.root is TypeRoot.DECIMAL:
        return type_.scale >= values.scale and whole >= values.precision - values.scale
    return values.root in _INTEGERS and whole >= _DIGITS[values.root]


def _read_alike(table: SourceTable, new: DataType, old: DataType) -> bool:
    return widens(new, old) and isinstance(table, SupportsTypeWidening) and table.preserves_values(new, old)


def _same_constant(new: Literal, old: Literal) -> bool:
    if type(new.value) is not type(old.value) or new.value != old.value:
        return False
    return _plain(new.type) == _plain(old.type) or widens(new.type, old.type)


def _integers(*types: DataType) -> bool:
    return all(t.root in _INTEGERS for t in types)


def _only_columns(projections: Sequence[Expr]) -> bool:
    return all(isinstance(p, InputRef) for p in projections)


def _known(columns: Columns) -> int:
    return sum(c is not None for c in columns)


def _index(columns: Columns, column: int | None) -> int | None:
    return None if column is None or column not in columns else columns.index(column)


def _table(described: Mapping[str, Any]) -> dict[str, Any]:
    """What a table says of itself, but for its columns and how it is read."""
    return {key: value for key, value in described.items() if key not in ("columns", "options")}


def _plain(type_: DataType) -> DataType:
    return type_.with_nullable(True)
