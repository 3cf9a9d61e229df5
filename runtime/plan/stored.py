"""Plans out of their JSON (`json.py`), which anybody may have written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from runtime.core.schema import Schema
from runtime.expr.function import FunctionRegistry
from runtime.plan.base import PhysicalNode
from runtime.plan.decoding import Wrong, decode_as, decode_node, named, refusing
from runtime.plan.invariants import check_node
from runtime.plan.json import FORMAT, NODE_VERSIONS, VERSION
from runtime.spi.lookup import LookupTable
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable

__all__ = ["MOST_NODES", "TableResolver", "decode_plan"]

Table = SourceTable | SinkTable | LookupTable
TableResolver = Callable[[str, str, dict[str, Any], Schema], Table]
"""Gives the table for (`source`, `sink` or `lookup`; name; description; schema of the node)."""

MOST_NODES: Final = 10_000
_OTHER = "use the version that wrote it"


def decode_plan(plan: Any, resolve: TableResolver, functions: FunctionRegistry) -> tuple[PhysicalNode, ...]:
    """The plans of an `encode_plan` object, as whole as those that the planner makes: each value is checked against its
    field, and each node against `invariants.py`. Other members of the object are the caller's.

    Raises FormatError E3210, with the place in the JSON, for what is no such object, and what `resolve` raises.
    """
    with refusing():
        if not isinstance(plan, dict) or plan.get("format") != FORMAT:
            raise Wrong(f'an object with "format": "{FORMAT}" is wanted').within("format")
        if type(plan.get("version")) is not int or plan["version"] != VERSION:
            raise Wrong(f"this version reads plans of version {VERSION}", _OTHER).within("version")
        done: list[PhysicalNode] = []
        entries = plan.get("nodes")
        if not isinstance(entries, list) or not 0 < len(entries) <= MOST_NODES:
            raise Wrong(f"a list of 1 to {MOST_NODES:,} nodes is wanted").within("nodes")
        for number, entry in enumerate(entries):
            try:
                node = _decode_node(number, entry, done, resolve)
                check_node(node, functions)
            except Wrong as wrong:
                raise wrong.within(number).within("nodes") from None
            done.append(node)
        try:
            numbers = decode_as(tuple[int, ...], plan.get("roots"))
            roots = tuple(_of(done, number) for number in numbers)
        except Wrong as wrong:
            raise wrong.within("roots") from None
        if not roots or len(set(numbers)) != len(numbers):
            raise Wrong("each root stands there once").within("roots")
        return roots


def _decode_node(number: int, entry: Any, done: list[PhysicalNode], resolve: TableResolver) -> PhysicalNode:
    if not isinstance(entry, dict):
        raise Wrong("a node is an object")
    if type(entry.get("id")) is not int or entry["id"] != number:
        raise Wrong(f"it is node {number}").within("id")
    if not isinstance(entry.get("uid", ""), str):
        raise Wrong("a text is wanted").within("uid")
    try:
        cls = _class(entry.get("node"))
    except Wrong as wrong:
        raise wrong.within("node") from None
    given: dict[str, Any] = {}
    for field in cls.input_fields:
        try:
            given[field] = _inputs(field, entry.get(field), done)
        except Wrong as wrong:
            raise wrong.within(field) from None
    if cls.table_use:
        try:
            name, table, schema = (entry.get(key) for key in ("name", "table", "schema"))
            if not isinstance(name, str) or not isinstance(table, dict):
                raise Wrong("an object is wanted, with a name beside it")
            given["table"] = resolve(cls.table_use, name, table, decode_as(Schema, schema))
        except Wrong as wrong:
            raise wrong.within("table") from None
    made: PhysicalNode = decode_node(cls, entry, given, ("id", "uid", "node"))
    return made


def _class(named_there: Any) -> type[PhysicalNode]:
    name, _, version = named_there.partition("@") if isinstance(named_there, str) else ("", "", "")
    cls = named(name, PhysicalNode)
    if version != str(NODE_VERSIONS.get(name, 1)):
        raise Wrong(f"version {version[:10]} of {name} cannot be read", _OTHER)
    return cls  # type: ignore[return-value]


def _inputs(field: str, value: Any, done: list[PhysicalNode]) -> PhysicalNode | tuple[PhysicalNode, ...]:
    if field == "parts":
        return tuple(_of(done, number) for number in decode_as(tuple[int, ...], value))
    return _of(done, decode_as(int, value))


def _of(done: list[PhysicalNode], number: int) -> PhysicalNode:
    if not 0 <= number < len(done):
        raise Wrong(f"there is no node {number} before it")
    return done[number]
