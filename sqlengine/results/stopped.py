"""The codes of errors that say that somebody has stopped a statement."""

from __future__ import annotations

__all__ = ["INSERT_STOPPED", "QUERY_STOPPED"]

QUERY_STOPPED = "E1620"
INSERT_STOPPED = "E1633"
