"""How a materialized table is refreshed, as its statement says."""

from __future__ import annotations

from dataclasses import field

from runtime.core.errors import Span
from runtime.core.node import Node, node
from sqlengine.parse.ddl_nodes import Name

__all__ = ["StartMode", "TableRefresh"]


@node
class StartMode(Node):
    """`START_MODE = RESUME_OR_FROM_NOW (INTERVAL '1' HOUR)`: `resume` says the first two words, `kind` is BEGINNING, NOW or
    TIMESTAMP. `ago`: the text and the unit behind NOW; `moment`: the text of the timestamp, or milliseconds since 1970."""

    kind: str
    resume: bool
    span: Span = field(default=Span(0, 0), compare=False)
    ago: tuple[str, str] | None = None
    moment: str | int | None = None


@node
class TableRefresh(Node):
    """How a materialized table is refreshed: `PARTITIONED BY (..) FRESHNESS = INTERVAL '1' MINUTE REFRESH_MODE = FULL
    START_MODE = FROM_NOW SUSPENDED`, each of which may be left out. `freshness` is the text and the unit."""

    partitioned_by: tuple[Name, ...] = ()
    freshness: tuple[str, str] | None = None
    freshness_span: Span | None = None
    mode: str | None = None
    suspended: bool = False
    start: StartMode | None = None
