"""ALTER MATERIALIZED TABLE .. REFRESH PARTITION: the rows of a partition are computed again, all others stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from connectors.memory import MemoryTable
from planner.logical.nodes import Filter
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import CatalogError, Span, UnsupportedError, did_you_mean
from runtime.eval.constant import fold_constant
from runtime.expr.nodes import Literal
from runtime.expr.rewrite import conjunction
from sqlengine.bind import BoundQuery
from sqlengine.bind.binder import bind_expression
from sqlengine.bind.construct import cast_explicitly
from sqlengine.bind.operators import comparison
from sqlengine.catalog.objects import MaterializedView, TableRefresh
from sqlengine.database.binding import Binding
from sqlengine.database.session import Session
from sqlengine.parse.ddl_nodes import PartitionSpec

__all__ = ["RefreshedPartition", "refreshed_partition"]


@dataclass(frozen=True)
class RefreshedPartition:
    """Rows of a table that are computed again: those that have these values, by the position of the column."""

    values: Mapping[int, Literal]
    span: Span

    def of(self, bound: BoundQuery) -> BoundQuery:
        """A query without the rows of other partitions."""
        columns = bound.plan.columns
        equal = [comparison("=", columns[at].ref(), value, self.span) for at, value in self.values.items()]
        return BoundQuery(Filter(bound.plan, conjunction(equal)), bound.names)

    def take_others(self, before: MemoryTable, contents: MemoryTable) -> None:
        """Give the contents of the partition, which are new, the rows of the others as they were."""
        rows = before.contents()
        inside = reduce(
            pc.and_kleene,
            [
                pc.equal(rows.column(at), pa.scalar(v.value, rows.schema.field(at).type))
                for at, v in self.values.items()
            ],
        )
        others = rows.filter(pc.invert(pc.fill_null(inside, False))).combine_chunks()
        contents.apply(*map(ChangelogBatch, others.to_batches()))


def refreshed_partition(
    table: MaterializedView, refresh: TableRefresh, partition: PartitionSpec, session: Session
) -> RefreshedPartition:
    """What a statement names.

    Raises:
        CatalogError: E1414, what is named is no partition column, or has no value.
        UnsupportedError: E1600, values of its type are not compared.
    """
    binding = Binding(session, False)
    names = [column.name for column in table.columns]
    values: dict[int, Literal] = {}
    for name, written in partition.values:
        if name.text not in refresh.partitioned_by:
            known = ", ".join(refresh.partitioned_by) or "none"
            raise CatalogError(
                f'"{name.text}" is no partition column of {table.path.name}',
                code="E1414",
                span=name.span,
                hint=did_you_mean(name.text, refresh.partitioned_by) or f"its partition columns: {known}",
            )
        at = names.index(name.text)
        kind = table.columns[at].type.materialized()
        if kind.is_unordered:
            raise UnsupportedError(
                f'the partition column "{name.text}" is {kind.with_nullable(True)}: its values are not compared',
                span=name.span,
                hint="REFRESH without PARTITION computes all rows again",
            )
        if written is None:
            raise CatalogError(
                f'the partition column "{name.text}" has no value',
                code="E1414",
                span=name.span,
                hint=f"write PARTITION ({name.text} = ..)",
            )
        bound = bind_expression(written.expression, (), binding, place=f'the partition "{name.text}"')
        value = fold_constant(
            cast_explicitly(bound, kind.with_nullable(True), False, name.span),
            binding.functions,
            binding.time_zone,
            binding.now,
        )
        if value.value is None:
            raise CatalogError(
                f'the partition column "{name.text}" is NULL, and NULL equals nothing',
                code="E1414",
                span=name.span,
                hint="REFRESH without PARTITION computes all rows again",
            )
        values[at] = value
    return RefreshedPartition(values, partition.span)
