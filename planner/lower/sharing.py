"""One operator where the same thing is computed twice.

Equal physical subtrees are one operator at run time. Two subtrees that differ only in whether they send old images
(`-U`) are made equal here: the one that sends them serves both, and the consumer that can do without drops them (a node
without state). So a statement set with a retracting and an upserting reader keeps the state of what they share once.
"""

from __future__ import annotations

from runtime.core.changelog import ChangelogMode
from runtime.plan.nodes import DropUpdateBeforeExec, PhysicalNode, SinkExec
from runtime.plan.walk import map_inputs, walk

__all__ = ["share"]


def share(roots: tuple[PhysicalNode, ...]) -> tuple[PhysicalNode, ...]:
    """The same plans, with subtrees that differ only in their old images made one."""
    shapes: dict[PhysicalNode, PhysicalNode] = {}
    fullest: dict[PhysicalNode, PhysicalNode] = {}
    for root in roots:
        for node in walk(root):
            shape = _shape(node, shapes)
            if _sends_old(node.mode) or shape not in fullest:
                fullest[shape] = node
    done: dict[PhysicalNode, PhysicalNode] = {}
    return tuple(_rebuilt(root, shapes, fullest, done) for root in roots)


def _sends_old(mode: ChangelogMode) -> bool:
    return mode.update_before


def _shape(node: PhysicalNode, shapes: dict[PhysicalNode, PhysicalNode]) -> PhysicalNode:
    """The node as it would be if nothing sent old images."""
    found = shapes.get(node)
    if found is None:
        bare = map_inputs(node, lambda source: _shape(source, shapes))
        if isinstance(bare, DropUpdateBeforeExec) and bare.keys is None:
            found = bare.input
        else:
            mode = node.mode
            found = bare.with_(mode=ChangelogMode(mode.insert, False, mode.update_after, mode.delete))
        shapes[node] = found
    return found


def _rebuilt(
    node: PhysicalNode,
    shapes: dict[PhysicalNode, PhysicalNode],
    fullest: dict[PhysicalNode, PhysicalNode],
    done: dict[PhysicalNode, PhysicalNode],
) -> PhysicalNode:
    if node in done:
        return done[node]
    better = fullest[shapes[node]]
    if (
        better == node
        or isinstance(node, DropUpdateBeforeExec | SinkExec)
        or not _sends_old(better.mode)
        or _sends_old(node.mode)
    ):
        result = map_inputs(node, lambda source: _rebuilt(source, shapes, fullest, done))
    else:
        result = DropUpdateBeforeExec(_rebuilt(better, shapes, fullest, done), node.schema, node.mode)
    done[node] = result
    return result
