"""Which operators may be divided among tasks, and whose keys may leave memory: what follows from `division`.

Rows of equal values in the columns of a division go to the same task; what an operator keeps belongs to their key group.
"""

from __future__ import annotations

from runtime.kernels.arrow_buffers import is_bytes_like, is_fixed
from runtime.plan.base import BY_ROW, PhysicalNode

__all__ = ["distribution", "leaves_memory"]


def distribution(node: PhysicalNode) -> tuple[tuple[int, ...], ...] | None:
    """Positions of the columns for each input; None for an operator that is not divided by columns: it keeps nothing, or
    all of it belongs together, or changes of its input do not tell to which task the row went before."""
    division = node.division()
    return division if division is not None and division != BY_ROW and all(division) else None


def leaves_memory(node: PhysicalNode) -> bool:
    """Whether keys that are not in use may be kept outside of memory: all that the operator keeps is by key and changes
    with rows of its key alone (or expires), every change tells the key, no part of the key is an array, map or
    row, and not all keys are asked for at the end of the input."""
    if not node.by_key_alone() or node.emits_at_end:
        return False
    keys = distribution(node)
    if keys is None:
        return False
    types = [node.inputs[0].schema[k].type.arrow for k in keys[0]]
    return all(is_fixed(t) or is_bytes_like(t) for t in types)
