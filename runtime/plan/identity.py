"""Names of operators that follow from what they compute, not from where they stand.

State belongs to a name. So an edit somewhere else in a query, another alias, another number of statements in a set
leave the state of all other operators where it is; two processes and two versions give the same names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from runtime.core.node import node_fields
from runtime.core.schema import Schema
from runtime.core.secrets import shown_facts
from runtime.core.types import DataType
from runtime.plan.base import PhysicalNode
from runtime.plan.values import encode_fields, encode_value
from runtime.plan.walk import walk_all

__all__ = ["says_nothing_of_state", "short_kind", "uid", "uids"]

_encode = json.JSONEncoder(sort_keys=True, default=str, separators=(",", ":")).encode

_EMITTED = ("schema", "mode")
"""What is emitted: names and row kinds may change while the state stays right."""


def says_nothing_of_state(node: PhysicalNode) -> frozenset[str]:
    """The fields that may change while the state stays right: settings, times to live, what is emitted. Inputs and the
    table of a connector are compared by themselves."""
    return _says_nothing(type(node))


@cache
def _says_nothing(kind: type[PhysicalNode]) -> frozenset[str]:
    roles = (field.name for field in node_fields(kind) if field.role)
    return frozenset((*kind.input_fields, *(("table",) if kind.table_use else ()), *_EMITTED, *roles))


def short_kind(node: PhysicalNode) -> str:
    """`GroupAggregate` for a `GroupAggregateExec`."""
    return type(node).__name__.removesuffix("Exec")


def uid(node: PhysicalNode) -> str:
    """The name of an operator, for example `GroupAggregate[2f9a01c7]`; stable over processes and versions."""
    return uids([node])[node]


def uids(roots: Sequence[PhysicalNode]) -> dict[PhysicalNode, str]:
    """The names of all operators of the plans.

    Nodes that compute the same from the same (they differ in column names or in whether old images are sent) get `-2`,
    `-3`, ... in the order in which they stand, so that names are unique.
    """
    digests: dict[PhysicalNode, str] = {}
    taken: dict[str, int] = {}
    names: dict[PhysicalNode, str] = {}
    for node in walk_all(roots):
        digests[node] = _digest(node, digests)
        name = f"{short_kind(node)}[{digests[node][:8]}]"
        taken[name] = taken.get(name, 0) + 1
        names[node] = name if taken[name] == 1 else f"{name}-{taken[name]}"
    return names


def _digest(node: PhysicalNode, digests: dict[PhysicalNode, str]) -> str:
    meaning: dict[str, Any] = {
        "kind": type(node).__name__,
        "fields": encode_fields(node, says_nothing_of_state(node)),
        "types": _types(node.schema),
        "inputs": [digests[source] for source in node.inputs],
    }
    if node.outside is not None:
        meaning["table"] = shown_facts(node.outside.describe())
        meaning["columns"] = list(node.schema.names)
    return hashlib.blake2b(_encode(meaning).encode(), digest_size=16).hexdigest()


def _types(schema: Schema) -> list[Any]:
    return [_type(f.type) for f in schema]


@lru_cache(maxsize=1024)
def _type(type_: DataType) -> Any:
    # Whether NULL may occur is a matter of proof, not of state.
    return encode_value(type_.with_nullable(True))
