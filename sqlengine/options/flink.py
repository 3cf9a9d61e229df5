"""Options of Flink that the engine does not have: those that change nothing here, and those that it must refuse because
answers would depend on them.

    noted_option("table.exec.mini-batch.size", "5000")    # "... changes nothing here: ..."
    noted_option("table.exec.legacy-cast-behaviour", "enabled")    # OptionError E1513
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from runtime.core.errors import OptionError

__all__ = ["FLINK_OPTIONS", "noted_option"]


class _Refused(NamedTuple):
    """An option with one meaning here: `values` that say it, the `reason` against others, and what to do instead."""

    values: tuple[str, ...]
    reason: str
    instead: str


_REFUSED: Mapping[str, _Refused] = {
    "table.exec.legacy-cast-behaviour": _Refused(
        ("disabled",), "a CAST that fails is an error here, as in Flink since 1.15", "TRY_CAST gives NULL instead"
    ),
    "table.exec.sink.type-length-enforcer": _Refused(
        ("ignore",), "texts are written as long as they are", "CAST(column AS VARCHAR(n)) cuts a text, CHAR(n) pads it, too"
    ),
    "table.exec.sink.nested-constraint-enforcer": _Refused(
        ("ignore",), "NOT NULL is checked of whole columns", "leave rows out with WHERE"
    ),
    "table.column-expansion-strategy": _Refused(
        ("", "[]"), "SELECT * gives all columns of a table", "name the columns that you want"
    ),
    "table.sql-dialect": _Refused(("default",), "the language is Flink SQL", "leave it out"),
    "table.builtin-catalog-name": _Refused(
        ("default_catalog",), "the first catalog is default_catalog", "CREATE CATALOG and USE CATALOG make and choose another"
    ),
    "table.builtin-database-name": _Refused(
        ("default_database",), "the first database is default_database", "CREATE DATABASE and USE make and choose another"
    ),
    "table.legacy-nested-row-nullability": _Refused(
        ("false",), "fields of rows keep their own nullability", "leave it out"
    ),
    "table.exec.disabled-operators": _Refused(
        ("",), "the planner chooses the operators", "SET 'optimizer.disabled_rules' leaves out rules"
    ),
    "table.plan.restore.catalog-objects": _Refused(
        ("all", "identifier"), "a compiled plan names its tables, and only the catalog says where they are",
        "create the tables before EXECUTE PLAN"
    ),
    "execution.checkpointing.mode": _Refused(
        ("exactly_once", "exactly-once", "at_least_once", "at-least-once"),
        "state is exactly once",
        "leave it out",
    ),
}  # fmt: skip

_EPOCHS = "the changes of an epoch are taken together"
_MEMORY = "operators keep no such buffers"
_CLUSTER = "jobs run in this process, or on Spark, which has options of its own"
_CHECKPOINTS = "a checkpoint is the boundary of an epoch: nothing waits for barriers, and the last ones are kept"
_CATALOG = "a compiled plan names its tables, and the catalog has their options"
_PLANS = "plans are kept with checkpoints, and state is found by what operators compute"

_WITHOUT_EFFECT: Mapping[str, str] = {
    "table.exec.mini-batch.": _EPOCHS,
    "table.exec.deduplicate.": _EPOCHS,
    "table.exec.async-": "the changes of an epoch are taken together",
    "table.exec.rank.": _MEMORY,
    "table.exec.resource.": "'parallelism.default' divides operators into tasks",
    "table.exec.sort.": _MEMORY,
    "table.exec.spill-compression.": _MEMORY,
    "table.exec.local-hash-agg.": _MEMORY,
    "table.exec.window-agg.": _MEMORY,
    "table.exec.uid.": _PLANS,
    "table.exec.interval-join.": "rows are dropped as soon as the watermark allows it",
    "table.exec.operator-fusion-codegen.": "no code is generated",
    "table.exec.simplify-operator-name-enabled": "operators are named by what they compute",
    "table.exec.sink.keyed-shuffle": "changes of a key reach the sink in order",
    "table.exec.sink.rowtime-inserter": "rows carry no timestamp beside their columns",
    "table.exec.sink.upserts.": "rows of a key are kept in order of arrival",
    "table.exec.unbounded-over.": "there is one implementation",
    "table.generated-code.": "no code is generated",
    "table.rtas-ctas.": "a CREATE TABLE AS that fails changes nothing",
    "table.catalog": "catalogs are kept where CREATE CATALOG says",
    "table.display.": "'sql-client.display.max-column-width' says how wide columns are drawn",
    "table.optimizer.": "the optimizer here is another one; no answer depends on it",
    "table.plan.compile.": _CATALOG,
    "table.plan.restore.": _CATALOG,
    "table.resources.": "there is no JVM",
    "execution.checkpointing.": _CHECKPOINTS,
    "execution.": _CLUSTER,
    "state.": "state is in memory, or in RocksDB with 'state.backend.type' = 'rocksdb'; docs/options.md lists what there is",
    "pipeline.": _CLUSTER,
    "parallelism.": _CLUSTER,
    "restart-strategy": "docs/options.md lists the options of restarts",
    "sql-client.": "docs/options.md lists the options of the shell",
    "client.": _CLUSTER,
    "cluster.": _CLUSTER,
    "jobmanager.": _CLUSTER,
    "taskmanager.": _CLUSTER,
    "metrics.": _CLUSTER,
    "rest.": _CLUSTER,
}
"""By key, or by how keys begin: why nothing depends on it. The first that fits counts."""

_NAMES = """
client.timeout execution.attached execution.buffer-timeout.enabled execution.buffer-timeout.interval
execution.batch-shuffle-mode execution.batch.adaptive.auto-parallelism.enabled
execution.checkpointing.aligned-checkpoint-timeout execution.checkpointing.checkpoints-after-tasks-finish
execution.checkpointing.cleaner.parallel-mode execution.checkpointing.data-inline-threshold
execution.checkpointing.externalized-checkpoint-retention execution.checkpointing.file-merging.enabled
execution.checkpointing.incremental execution.checkpointing.interval-during-backlog
execution.checkpointing.local-backup.enabled execution.checkpointing.max-concurrent-checkpoints
execution.checkpointing.storage execution.checkpointing.timeout execution.checkpointing.unaligned.enabled
execution.checkpointing.unaligned.forced execution.job-listeners execution.shutdown-on-attached-exit
execution.shutdown-on-application-finish execution.sorted-inputs.enabled execution.state-recovery.claim-mode
execution.state-recovery.from-local execution.savepoint-restore-mode parallelism.max pipeline.auto-generate-uids
pipeline.auto-watermark-interval pipeline.cached-files pipeline.classpaths pipeline.closure-cleaner-level
pipeline.force-avro pipeline.force-kryo pipeline.generic-types pipeline.jars
pipeline.max-parallelism pipeline.object-reuse pipeline.operator-chaining.enabled pipeline.serialization-config
pipeline.vertex-description-mode pipeline.watermark-alignment.allow-unaligned-source-splits restart-strategy
sql-client.execution.max-table-result.rows state.backend state.backend.incremental state.backend.local-recovery
state.backend.rocksdb.memory.managed state.backend.rocksdb.predefined-options state.checkpoint-storage
state.checkpoints.dir state.checkpoints.num-retained state.savepoints.dir table.exec.async-lookup.key-ordered-enabled
table.exec.deduplicate.insert-update-after-sensitive-enabled
table.exec.deduplicate.mini-batch.compact-changes-enabled table.exec.interval-join.min-cleanup-interval
table.exec.local-hash-agg.adaptive.enabled table.exec.mini-batch.allow-latency table.exec.mini-batch.enabled
table.exec.mini-batch.size table.exec.operator-fusion-codegen.enabled table.exec.rank.topn-cache-size
table.exec.resource.default-parallelism table.exec.simplify-operator-name-enabled table.exec.sink.keyed-shuffle
table.exec.sink.rowtime-inserter table.exec.sort.async-merge-enabled table.exec.sort.default-limit
table.exec.sort.max-num-file-handles table.exec.spill-compression.block-size table.exec.spill-compression.enabled
table.exec.uid.format table.exec.uid.generation table.exec.unbounded-over.version
table.exec.window-agg.buffer-size-limit table.generated-code.max-length
table.optimizer.adaptive-broadcast-join.strategy table.optimizer.agg-phase-strategy
table.optimizer.bushy-join-reorder-threshold
table.optimizer.distinct-agg.split.bucket-num table.optimizer.distinct-agg.split.enabled
table.optimizer.dynamic-filtering.enabled table.optimizer.incremental-agg-enabled
table.optimizer.join-reorder-enabled table.optimizer.join.broadcast-threshold
table.optimizer.multiple-input-enabled table.optimizer.reuse-optimize-block-with-digest-enabled
table.optimizer.reuse-sink-enabled table.optimizer.reuse-source-enabled table.optimizer.reuse-sub-plan-enabled
table.optimizer.runtime-filter.enabled table.optimizer.skewed-join.strategy
table.optimizer.source.predicate-pushdown-enabled table.optimizer.source.report-statistics-enabled
table.optimizer.union-all-as-breakpoint-enabled table.plan.compile.catalog-objects
table.plan.restore.catalog-objects table.resources.download-dir table.rtas-ctas.atomicity-enabled
"""
FLINK_OPTIONS = frozenset(_NAMES.split()) | frozenset(_REFUSED)
"""Options of Flink by name, to tell them from misspelt ones."""


def noted_option(key: str, value: str) -> str | None:
    """What to say of an option of Flink that changes nothing here, "" for a value that says what the engine does; None
    for a key that is none.

    Raises OptionError E1513 for a value that means something else than what the engine does.
    """
    refused = _REFUSED.get(key)
    if refused is not None:
        if value.strip().lower() not in refused.values:
            raise OptionError(
                f"option '{key}' cannot be '{value}': {refused.reason}", code="E1513", hint=refused.instead
            )
        return ""
    for begin, reason in _WITHOUT_EFFECT.items():
        if key.startswith(begin):
            return f"option '{key}' changes nothing here: {reason}"
    return None
