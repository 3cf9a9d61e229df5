"""The physical plan: how a query runs. Data only: positional expressions, chosen algorithms, output schema and
changelog mode.

Every node knows its `inputs`, the `schema` of its output and the `mode` (row kinds) it emits. Expressions refer to the
input's columns with `InputRef`; two-input nodes refer to left columns first, then right columns. Two equal subtrees of
a plan are one shared operator.
Times are milliseconds since the epoch; lengths of time are milliseconds.

The classes stand by family in files of their own; each is the one description of its operator (`runtime/plan/base.py`).
"""

from __future__ import annotations

from runtime.plan.aggregate_nodes import GroupAggregateExec, OverAggregateExec
from runtime.plan.base import PhysicalNode
from runtime.plan.join_nodes import (
    AsofJoinExec,
    CurrentJoinExec,
    HashJoinExec,
    IntervalJoinExec,
    MultiJoinExec,
    TemporalJoinExec,
)
from runtime.plan.key_nodes import (
    ChangelogNormalizeExec,
    DeduplicateExec,
    FinalRowsExec,
    LimitExec,
    RememberExec,
    SetOperationExec,
    SortExec,
    TopNExec,
)
from runtime.plan.loop_nodes import DuckDBExec, LoopInputExec, RecursiveExec
from runtime.plan.match_nodes import MatchExec
from runtime.plan.parts import AggregateSpec, JoinKind, RankFunction, SortSpec, WindowProperty
from runtime.plan.process_nodes import ProcessTablesExec, VectorSearchExec
from runtime.plan.row_nodes import (
    CalcExec,
    DropUpdateBeforeExec,
    ExpandExec,
    FromChangelogExec,
    RejectingCalcExec,
    SinkExec,
    SinkMaterializeExec,
    SourceExec,
    ToChangelogExec,
    UnionExec,
    UnnestExec,
    ValuesExec,
    WatermarkExec,
)
from runtime.plan.snapshot_nodes import DeltaJoinExec, LookupJoinExec, SnapshotJoinExec
from runtime.plan.time_filter_nodes import TimeBound, TimeFilterExec
from runtime.plan.window_nodes import WindowAggregateExec, WindowJoinExec, WindowTableExec, WindowTopNExec

__all__ = [
    "AggregateSpec",
    "AsofJoinExec",
    "CalcExec",
    "RejectingCalcExec",
    "ChangelogNormalizeExec",
    "CurrentJoinExec",
    "DeduplicateExec",
    "DeltaJoinExec",
    "DropUpdateBeforeExec",
    "DuckDBExec",
    "ExpandExec",
    "FinalRowsExec",
    "FromChangelogExec",
    "GroupAggregateExec",
    "HashJoinExec",
    "IntervalJoinExec",
    "JoinKind",
    "LimitExec",
    "LookupJoinExec",
    "LoopInputExec",
    "MatchExec",
    "MultiJoinExec",
    "OverAggregateExec",
    "PhysicalNode",
    "ProcessTablesExec",
    "RankFunction",
    "RecursiveExec",
    "RememberExec",
    "SetOperationExec",
    "SinkExec",
    "SnapshotJoinExec",
    "SinkMaterializeExec",
    "SortExec",
    "SortSpec",
    "SourceExec",
    "TemporalJoinExec",
    "TimeBound",
    "TimeFilterExec",
    "ToChangelogExec",
    "TopNExec",
    "UnionExec",
    "UnnestExec",
    "ValuesExec",
    "VectorSearchExec",
    "WatermarkExec",
    "WindowAggregateExec",
    "WindowJoinExec",
    "WindowProperty",
    "WindowTableExec",
    "WindowTopNExec",
]
