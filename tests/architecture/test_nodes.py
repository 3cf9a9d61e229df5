"""An operator is described once: by its node class (`runtime/plan/base.py`)."""

from __future__ import annotations

import pytest

from runtime.core.node import Node, node, node_fields
from runtime.operators import build
from runtime.plan import nodes
from runtime.plan.base import DECLARATIONS, INPUT_FIELDS, TIME_TO_LIVE, PhysicalNode


def _all(kind: type[PhysicalNode] = PhysicalNode) -> list[type[PhysicalNode]]:
    found = [made for direct in kind.__subclasses__() for made in (direct, *_all(direct))]
    # A decorated class is made a second time; the first one has no fields.
    return [made for made in found if node_fields(made) and made.__module__.startswith("runtime.")]


NODES = sorted(set(_all()), key=lambda kind: kind.__name__)


def _annotations(kind: type[Node]) -> dict[str, str]:
    return dict(kind.__annotations__)


@pytest.mark.parametrize("left_out", DECLARATIONS)
def test_a_node_that_leaves_a_declaration_out_is_refused(left_out: str) -> None:
    declared = {name: getattr(nodes.ValuesExec, name) for name in DECLARATIONS if name != left_out}
    fields = {"input": "PhysicalNode", "schema": "Schema", "mode": "ChangelogMode"}
    with pytest.raises(TypeError, match=f"HalfExec does not declare {left_out}"):
        node(type("HalfExec", (PhysicalNode,), {"__annotations__": fields, **declared, "__qualname__": "HalfExec"}))


@pytest.mark.parametrize("kind", NODES)
def test_fields_are_declared_by_what_they_are(kind: type[PhysicalNode]) -> None:
    given = _annotations(kind)
    holding = {name for name, type_ in given.items() if "PhysicalNode" in type_}
    assert holding == {*kind.input_fields, *kind.inner_fields} and set(kind.input_fields) <= set(INPUT_FIELDS)
    lives = {f.name for f in node_fields(kind) if f.role == TIME_TO_LIVE["role"]}
    assert lives == {name for name in given if name.endswith("ttl")}
    assert bool(kind.table_use) == ("table" in given)
    aggregates = any("AggregateSpec" in type_ for type_ in given.values())
    assert aggregates == (kind.aggregates is not PhysicalNode.aggregates)


def test_every_node_has_a_name_among_the_nodes_and_an_operator() -> None:
    names = {kind.__name__ for kind in NODES}
    assert names == {name for name in nodes.__all__ if name.endswith("Exec")}
    assert {kind.__name__ for kind in build._OPERATORS} == names - {"SourceExec", "LoopInputExec"}
