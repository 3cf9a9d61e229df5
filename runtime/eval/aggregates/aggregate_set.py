"""All aggregate calls of one operator over the same groups: filters, shared DISTINCT values, accumulators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.core.types import DataType
from runtime.eval.aggregates.accumulator import Accumulator
from runtime.eval.aggregates.distinct import DistinctValues
from runtime.eval.aggregates.factory import make_accumulator
from runtime.eval.aggregates.sums import Counter
from runtime.expr.function import FunctionRegistry
from runtime.plan.aggregate_state import call_names, distinct_name, is_distinct, sharing_distinct
from runtime.plan.nodes import AggregateSpec
from runtime.state.table import StateTable

__all__ = ["AggregateSet"]


class AggregateSet:
    """The states of several calls, addressed by the same group slots.

    Args:
        calls: the calls; equal ones share their state.
        types: the types of the input's columns.
        mergeable: `merge` will be used (panes, sessions), so DISTINCT keeps when values arrived.
        functions: those of the job.
    """

    def __init__(
        self,
        calls: Sequence[AggregateSpec],
        types: Sequence[DataType],
        mergeable: bool = False,
        functions: FunctionRegistry | None = None,
    ) -> None:
        self._calls = list(calls)
        self._states: dict[AggregateSpec, Accumulator] = {}
        for call in calls:
            if call not in self._states:
                self._states[call] = make_accumulator(call, [types[o.index] for o in call.order_by], functions)
        self._plain = [call for call in self._states if not is_distinct(call)]
        self._names = call_names(calls)
        self._distinct = [
            (
                sharing,
                DistinctValues([t.arrow for t in sharing[0].arg_types], len(sharing), mergeable, _retracts(sharing)),
            )
            for sharing in sharing_distinct(calls)
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
            look()
            inputs = [columns[i] for i in (*call.args, *(o.index for o in call.order_by))]
            mask = None if call.filter is None else masks[call.filter]
            state = self._states[call]
            if mask is None or mask.all():
                state.update(slots, signs, inputs, seqs)
            elif isinstance(state, Counter) and not inputs:
                # A row that is left out counts nothing: cheaper than to pick out the others.
                state.update(slots, mask.view(np.int8) if signs is None else signs * mask.view(np.int8), inputs, seqs)
            elif mask.any():
                chosen = pa.array(mask)
                state.update(
                    slots[mask], None if signs is None else signs[mask], [c.filter(chosen) for c in inputs], seqs[mask]
                )
        for sharing, values in self._distinct:
            look()
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
        """The tables of all state that is rows of its own, for groups that are the rows of a table. Called once:
        changes are noted in them from then on."""
        found = [table for call, state in self._states.items() for table in state.tables(self._names[call], groups)]
        for sharing, values in self._distinct:
            found.append(values.keep_in(distinct_name(sharing[0]), [self._names[call] for call in sharing], groups))
        return found

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Name and type of every value that is saved of a group."""
        return [
            (f"{self._names[call]} {column}", type_)
            for call, state in self._states.items()
            for column, type_ in state.columns()
        ]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        """The `columns` of groups."""
        return [column for state in self._states.values() for column in state.save(slots)]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        """Sets groups that are empty now to what `save` gave."""
        rest = iter(columns)
        for state in self._states.values():
            state.restore(slots, [next(rest) for _ in state.columns()])

    def results(self, slots: np.ndarray) -> list[pa.Array]:
        """One column per call, a value per slot."""
        made: dict[AggregateSpec, pa.Array] = {}
        for call, state in self._states.items():
            look()
            made[call] = state.result(slots)
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
                # With DISTINCT the keys of ORDER BY are among the arguments.
                inputs = [*columns, *(columns[call.args.index(o.index)] for o in call.order_by)]
                self._states[call].update(
                    slots[rows], None if (signs > 0).all() else signs, [c.take(take) for c in inputs], seqs[rows]
                )


def _retracts(sharing: Sequence[AggregateSpec]) -> bool:
    return any(call.retract for call in sharing)
