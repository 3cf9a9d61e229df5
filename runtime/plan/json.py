"""Physical plans as JSON: what a checkpoint keeps and EXPLAIN JSON_EXECUTION_PLAN shows.

    {"format": "sqlengine-plan", "version": 1, "roots": [3],
     "nodes": [{"id": 0, "uid": "Source[...]", "node": "SourceExec@1", "table": {...}, ...}, ...]}

Nodes stand in the order in which they run; an input is the number of a node, so that a shared operator stands once.
Each kind has a version of its own, which grows when its fields change their meaning. A table is its name and what it
says of itself (`describe()`), or what the caller tells of it; whoever reads a plan back (`stored.py`) gives the table for
that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runtime.core.secrets import shown_facts
from runtime.plan.base import PhysicalNode
from runtime.plan.identity import uids
from runtime.plan.values import encode_fields
from runtime.plan.walk import walk_all

__all__ = ["FORMAT", "NODE_VERSIONS", "VERSION", "TableNamer", "encode_plan", "plan_json"]

FORMAT = "sqlengine-plan"
VERSION = 1

NODE_VERSIONS: dict[str, int] = {}
"""Kinds whose version is not 1."""

TableNamer = Callable[[PhysicalNode], Mapping[str, Any]]
"""Gives the description of the table of a node."""


def _told(node: PhysicalNode) -> Mapping[str, Any]:
    """A table is what it says of itself."""
    assert node.outside is not None
    facts: Mapping[str, Any] = shown_facts(node.outside.describe())
    return facts


def encode_plan(roots: Sequence[PhysicalNode], tables: TableNamer = _told) -> dict[str, Any]:
    """The plans as one JSON object."""
    nodes = walk_all(roots)
    numbers = {node: number for number, node in enumerate(nodes)}
    names = uids(roots)
    return {
        "format": FORMAT,
        "version": VERSION,
        "roots": [numbers[r] for r in roots],
        "nodes": [{"id": numbers[n], "uid": names[n], **_encode_node(n, numbers, tables)} for n in nodes],
    }


def plan_json(roots: Sequence[PhysicalNode], time_zone: str | None = None) -> str:
    """The plans as JSON text, with the time zone in which they run, if one is given."""
    zone = {} if time_zone is None else {"time_zone": time_zone}
    return json.dumps({**encode_plan(roots), **zone}, indent=2, ensure_ascii=False, default=str)


def _encode_node(node: PhysicalNode, numbers: dict[PhysicalNode, int], tables: TableNamer) -> dict[str, Any]:
    name = type(node).__name__
    found: dict[str, Any] = {"node": f"{name}@{NODE_VERSIONS.get(name, 1)}"}
    for field in node.input_fields:
        value = getattr(node, field)
        found[field] = numbers[value] if isinstance(value, PhysicalNode) else [numbers[part] for part in value]
    apart = set(node.input_fields)
    if node.outside is not None:
        found["table"] = tables(node)
        apart.add("table")
    found.update(encode_fields(node, frozenset(apart)))
    return found
