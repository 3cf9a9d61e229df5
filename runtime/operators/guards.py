"""Checks around an operator: the laws of a changelog batch, on in all tests, so that no operator carries them.

1. The output has the node's schema (Arrow types) and only row kinds that the node's mode allows.
2. Folding the output never takes back a row that is not there (retract and append), or deletes a key that is not there
twice.
3. The operator has opened the state tables that its node declares, and no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.changelog import DELETE, KIND_NAMES, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import InternalError
from runtime.operators.operator import CacheFigures, EpochTime, Operator, StateSize
from runtime.plan.nodes import PhysicalNode, SinkExec

__all__ = ["GuardedOperator", "guarded", "undeclared"]


def guarded(operator: Operator, node: PhysicalNode) -> Operator:
    """The operator with the checks around it; sinks give nothing, so they stay as they are."""
    return operator if isinstance(node, SinkExec) else GuardedOperator(operator, node)


def undeclared(operator: Operator, node: PhysicalNode) -> list[str]:
    """How the tables of an operator differ from those that its node declares: by name, key, owner, or whether they are a
    figure of the whole operator."""
    declared = {t.name: (t.key_names, t.owner, t.figure) for t in node.state()}
    found: list[str] = []
    for task in operator.tasks:
        opened = {t.name: (list(t.key), "" if t.owner is None else t.owner.name, t.shared) for t in task.tables}
        found += [
            f"{name} is {opened.get(name)} and declared {declared.get(name)}"
            for name in sorted({*opened, *declared})
            if opened.get(name) != declared.get(name)
        ]
    return found


class GuardedOperator(Operator):
    """An operator whose every output is checked. Keeps all live rows as Python tuples: for tests, row by row on
    purpose."""

    def __init__(self, inner: Operator, node: PhysicalNode) -> None:
        self.inner = inner
        self._node = node
        self._live: Counter[str] = Counter()
        self._knows_all = True
        if differing := undeclared(inner, node):
            raise self._broken("; ".join(differing))

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        output = self.inner.step(self._given(inputs, time), time)
        if output is not None and len(output):
            self._check(output)
        return output

    @property
    def takes_codes(self) -> bool:
        return self.inner.takes_codes

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        for output in self.inner.pieces(self._given(inputs, time), time):
            self._check(output)
            yield output

    def takes_parts(self, position: int) -> bool:
        return self.inner.takes_parts(position)

    def part_pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        for output in self.inner.part_pieces(self._given(inputs, time), time):
            self._check(output)
            yield output

    def output_watermark(self, time: EpochTime) -> int:
        return self.inner.output_watermark(time)

    def next_timer(self) -> int | None:
        return self.inner.next_timer()

    @property
    def state_size(self) -> StateSize:
        return self.inner.state_size

    @property
    def cache_figures(self) -> CacheFigures | None:
        return self.inner.cache_figures

    @property
    def complete(self) -> bool:
        return self.inner.complete

    def close(self) -> None:
        self.inner.close()

    @property
    def tasks(self) -> Sequence[Operator]:
        return self.inner.tasks

    def restored(self) -> None:
        self.inner.restored()
        # What was sent before is not known here.
        self._knows_all = False

    def _broken(self, law: str) -> InternalError:
        return InternalError(
            f"{type(self.inner).__name__} broke a law: {law}",
            hint="this is a bug of the engine; please report the query",
        )

    def _check(self, output: ChangelogBatch) -> None:
        self._check_schema(output)
        self._check_kinds(output)
        if self._knows_all and not self._node.mode.is_upsert and not self._node.mode.key_only_deletes:
            self._check_fold(output)

    def _given(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Sequence[ChangelogBatch | None]:
        """The inputs, in every other epoch with their texts coded where the operator takes that."""
        return [None if b is None else _coded(b) for b in inputs] if self.takes_codes and time.epoch % 2 else inputs

    def _check_schema(self, output: ChangelogBatch) -> None:
        wanted = [f.type.arrow for f in self._node.schema]
        given = [
            t.value_type if self.takes_codes and pa.types.is_dictionary(t) else t for t in output.rows.schema.types
        ]
        if wanted != given:
            raise self._broken(f"columns {given} instead of {wanted}")

    def _check_kinds(self, output: ChangelogBatch) -> None:
        if output.kinds is None:
            return
        allowed = self._node.mode.kinds
        for kind in set(output.kinds.tolist()):
            if kind not in allowed:
                raise self._broken(f"{KIND_NAMES[kind]} where only {self._node.mode} may come")

    def _check_fold(self, output: ChangelogBatch) -> None:
        kinds = output.kinds_or_inserts().tolist()
        for kind, *row in zip(kinds, *(_cells(column) for column in output.columns), strict=True):
            key = repr(row)
            if kind in (UPDATE_BEFORE, DELETE):
                if self._live[key] <= 0:
                    raise self._broken(f"{KIND_NAMES[kind]} of a row that is not there: {key}")
                self._live[key] -= 1
                if not self._live[key]:
                    del self._live[key]
            else:
                self._live[key] += 1


def _coded(batch: ChangelogBatch) -> ChangelogBatch:
    """The batch with its texts as Arrow dictionaries, one value more in each than there is."""
    columns = [_with_codes(c) if pa.types.is_string(c.type) else c for c in batch.columns]
    return ChangelogBatch(pa.RecordBatch.from_arrays(columns, names=batch.rows.schema.names), batch.kinds)


def _with_codes(column: pa.Array) -> pa.Array:
    values = pc.unique(pa.concat_arrays([column.drop_null(), pa.array(["no value of a row"])]))
    return pa.DictionaryArray.from_arrays(pc.index_in(column, values), values)


def _cells(column: pa.Array) -> list[object]:
    """Values to compare rows by; Python has no timestamps with nanoseconds, so those are numbers."""
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
