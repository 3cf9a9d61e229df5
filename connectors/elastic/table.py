"""The connectors `elasticsearch-7` and `opensearch`: documents of an index, written by key, looked up and read."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from connectors.databases.options import GUARANTEE
from connectors.databases.writing import EpochWriter
from connectors.elastic.cluster import CLUSTER_OPTIONS, Cluster, read_cluster
from connectors.elastic.commits import ElasticCommits, ElasticDocuments
from connectors.elastic.dialects import ELASTICSEARCH, OPENSEARCH, Dialect
from connectors.elastic.names import IndexName, read_index
from connectors.elastic.reading import look_up, read_documents
from connectors.formats.message_table import format_prefixes, message_format
from connectors.kit.commits import SPOOL_SIZE, CommittingWriter
from connectors.kit.prefetch import PrefetchingReader
from connectors.options import FORMAT, TableOptions, memory_limit
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.errors import OptionError, UnsupportedError
from runtime.core.options import bool_option, duration_option, int_option, text_option
from runtime.core.schema import Schema
from runtime.spi.format import Format
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery
from runtime.spi.source import EndingInserts, Split
from runtime.spi.writer import SinkWriter

__all__ = ["ELASTICSEARCH_7", "OPENSEARCH_TABLES", "OPTIONS", "ElasticTable"]

INDEX = text_option("index", "", "the name of the index, such as 'sales', 'sales-{region}' or 'log-{at|yyyy-MM-dd}'")
DELIMITER = text_option("document-id.key-delimiter", "_", "stands between the values of a key in the id of a document")
HANDLER = text_option(
    "failure-handler",
    "fail",
    "what follows when the cluster refuses a document: 'fail', or 'ignore', which leaves it out and logs it; 'retry-rejected' is "
    "'fail', as all that may pass is tried again",
    ("fail", "ignore", "retry-rejected"),
)
ACTIONS = int_option("sink.bulk-flush.max-actions", 1000, "so many documents are one request")
SIZE = text_option("sink.bulk-flush.max-size", "2 mb", "a request is about so long")
PAGE = int_option("scan.page-size", 1000, "so many documents are read with one request")
KEEP = duration_option(
    "scan.keep-time", 300_000, "how long the cluster keeps what is being read for a job that stands still"
)
_FLUSH = bool_option(
    "sink.flush-on-checkpoint", True, "accepted for compatibility: nothing is left behind a checkpoint"
)
_INTERVAL = duration_option("sink.bulk-flush.interval", 1000, "accepted for compatibility: an epoch is written at once")
_STRATEGY = text_option("sink.bulk-flush.backoff.strategy", "", "accepted for compatibility: pauses double")
_RETRIES = int_option("sink.bulk-flush.backoff.max-retries", 8, "accepted for compatibility: it is tried eight times")
_DELAY = duration_option("sink.bulk-flush.backoff.delay", 50, "accepted for compatibility")
_PARALLELISM = int_option("sink.parallelism", 1, "accepted for compatibility")
_FORMAT = text_option("format", "json", "the format of documents: 'json'", ("json",))
OPTIONS = (
    *CLUSTER_OPTIONS, INDEX, DELIMITER, HANDLER, ACTIONS, SIZE, PAGE, KEEP, _FORMAT, GUARANTEE, SPOOL_SIZE, _FLUSH, _INTERVAL,
    _STRATEGY, _RETRIES, _DELAY, _PARALLELISM,
)  # fmt: skip


@dataclass(frozen=True)
class ElasticTable(EndingInserts):
    """Documents of an index, or of indices of one pattern. It opens nothing by itself.

    Attributes:
        delimiter: in ids.
        ignores: documents that are refused are left out.
        bulk_actions, bulk_size: the most actions and bytes of a request.
        page: documents of one that reads; keep: seconds between two of them.
        spool: the most bytes that a checkpoint holds.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    name: str
    connector: str
    cluster: Cluster
    dialect: Dialect
    index: IndexName
    delimiter: str
    ignores: bool
    bulk_actions: int
    bulk_size: int
    page: int
    keep: int
    exactly_once: bool
    spool: int
    time_zone: str
    format: Format = field(compare=False)

    def place(self) -> str:
        """For messages and lineage."""
        return f"{self.name} ({self.index} of {self.cluster})"

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": self.connector, "columns": list(self.schema.names)}
        return {**described, "options": {"hosts": str(self.cluster), "index": str(self.index)}}

    # --- what is read

    def splits(self) -> list[Split]:
        """Raises UnsupportedError E1643 for an index with columns in its name."""
        if self.index.fixed is None:
            raise UnsupportedError(
                f"{self.name} names an index for each row, and what is read has one name",
                code="E1643",
                hint="declare another table with a pattern such as 'sales-*'",
            )
        return [Split("documents")]

    def watch_splits(self, wake: object) -> Any:
        """There is never another one."""
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        return PrefetchingReader(self.place(), functools.partial(read_documents, self), context, bounded=True)

    def with_columns(self, names: Sequence[str]) -> ElasticTable:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The documents of keys, as they are now. Raises UnsupportedError E1643 for other columns than those of the key."""
        if sorted(key_columns) != sorted(self.primary_key) or not set(self.index.columns) <= set(key_columns):
            raise UnsupportedError(
                f"{self.name} is looked up by its whole key, ({', '.join(self.primary_key)}), which names the document and its "
                f"index, and not by ({', '.join(key_columns)})",
                code="E1643",
                hint="join by all columns of the key, or read the index as a table that is joined as a whole",
            )
        if self.index.of_now:
            raise UnsupportedError(
                f"the index of {self.name} is that of the moment", code="E1643", hint="name another one for lookups"
            )
        return look_up(self, keys.select([list(key_columns).index(name) for name in self.primary_key]))

    @property
    def distributed_lookups(self) -> bool:
        """Each process has its own connections."""
        return True

    # --- what is written

    @property
    def delivery(self) -> Delivery:
        return "exactly-once" if self.exactly_once else "at-least-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        stays = not self.index.of_now and set(self.index.columns) <= set(self.primary_key)
        if requested.is_append_only or not self.primary_key or not stays:
            # Where an update changes the index, the old document would stay.
            return APPEND
        return ChangelogMode(
            update_after=requested.update_after, delete=requested.delete, key_only_deletes=requested.delete
        )

    def open_writer(self, job: str) -> SinkWriter:
        if self.exactly_once:
            return CommittingWriter(self.name, self.schema.names, ElasticCommits(self, job), most=self.spool)
        return EpochWriter(self.name, ElasticDocuments(self))


def _table(connector: str, dialect: Dialect, request: TableRequest, *, writes: bool = False) -> ElasticTable:
    """The table that options describe; raises OptionError and UnsupportedError."""
    given = {FORMAT.key: "json", **request.options}
    request = replace(request, options=given)
    options = TableOptions(given, f"connector '{connector}'", OPTIONS, format_prefixes(request))
    if options.get(_FORMAT) != "json":
        raise UnsupportedError("documents are JSON", code="E1643", hint="leave the option 'format' out")
    if request.metadata:
        raise OptionError(
            f"connector '{connector}' has no metadata column '{request.metadata[0][1]}'", hint="leave it out"
        )
    index = read_index(options.required(INDEX), request.schema)
    name = index.fixed
    if writes and name is not None and ("*" in name or "," in name):
        raise OptionError("option 'index' names several indices, and one is written", hint="name one")
    delimiter, actions, page = options.get(DELIMITER), options.get(ACTIONS), options.get(PAGE)
    if not delimiter or actions < 1 or not 1 <= page <= 10_000:
        raise OptionError(
            "'document-id.key-delimiter' is a text, 'sink.bulk-flush.max-actions' at least 1, 'scan.page-size' from 1 to 10000",
            hint="leave it out",
        )
    return ElasticTable(
        request.schema,
        request.primary_key,
        request.name,
        connector,
        read_cluster(options),
        dialect,
        index,
        delimiter,
        options.get(HANDLER) == "ignore",
        actions,
        memory_limit(options, SIZE),
        page,
        max(1, options.get(KEEP) // 1000),
        options.get(GUARANTEE).lower() == "exactly-once",
        memory_limit(options, SPOOL_SIZE),
        request.time_zone,
        message_format(request, options, writes=writes),
    )


def _factory(connector: str, dialect: Dialect, what: str) -> ConnectorFactory:
    table = functools.partial(_table, connector, dialect)
    return ConnectorFactory(
        name=connector,
        document=f"documents of {what}: written by key exactly once, looked up and read",
        source=table,
        sink=functools.partial(_table, connector, dialect, writes=True),
        lookup=table,
        options=OPTIONS,
    )


ELASTICSEARCH_7 = _factory("elasticsearch-7", ELASTICSEARCH, "Elasticsearch (7.12 or newer)")
OPENSEARCH_TABLES = _factory("opensearch", OPENSEARCH, "OpenSearch (2.4 or newer)")
