"""Which operators do something when only the clock has moved."""

from __future__ import annotations

from runtime.core.node import node_fields
from runtime.plan.nodes import PhysicalNode, WindowTableExec

__all__ = ["follows_clock"]


def follows_clock(node: PhysicalNode) -> bool:
    """Whether an epoch without any change may have output for the processing time alone, or drop what is too old."""
    if isinstance(node, WindowTableExec) and node.input.schema[node.time].type.is_proctime:
        return True
    for field in node_fields(node):
        value = getattr(node, field.name)
        if field.name.endswith("ttl") and isinstance(value, int) and value > 0:
            return True
        if field.name == "proctime" and value is True:
            return True
    return False
