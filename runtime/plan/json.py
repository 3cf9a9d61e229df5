"""Physical plans as JSON: what a checkpoint keeps and EXPLAIN JSON_EXECUTION_PLAN shows.

    {"format": "sqlengine-plan", "version": 1, "roots": [3],
     "nodes": [{"id": 0, "uid": "Source[...]", "node": "SourceExec@1", "table": {...}, ...}, ...]}

Nodes stand in the order in which they run; an input is the number of a node, so that a shared operator stands once.
Each kind has a version of its own, which grows when its fields change their meaning. A table is its name and what it
says of itself (`describe()`); whoever reads a plan back gives the table for that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from runtime.core.errors import FormatError
from runtime.core.secrets import shown_facts
from runtime.plan.base import INPUT_FIELDS, PhysicalNode
from runtime.plan.identity import uids
from runtime.plan.values import class_named, decode_value, encode_fields
from runtime.plan.walk import walk_all
from runtime.spi.lookup import LookupTable
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable

__all__ = ["TableResolver", "decode_plan", "encode_plan", "plan_json"]

FORMAT = "sqlengine-plan"
VERSION = 1

NODE_VERSIONS: dict[str, int] = {}
"""Kinds whose version is not 1."""

Table = SourceTable | SinkTable | LookupTable
TableResolver = Callable[[str, str, dict[str, Any]], Table]
"""Gives the table for (`source`, `sink` or `lookup`; name; description)."""


def encode_plan(roots: Sequence[PhysicalNode]) -> dict[str, Any]:
    """The plans as one JSON object."""
    nodes = walk_all(roots)
    numbers = {node: number for number, node in enumerate(nodes)}
    names = uids(roots)
    return {
        "format": FORMAT,
        "version": VERSION,
        "roots": [numbers[r] for r in roots],
        "nodes": [{"id": numbers[n], "uid": names[n], **_encode_node(n, numbers)} for n in nodes],
    }


def plan_json(roots: Sequence[PhysicalNode], time_zone: str | None = None) -> str:
    """The plans as JSON text, with the time zone in which they run, if one is given."""
    zone = {} if time_zone is None else {"time_zone": time_zone}
    return json.dumps({**encode_plan(roots), **zone}, indent=2, ensure_ascii=False, default=str)


def _encode_node(node: PhysicalNode, numbers: dict[PhysicalNode, int]) -> dict[str, Any]:
    name = type(node).__name__
    found: dict[str, Any] = {"node": f"{name}@{NODE_VERSIONS.get(name, 1)}"}
    for field in node.input_fields:
        value = getattr(node, field)
        found[field] = numbers[value] if isinstance(value, PhysicalNode) else [numbers[part] for part in value]
    apart = set(node.input_fields)
    if node.outside is not None:
        found["table"] = shown_facts(node.outside.describe())
        apart.add("table")
    found.update(encode_fields(node, frozenset(apart)))
    return found


def decode_plan(plan: dict[str, Any], resolve: TableResolver) -> tuple[PhysicalNode, ...]:
    """The plans of an `encode_plan` object. Raises FormatError for another format or a version that is not known."""
    if plan.get("format") != FORMAT or plan.get("version") != VERSION:
        raise FormatError(
            "this is not a plan that this version can read", code="E3210", hint="use the version that wrote it"
        )
    done: list[PhysicalNode] = []
    for entry in plan["nodes"]:
        done.append(_decode_node(entry, done, resolve))
    return tuple(done[number] for number in plan["roots"])


def _decode_node(entry: dict[str, Any], done: list[PhysicalNode], resolve: TableResolver) -> PhysicalNode:
    name, _, version = entry["node"].partition("@")
    if int(version) != NODE_VERSIONS.get(name, 1):
        raise FormatError(f"the plan holds version {version} of {name}, which this version cannot read", code="E3210")
    cls = class_named(name)
    assert issubclass(cls, PhysicalNode)
    fields: dict[str, Any] = {}
    for key, value in entry.items():
        if key in ("id", "uid", "node"):
            continue
        if key in INPUT_FIELDS:
            fields[key] = done[value] if isinstance(value, int) else tuple(done[v] for v in value)
        elif key == "table":
            fields[key] = resolve(cls.table_use, entry["name"], value)
        else:
            fields[key] = decode_value(value)
    return cls(**fields)
