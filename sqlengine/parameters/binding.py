"""The values of a statement's parameters while it is bound, planned and carried out.

A parameter has the type of its place: of the column that it is compared with or inserted into, of the argument that it
is, of the CAST around it. Where its place says none, or its value is none of that type, it has the type of the value,
as a literal has. So a statement may be bound twice: once to ask the places, and once more with the types of the values
where the places say nothing that fits.

The plan holds `Parameter` nodes until the values take their places as literals that are shown as `$1`: before the
rules of the planner for a statement that is carried out once, in the physical plan for one that is prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from planner.logical.nodes import LogicalNode
from runtime.core.errors import BindError, Span, SqlEngineError, TypeMismatchError
from runtime.core.given_values import hide_given
from runtime.core.node import Node, node_fields
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, NULL, STRING, DataType, TypeRoot, timestamp_ltz
from runtime.eval.constant import literal_value
from runtime.expr.nodes import Column, Expr, Literal, Parameter
from runtime.expr.typing import common_type
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.objects import ObjectPath
from sqlengine.parameters.values import as_column, type_of

__all__ = ["Key", "Parameters", "Slot", "parameters_in", "rewritten", "shown", "told_at"]

_N = TypeVar("_N")
_P = TypeVar("_P", bound=LogicalNode)

_MOMENT = timestamp_ltz(6)
Key = int | str
"""The number of a parameter, from 1, or its name."""

_SEARCHED = 1000
"""Of so many values of a parameter the texts are looked for in messages."""

Slot = tuple[Key, DataType]
"""A parameter in a place of a type."""


class KeptPlans(Protocol):
    """What was made of a prepared statement, to be used again with other values (`statements.prepared_plans`)."""

    def query(self, session: Any, parameters: Parameters, plan: Callable[[], Any]) -> Any:
        """The plan of a query for the values: one that was made before, or one that `plan` makes."""
        ...

    def find(self, session: Any, parameters: Parameters) -> Any:
        """What was kept for such values; None when there is none."""
        ...

    def keep(self, made: Any, session: Any, parameters: Parameters, rows: dict[str, int] | None = None) -> None:
        """Remember what was made from the statement as bound last."""
        ...


@dataclass
class Parameters:
    """The parameters of one statement. `columns`: plain values of each, one for each time that the statement is to be
    carried out (an INSERT takes many at once); None while it is only prepared.

    `told`: the types that whoever prepares it says they have, taken where places say none and the values are of them;
    `given`: the types that values have told, where places do not; `counts`: the values that LIMIT, OFFSET and, of the
    `moments`, AS OF have taken into the plan.
    """

    keys: tuple[Key, ...]
    columns: Mapping[Key, Sequence[Any]] | None
    places: Mapping[Key, Span | None] = field(default_factory=dict)
    """Where each stands first."""
    plans: KeptPlans | None = None
    """Plans to use again, of a statement that is prepared."""
    keeps_places: bool = False
    """Whether the plan is to keep `Parameter` nodes, so that it holds for other values, too."""
    told: Mapping[Key, DataType] = field(default_factory=dict)
    given: dict[Key, DataType] = field(default_factory=dict)
    counts: dict[Key, object] = field(default_factory=dict)
    moments: set[Key] = field(default_factory=set)
    slots: list[Slot] = field(default_factory=list)
    read: list[tuple[ObjectPath, CatalogObject]] = field(default_factory=list)
    _asks: bool = True
    _bound: dict[Key, set[int]] = field(default_factory=dict)
    _columns: dict[Slot, Any] = field(default_factory=dict)
    _own: dict[Key, DataType] = field(default_factory=dict)

    # --- for the binder

    def expression(self, key: Key, span: Span | None) -> Expr:
        """See `ParameterValues`."""
        self._bound.setdefault(key, set()).add(-1 if span is None else span.start)
        type_ = self.given.get(key, NULL)
        if type_.root is TypeRoot.NULL and key in self.given:
            return Literal(None, NULL)
        return Parameter(key, type_, span)

    @property
    def asks(self) -> bool:
        """See `ParameterValues`."""
        return self._asks

    def count(self, key: Key, word: str, span: Span | None) -> int | None:
        """See `ParameterValues`."""
        if self.columns is None:
            self.counts[key] = None
            return 1
        (value,) = self.columns[key]
        if value is not None and (type(value) is not int or value < 0):
            raise BindError(
                f"{word} takes a whole number that is not negative, or NULL",
                code="E1219",
                span=span,
                hint="give an int",
            )
        self.counts[key] = value
        return value

    def moment(self, key: Key, otherwise: object) -> object:
        """See `ParameterValues`."""
        self.moments.add(key)
        if self.columns is None:
            self.counts[key] = None
            return otherwise
        (self.counts[key],) = self.columns[key]
        return self.counts[key]

    # --- for the planner

    def typed(self, bind: Callable[[], _P]) -> _P:
        """What `bind` gives, with a type for each parameter.

        Raises what `bind` raises; TypeMismatchError E1330 for values of a kind that no type has.
        """
        self.given.clear()
        self._asks = True
        while True:
            self._bound.clear()
            self.counts.clear()
            try:
                made = bind()
            except TypeMismatchError as error:
                if not self._tell(dict.fromkeys(self._bound)) and not (error.code == "E1306" and self._tell_text()):
                    raise
                self._asks = False
                continue
            if not self._tell(self._open(made)):
                if not self._asks or all(c.type.root is not TypeRoot.NULL for c in made.columns):
                    break
            self._asks = False
        self.slots = list(dict.fromkeys((p.key, p.type) for p in parameters_in(made)))
        return made

    @property
    def count_of_rows(self) -> int:
        """How many values each parameter has: how often the statement is to be carried out."""
        return 1 if not self.columns else len(next(iter(self.columns.values())))

    def filled(self, plan: _N, change: Callable[[Node], Node] | None = None) -> _N:
        """The plan with values in the places of parameters; `change` may take the place of other nodes."""
        found: dict[Slot, Literal] = {}

        def value(node: Node) -> Node:
            if not isinstance(node, Parameter):
                return node if change is None else change(node)
            literal = found.get((node.key, node.type))
            if literal is None:
                (scalar,) = self.column((node.key, node.type))
                literal = Literal(literal_value(scalar, node.type), node.type, node.shown)
                found[node.key, node.type] = literal
            return literal

        return rewritten(plan, value)

    def fits(self, slots: Sequence[Slot], given: Mapping[Key, DataType], counts: Mapping[Key, object]) -> bool:
        """Whether a plan that was made for other values holds for these."""
        assert self.columns is not None
        return (
            all(type_ == self.type_of(key) for key, type_ in given.items())
            and all(type(c := self.columns[key][0]) is type(count) and c == count for key, count in counts.items())
            and all(self._column(slot) is not None for slot in slots)
        )

    def column(self, slot: Slot) -> pa.Array:
        """The values of a parameter in a type that they are of."""
        found = self._column(slot)
        assert found is not None
        return found

    def _column(self, slot: Slot) -> pa.Array | None:
        assert self.columns is not None
        found = self._columns.get(slot, self)
        if found is self:
            found = self._columns[slot] = as_column(self.columns[slot[0]], slot[1])
        return found

    def type_of(self, key: Key) -> DataType:
        """The type that is told of the values, or that they have by themselves; STRING as long as there are none."""
        told = self.told.get(key)
        if self.columns is None:
            return told or STRING
        if told is not None and self._is_of(key, told):
            return told
        found = self._own.get(key)
        if found is None:
            try:
                found = type_of(self.columns[key])
                if as_column(self.columns[key], found) is None:
                    raise TypeMismatchError(
                        f"the value has no form as {found}",
                        code="E1330",
                        hint="an INTERVAL has milliseconds, a time no zone, a text no lone surrogates",
                    )
            except TypeMismatchError as error:
                raise told_at(error, key, self.places.get(key)) from None
            self._own[key] = found
        return found

    def _open(self, plan: Any) -> dict[Key, DataType | None]:
        """The parameters for which the plan has no type that fits, with the type to take where that is known."""
        typed: dict[Key, dict[int, DataType]] = {}
        for parameter in parameters_in(plan):
            if parameter.type.root is not TypeRoot.NULL:
                at = -1 if parameter.span is None else parameter.span.start
                typed.setdefault(parameter.key, {})[at] = parameter.type
        found: dict[Key, DataType | None] = {}
        for key, places in self._bound.items():
            types = typed.get(key, {})
            common = common_type(set(types.values())) if types else None
            if not places <= types.keys():
                found[key] = common if common is not None and self._is_of(key, common) else None
            elif not all(self._is_of(key, type_) for type_ in types.values()):
                found[key] = None
        return found

    def _is_of(self, key: Key, type_: DataType) -> bool:
        return self.columns is None or self._column((key, type_)) is not None

    def _tell(self, keys: Mapping[Key, DataType | None]) -> bool:
        """Give these parameters a type, those of their values where none is said; whether that changes anything."""
        changed = False
        for key, type_ in keys.items():
            if key not in self.given:
                self.given[key] = type_ or self.type_of(key)
                changed = True
        return changed

    def _tell_text(self) -> bool:
        """A NULL that is given, and whose type nothing says, is a text."""
        untyped = [key for key, type_ in self.given.items() if type_.root is TypeRoot.NULL]
        self.given.update(dict.fromkeys(untyped, STRING))
        return bool(untyped)

    # --- for people

    def types(self) -> tuple[DataType, ...]:
        """The type of each parameter, in the order of `keys`: where it stands in several places, one for all."""
        found: dict[Key, DataType] = {k: _MOMENT if k in self.moments else BIGINT for k in self.counts}
        for key, type_ in self.slots:
            merged = common_type((found[key], type_)) if key in found else type_
            found[key] = merged if merged is not None else found[key]
        return tuple(found.get(key) or self.type_of(key) for key in self.keys)

    def masked(self, error: SqlEngineError) -> SqlEngineError:
        """The error with the names of parameters in the places of their texts."""
        columns = (self.columns or {}).items()
        texts = {(v, shown(key)) for key, values in columns for v in values[:_SEARCHED] if isinstance(v, str)}
        return hide_given(error, texts)


def told_at(error: SqlEngineError, key: Key, place: Span | None) -> SqlEngineError:
    """An error about a value, told of its parameter."""
    error.message = f"{shown(key)}: {error.message}"
    error.args, error.span = (error.message,), place
    return error


def shown(key: Key) -> str:
    """A parameter as it is named in messages."""
    return f"${key}" if isinstance(key, int) else f":{key}"


def parameters_in(thing: Any) -> list[Parameter]:
    """The parameters in a plan or expression."""
    found: list[Parameter] = []

    def note(node: Node) -> Node:
        if isinstance(node, Parameter):
            found.append(node)
        return node

    rewritten(thing, note)
    return found


_LEAVES = (DataType, Schema, Column)


def rewritten(thing: _N, change: Callable[[Node], Node]) -> _N:
    """A plan with `change` applied to every node in it, leaves first, once to each; the same object when nothing has
    changed."""
    done: dict[int, tuple[Any, Any]] = {}

    def whole(part: Any) -> Any:
        if isinstance(part, tuple):
            new = tuple(whole(p) for p in part)
            return part if all(a is b for a, b in zip(new, part, strict=True)) else new
        if not isinstance(part, Node) or isinstance(part, _LEAVES):
            return part
        found = done.get(id(part))
        if found is None:
            changes: dict[str, Any] = {}
            for f in node_fields(part):
                old = getattr(part, f.name)
                if isinstance(old, tuple | Node) and (new := whole(old)) is not old:
                    changes[f.name] = new
            found = done[id(part)] = part, change(part.with_(**changes) if changes else part)
        return found[1]

    return whole(thing)
