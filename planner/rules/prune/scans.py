"""Read a table once, although different parts of a query want different columns of it.

    Join (Scan t(a, k)) (Scan t(b, k))   →   Join (Project a, k (Scan t(a, b, k))) (Project b, k (Scan t(a, b, k)))

Equal scans are one source at run time: its rows are parsed once and reach all readers in the same epoch, and a source
that draws its rows by chance gives all readers the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.logical.build import projected
from planner.logical.expressions import node_expressions, walk_plan
from planner.logical.nodes import AssignWatermark, Filter, LogicalNode, Scan
from runtime.expr.nodes import SubqueryExpr, walk
from runtime.spi.abilities import SupportsFilters, SupportsProjection
from runtime.spi.source import SourceTable

__all__ = ["merge_scans", "scans_by_column"]


def scans_by_column(plans: Iterable[LogicalNode]) -> dict[int, Scan]:
    """The scans of plans by the ids of their columns, before any column was left out."""
    found: dict[int, Scan] = {}
    for plan in plans:
        for node in walk_plan(plan):
            if isinstance(node, Scan):
                found.update((c.id, node) for c in node.scanned)
            for expression in node_expressions(node):
                inner = [
                    e.plan for e in walk(expression) if isinstance(e, SubqueryExpr) and isinstance(e.plan, LogicalNode)
                ]
                found.update(scans_by_column(inner))
    return found


def merge_scans(plans: tuple[LogicalNode, ...], originals: Mapping[int, Scan]) -> tuple[LogicalNode, ...]:
    """The plans with scans of one table made equal, each under a projection to the columns it had.

    `originals`: see `scans_by_column`. Scans into which something else was pushed, or a filter will be, stay as they
    are.
    """
    wanted: dict[SourceTable, list[frozenset[str]]] = {}
    for plan in plans:
        for scan in _shareable(plan):
            original = _original(scan, originals)
            if original is not None and original.table is not None:
                wanted.setdefault(original.table, []).append(_names(scan))
    unions = {table: frozenset[str]().union(*sets) for table, sets in wanted.items() if len(set(sets)) > 1}
    return tuple(_Merger(unions, originals, _shareable(plan)).plan(plan) for plan in plans) if unions else plans


def _shareable(plan: LogicalNode) -> set[Scan]:
    nodes = walk_plan(plan)
    filtered = {
        n.input
        for n in nodes
        if isinstance(n, Filter) and isinstance(n.input, Scan) and isinstance(n.input.table, SupportsFilters)
    }
    return {n for n in nodes if isinstance(n, Scan) and n not in filtered}


def _names(scan: Scan) -> frozenset[str]:
    assert scan.table is not None
    return frozenset(scan.table.schema.names)


def _original(scan: Scan, originals: Mapping[int, Scan]) -> Scan | None:
    """The scan before columns were left out of it; None when something else was done to it as well."""
    original = originals.get(scan.scanned[0].id) if scan.scanned else None
    if original is None or original.table is None or scan.table is None:
        return None
    if scan.table == original.table:
        return original
    if not isinstance(original.table, SupportsProjection):
        return None
    narrowed = original.table.with_columns([f.name for f in scan.table.schema])
    return original if narrowed == scan.table else None


class _Merger:
    """Rebuilds one plan with wider scans."""

    def __init__(
        self, unions: Mapping[SourceTable, frozenset[str]], originals: Mapping[int, Scan], chosen: set[Scan]
    ) -> None:
        self._unions = unions
        self._originals = originals
        self._chosen = chosen

    def plan(self, node: LogicalNode) -> LogicalNode:
        match node:
            case Scan():
                return projected(self._widened(node), node.columns)
            case AssignWatermark(input=Scan() as scan):
                return projected(node.with_inputs(self._widened(scan)), node.columns)
            case _:
                return node.with_inputs(*(self.plan(source) for source in node.inputs))

    def _widened(self, scan: Scan) -> Scan:
        original = _original(scan, self._originals)
        if scan not in self._chosen or original is None or original.table is None or original.table not in self._unions:
            return scan
        names = self._unions[original.table]
        if len(names) == len(original.scanned):
            return original.with_(lookup=scan.lookup)
        assert isinstance(original.table, SupportsProjection)
        pairs = [(f.name, c) for f, c in zip(original.table.schema, original.scanned, strict=True) if f.name in names]
        kept = {c.id for _, c in pairs}
        keys, known = (tuple(k for k in given if set(k) <= kept) for given in (original.keys, original.known_keys))
        table = original.table.with_columns([name for name, _ in pairs])
        return original.with_(table=table, scanned=tuple(c for _, c in pairs), keys=keys, known_keys=known, lookup=None)
