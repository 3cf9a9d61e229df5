"""All aggregate calls of one operator over the same groups: filters, shared DISTINCT values, accumulators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.errors import UnsupportedError
from runtime.core.types import DataType
from runtime.eval.aggregates.accumulator import Accumulator
from runtime.eval.aggregates.distinct import DistinctValues
from runtime.eval.aggregates.factory import make_accumulator
from runtime.plan.nodes import AggregateSpec
from runtime.state.table import StateTable

__all__ = ["AggregateSet"]

_IGNORES_DUPLICATES = frozenset({"MIN", "MAX"})


class AggregateSet:
    """The states of several calls, addressed by the same group slots.

    Args:
        calls: the calls; equal ones share their state.
        types: the types of the input's columns.
        mergeable: `merge` will be used (panes, sessions), so DISTINCT keeps values readable.
    """

    def __init__(self, calls: Sequence[AggregateSpec], types: Sequence[DataType], mergeable: bool = False) -> None:
        self._calls = list(calls)
        self._states: dict[AggregateSpec, Accumulator] = {}
        for call in calls:
            if _is_distinct(call) and call.order_by:
                raise UnsupportedError(
                    f"{call.function} with DISTINCT and ORDER BY together", hint="leave one of them out"
                )
            if call not in self._states:
                self._states[call] = make_accumulator(call, [types[o.index] for o in call.order_by])
        self._plain = [call for call in self._states if not _is_distinct(call)]
        by_arguments: dict[tuple[int, ...], list[AggregateSpec]] = {}
        for call in self._states:
            if _is_distinct(call):
                by_arguments.setdefault(call.args, []).append(call)
        self._distinct = [
            (
                sharing,
                DistinctValues([t.arrow for t in sharing[0].arg_types], len(sharing), mergeable, _retracts(sharing)),
            )
            for sharing in by_arguments.values()
        ]

    @property
    def nbytes(self) -> int:
        return sum(s.nbytes for s in self._states.values()) + sum(d.nbytes for _, d in self._distinct)

    def update(
        self, slots: np.ndarray, signs: np.ndarray | None, columns: Sequence[pa.Array], seqs: np.ndarray
    ) -> None:
        """Takes in rows of the operator's input; see `Accumulator.update`."""
        masks: dict[int, np.ndarray] = {}
        for call in self._states:
            if call.filter is not None and call.filter not in masks:
                masks[call.filter] = columns[call.filter].fill_null(False).to_numpy(zero_copy_only=False)
        for call in self._plain:
            inputs = [columns[i] for i in (*call.args, *(o.index for o in call.order_by))]
            mask = None if call.filter is None else masks[call.filter]
            state = self._states[call]
            if mask is None or mask.all():
                state.update(slots, signs, inputs, seqs)
            elif mask.any():
                chosen = pa.array(mask)
                state.update(
                    slots[mask], None if signs is None else signs[mask], [c.filter(chosen) for c in inputs], seqs[mask]
                )
        for sharing, values in self._distinct:
            if _retracts(sharing):
                weight = np.ones(len(slots), np.int64) if signs is None else signs.astype(np.int64)
                weights = [
                    weight if call.filter is None else np.where(masks[call.filter], weight, 0) for call in sharing
                ]
            else:
                weights = [
                    np.ones(len(slots), np.bool_) if call.filter is None else masks[call.filter] for call in sharing
                ]
            self._change(sharing, values, slots, [columns[i] for i in sharing[0].args], seqs, weights)

    def tables(self, groups: StateTable) -> list[StateTable]:
        """The tables of all state that is rows of its own, for groups that are the rows of a table."""
        found: list[StateTable] = []
        for name, state in self._named_states():
            found += state.tables(name, groups)
        for name, values in zip(self._distinct_names(), self._distinct, strict=True):
            found += values[1].tables(name, groups)
        return found

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Name and type of every value that is saved of a group."""
        return [(f"{name} {c}", type_) for name, state in self._named_states() for c, type_ in state.columns()]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        """The `columns` of groups."""
        return [column for state in self._states.values() for column in state.save(slots)]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        """Sets groups that are empty now to what `save` gave."""
        rest = iter(columns)
        for state in self._states.values():
            state.restore(slots, [next(rest) for _ in state.columns()])

    def _named_states(self) -> list[tuple[str, Accumulator]]:
        return list(zip(_unique([_call_name(call) for call in self._states]), self._states.values(), strict=True))

    def _distinct_names(self) -> list[str]:
        return [f"values of {_arguments(sharing[0])}" for sharing, _ in self._distinct]

    def results(self, slots: np.ndarray) -> list[pa.Array]:
        """One column per call, a value per slot."""
        made = {call: state.result(slots) for call, state in self._states.items()}
        return [made[call] for call in self._calls]

    def release(self, slots: np.ndarray) -> None:
        """Empties groups (each slot once)."""
        for state in self._states.values():
            state.release(slots)
        for _, values in self._distinct:
            values.release(slots)

    def merge(self, targets: np.ndarray, other: AggregateSet, sources: np.ndarray) -> None:
        """Adds other's groups `sources` to `targets`, pairwise; `other` has the same calls and may be this object.

        A value that DISTINCT has already found in a target keeps its place in the order of arrival, though the source
        may have seen it earlier.
        """
        for call in self._plain:
            self._states[call].merge(targets, other._states[call], sources)
        for (sharing, values), (_, others) in zip(self._distinct, other._distinct, strict=True):
            index, entries = others.entries(sources)
            if len(entries):
                columns, seqs, weights = others.values(entries)
                order = np.argsort(seqs, kind="stable")
                take = pa.array(order)
                self._change(
                    sharing,
                    values,
                    targets[index[order]],
                    [c.take(take) for c in columns],
                    seqs[order],
                    [w[order] for w in weights],
                )

    def _change(
        self,
        sharing: list[AggregateSpec],
        values: DistinctValues,
        slots: np.ndarray,
        columns: list[pa.Array],
        seqs: np.ndarray,
        weights: list[np.ndarray],
    ) -> None:
        if len(slots) == 0:
            return
        for call, (rows, signs) in zip(sharing, values.change(slots, columns, seqs, weights), strict=True):
            if len(rows):
                take = pa.array(rows)
                self._states[call].update(
                    slots[rows], None if (signs > 0).all() else signs, [c.take(take) for c in columns], seqs[rows]
                )


def _call_name(call: AggregateSpec) -> str:
    distinct = "DISTINCT " if call.distinct else ""
    where = "" if call.filter is None else f" FILTER #{call.filter}"
    return f"{call.function}({distinct}{_arguments(call)}){where}"


def _arguments(call: AggregateSpec) -> str:
    return ", ".join(f"#{a}" for a in call.args) or "*"


def _unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    found: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return found


def _retracts(sharing: Sequence[AggregateSpec]) -> bool:
    return any(call.retract for call in sharing)


def _is_distinct(call: AggregateSpec) -> bool:
    name = call.function.upper()
    return name == "APPROX_COUNT_DISTINCT" or (call.distinct and name not in _IGNORES_DUPLICATES)
