"""Walking and rebuilding physical plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from runtime.core.node import node_fields
from runtime.expr.nodes import Expr
from runtime.plan.base import PhysicalNode

__all__ = ["expressions_of", "map_inputs", "walk", "walk_all"]


def walk(root: PhysicalNode) -> Iterator[PhysicalNode]:
    """Every distinct node once, inputs before those who read them."""
    yield from walk_all([root])


def walk_all(roots: Sequence[PhysicalNode]) -> list[PhysicalNode]:
    """The distinct nodes of several plans, inputs before those who read them: an order in which they can run."""
    return list(_walk(roots))


def _walk(roots: Sequence[PhysicalNode]) -> Iterator[PhysicalNode]:
    seen: set[PhysicalNode] = set()
    # A stack of our own: plans may be deeper than the interpreter's call stack.
    stack: list[tuple[PhysicalNode, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, entered = stack.pop()
        if entered:
            yield node
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        stack.extend((source, False) for source in reversed(node.inputs))


def map_inputs(node: PhysicalNode, change: Callable[[PhysicalNode], PhysicalNode]) -> PhysicalNode:
    """The node over changed inputs; the same object when none changed."""
    changes: dict[str, object] = {}
    for name in node.input_fields:
        value = getattr(node, name)
        if isinstance(value, PhysicalNode):
            new = change(value)
            if new is not value:
                changes[name] = new
        else:
            parts = tuple(change(part) for part in value)
            if any(a is not b for a, b in zip(parts, value, strict=True)):
                changes[name] = parts
    return node.with_(**changes) if changes else node


def expressions_of(node: PhysicalNode) -> Iterator[Expr]:
    """The expressions in the fields of a node, and in the plans that it runs itself."""
    for name in node_fields(type(node)):
        if name.name in node.inner_fields:
            for inner in walk(getattr(node, name.name)):
                yield from expressions_of(inner)
            continue
        waiting = [getattr(node, name.name)]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Expr):
                yield value
            elif isinstance(value, tuple):
                waiting.extend(value)
