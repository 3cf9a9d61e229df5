"""Which operators have far more memory than their state needs, because most of it has expired or was taken back.

The structures of `runtime/kernels` grow and do not shrink. An operator whose state has stayed small for a while is made
anew from what it holds, at the cost of that.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.local.vertex import Vertex
from runtime.operators.operator import Operator

__all__ = ["Shrinking"]

_EPOCHS = 16
"""Looks are so many epochs apart."""
_LOOKS = 3
"""So often in turn it must have been small: windows that close and fill again are left alone."""
_SHARE = 8
_LEAST_BYTES = 1 << 20


class Shrinking:
    """Remembers the most rows of each operator, by its name."""

    def __init__(self) -> None:
        self._most: dict[str, int] = {}
        self._small: dict[str, int] = {}

    @staticmethod
    def looks(epoch: int) -> bool:
        """Whether sizes are looked at after this epoch."""
        return epoch % _EPOCHS == 0

    def is_due(self, name: str, operator: Operator) -> bool:
        """Whether the operator should be made anew; then it counts as new. Asked for at each look."""
        if not self._is_small(name, operator):
            self._small[name] = 0
            return False
        self._small[name] = self._small.get(name, 0) + 1
        if self._small[name] < _LOOKS:
            return False
        self._small[name], self._most[name] = 0, operator.state_size.rows
        return True

    def pending(self, vertices: Iterable[Vertex]) -> bool:
        """Whether some operator is small now, so that further looks would make it anew."""
        return any(v.operator is not None and self._is_small(v.name, v.operator) for v in vertices)

    def _is_small(self, name: str, operator: Operator) -> bool:
        size = operator.state_size
        most = self._most[name] = max(self._most.get(name, 0), size.rows)
        return size.bytes >= _LEAST_BYTES and size.rows * _SHARE <= most
