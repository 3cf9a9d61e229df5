"""Where expressions are simplified: conditions, projections and constant rows. Other nodes hold plain columns."""

from __future__ import annotations

from planner.logical.nodes import (
    CurrentJoin,
    DependentJoin,
    Filter,
    IntervalJoin,
    Join,
    LookupJoin,
    Project,
    TemporalJoin,
    Unnest,
    Values,
    WindowJoin,
)

__all__ = ["PLACES"]

PLACES = (
    CurrentJoin,
    DependentJoin,
    Filter,
    IntervalJoin,
    Join,
    LookupJoin,
    Project,
    TemporalJoin,
    Unnest,
    Values,
    WindowJoin,
)
"""Classes of node whose expressions the rules of this room rewrite."""
