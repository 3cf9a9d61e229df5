"""Repairs a stream whose upsert key is not the sink's key: of the rows that share a sink key one is shown, by the choice
of ON CONFLICT (reference 1.8).

Rows that come and go between two watermarks, in whatever order, never clash; where there is no watermark, and no end
either, within an epoch.
"""

from __future__ import annotations

import numpy as np

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, ChangelogBatch
from runtime.core.errors import ExpressionError
from runtime.operators.operator import Operator, OperatorContext
from runtime.operators.shown_rows import ShownRowsOperator
from runtime.operators.until_watermark import UntilWatermarkOperator
from runtime.plan.nodes import SinkMaterializeExec
from runtime.state.rows import Identity

__all__ = ["KeepFirstOfKeyOperator", "OneRowOfKeyOperator", "SinkMaterializeOperator", "sink_materialize_operator"]


def sink_materialize_operator(node: SinkMaterializeExec, context: OperatorContext) -> Operator:
    """The operator for what ON CONFLICT says."""
    match node.on_conflict:
        case "NOTHING":
            made: Operator = KeepFirstOfKeyOperator(node, context)
        case "ERROR":
            made = OneRowOfKeyOperator(node, context)
        case _:
            made = SinkMaterializeOperator(node, context)
    return UntilWatermarkOperator(made, node.kept("waiting")) if node.waits else made


class SinkMaterializeOperator(ShownRowsOperator[np.ndarray]):
    """DO DEDUPLICATE. State: per sink key its live rows in order of arrival. The last one before and after the epoch:

        none, row: +I      row, other row: +U      row, none: -D      the same row: nothing

    When the row that shows is taken back, the one before it shows again (Flink: SinkUpsertMaterializer).
    """

    def __init__(self, node: SinkMaterializeExec, context: OperatorContext) -> None:
        del context
        identity = Identity.FULL if node.unique is None else Identity.KEYED
        super().__init__(node, (), identity, node.unique or (), images=True)
        self._node = node

    def _shown(self, partitions: np.ndarray) -> np.ndarray:
        return self._one_each(partitions, last=True)

    def _difference(self, before: np.ndarray, after: np.ndarray) -> ChangelogBatch | None:
        differs = before != after
        if not differs.any():
            return None
        kinds = np.where(after < 0, DELETE, np.where(before < 0, INSERT, UPDATE_AFTER)).astype(np.int8)
        slots = np.where(after < 0, before, after)
        appends = self._node.mode.is_append_only
        return ChangelogBatch.of(
            self._rows.take(slots[differs]), self._node.schema, None if appends else kinds[differs]
        )


class KeepFirstOfKeyOperator(SinkMaterializeOperator):
    """DO NOTHING. State: per sink key the row that came first. Others are dropped for good: they do not come back when
    it goes, and their own end means nothing.

    The row keeps its place when it is updated: what tells rows apart is the key of the input (`unique`).
    """

    def _shown(self, partitions: np.ndarray) -> np.ndarray:
        return self._one_each(partitions, last=False)

    def _forget(self, changed: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        rows = self._rows
        gone = np.flatnonzero((before >= 0) & (before != after))
        if len(gone) and rows.replaced is not None:
            old, new = rows.replaced
            order = np.argsort(old)
            at = np.minimum(np.searchsorted(old[order], before[gone]), len(old) - 1)
            heirs = new[order][at]
            stays = (old[order][at] == before[gone]) & (rows.key[heirs] == rows.key[before[gone]])
            after[gone[stays]] = heirs[stays]
        keys = rows.key[after[after >= 0]]
        _, slots = rows.all(keys)
        others = np.setdiff1d(slots, after)
        if not len(others):
            return changed
        return np.union1d(changed, rows.take_away(others))


class OneRowOfKeyOperator(KeepFirstOfKeyOperator):
    """DO ERROR. State: per sink key its only row. Raises ExpressionError E2015 when changes leave more than one."""

    def _forget(self, changed: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        keys = self._rows.key[after[after >= 0]]
        totals, _ = self._rows.totals(keys)
        if (totals > 1).any():
            slot = after[after >= 0][totals > 1][:1]
            schema = self._node.schema
            values = [self._rows.take_column(p, slot)[0].as_py() for p in self._node.keys]
            key = ", ".join(f"{schema[p].name} = {value}" for p, value in zip(self._node.keys, values, strict=True))
            raise ExpressionError(
                f"rows of the query clash on the primary key: {int(totals[totals > 1][0])} have {key}",
                code="E2015",
                hint="ON CONFLICT DO NOTHING keeps the first of them, DO DEDUPLICATE the last",
            )
        return changed
