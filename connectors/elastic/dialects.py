"""Where Elasticsearch and OpenSearch differ: how a point in time is opened, and what orders its documents."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connectors.elastic.cluster import quoted
from runtime.core.errors import ConnectorError

if TYPE_CHECKING:
    from connectors.elastic.table import ElasticTable

__all__ = ["ELASTICSEARCH", "OPENSEARCH", "Dialect"]


@dataclass(frozen=True)
class Dialect:
    """A kind of cluster.

    Attributes:
        order: the field by which all documents of a point in time can be sorted.
        opens: the path behind the name of an index, which opens a point in time; key: of its id in the answer.
    """

    order: str
    opens: str
    key: str

    def opened(self, table: ElasticTable) -> str:
        """The id of a new point in time. Nothing ends it but time: a job may come back to it.

        Raises ConnectorError E3260, also where there is no such index."""
        path = f"/{quoted(str(table.index))}{self.opens}?keep_alive={table.keep}s"
        status, answer = table.cluster.ask("POST", path)
        if status != 200:
            raise table.cluster.refused(f"{table.place()} is read", status, answer)
        try:
            return str(json.loads(answer)[self.key])
        except (ValueError, KeyError, TypeError) as error:
            raise ConnectorError(
                f"{table.cluster} answers otherwise than a cluster of this kind",
                code="E3260",
                hint="is it the other connector, 'elasticsearch-7' or 'opensearch'?",
            ) from error

    def value(self, text: str) -> Any:
        """What documents are sorted by, as it is sent."""
        return int(text) if self.order == "_shard_doc" else text


ELASTICSEARCH = Dialect("_shard_doc", "/_pit", "id")
OPENSEARCH = Dialect("_id", "/_search/point_in_time", "pit_id")
