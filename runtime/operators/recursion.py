"""WITH RECURSIVE: the operators of a round, run round after round within one epoch, until nothing changes.

A row that goes through a round carries the number of its round as a column, so what comes out says to which round it
belongs. The rounds are data: the operators of a round (joins, projections, ...) keep the rows of all rounds at once, as
they keep any rows, and answer the changes of an epoch with changes of rows *of a round*. Those are taken in in ascending
order of rounds: when a round is looked at, all before it are final, since a row only gives rows of later rounds. Cost
follows the rows that change, or change their round.

UNION ALL counts rows by round: what comes out is the change of the next round as it is. UNION has each row once:
`round_members.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ExpressionError
from runtime.kernels.grow import grown
from runtime.operators.build import build_operator
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.round_members import RoundMembers
from runtime.plan.nodes import LoopInputExec, PhysicalNode, RecursiveExec
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable

__all__ = ["RecursiveOperator"]

Given = dict[int, ChangelogBatch]
"""Changes of the inputs of a round, by their numbers."""


class RecursiveOperator(Operator):
    """`RecursiveExec`: an epoch gives the difference of the query's rows.

    Raises:
        ExpressionError: E2022, more rounds than `most_rounds` give rows.
    """

    def __init__(self, node: RecursiveExec, context: OperatorContext) -> None:
        self._node = node
        self._types = [f.type.arrow for f in node.schema]
        self._body = _Body(node, context)
        self._feed_names = [*node.schema.names, "$step"]
        self._members = None if node.all else RoundMembers(node.schema, node.kept("rows"))

    @property
    def tables(self) -> Sequence[StateTable]:
        own = () if self._members is None else (self._members.table,)
        return (*own, *self._body.tables)

    def restored(self) -> None:
        self._body.restored()

    def close(self) -> None:
        self._body.close()

    @property
    def state_size(self) -> StateSize:
        own = () if self._members is None else (self._members.state_size,)
        return StateSize.total([*own, *self._body.state_sizes])

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        pending = _Pending(len(self._types))
        base = inputs[0]
        if base is not None and len(base):
            pending.add(0, base.columns, base.signs())
        given = {number: batch for number, batch in enumerate(inputs) if number and batch is not None and len(batch)}
        pending.add_rounds(self._body.run(given, time, begins=True))
        found: list[tuple[list[pa.Array], np.ndarray]] = []
        while (number := pending.first()) is not None:
            look()
            fed = self._round(number, pending, found)
            if fed is None:
                continue
            if number > self._node.most_rounds:
                raise _too_many(self._node)
            pending.add_rounds(self._body.run({0: fed}, time, begins=False))
        return self._output(found)

    def _round(
        self, number: int, pending: _Pending, found: list[tuple[list[pa.Array], np.ndarray]]
    ) -> ChangelogBatch | None:
        """Takes in what changes in a round; gives the changes that go into the next one."""
        columns, signs = pending.pop(number)
        if self._members is None:
            if columns is None:
                return None
            columns, signs = net(self._types, columns, signs)
            found.append((columns, signs))
            return self._fed(columns, np.full(len(signs), number, np.int64), signs)
        moves = self._members.apply(number, columns, signs)
        for waiting in self._members.waiting:
            pending.expect(waiting)
        if moves is None:
            return None
        shown = np.flatnonzero(moves.entered)
        if len(shown) == len(moves.signs):
            found.append((moves.columns, moves.entered))
        elif len(shown):
            found.append(([c.take(pa.array(shown)) for c in moves.columns], moves.entered[shown]))
        return self._fed(moves.columns, moves.rounds, moves.signs)

    def _fed(self, columns: list[pa.Array], rounds: np.ndarray, signs: np.ndarray) -> ChangelogBatch | None:
        if not len(signs):
            return None
        rows = pa.RecordBatch.from_arrays([*columns, pa.array(rounds)], names=self._feed_names)
        return ChangelogBatch.signed(rows, signs)

    def _output(self, found: list[tuple[list[pa.Array], np.ndarray]]) -> ChangelogBatch | None:
        """What the rounds have changed, added up."""
        found = [(columns, signs) for columns, signs in found if len(signs)]
        if not found:
            return None
        columns, signs = _stacked(found)
        columns, signs = net(self._types, columns, signs)
        if not len(signs):
            return None
        rows = pa.RecordBatch.from_arrays(columns, names=list(self._node.schema.names))
        return ChangelogBatch.signed(rows, signs)


class _Body:
    """The operators of a round."""

    def __init__(self, node: RecursiveExec, context: OperatorContext) -> None:
        self._nodes: list[PhysicalNode] = []
        self._operators: list[Operator | None] = []
        numbers: dict[PhysicalNode, int] = {}
        self._inputs: list[tuple[int, ...]] = []
        self.tables: list[StateTable] = []
        for prefix, inner in node.rounds():
            numbers[inner] = len(self._nodes)
            self._nodes.append(inner)
            self._inputs.append(tuple(numbers[source] for source in inner.inputs))
            operator = None if isinstance(inner, LoopInputExec) else build_operator(inner, context)
            self._operators.append(operator)
            for table in () if operator is None else operator.tables:
                table.name = prefix + table.name
                self.tables.append(table)

    @property
    def state_sizes(self) -> list[StateSize]:
        return [operator.state_size for operator in self._operators if operator is not None]

    def restored(self) -> None:
        for operator in self._operators:
            if operator is not None:
                operator.restored()

    def close(self) -> None:
        for operator in self._operators:
            if operator is not None:
                operator.close()

    def run(self, given: Given, time: EpochTime, *, begins: bool) -> ChangelogBatch | None:
        """What the changes of inputs cause. `begins`: for the first time in this epoch, when what follows time acts."""
        if not begins:
            time = replace(time, previous_watermark=time.watermark)
        outputs: list[ChangelogBatch | None] = []
        for node, operator, places in zip(self._nodes, self._operators, self._inputs, strict=True):
            if operator is None:
                assert isinstance(node, LoopInputExec)
                outputs.append(given.get(node.number))
                continue
            inputs = [outputs[place] for place in places]
            if not operator.takes_codes:
                inputs = [None if batch is None else batch.decoded() for batch in inputs]
            if all(batch is None for batch in inputs) and not (begins and node.acts_without_input):
                outputs.append(None)
                continue
            pieces: list[ChangelogBatch] = []
            for piece in operator.pieces(inputs, time):
                look()
                if len(piece):
                    pieces.append(piece)
            outputs.append(ChangelogBatch.concat(pieces) if pieces else None)
        last = outputs[-1]
        return None if last is None else last.decoded()


class _Pending:
    """Changes that wait for their round to be looked at."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._rounds: list[int] = []
        self._changes: dict[int, list[tuple[list[pa.Array], np.ndarray]]] = {}

    def first(self) -> int | None:
        """The first round that something waits for."""
        return self._rounds[0] if self._rounds else None

    def expect(self, number: int) -> None:
        """The round is to be looked at."""
        if number not in self._changes:
            self._changes[number] = []
            heapq.heappush(self._rounds, number)

    def add(self, number: int, columns: Sequence[pa.Array], signs: np.ndarray) -> None:
        self.expect(number)
        self._changes[number].append((list(columns), signs))

    def add_rounds(self, batch: ChangelogBatch | None) -> None:
        """Rows with the number of their round as last column."""
        if batch is None or not len(batch):
            return
        rounds = batch.column(self._width).to_numpy()
        first = int(rounds[0])
        if not (rounds != first).any():
            self.add(first, batch.columns[: self._width], batch.signs())
            return
        order = np.argsort(rounds, kind="stable")
        batch, rounds = batch.take(order), rounds[order]
        starts = np.flatnonzero(np.diff(rounds, prepend=rounds[0] - 1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(rounds)], strict=True):
            part = batch.slice(start, end - start)
            self.add(int(rounds[start]), part.columns[: self._width], part.signs())

    def pop(self, number: int) -> tuple[list[pa.Array] | None, np.ndarray]:
        """The changes of the first round, which is `number`."""
        heapq.heappop(self._rounds)
        changes = self._changes.pop(number)
        return _stacked(changes) if changes else (None, np.empty(0, np.int8))


def net(types: Sequence[pa.DataType], columns: list[pa.Array], signs: np.ndarray) -> tuple[list[pa.Array], np.ndarray]:
    """The same changes without those that cancel one another, those that take away first."""
    if (signs > 0).all():
        return columns, signs
    index = KeyIndex(types, exact=True)
    slots, is_new = index.insert(columns, len(signs))
    sums = grown(np.zeros(0, np.int64), index.capacity)
    np.add.at(sums, slots, signs)
    first = np.flatnonzero(is_new)
    left = sums[slots[first]]
    minus, plus = first[left < 0], first[left > 0]
    taken = np.concatenate((np.repeat(minus, -left[left < 0]), np.repeat(plus, left[left > 0])))
    kept = np.ones(len(taken), np.int8)
    kept[: int(-left[left < 0].sum())] = -1
    places = pa.array(taken)
    return [c.take(places) for c in columns], kept


def _stacked(changes: list[tuple[list[pa.Array], np.ndarray]]) -> tuple[list[pa.Array], np.ndarray]:
    if len(changes) == 1:
        return changes[0]
    columns = [pa.concat_arrays(parts) for parts in zip(*(columns for columns, _ in changes), strict=True)]
    return columns, np.concatenate([signs for _, signs in changes])


def _too_many(node: RecursiveExec) -> ExpressionError:
    return ExpressionError(
        f'the recursive query "{node.name}" gives rows in more than {node.most_rounds} rounds',
        code="E2022",
        hint="let a condition end it, write UNION instead of UNION ALL where rows come again, "
        "or SET 'sqlengine.recursion.max-rounds'",
    )
